"""One rule per collective: how it is computed over slots, so that only the slots of members count.

The page docs/design/padded-maps.md lists the rules.
"""
from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from lamina_autodiff import custom_jvp
from lamina_batching import vmap
from lamina_batching.extend import move_axis
from lamina_ir import dtypes, Primitive, prims, ShapedArray
from lamina_ir.typing import AxisName, Params, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from .slot_layout import SlotLayout

__all__ = ["RULES", "SlotCollective", "cast_like", "repeat_slice"]


def repeat_slice(x: Value, axis: int, times: int) -> Value:
    """Repeat a slice of length 1 along an axis."""
    shape = typeof(x).shape
    return lax.broadcast_in_dim(x, (*shape[:axis], times, *shape[axis + 1:]), tuple(range(len(shape))))


def cast_like(x: Value, aval: ShapedArray) -> Value:
    """Cast a value to the dtype and weak type of an aval."""
    current = typeof(x)
    if current.dtype == aval.dtype and current.weak_type == aval.weak_type:
        return x
    return bind(prims.convert_element_type_p, x, new_dtype=aval.dtype, weak_type=aval.weak_type)


@dataclasses.dataclass
class SlotCollective:
    """A collective over the members of a padded axis, with what its rewrite over slots emits.

    Attributes:
      layout: the slots of the axis.
      prim, params: the primitive and its params.
      names: the axis names of the collective, in order.
      other_sizes: the sizes of its other named axes.
    """

    layout: SlotLayout
    prim: Primitive
    names: tuple[AxisName, ...]
    other_sizes: Mapping[AxisName, int]
    params: Params

    @property
    def split_names(self) -> tuple[AxisName, ...]:
        return self.layout.split_axis_name(self.names)

    @functools.cached_property
    def outer_inner_sizes(self) -> tuple[int, int]:
        """Return the products of the sizes of the names before and after the mapped axis."""
        # The index along all names is (outer * num_members + member) * inner_size + inner: the first name varies
        # slowest.
        at = self.names.index(self.layout.name)
        sizes = [self.other_sizes.get(n, 1) for n in self.names]  # integers are positional axes of the operand
        return math.prod(sizes[:at]), math.prod(sizes[at + 1:])

    def index(self) -> Value:
        """Emit the index of this slot's member along all names."""
        total: Value = np.int32(0)
        for n in self.names:
            if n == self.layout.name:
                index, size = self.layout.member_index(), self.layout.num_members
            else:
                index, size = lax.axis_index((n,)), self.other_sizes[n]
            total = lax.add(lax.mul(total, np.int32(size)), index)
        return total

    def pad_members(self, x: Value, axis: int) -> Value:
        """Expand an axis with one part for each member to one part for each slot, by repeating members."""
        p, before, shape = self.layout, self.outer_inner_sizes[0], typeof(x).shape
        if not p.num_padding:
            return x
        # The parts along `axis` are ordered by the index along all names. The names after the axis vary fastest, so
        # they stay in `part`.
        part = shape[axis] // (before * p.num_members)
        x = lax.reshape(x, (*shape[:axis], before, p.num_members, part, *shape[axis + 1:]))
        # General order: each slot gets the part of the member that it computes. Otherwise all padding is at the end,
        # and repeats the last member.
        if p.sources is not None:
            x = _take(x, axis + 1, p.sources)
        else:
            last = lax.slice_in_dim(x, p.num_members - 1, p.num_members, 1, axis + 1)
            x = lax.concatenate([x, repeat_slice(last, axis + 1, p.num_padding)], axis + 1)
        return lax.reshape(x, (*shape[:axis], before * p.num_slots * part, *shape[axis + 1:]))

    def drop_padding(self, x: Value, axis: int) -> Value:
        """Reduce an axis with one part for each slot to one part for each member."""
        p, before, shape = self.layout, self.outer_inner_sizes[0], typeof(x).shape
        if not p.num_padding:
            return x
        part = shape[axis] // (before * p.num_slots)
        x = lax.reshape(x, (*shape[:axis], before, p.num_slots, part, *shape[axis + 1:]))
        if p.first_slots is None:
            x = lax.slice_in_dim(x, 0, p.num_members, 1, axis + 1)
        else:
            x = _take(x, axis + 1, p.first_slots)
        return lax.reshape(x, (*shape[:axis], before * p.num_members * part, *shape[axis + 1:]))

    def bind_over_slots(self, x: Value) -> Value:
        """Bind the collective itself over all slots."""
        before, after = self.outer_inner_sizes
        return bind(self.prim, x, **{**self.params, "axis_name": self.split_names, "axis_index_groups": None,
                                     "axis_size": before * self.layout.num_slots * after})

    def gather_members(self, x: Value) -> Value:
        """Gather the values of all members along a new axis 0."""
        before, after = self.outer_inner_sizes
        slots = bind(prims.all_gather_p, x, all_gather_dimension=0, axis_name=self.split_names, axis_index_groups=None,
                     axis_size=before * self.layout.num_slots * after, tiled=False)
        return self.drop_padding(slots, 0)

    def sum_members(self, xs: Sequence[Value], prim: Primitive = prims.psum_p) -> list[Value]:
        """Sum over the members; padding slots contribute zero."""
        return list(bind(prim, *map(self.layout.zero_padding, xs), axes=self.split_names, axis_index_groups=None))

    def gather_group(self, x: Value) -> tuple[list[Value], Value, Value]:
        """Return the values of this member's group in order, the group's size, and this member's position in it.

        Values beyond the size of the group repeat its first one, so that groups may differ in size.
        """
        # One program runs in all slots, so a slot looks up its group at run time. Row `m` of each table is about the
        # group of member `m`.
        groups = self.params["axis_index_groups"]
        total, longest = sum(map(len, groups)), max(map(len, groups))
        table = np.zeros((total, longest), np.int32)
        length, number = np.zeros(total, np.int32), np.zeros(total, np.int32)
        for g in groups:
            for i, member in enumerate(g):
                table[member], length[member], number[member] = [*g, *[g[0]] * (longest - len(g))], len(g), i
        all_values, index = self.gather_members(x), self.index()

        def entry(of: np.ndarray) -> Value:
            return lax.dynamic_index_in_dim(of, index, 0, False)

        members = entry(table)
        values = [lax.dynamic_index_in_dim(all_values, lax.index_in_dim(members, i, 0, False), 0, False)
                  for i in range(longest)]
        return values, entry(length), entry(number)

    def sum_group(self, xs: Sequence[Value]) -> list[Value]:
        """Sum over this member's group."""
        outs = []
        for x in xs:
            # Values beyond the size of the group are copies of its first one and must not count. No group is empty,
            # so value 0 needs no test.
            values, length, _ = self.gather_group(x)
            zero = lax.full_like(x, 0)
            outs.append(functools.reduce(lax.add, [lax.select(lax.lt(np.int32(i), length), r, zero) if i else r
                                                   for i, r in enumerate(values)]))
        return outs


Rule = Callable[[SlotCollective, Sequence[Value]], list[Value]]  # operands of one slot -> results


def _psum(c: SlotCollective, xs: Sequence[Value]) -> list[Value]:
    if c.params["axis_index_groups"] is None:
        return c.sum_members(xs)
    return c.sum_group(xs)


def _max_min(c: SlotCollective, xs: Sequence[Value]) -> list[Value]:
    """Emit pmax or pmin. The copies of the last member do not change the result.

    The derivative is split equally between the members that attain the max/min. It needs a rule of its own for two
    reasons: the copies must get no share, and the rule of the two-axis collective would give unequal parts, as it
    splits over the devices first.
    """
    grouped = c.params["axis_index_groups"] is not None
    combine = lax.max if c.prim is prims.pmax_p else lax.min
    sum_ = c.sum_group if grouped else c.sum_members

    def value(x: Value) -> Value:
        if grouped:
            # The copies that fill up a smaller group do not change its max/min.
            return functools.reduce(combine, c.gather_group(x)[0])
        return bind(c.prim, x, axes=c.split_names, axis_index_groups=None)[0]

    max_min = custom_jvp(value)

    @max_min.defjvp
    def jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> tuple[Value, Value]:
        (x,), (t,) = primals, tangents
        ans = max_min(x)
        # dy = sum_j [x_j = y] dx_j / |{j : x_j = y}|. Both sums count members only; a padding slot repeats the last
        # member, so it also "attains" y.
        attains = lax.convert_element_type(lax.eq(x, ans), typeof(x).dtype)
        count, = sum_([attains])
        share, = sum_([lax.mul(t, lax.div(attains, count))])
        return ans, cast_like(share, typeof(t))

    # Integers have no derivative and need no rule.
    return [max_min(x) if dtypes.is_inexact(typeof(x).dtype) else value(x) for x in xs]


def _all_gather(c: SlotCollective, xs: Sequence[Value]) -> list[Value]:
    x, = xs
    at, tiled = c.params["all_gather_dimension"], c.params["tiled"]
    if c.params["axis_index_groups"] is None:
        stacked = move_axis(c.gather_members(x), 0, at)
    else:
        values = c.gather_group(x)[0]
        stacked = lax.concatenate([lax.expand_dims(r, (at,)) for r in values], at)
    return [_merge_axes(stacked, at) if tiled else stacked]


def _take(x: Value, axis: int, at: np.ndarray) -> Value:
    """Take slices of an array along an axis, at indices known when tracing."""
    return vmap(lambda i: lax.dynamic_index_in_dim(x, i, axis, False), out_axes=axis)(at)


def _merge_axes(x: Value, at: int) -> Value:
    """Merge the axes `at` and `at + 1`."""
    s = typeof(x).shape
    return lax.reshape(x, (*s[:at], s[at] * s[at + 1], *s[at + 2:]))


def _take_part(x: Value, number: Value, parts: int, axis: int, tiled: bool) -> Value:
    """Return one of `parts` equal parts along an axis."""
    size = typeof(x).shape[axis] // parts
    part = lax.dynamic_slice_in_dim(x, lax.mul(number, np.int32(size)), size, axis)
    return part if tiled else lax.squeeze(part, (axis,))


def _psum_scatter(c: SlotCollective, xs: Sequence[Value]) -> list[Value]:
    x, = xs
    axis = c.params["scatter_dimension"]
    if c.params["axis_index_groups"] is None:
        # Padding slots add zero to the sum. They receive the part of the member that they repeat, as all slots of a
        # member must keep equal values.
        return [c.bind_over_slots(c.pad_members(c.layout.zero_padding(x), axis))]
    # The groups of psum_scatter and all_to_all have one size, so no value is a copy that fills up a group.
    values, _, number = c.gather_group(x)
    return [_take_part(functools.reduce(lax.add, values), number, len(values), axis, c.params["tiled"])]


def _all_to_all(c: SlotCollective, xs: Sequence[Value]) -> list[Value]:
    x, = xs
    split, concat, tiled = c.params["split_axis"], c.params["concat_axis"], c.params["tiled"]
    if c.params["axis_index_groups"] is None:
        # What is sent to a padding slot is what its member gets; what a padding slot sends is dropped.
        return [c.drop_padding(c.bind_over_slots(c.pad_members(x, split)), concat)]
    values, _, number = c.gather_group(x)
    parts = [_take_part(r, number, len(values), split, tiled) for r in values]
    return [lax.concatenate(parts if tiled else [lax.expand_dims(p, (concat,)) for p in parts], concat)]


def _ppermute(c: SlotCollective, xs: Sequence[Value]) -> list[Value]:
    x, = xs
    p, (outer_size, inner_size) = c.layout, c.outer_inner_sizes
    # Pairs are indices along all names. Only the member in each index changes: it becomes the slot of that member.
    pairs = np.asarray(c.params["perm"], np.int64).reshape(-1, 2)
    outer, member, inner = np.unravel_index(pairs, (outer_size, p.num_members, inner_size))
    slots = member if p.first_slots is None else p.first_slots[member]
    slot_pairs = np.ravel_multi_index((outer, slots, inner), (outer_size, p.num_slots, inner_size))
    moved = bind(prims.ppermute_p, x, axis_name=c.split_names, perm=tuple([(int(a), int(b)) for a, b in slot_pairs]))
    return [_copy_to_padding(p, moved, member[:, 1])]


def _copy_to_padding(p: SlotLayout, moved: Value, receivers: np.ndarray) -> Value:
    """Emit `moved` with the values that members received in the padding slots that repeat them, too.

    No derivative flows to these copies: the member's own slot has all of it.
    """
    if p.sources is not None and p.first_slots is not None:  # the padding of each process repeats its own last member
        if not np.isin(receivers, p.sources[~p.slot_sources()[0].reshape(-1)]).any():
            return moved
        all_values = bind(prims.all_gather_p, lax.stop_gradient(moved), all_gather_dimension=0, axis_name=p.axis_parts,
                          axis_index_groups=None, axis_size=p.num_slots, tiled=False)
        source = lax.dynamic_index_in_dim(p.first_slots, p.member_index(), 0, False)
        return lax.select(p.is_real(), moved, lax.dynamic_index_in_dim(all_values, source, 0, False))
    if not p.num_padding or not (receivers == p.num_members - 1).any():
        return moved
    # The last member's value is sent by a sum to which only its slot contributes.
    slot = p.slot_index()
    # psum takes no booleans.
    summable = lax.convert_element_type(moved, "int32") if dtypes.is_bool(typeof(moved).dtype) else moved
    sent = lax.select(lax.eq(slot, np.int32(p.num_members - 1)), summable, lax.full_like(summable, 0))
    last, = bind(prims.psum_p, lax.stop_gradient(sent), axes=p.axis_parts, axis_index_groups=None)
    return lax.select(lax.lt(slot, np.int32(p.num_members)), moved, cast_like(last, typeof(moved)))


RULES: dict[Primitive, Rule] = {  # primitive -> rewrite over slots
    prims.psum_p: _psum, prims.pmax_p: _max_min, prims.pmin_p: _max_min, prims.all_gather_p: _all_gather,
    prims.psum_scatter_p: _psum_scatter, prims.all_to_all_p: _all_to_all, prims.ppermute_p: _ppermute,
    prims.axis_index_p: lambda c, _: [c.index()]}
