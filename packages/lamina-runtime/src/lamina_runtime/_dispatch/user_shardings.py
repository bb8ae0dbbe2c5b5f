"""Implement `jit(in_shardings=, out_shardings=)`: the user's shardings of arguments and results.

Each is a tree of shardings, or a prefix of the tree of arguments or results. In a `with mesh:` block its leaves may
also be PartitionSpecs. None leaves the choice to the call. All shardings of a call must name the same devices, on which
it then runs.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from lamina_ir import ShapedArray, trees
from lamina_parallel import PartitionSpec
from lamina_parallel.extend import mesh_in_scope
from lamina_tracing.extend import CallSpec, StagedProgram, constrain_tree, result_path
from lamina_ir.typing import Device, Sharding, Tree, Value
from lamina_ir.trees import PyTreeDef

from .. import _jaxlib
from .._array.memory_layout import Format
from .._execute import executable
from .._backend import client_state
from .._sharding import shardings
from .._jaxlib import ArrayImpl
from .._placement.resolve import device_names

__all__ = ["UserShardings", "call_with_constraints", "get_shardings_key", "get_user_shardings"]


class UserShardings:
    """The user's shardings of one call signature.

    Attributes:
      ins, outs: for each flat argument and result its sharding, or None.
      devices: the devices of all these shardings; None if there are none.
      in_tree: tree of the arguments; None if no argument has a user's sharding.
      mesh: the mesh of the first NamedSharding; None if there is none.
    """

    __slots__ = ("ins", "outs", "devices", "in_tree", "mesh")

    def __init__(self, ins: tuple[Sharding | None, ...], outs: tuple[Sharding | None, ...],
                 devices: tuple[Device, ...] | None, in_tree: PyTreeDef | None) -> None:
        self.ins, self.outs, self.devices, self.in_tree = ins, outs, devices, in_tree
        self.mesh = next((s._mesh for s in (*ins, *outs) if s is not None and s._mesh is not None), None)

    def place_args(self, spec: CallSpec, flat: Sequence[Value]) -> list[Value]:
        """Move the arguments to their shardings. Raise ValueError for an argument committed to another sharding."""
        out = []
        for i, (x, sharding) in enumerate(zip(flat, self.ins)):
            if sharding is not None:
                if type(x) is ArrayImpl and x._committed and x._sharding != sharding:
                    assert self.in_tree is not None
                    raise ValueError(f"jit of `{spec.name}`: {spec.argument_path(self.in_tree, i)} ({x.aval.str_long()}) is "
                                     f"committed to {x._sharding}; in_shardings specifies {sharding}. Move it with "
                                     "device_put")
                x = executable.place_arg(x, sharding)
            out.append(x)
        return out


def _is_leaf(x: object) -> bool:
    return x is None or isinstance(x, (_jaxlib.Sharding, PartitionSpec))


def get_shardings_key(spec: CallSpec) -> tuple[object, ...] | None:
    """Return a cache key of the shardings of a `jit`; None if it has none. Raise TypeError for other leaves."""
    if spec.in_shardings is None and spec.out_shardings is None:
        return None
    key = []
    for what in ("in_shardings", "out_shardings"):
        leaves, tree = trees.tree_flatten(getattr(spec, what), is_leaf=_is_leaf)
        for x in leaves:
            if isinstance(x, Format):
                setattr(spec, what, _remove_formats(spec, what))
                return get_shardings_key(spec)
            if x is not None and type(x) not in (_jaxlib.SingleDeviceSharding, _jaxlib.GSPMDSharding, PartitionSpec):
                raise TypeError(f"jit of `{spec.name}`: {what}: expected shardings, as NamedSharding(mesh, spec) or an "
                                f"array's `.sharding`, None, or a tree of them; got {type(x).__name__}: {x!r:.60}")
        key += [tuple(leaves), tuple([getattr(x, "alias_id", 0) for x in leaves]), tree]
    return tuple(key)


def _remove_formats(spec: CallSpec, what: str) -> Tree:
    """Return the option with the sharding of each `Format` in its place."""
    return trees.tree_map(lambda x: x.to_sharding(f"jit of `{spec.name}`: {what}") if isinstance(x, Format) else x,
                          getattr(spec, what), is_leaf=_is_leaf)


def get_user_shardings(spec: CallSpec, staged: StagedProgram, tree: PyTreeDef) -> UserShardings | None:
    """Return the shardings of one signature; None for a `jit` without. Raise ValueError if they do not fit it."""
    key = get_shardings_key(spec)
    if key is None:
        return None
    known = client_state.current.user_shardings.setdefault(staged.closed, {})
    key += (mesh_in_scope(),)
    resolved = known.get(key)
    if resolved is None:
        if len(known) > 256:
            known.clear()
        resolved = known[key] = _resolve(spec, staged, tree)
    return resolved


def _resolve(spec: CallSpec, staged: StagedProgram, tree: PyTreeDef) -> UserShardings:
    args, kwargs = trees.tree_unflatten(tree, staged.closed.in_avals[len(staged.outer):])
    if kwargs and spec.in_shardings is not None:
        raise ValueError(f"jit of `{spec.name}`: in_shardings are for positional arguments; got {sorted(kwargs)} by "
                         "keyword")
    ins = _flatten_shardings(spec, "in_shardings", spec.in_shardings, args, lambda i: spec.argument_path(tree, i))
    ins += (None,) * len(trees.tree_leaves(kwargs))
    outs = _flatten_shardings(spec, "out_shardings", spec.out_shardings,
                              trees.tree_unflatten(staged.out_tree, staged.closed.out_avals),
                              lambda i: result_path(staged.out_tree, i))
    user_shardings = [s for s in (*ins, *outs) if s is not None]
    devices = shardings.sharding_devices(user_shardings[0]) if user_shardings else None
    for s in user_shardings:
        if shardings.sharding_devices(s) != devices:
            raise ValueError(f"jit of `{spec.name}`: in_shardings and out_shardings must name the same devices in one "
                             f"order; got {device_names(devices or ())} and "
                             f"{device_names(shardings.sharding_devices(s))}")
    return UserShardings(ins, outs, devices, tree)


def _flatten_shardings(spec: CallSpec, what: str, shardings_tree: Tree, avals: Sequence[ShapedArray],
                       format_leaf: Callable[[int], str]) -> tuple[Sharding | None, ...]:
    """Return a sharding or None for each leaf of a tree of types. `format_leaf` returns the name of a leaf."""
    leaves = trees.tree_leaves(avals)
    if _is_leaf(shardings_tree):
        resolved = [shardings_tree] * len(leaves)
    else:
        if type(shardings_tree) is list and type(avals) is tuple:
            shardings_tree = tuple(shardings_tree)
        try:
            resolved = trees.broadcast_prefix(shardings_tree, avals, is_leaf=_is_leaf)
        except ValueError as e:
            whose = "positional arguments" if what == "in_shardings" else "function's output"
            raise ValueError(f"jit of `{spec.name}`: {what} is not a prefix of the {whose}: {e}") from None
    return tuple([None if s is None else shardings.resolve_sharding(
        lambda i=i: f"jit of `{spec.name}`: {what} for {format_leaf(i)}", a.shape, s)  # type: ignore[misc]
        for i, (s, a) in enumerate(zip(resolved, leaves))])


def call_with_constraints(spec: CallSpec, staged: StagedProgram, layout: UserShardings, flat: Sequence[Value],
                          donated: tuple[bool, ...]) -> Tree:
    """Call a jitted function inside another program, with sharding constraints on its arguments and results.

    The constraints take effect only if the enclosing program runs on several devices.
    """
    out = spec.bind_program(staged, _constrain(flat, layout.ins), donated)
    return trees.tree_unflatten(staged.out_tree, _constrain(trees.tree_leaves(out), layout.outs))


def _constrain(values: Sequence[Value], constraints: Sequence[Sharding | None]) -> list[Value]:
    return [x if s is None or s.num_devices == 1 else constrain_tree(x, s)
            for x, s in zip(values, constraints)]
