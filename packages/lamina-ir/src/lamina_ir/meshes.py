"""Which devices the `shard_map`s of a program name, and how what they take lies on these."""
from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from . import prims
from .arguments import CLOSED, ITEMS, Kind, optional, takes
from .binds import is_entry, is_mesh
from .errors import ShapeError
from .program import ClosedJaxpr, Eqn, subprograms
from .tiles import Tiles, tiles_of

__all__ = ["mesh_tiles", "meshes"]

Mesh = tuple[tuple[Hashable, ...], tuple[int, ...], tuple[Any, ...]]  # names, sizes, devices row by row


@takes(closed=CLOSED)
def meshes(closed: ClosedJaxpr) -> tuple[Eqn, ...]:
    """The `shard_map`s of a program, one for each mesh, those outside before those inside.

    Args:
      closed: the program.
    Returns:
      Equations.
    Raises:
      ShapeError: two of them are of different devices, or one stands inside of a pmap, or a pmap inside of it.

    >>> from lamina_ir import parse
    >>> meshes(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    ()
    """
    return closed.memo("meshes", lambda: _find(closed))


def _find(closed: ClosedJaxpr) -> tuple[Eqn, ...]:
    found: dict[Mesh, Eqn] = {}
    todo: list[tuple[ClosedJaxpr, Any]] = [(closed, None)]
    seen = {*todo}
    for program, around in todo:
        for e in program.jaxpr.eqns:
            if not e.primitive.subprograms:
                continue
            within = around
            if e.primitive is prims.shard_map_p or e.primitive is prims.xla_pmap_p:
                if around is not None and around[0] is not e.primitive:
                    raise ShapeError(f"{_words(e)} stands inside of {around[1]}: a pmap counts devices, and a shard_map "
                                     "names those of its mesh. Use one of the two, or call them one after the other")
                within = e.primitive, _words(e)
            if e.primitive is prims.shard_map_p:
                found.setdefault(e.params["mesh"], e)
            fresh = [s for s in ((s, within) for s in subprograms(e)) if s not in seen]
            seen.update(fresh)
            todo += fresh
    every = tuple(found.values())
    for e in every[1:]:
        if {*e.params["mesh"][2]} != {*every[0].params["mesh"][2]}:
            raise ShapeError(f"{_words(e)} runs on {_names(e)}, and {_words(every[0])} in the same program on "
                             f"{_names(every[0])}. "
                             "The meshes of a program have the same devices, in any order and shape; call the one on others by "
                             "itself")
    return every


def _words(e: Eqn) -> str:
    call = "pmap" if e.primitive is prims.xla_pmap_p else "shard_map"
    return f"{call} of `{e.params['name']}`{f' at {e.source}' if e.source else ''}"


_ENTRY = Kind("a tuple of None, Indexed and Split", lambda v: isinstance(v, (tuple, list)) and all(map(is_entry, v)))


def _names(e: Eqn) -> str:
    return "[" + ", ".join(map(str, e.params["mesh"][2])) + "]"


@takes(mesh=Kind("(names, sizes, devices), with a device for each place", is_mesh), entry=_ENTRY, numbers=optional(ITEMS))
def mesh_tiles(mesh: Mesh, entry: Sequence[Any], numbers: Sequence[int] | None = None) -> Tiles:
    """How an array with this entry of a `shard_map` lies on devices.

    Args:
      mesh: that of the map.
      entry: for each dimension None, or the `Split` or `Indexed` that says along which axes of the mesh it lies.
      numbers: of the mesh's devices, row by row; None: 0, 1, and so on.
    Returns:
      Tiles.
    Raises:
      ShapeError: the numbers are not as many as the devices.

    >>> mesh_tiles((("x", "y"), (2, 2), (0, 1, 2, 3)), (prims.Split(("y",)), None))
    Tiles(counts=(2, 1), copies=2, order=(0, 2, 1, 3))
    """
    names, sizes, _ = mesh
    dims = [() if kind is None else tuple([names.index(name) for name in kind.names]) for kind in entry]
    over = [a for axes in dims for a in axes]
    rest = [a for a in range(len(names)) if a not in over]
    order = np.arange(math.prod(sizes)).reshape(sizes).transpose([*over, *rest]).reshape(-1)
    if numbers is not None:
        if len(numbers) != len(order):
            raise ShapeError(f"mesh_tiles: numbers must say one device for each of {len(order)} places; got {len(numbers)}")
        order = np.asarray(numbers)[order]
    return tiles_of([math.prod([sizes[a] for a in axes]) for axes in dims], math.prod([sizes[a] for a in rest]), order.tolist())
