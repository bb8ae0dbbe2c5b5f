"""Shardings as types: calls whose arguments are on a mesh with `Explicit` axes.

The program of such a call is analyzed before it is placed: `lamina_parallel` computes the sharding of each value, refuses
ambiguous operations, and adds sharding constraints. The results have the shardings that it found.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lamina_ir import ClosedJaxpr, ShapeDtypeStruct, ShapedArray, Source, subprograms
from lamina_ir.errors import ShardingTypeError
from lamina_ir.extend import Placement, collect_facts
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Sharding, Value
from lamina_parallel import Mesh, PartitionSpec
from lamina_parallel import extend as parallel_extend
from lamina_parallel.extend import (ArrayShardings, TypeSharding, explicit_spec, partition_spec_from_tiles, set_array_shardings,
                                    spec_entries, spec_from_entries)
from lamina_tracing.extend import RuleSource, explicit_meshes, find_user_source, trace_state
from typing_extensions import override

from .._execute.executable import CompiledProgram
from .._placement.resolve import program_mesh
from .._sharding import shardings
from .user_shardings import UserShardings

__all__ = ["MixedShardings", "add_types", "complete"]

Entries = tuple[tuple[object, ...], ...]


def add_types(call: str, name: str, closed: ClosedJaxpr, flat: Sequence[Value], layout: UserShardings | None,
              is_library_function: bool = False, is_call: bool = False) -> tuple[ClosedJaxpr, UserShardings] | None:
    """Return the program with sharding constraints, and the shardings of its results; None without `Explicit` axes.

    Args:
      call: the call, for messages.
      name: the name of the function.
      closed: the program.
      flat: its arguments, `ArgSpec`s, or types.
      layout: the user's shardings of arguments and results, which take precedence.
      is_library_function: whether the program is that of one operation. Then errors have the line of the call.
      is_call: whether `complete` is called with the compiled program. Then the compiler chooses shardings over `Auto` axes.
    Raises:
      ShardingTypeError: the sharding of a result is ambiguous, or arguments are on different meshes.
    """
    mesh = _find_mesh(call, closed, flat) if explicit_meshes else None
    if mesh is None:
        return None
    entries = tuple([_read_entries(mesh, x, a.ndim) for x, a in zip(flat, closed.in_avals)])
    source = find_user_source(2) if is_library_function else None
    line = None if source is None else str(source)
    is_derived = is_library_function and _is_backward()
    key = ("sharding types", name, mesh, entries, line, is_derived)
    made, outs = closed.memo_with_settings(key, lambda: parallel_extend.add_sharding_types(
        closed, entries, mesh, lambda value: _read_entries(mesh, value, len(value.shape)), source, is_derived, name))
    given = (None,) * len(outs) if layout is None else layout.outs
    ins, in_tree = ((None,) * len(entries), None) if layout is None else (layout.ins, layout.in_tree)
    if is_call and len(mesh.explicit_axes) < len(mesh.axis_names):
        return made, MixedShardings(mesh, outs, ins, given, in_tree)
    named = [_name(mesh, found) if user is None else user for user, found in zip(given, outs, strict=True)]
    return made, UserShardings(ins, tuple(named), mesh.flat_devices, in_tree)


class MixedShardings(UserShardings):
    """The shardings of a call whose mesh also has `Auto` axes. The compiler chooses those of the results over them.

    Attributes:
      explicit: for each result its mesh axes by type.
    """

    __slots__ = ("explicit",)

    def __init__(self, mesh: Mesh, explicit: Sequence[Entries], ins: tuple[Sharding | None, ...],
                 outs: tuple[Sharding | None, ...], in_tree: PyTreeDef | None) -> None:
        super().__init__(ins, outs, mesh.flat_devices, in_tree)
        self.mesh, self.explicit = mesh, tuple(explicit)

    def complete(self, chosen: Sequence[Sharding], avals: Sequence[ShapedArray]) -> UserShardings:
        """Return the shardings of a call whose results the compiler has sharded in this way: those by type, and over
        `Auto` axes those of the compiler."""
        mesh = self.mesh
        assert mesh is not None
        outs = [_name(mesh, _add_auto_axes(mesh, found, sharding, aval.shape)) if user is None else user
                for user, found, sharding, aval in zip(self.outs, self.explicit, chosen, avals)]
        return UserShardings(self.ins, tuple(outs), self.devices, self.in_tree)


def complete(program: CompiledProgram, layout: MixedShardings,
             compile_for: Callable[[Placement], CompiledProgram]) -> tuple[CompiledProgram, UserShardings]:
    """Return a compiled program with the shardings of arguments and results.

    Constraints leave a dimension without `Explicit` axes to the compiler. If it sharded one of a result over such an axis,
    the program is compiled again, for the shardings that types require.
    """
    completed = layout.complete(program.out_shardings, program.out_avals)
    wanted = tuple([None if s is None else s.tiles for s in completed.outs])
    if wanted != tuple([s.tiles for s in program.out_shardings[:len(wanted)]]):
        program = compile_for(program.placement._replace(out_tiles=wanted))
    return program, completed


def _name(mesh: Mesh, entries: Entries) -> Sharding:
    return shardings.named_sharding(mesh, spec_from_entries(entries), len(entries))


def _add_auto_axes(mesh: Mesh, entries: Entries, chosen: Sharding, shape: Sequence[int]) -> Entries:
    """Return the entries with the `Auto` axes of a sharding."""
    spec = partition_spec_from_tiles(mesh, chosen.tiles)
    if spec is None:
        return entries
    named = spec_entries(PartitionSpec(*spec, *[None] * (len(shape) - len(spec))))
    found = [(*kept, *[name for name in names if name not in mesh.explicit_axes])
             for kept, names in zip(entries, named, strict=True)]
    return tuple([kept if n % math.prod([mesh.shape[name] for name in names]) else names
                  for kept, names, n in zip(entries, found, shape)])


class _RuntimeArrays(ArrayShardings):
    """Shardings of arrays on devices, and of descriptions of arrays."""

    @override
    def find_mesh(self, x: Value) -> Mesh | None:
        sharding = _sharding_of(x)
        mesh = sharding.concrete_mesh if isinstance(sharding, TypeSharding) else getattr(sharding, "_mesh", None)
        return mesh if mesh is not None and mesh.explicit_axes else None

    @override
    def read_entries(self, mesh: Mesh, x: Value, ndim: int) -> Entries:
        return _read_entries(mesh, x, ndim)

    @override
    def make_sharding(self, mesh: Mesh, spec: PartitionSpec) -> Sharding:
        return shardings.named_sharding(mesh, spec, len(spec))


set_array_shardings(_RuntimeArrays())


def _is_backward() -> bool:
    """Return whether the operation that runs now is part of a transpose, and not of a user's rule."""
    source = trace_state.source
    return isinstance(source, Source) and bool(source.part) and not isinstance(source, RuleSource)


def _sharding_of(x: object) -> Sharding | None:
    """Return the sharding of an array, an `ArgSpec` or a `ShapeDtypeStruct`; None for other values."""
    found = x.sharding if isinstance(x, ShapeDtypeStruct) else getattr(x, "_sharding", None)
    return found if hasattr(found, "_mesh") or isinstance(found, (PartitionSpec, TypeSharding)) else None


def _find_mesh(call: str, closed: ClosedJaxpr, flat: Sequence[Value]) -> Mesh | None:
    """Return the mesh with `Explicit` axes of the arguments and constants, else that of the program's constraints."""
    found: Mesh | None = None
    for x in (*flat, *_list_constants(closed)):
        sharding = _sharding_of(x)
        mesh = getattr(sharding, "_mesh", None)
        if mesh is not None and mesh.explicit_axes:
            if found is not None and found != mesh:
                raise ShardingTypeError(f"{call}: arguments must be on one mesh; got {found} and {mesh}. Move them with "
                                        "device_put")
            found = mesh
    if found is None and collect_facts(closed).has_constraints:
        mesh = program_mesh(closed)
        found = mesh if mesh is not None and mesh.explicit_axes else None
    return found


def _list_constants(closed: ClosedJaxpr) -> tuple[Value, ...]:
    """Return the constants of a program and of those nested in it."""
    def make() -> tuple[Value, ...]:
        nested = [_list_constants(p) for e in closed.jaxpr.eqns if e.primitive.subprograms for p in subprograms(e)]
        return (*closed.consts, *[x for consts in nested for x in consts])

    return closed.memo("constants with nested ones", make)


def _read_entries(mesh: Mesh, x: Value, ndim: int) -> Entries:
    """Return the `Explicit` axes of each dimension of an argument."""
    sharding = _sharding_of(x)
    if isinstance(sharding, (PartitionSpec, TypeSharding)):
        given: PartitionSpec = sharding.spec if isinstance(sharding, TypeSharding) else sharding
        return spec_entries(explicit_spec(mesh, given, ndim))
    if sharding is None or sharding.num_devices == 1:
        return ((),) * ndim
    spec = sharding._spec if sharding._mesh == mesh else partition_spec_from_tiles(mesh, sharding.tiles)
    if spec is None:
        raise ShardingTypeError(f"an argument must have a sharding over {mesh}, which has Explicit axes; got {sharding}. "
                                "Move it with device_put")
    return spec_entries(explicit_spec(mesh, spec, ndim))
