"""`jit(in_shardings=, out_shardings=)`: where each argument and result of a call has to lie.

Both are trees of placements (in a block `with mesh:` of specs too), or a prefix of the arguments' or result's tree; None leaves
the choice to the call. All placements of a call name the same devices, which are then the devices it runs on.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import trees
from lamina_parallel import PartitionSpec
from lamina_parallel.extend import mesh_in_scope
from lamina_tracing import lax
from lamina_tracing.extend import CallSpec, Staged, result_path

from . import _jaxlib, execution, owner, shardings
from ._jaxlib import ArrayImpl
from .placing import device_names

__all__ = ["Layout", "call_inside", "key_of", "layout_of"]


class Layout:
    """The placements of one signature's flat arguments and results, the devices they share, and the mesh that some name."""

    __slots__ = ("ins", "outs", "devices", "in_tree", "mesh")

    def __init__(self, ins: tuple[Any, ...], outs: tuple[Any, ...], devices: tuple[Any, ...] | None, in_tree: Any) -> None:
        self.ins, self.outs, self.devices, self.in_tree = ins, outs, devices, in_tree
        self.mesh = next((s._mesh for s in (*ins, *outs) if s is not None and s._mesh is not None), None)

    def placed(self, spec: CallSpec, flat: Sequence[Any]) -> list[Any]:
        """The arguments where they have to be. ValueError for one that is committed to another place."""
        out = []
        for i, (x, wanted) in enumerate(zip(flat, self.ins)):
            if wanted is not None:
                if type(x) is ArrayImpl and x._committed and x._sharding != wanted:
                    raise ValueError(f"jit of `{spec.name}`: {spec.argument(self.in_tree, i)} ({x.aval.long()}) is committed "
                                     f"to {x._sharding}; in_shardings says {wanted}. Move it with device_put")
                x = execution.place(x, wanted)
            out.append(x)
        return out


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, (_jaxlib.Sharding, PartitionSpec))


def key_of(spec: CallSpec) -> Any:
    """What the placements of a `jit` are found again by; None when it has none. TypeError for anything but placements."""
    if spec.in_shardings is None and spec.out_shardings is None:
        return None
    key = []
    for what in ("in_shardings", "out_shardings"):
        leaves, tree = trees.tree_flatten(getattr(spec, what), is_leaf=_is_leaf)
        for x in leaves:
            if x is not None and type(x) not in (_jaxlib.SingleDeviceSharding, _jaxlib.GSPMDSharding, PartitionSpec):
                raise TypeError(f"jit of `{spec.name}`: {what}: expected shardings, as NamedSharding(mesh, spec) or an array's "
                                f"`.sharding`, None, or a tree of them; got {type(x).__name__}: {x!r:.60}")
        key += [tuple(leaves), tuple([getattr(x, "face", 0) for x in leaves]), tree]
    return tuple(key)


def layout_of(spec: CallSpec, staged: Staged, tree: Any) -> Layout | None:
    """The placements of one signature; None for a `jit` without. ValueError where they do not fit it."""
    key = key_of(spec)
    if key is None:
        return None
    known = owner.current.layouts.setdefault(staged.closed, {})
    key += (mesh_in_scope(),)
    found = known.get(key)
    if found is None:
        if len(known) > 256:
            known.clear()
        found = known[key] = _layout(spec, staged, tree)
    return found


def _layout(spec: CallSpec, staged: Staged, tree: Any) -> Layout:
    args, kwargs = trees.tree_unflatten(tree, staged.closed.in_avals[len(staged.outer):])
    if kwargs and spec.in_shardings is not None:
        raise ValueError(f"jit of `{spec.name}`: in_shardings are for positional arguments; got {sorted(kwargs)} by keyword")
    ins = _flat(spec, "in_shardings", spec.in_shardings, args, lambda i: spec.argument(tree, i))
    ins += (None,) * len(trees.tree_leaves(kwargs))
    outs = _flat(spec, "out_shardings", spec.out_shardings, trees.tree_unflatten(staged.out_tree, staged.closed.out_avals),
                 lambda i: result_path(staged.out_tree, i))
    named = [s for s in (*ins, *outs) if s is not None]
    devices = shardings.sharding_devices(named[0]) if named else None
    for s in named:
        if shardings.sharding_devices(s) != devices:
            raise ValueError(f"jit of `{spec.name}`: in_shardings and out_shardings must name the same devices in one order; "
                             f"got {device_names(devices or ())} and {device_names(shardings.sharding_devices(s))}")
    return Layout(ins, outs, devices, tree)


def _flat(spec: CallSpec, what: str, wanted: Any, avals: Any, words: Callable[[int], str]) -> tuple[Any, ...]:
    """A placement or None for each leaf of a tree of types; `words` says which a leaf is."""
    leaves = trees.tree_leaves(avals)
    if _is_leaf(wanted):
        found = [wanted] * len(leaves)
    else:
        if type(wanted) is list and type(avals) is tuple:
            wanted = tuple(wanted)
        try:
            found = trees.broadcast_prefix(wanted, avals, is_leaf=_is_leaf)
        except ValueError as e:
            whose = "positional arguments" if what == "in_shardings" else "function's output"
            raise ValueError(f"jit of `{spec.name}`: {what} is no prefix of the {whose}: {e}") from None
    return tuple([None if s is None else shardings.fitted(
        lambda i=i: f"jit of `{spec.name}`: {what} for {words(i)}", a.shape, s)  # type: ignore[misc]
        for i, (s, a) in enumerate(zip(found, leaves))])


def call_inside(spec: CallSpec, staged: Staged, layout: Layout, flat: Sequence[Any], donated: tuple[bool, ...]) -> Any:
    """A call inside another program: its arguments and results are told where to lie, which counts if that program runs
    on several devices."""
    out = spec.call_staged(staged, _told(flat, layout.ins), donated)
    return trees.tree_unflatten(staged.out_tree, _told(trees.tree_leaves(out), layout.outs))


def _told(values: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
    return [x if s is None or s.num_devices == 1 else lax.with_sharding_constraint(x, s) for x, s in zip(values, wanted)]
