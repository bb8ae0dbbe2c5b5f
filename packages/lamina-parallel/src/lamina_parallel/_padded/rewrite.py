"""Rewrite a per-member program into a per-slot program.

There are `devices * rounds` slots. The first `num_members` slots hold the members of the mapped axis; the rest are
padding.

Collectives over the axis become collectives over two axes, devices and rounds, that include only the slots of members.
A padding slot repeats the computation of the last member to the bit: it has the same operands and axis index, and
receives the same values from collectives. So it produces a NaN only if the last member does. Its results are discarded:
sums exclude it and gathers drop it. In several processes each process has its own slots, whose padding repeats its own
last member. The page docs/internals/padded-maps.md lists how each primitive is rewritten.
"""
from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp
from lamina_batching import vmap
from lamina_batching.extend import move_axis
from lamina_ir import ClosedJaxpr, Eqn, Var, dtypes, prims, register_param_type, rewrite, subprograms
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, bind, extend_axis_env, trace_state, stage, typeof

from .axis_index_operand import find_rule_programs

__all__ = ["PaddedLayout", "PartOfAxis", "cast_like", "repeat_slice", "rewrite_for_slots"]


@register_param_type
@dataclasses.dataclass(frozen=True)
class PartOfAxis:
    """The name of one of the two axes, `devices` or `rounds`, over which a mapped axis is laid out.

    `apart` tells the runtime that processes have different numbers of members, so that the program around the map over
    devices differs between them.
    """

    axis: Hashable
    part: str
    apart: bool = False


class PaddedLayout:
    """Layout of the members of an axis in slots: member `m` is in round `m % rounds` of device `m // rounds`.

    Args:
      name: the name of the axis.
      num_members: the size of the axis.
      devices: the number of devices.
      rounds: the number of slots of each device.
      sources: the member that each slot computes, device by device; None if the padding slots are the last ones.
      apart: whether processes have different numbers of members.

    Attributes:
      num_slots, num_padding: the number of all slots, and of padding slots.
      first_slots: the slot of each member; None if member `m` is in slot `m`.
    """

    def __init__(self, name: Hashable, num_members: int, devices: int, rounds: int, sources: np.ndarray | None = None,
                 apart: bool = False) -> None:
        self.name, self.num_members, self.devices, self.rounds = name, num_members, devices, rounds
        self.num_slots = devices * rounds
        self.num_padding = self.num_slots - num_members
        self.axis_parts = PartOfAxis(name, "devices", apart), PartOfAxis(name, "rounds")
        # The first slot that computes a member is the member's own; later ones repeat it.
        self.sources = sources
        self.first_slots = None if sources is None else np.unique(sources, return_index=True)[1].astype(np.int32)

    def slot_sources(self) -> tuple[np.ndarray, np.ndarray]:
        """For each slot, by device and round, return whether it holds a member, and which member it computes."""
        slots = np.arange(self.num_slots, dtype=np.int32)
        found = np.minimum(slots, self.num_members - 1) if self.sources is None else self.sources
        real = (found if self.first_slots is None else self.first_slots[found]) == slots
        return real.reshape(self.devices, self.rounds), found.reshape(self.devices, self.rounds)

    def split_axis_name(self, names: Sequence[Any]) -> tuple[Any, ...]:
        """Replace the name of this axis by those of its two parts; devices vary slowest, as in the order of the slots.
        """
        at = names.index(self.name)
        return (*names[:at], *self.axis_parts, *names[at + 1:])

    def slot_index(self) -> Any:
        """Emit the index of this slot."""
        return lax.add(lax.mul(lax.axis_index(self.axis_parts[0]), np.int32(self.rounds)), lax.axis_index(self.axis_parts[1]))

    def member_index(self) -> Any:
        """Emit the index of the member that this slot computes: its own or, in a padding slot, the last one."""
        if self.sources is not None:
            return lax.dynamic_index_in_dim(self.sources, self.slot_index(), 0, False)
        return lax.min(self.slot_index(), np.int32(self.num_members - 1)) if self.num_padding else self.slot_index()

    def is_real(self) -> Any:
        """Emit whether this slot holds a member."""
        if self.sources is not None:
            return lax.dynamic_index_in_dim(self.slot_sources()[0].reshape(-1), self.slot_index(), 0, False)
        return lax.lt(self.slot_index(), np.int32(self.num_members))

    def zero_padding(self, x: Any) -> Any:
        """Emit `x` in the slots of members and zero in padding slots."""
        return lax.select(self.is_real(), x, lax.full_like(x, 0)) if self.num_padding else x

    def stop_padding_gradient(self, x: Any) -> Any:
        """Emit `x`, through which no derivative flows in padding slots."""
        if not dtypes.is_inexact(typeof(x).dtype):
            return x
        return lax.select(self.is_real(), x, lax.stop_gradient(x))


def rewrite_for_slots(closed: ClosedJaxpr, layout: PaddedLayout) -> ClosedJaxpr:
    """Rewrite the program of one member into that of one slot.

    Args:
      closed: the program of one member, with collectives over the axis.
      layout: the slots of the axis.
    Returns:
      A program of the same operands and results, with collectives over the two axes of `layout.axis_parts`.
    Raises:
      NotImplementedError: a primitive communicates over the axis, and no rule rewrites it.
    """
    sizes = _sizes(closed)
    frames = [AxisFrame(p, n) for p, n in zip(layout.axis_parts, (layout.devices, layout.rounds))]

    def trace_call(fun: Callable[..., list[Any]], e: Eqn, outvars: Sequence[Any], other_sizes: Mapping[Any, int],
                   name: str) -> Eqn:
        with extend_axis_env(*[AxisFrame(n, size) for n, size in other_sizes.items()], *frames):
            program, outer = stage(fun, [v.aval for v in e.invars])
        assert not outer
        params = {**prims.xla_call_p.defaults, "call_jaxpr": program, "name": name, "inline": True}
        return Eqn(prims.xla_call_p, e.invars, outvars, params, e.source)

    def rewrite_equation(e: Eqn) -> list[Eqn] | None:
        if e.outvars and e.outvars[0] in needs_stop:
            # The derivative of a padding slot must be zero. A user rule with collectives does not ensure that, as it
            # may receive derivatives of other members. So derivatives are stopped at the operands of the call. The
            # selects also make the operands vary between slots: a call with unvarying operands would not be batched,
            # and neither would its rules.
            own = [Var(v.aval) for v in e.invars]
            return [trace_call(lambda *xs: [layout.stop_padding_gradient(x) for x in xs], e, own, {},
                               "stop_padding_gradient"),
                    Eqn(e.primitive, own, e.outvars, e.params, e.source)]
        names = [n for p in e.primitive.axis_params for n in _as_tuple(e.params[p])]
        if layout.name not in names:
            return None
        rule = _RULES.get(e.primitive)
        if rule is None:
            raise NotImplementedError(f"padded: `{e.primitive.name}` over the axis {layout.name!r} has no rule for several "
                                      "rows per device. Use as many rows as there are devices, or vmap")
        other_sizes = {n: sizes[n] or 0 for n in names if type(n) is not int and n != layout.name}
        if 0 in other_sizes.values():
            raise NotImplementedError(f"padded: `{e.primitive.name}` over {names}: two maps bind one of these names, with "
                                      "different sizes. Give them different names")

        def run(*xs: Any) -> list[Any]:
            outs = rule(_Collective(layout, e.primitive, tuple(names), other_sizes, dict(e.params)), xs)
            return [cast_like(o, v.aval) for o, v in zip(outs, e.outvars, strict=True)]

        return [trace_call(run, e, e.outvars, other_sizes, e.primitive.name)]

    # First results of equations that need the stop. They are recorded before their rules are rewritten, because
    # these may contain the same equations.
    needs_stop: set[Any] = set()

    def enters(e: Eqn) -> bool:
        if _has_rules(e, layout.name):
            needs_stop.add(e.outvars[0])
        inner = [name for name, _ in e.primitive.region_signature.axes(e.params)]  # type: ignore[union-attr]
        return layout.name not in inner  # a nested map that binds the same name shadows it

    return rewrite(closed, rewrite_equation, nested=enters)


def _has_rules(e: Eqn, name: Hashable) -> bool:
    """Return whether a derivative or transpose of an equation is a user program with collectives over the axis."""
    found = [*[e.params[p] for p in e.primitive.region_signature.extra_programs], *find_rule_programs(e)]  # type: ignore[union-attr]
    return any(name in program.jaxpr.axis_names for program in found if isinstance(program, ClosedJaxpr))


def _sizes(closed: ClosedJaxpr) -> dict[Any, int | None]:
    """Return the sizes of the axes around a program and in it; None for a name that is bound with several sizes."""
    sizes: dict[Any, int | None] = {}
    found = [(f.name, f.size) for f in trace_state.axes]
    todo, seen = [closed], {closed}
    for program in todo:
        for e in program.jaxpr.eqns:
            flow = e.primitive.region_signature
            found += () if flow is None else flow.axes(e.params)
            fresh = [s for s in subprograms(e) if s not in seen]
            seen.update(fresh)
            todo += fresh
    for name, size in found:
        sizes[name] = size if sizes.get(name, size) == size else None
    return sizes


def _as_tuple(names: Any) -> tuple[Any, ...]:
    return names if type(names) is tuple else (names,)


def repeat_slice(x: Any, axis: int, times: int) -> Any:
    """Repeat a slice of length 1 along an axis."""
    shape = typeof(x).shape
    return lax.broadcast_in_dim(x, (*shape[:axis], times, *shape[axis + 1:]), tuple(range(len(shape))))


def cast_like(x: Any, aval: Any) -> Any:
    """Cast a value to the dtype and weak type of an aval."""
    found = typeof(x)
    if found.dtype == aval.dtype and found.weak_type == aval.weak_type:
        return x
    return bind(prims.convert_element_type_p, x, new_dtype=aval.dtype, weak_type=aval.weak_type)


@dataclasses.dataclass
class _Collective:
    """A collective: its layout, primitive, axis names, sizes of its other named axes, and params."""

    layout: PaddedLayout
    prim: Any
    names: tuple[Any, ...]
    other_sizes: Mapping[Any, int]
    params: dict[str, Any]

    @property
    def split_names(self) -> tuple[Any, ...]:
        return self.layout.split_axis_name(self.names)

    @functools.cached_property
    def outer_inner_sizes(self) -> tuple[int, int]:
        """Return the products of the sizes of the names before and after the mapped axis."""
        at = self.names.index(self.layout.name)
        sizes = [self.other_sizes.get(n, 1) for n in self.names]  # integers are positional axes of the operand
        return math.prod(sizes[:at]), math.prod(sizes[at + 1:])

    def index(self) -> Any:
        """Emit the index of this slot's member along all names."""
        total: Any = np.int32(0)
        for n in self.names:
            if n == self.layout.name:
                index, size = self.layout.member_index(), self.layout.num_members
            else:
                index, size = lax.axis_index((n,)), self.other_sizes[n]
            total = lax.add(lax.mul(total, np.int32(size)), index)
        return total

    def pad_members(self, x: Any, axis: int) -> Any:
        """Expand an axis with one part for each member to one part for each slot, by repeating members."""
        p, before, shape = self.layout, self.outer_inner_sizes[0], typeof(x).shape
        if not p.num_padding:
            return x
        part = shape[axis] // (before * p.num_members)
        x = lax.reshape(x, (*shape[:axis], before, p.num_members, part, *shape[axis + 1:]))
        if p.sources is not None:
            x = _take(x, axis + 1, p.sources)
        else:
            last = lax.slice_in_dim(x, p.num_members - 1, p.num_members, 1, axis + 1)
            x = lax.concatenate([x, repeat_slice(last, axis + 1, p.num_padding)], axis + 1)
        return lax.reshape(x, (*shape[:axis], before * p.num_slots * part, *shape[axis + 1:]))

    def drop_padding(self, x: Any, axis: int) -> Any:
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

    def bind_over_slots(self, x: Any) -> Any:
        """Bind the collective itself over all slots."""
        before, behind = self.outer_inner_sizes
        return bind(self.prim, x, **{**self.params, "axis_name": self.split_names, "axis_index_groups": None,
                                     "axis_size": before * self.layout.num_slots * behind})

    def gather_members(self, x: Any) -> Any:
        """Gather the values of all members along a new axis 0."""
        before, behind = self.outer_inner_sizes
        found = bind(prims.all_gather_p, x, all_gather_dimension=0, axis_name=self.split_names, axis_index_groups=None,
                     axis_size=before * self.layout.num_slots * behind, tiled=False)
        return self.drop_padding(found, 0)

    def sum_members(self, xs: Sequence[Any], prim: Any = prims.psum_p) -> list[Any]:
        """Sum over the members; padding slots contribute zero."""
        return list(bind(prim, *map(self.layout.zero_padding, xs), axes=self.split_names, axis_index_groups=None))

    def gather_group(self, x: Any) -> tuple[list[Any], Any, Any]:
        """Return the values of this member's group in order, the group's size, and this member's position in it.

        Values beyond the size of the group repeat its first one, so that groups may differ in size.
        """
        groups = self.params["axis_index_groups"]
        total, longest = sum(map(len, groups)), max(map(len, groups))
        table = np.zeros((total, longest), np.int32)
        length, number = np.zeros(total, np.int32), np.zeros(total, np.int32)
        for g in groups:
            for i, member in enumerate(g):
                table[member], length[member], number[member] = [*g, *[g[0]] * (longest - len(g))], len(g), i
        all_values, index = self.gather_members(x), self.index()

        def entry(of: np.ndarray) -> Any:
            return lax.dynamic_index_in_dim(of, index, 0, False)

        members = entry(table)
        values = [lax.dynamic_index_in_dim(all_values, lax.index_in_dim(members, i, 0, False), 0, False)
                  for i in range(longest)]
        return values, entry(length), entry(number)

    def sum_group(self, xs: Sequence[Any]) -> list[Any]:
        """Sum over this member's group."""
        outs = []
        for x in xs:
            values, length, _ = self.gather_group(x)
            zero = lax.full_like(x, 0)
            outs.append(functools.reduce(lax.add, [lax.select(lax.lt(np.int32(i), length), r, zero) if i else r
                                                   for i, r in enumerate(values)]))
        return outs


# --- one rewrite per primitive: (collective, operands of one slot) -> results -----------------------------------------
def _psum(c: _Collective, xs: Sequence[Any]) -> list[Any]:
    if c.params["axis_index_groups"] is None:
        return c.sum_members(xs)
    return c.sum_group(xs)


def _max_min(c: _Collective, xs: Sequence[Any]) -> list[Any]:
    """Emit pmax or pmin. The copies of the last member do not change the result.

    The derivative is split equally between the members that attain the max/min. It needs a rule of its own for two
    reasons: the copies must get no share, and the rule of the two-axis collective would split first over the devices
    and then over the rounds, into unequal parts.
    """
    grouped = c.params["axis_index_groups"] is not None
    combine = lax.max if c.prim is prims.pmax_p else lax.min
    sum_ = c.sum_group if grouped else c.sum_members

    def value(x: Any) -> Any:
        if grouped:
            return functools.reduce(combine, c.gather_group(x)[0])
        return bind(c.prim, x, axes=c.split_names, axis_index_groups=None)[0]

    max_min = custom_jvp(value)

    @max_min.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        ans = max_min(x)
        attains = lax.convert_element_type(lax.eq(x, ans), typeof(x).dtype)
        count, = sum_([attains])
        share, = sum_([lax.mul(t, lax.div(attains, count))])
        return ans, cast_like(share, typeof(t))

    return [max_min(x) if dtypes.is_inexact(typeof(x).dtype) else value(x) for x in xs]


def _all_gather(c: _Collective, xs: Sequence[Any]) -> list[Any]:
    x, = xs
    at, tiled = c.params["all_gather_dimension"], c.params["tiled"]
    if c.params["axis_index_groups"] is None:
        stacked = move_axis(c.gather_members(x), 0, at)
    else:
        values = c.gather_group(x)[0]
        stacked = lax.concatenate([lax.expand_dims(r, (at,)) for r in values], at)
    return [_merge_axes(stacked, at) if tiled else stacked]


def _take(x: Any, axis: int, at: np.ndarray) -> Any:
    """Take slices of an array along an axis, at indices known when tracing."""
    return vmap(lambda i: lax.dynamic_index_in_dim(x, i, axis, False), out_axes=axis)(at)


def _merge_axes(x: Any, at: int) -> Any:
    """Merge the axes `at` and `at + 1`."""
    s = typeof(x).shape
    return lax.reshape(x, (*s[:at], s[at] * s[at + 1], *s[at + 2:]))


def _part(x: Any, number: Any, parts: int, axis: int, tiled: bool) -> Any:
    """Return one of `parts` equal parts along an axis."""
    size = typeof(x).shape[axis] // parts
    found = lax.dynamic_slice_in_dim(x, lax.mul(number, np.int32(size)), size, axis)
    return found if tiled else lax.squeeze(found, (axis,))


def _psum_scatter(c: _Collective, xs: Sequence[Any]) -> list[Any]:
    x, = xs
    axis = c.params["scatter_dimension"]
    if c.params["axis_index_groups"] is None:
        return [c.bind_over_slots(c.pad_members(c.layout.zero_padding(x), axis))]
    values, _, number = c.gather_group(x)
    return [_part(functools.reduce(lax.add, values), number, len(values), axis, c.params["tiled"])]


def _all_to_all(c: _Collective, xs: Sequence[Any]) -> list[Any]:
    x, = xs
    split, concat, tiled = c.params["split_axis"], c.params["concat_axis"], c.params["tiled"]
    if c.params["axis_index_groups"] is None:
        return [c.drop_padding(c.bind_over_slots(c.pad_members(x, split)), concat)]
    values, _, number = c.gather_group(x)
    parts = [_part(r, number, len(values), split, tiled) for r in values]
    return [lax.concatenate(parts if tiled else [lax.expand_dims(p, (concat,)) for p in parts], concat)]


def _ppermute(c: _Collective, xs: Sequence[Any]) -> list[Any]:
    x, = xs
    p, (outer_size, inner_size) = c.layout, c.outer_inner_sizes
    pairs = np.asarray(c.params["perm"], np.int64).reshape(-1, 2)
    outer, member, inner = np.unravel_index(pairs, (outer_size, p.num_members, inner_size))
    slots = member if p.first_slots is None else p.first_slots[member]
    slot_pairs = np.ravel_multi_index((outer, slots, inner), (outer_size, p.num_slots, inner_size))
    moved = bind(prims.ppermute_p, x, axis_name=c.split_names, perm=tuple([(int(a), int(b)) for a, b in slot_pairs]))
    if p.sources is not None and p.first_slots is not None:  # the padding of each process repeats its own last member
        copies = p.sources[~p.slot_sources()[0].reshape(-1)]
        if not np.isin(member[:, 1], copies).any():
            return [moved]
        all_values = bind(prims.all_gather_p, lax.stop_gradient(moved), all_gather_dimension=0, axis_name=p.axis_parts,
                     axis_index_groups=None, axis_size=p.num_slots, tiled=False)
        source = lax.dynamic_index_in_dim(p.first_slots, p.member_index(), 0, False)
        source_value = lax.dynamic_index_in_dim(all_values, source, 0, False)
        return [lax.select(p.is_real(), moved, source_value)]
    if not p.num_padding or not (member[:, 1] == p.num_members - 1).any():
        return [moved]
    # Padding slots must hold what the last member receives, too. Only one slot contributes to the sum, and no
    # derivative flows through it: the member's own slot has that already.
    slot = p.slot_index()
    summable = lax.convert_element_type(moved, "int32") if dtypes.is_bool(typeof(x).dtype) else moved
    sent = lax.select(lax.eq(slot, np.int32(p.num_members - 1)), summable, lax.full_like(summable, 0))
    last, = bind(prims.psum_p, lax.stop_gradient(sent), axes=p.axis_parts, axis_index_groups=None)
    return [lax.select(lax.lt(slot, np.int32(p.num_members)), moved, cast_like(last, typeof(moved)))]


_RULES: dict[Any, Callable[[_Collective, Sequence[Any]], list[Any]]] = {
    prims.psum_p: _psum, prims.pmax_p: _max_min, prims.pmin_p: _max_min, prims.all_gather_p: _all_gather,
    prims.psum_scatter_p: _psum_scatter, prims.all_to_all_p: _all_to_all, prims.ppermute_p: _ppermute,
    prims.axis_index_p: lambda c, _: [c.index()]}
