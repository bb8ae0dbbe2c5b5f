"""The `shard_map`s of a program: the devices of their meshes, and the tiles of their operands."""
from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from .. import prims
from .._core.arg_checks import CLOSED_JAXPR, ITEMS, ArgType, optional, check_args
from .._core.axis_binding import Entry, is_entry, is_mesh
from ..errors import ShapeError
from .._core.jaxpr import ClosedJaxpr, Eqn, subprograms
from .._passes.program_facts import collect_facts
from .tiles import Tiles, make_tiles
from .._core.primitive import Primitive

__all__ = ["find_shard_maps", "mesh_to_tiles"]

Mesh = tuple[tuple[Hashable, ...], tuple[int, ...], tuple[Any, ...]]  # names, sizes, devices row by row


@check_args(closed=CLOSED_JAXPR)
def find_shard_maps(closed: ClosedJaxpr) -> tuple[Eqn, ...]:
    """Find the `shard_map`s of a program, one for each mesh, outer before inner ones.

    Args:
      closed: the program.
    Returns:
      Equations.
    Raises:
      ShapeError: two of them are on different devices, or one is inside a pmap, or a pmap is inside one.

    >>> from lamina_ir import parse
    >>> find_shard_maps(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    ()
    """
    return closed.memo("meshes", lambda: _find(closed)) if collect_facts(closed).has_shard_map else ()


def _find(closed: ClosedJaxpr) -> tuple[Eqn, ...]:
    found: dict[Mesh, Eqn] = {}
    todo: list[tuple[ClosedJaxpr, tuple[Primitive, str] | None]] = [(closed, None)]
    seen = {*todo}
    for program, around in todo:
        for e in program.jaxpr.eqns:
            if not e.primitive.subprograms:
                continue
            within = around
            if e.primitive is prims.shard_map_p or e.primitive is prims.xla_pmap_p:
                if around is not None and around[0] is not e.primitive:
                    raise ShapeError(f"{_describe(e)} is inside of {around[1]}: a pmap chooses devices by number, a shard_map "
                                     "names those of its mesh, so they cannot be nested. Use only one of the two")
                within = e.primitive, _describe(e)
            if e.primitive is prims.shard_map_p:
                found.setdefault(e.params["mesh"], e)
            fresh = [s for s in ((s, within) for s in subprograms(e)) if s not in seen]
            seen.update(fresh)
            todo += fresh
    every = tuple(found.values())
    for e in every[1:]:
        if {*e.params["mesh"][2]} != {*every[0].params["mesh"][2]}:
            raise ShapeError(f"{_describe(e)} runs on {_format_devices(e)}, and {_describe(every[0])} in the same program on "
                             f"{_format_devices(every[0])}. All meshes of a program must have the same devices, in any order "
                             "and shape; call one of them in a program of its own")
    return every


def _describe(e: Eqn) -> str:
    call = "pmap" if e.primitive is prims.xla_pmap_p else "shard_map"
    return f"{call} of `{e.params['name']}`{f' at {e.source}' if e.source else ''}"


_ENTRY = ArgType("a tuple of None, Indexed and Split", lambda v: isinstance(v, (tuple, list)) and all(map(is_entry, v)))


def _format_devices(e: Eqn) -> str:
    return "[" + ", ".join(map(str, e.params["mesh"][2])) + "]"


_MESH = ArgType("(names, sizes, devices), with a device for each position", is_mesh)


@check_args(mesh=_MESH, entry=_ENTRY, numbers=optional(ITEMS))
def mesh_to_tiles(mesh: Mesh, entry: Entry, numbers: Sequence[int] | None = None) -> Tiles:
    """Convert an entry of the `in_specs` or `out_specs` of a `shard_map` to tiles.

    Args:
      mesh: the mesh of the map.
      entry: for each dimension None, or the `Split` or `Indexed` with the mesh axes it is split over.
      numbers: the numbers of the mesh's devices, in row-major order; None: 0, 1, and so on.
    Returns:
      Tiles.
    Raises:
      ShapeError: there is not one number for each device.

    >>> from lamina_ir import prims
    >>> mesh_to_tiles((("x", "y"), (2, 2), (0, 1, 2, 3)), (prims.Split(("y",)), None))
    Tiles(counts=(2, 1), copies=2, order=(0, 2, 1, 3))
    """
    names, sizes, _ = mesh
    dims = [() if kind is None else tuple([names.index(name) for name in kind.names]) for kind in entry]
    split_axes = [a for axes in dims for a in axes]
    rest = [a for a in range(len(names)) if a not in split_axes]
    order = np.arange(math.prod(sizes)).reshape(sizes).transpose([*split_axes, *rest]).reshape(-1)
    if numbers is not None:
        if len(numbers) != len(order):
            raise ShapeError(f"mesh_to_tiles: numbers must have one entry for each of {len(order)} devices; got {len(numbers)}")
        order = np.asarray(numbers)[order]
    return make_tiles([math.prod([sizes[a] for a in axes]) for axes in dims], math.prod([sizes[a] for a in rest]),
                      order.tolist())
