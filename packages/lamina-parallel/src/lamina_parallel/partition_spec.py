"""`PartitionSpec`: over which axes of a mesh each dimension of an array is split; in tiles, and read back from them."""
from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from lamina_ir import ShapedArray
from lamina_ir.extend import Tiles, tiles_of

from .mesh import Mesh, mesh_in_scope

__all__ = ["PartitionSpec", "UNCONSTRAINED", "mesh_in_text", "placement_text", "spec_of", "tiles_for"]


class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec(tuple):
    """How the dimensions of an array are split over the axes of a mesh, one entry for each dimension; a tuple.

    Args:
      entries: for a dimension the name of an axis, a tuple of names (the first is the slowest), None where it is not split, or
        `PartitionSpec.UNCONSTRAINED` where a constraint leaves it to the compiler. Dimensions without an entry are not split.
    Raises:
      TypeError: an entry cannot be a name.

    >>> P = PartitionSpec
    >>> P("x", None, ("y", "z"))
    PartitionSpec('x', None, ('y', 'z'))
    >>> P("x") == P("x"), len(P("x", "y")), P("x", "y")[1]
    (True, 2, 'y')
    """

    UNCONSTRAINED = UNCONSTRAINED

    def __new__(cls, *entries: Any) -> PartitionSpec:
        made = super().__new__(cls, [tuple(e) if isinstance(e, list) else e for e in entries])
        try:
            hash(made)
        except TypeError:
            raise TypeError("PartitionSpec: entries: expected names of axes, tuples of names, None or UNCONSTRAINED; got "
                            f"{tuple.__repr__(made):.80}") from None
        return made

    def __repr__(self) -> str:
        return f"PartitionSpec{tuple.__repr__(self)}"

    def __reduce__(self) -> Any:
        return PartitionSpec, tuple(self)

    def constraint(self, aval: ShapedArray) -> tuple[str, tuple[int, ...]]:
        """What `with_sharding_constraint` writes of it, in the mesh in scope."""
        mesh = mesh_in_scope()
        if mesh is None:
            raise ValueError(f"with_sharding_constraint: {self!r} names axes of a mesh, and no mesh is in scope. Write it in a "
                             "block `with mesh:`, or give NamedSharding(mesh, spec)")
        tiles, free = tiles_for(mesh, self, aval.ndim, "with_sharding_constraint")
        return placement_text(tiles, mesh.flat_devices, mesh), free


def checked_spec(mesh: Mesh, spec: Any, call: str) -> list[tuple[Hashable, ...] | None]:
    """The names of each entry, None for an unconstrained one. TypeError or ValueError for what is no spec of the mesh."""
    if not isinstance(spec, PartitionSpec):
        raise TypeError(f"{call}: spec: expected a PartitionSpec, as PartitionSpec('x', None); got {type(spec).__name__}: "
                        f"{spec!r:.60}")
    dims: list[tuple[Hashable, ...] | None] = []
    used: set[Hashable] = set()
    for entry in spec:
        if entry is UNCONSTRAINED:
            dims.append(None)
            continue
        names = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
        for name in names:
            try:
                known = name in mesh.shape
            except TypeError:
                known = False
            if not known:
                raise ValueError(f"{call}: {spec!r} names the axis {name!r}, which {mesh} has not. Name its axes: "
                                 f"{', '.join(map(repr, mesh.axis_names))}")
            if name in used:
                raise ValueError(f"{call}: {spec!r} names the axis {name!r} of {mesh} twice; an axis splits one dimension")
            used.add(name)
        dims.append(names)
    return dims


def tiles_for(mesh: Mesh, spec: PartitionSpec, ndim: int, call: str = "NamedSharding") -> tuple[Tiles, tuple[int, ...]]:
    """How an array lies on the devices of a mesh.

    Args:
      mesh: a mesh.
      spec: names of its axes for the dimensions of the array.
      ndim: how many dimensions it has.
      call: who asks, for messages.
    Returns:
      The tiles, which count the devices row by row, and the dimensions that the spec leaves to the compiler.
    Raises:
      TypeError: it is no spec.
      ValueError: it names what the mesh has not, an axis twice, or more dimensions than there are.

    >>> from lamina_parallel.testing import made_up_devices
    >>> tiles_for(Mesh(made_up_devices(4), "x"), PartitionSpec(None, "x"), 2)
    (Tiles(counts=(1, 4), copies=1, order=()), ())
    """
    dims = checked_spec(mesh, spec, call)
    if len(dims) > ndim:
        raise ValueError(f"{call}: {spec!r} has {len(dims)} entries, one for each dimension; the array has {ndim} "
                         f"dimension{'s' * (ndim != 1)}. Leave out entries, or reshape the array")
    free = tuple([d for d, names in enumerate(dims) if names is None])
    return _tiles(mesh, tuple([names or () for names in dims]) + ((),) * (ndim - len(dims))), free


def _tiles(mesh: Mesh, dims: tuple[tuple[Hashable, ...], ...]) -> Tiles:
    names = mesh.axis_names
    at = [names.index(name) for found in dims for name in found]
    rest = [a for a in range(len(names)) if a not in at]
    counts = tuple([math.prod([mesh.shape[name] for name in found]) for found in dims])
    return tiles_of(counts, mesh.size // math.prod(counts), _order(mesh.devices.shape, (*at, *rest)))


@lru_cache(maxsize=1024)
def _order(sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(np.arange(math.prod(sizes)).reshape(sizes).transpose(axes).reshape(-1).tolist())


def spec_of(mesh: Mesh, tiles: Tiles) -> PartitionSpec | None:
    """The spec in which a mesh says how an array lies on its devices.

    Args:
      mesh: a mesh.
      tiles: how the array lies on its devices, counted row by row.
    Returns:
      A spec, or None where the mesh has no words for it. It does not name axes of length 1, nor dimensions at the end that
      are not split.

    >>> from lamina_parallel.testing import made_up_devices
    >>> spec_of(Mesh(made_up_devices(4), "x"), Tiles((1, 4)))
    PartitionSpec(None, 'x')
    """
    if tiles.whole:
        return PartitionSpec()
    if tiles.devices != mesh.size:
        return None
    wanted = _lies(tiles)
    axes = [name for name, n in mesh.shape.items() if n > 1]
    for dims in _splits(mesh, tiles.counts, axes):
        if _lies(_tiles(mesh, dims)) == wanted:
            entries: list[Any] = [None if not d else d[0] if len(d) == 1 else d for d in dims]
            while entries and entries[-1] is None:
                entries.pop()
            return PartitionSpec(*entries)
    return None


def _lies(tiles: Tiles) -> Any:
    """The same for all tiles that give each device the same part."""
    places = tiles.positions()
    places.sort(axis=-1)
    return tiles.counts, places.tobytes()


def _splits(mesh: Mesh, counts: Sequence[int], axes: Sequence[Hashable]) -> Iterator[tuple[tuple[Hashable, ...], ...]]:
    """All ways of giving axes to dimensions so that the products are these counts."""
    if not counts:
        yield ()
        return
    for n in range(len(axes) + 1) if counts[0] > 1 else (0,):
        for chosen in itertools.permutations(axes, n):
            if math.prod([mesh.shape[name] for name in chosen]) == counts[0]:
                for others in _splits(mesh, counts[1:], [a for a in axes if a not in chosen]):
                    yield (chosen, *others)


def placement_text(tiles: Tiles, devices: Sequence[Any], mesh: Mesh | None = None) -> str:
    """What a `sharding_constraint` says of tiles on devices.

    It counts these by their ids, as a program need not lie on them in the order of the sharding. The names and lengths of a
    mesh's axes follow, where the names are words.

    Args:
      tiles: how the array lies.
      devices: on which ones, in this order.
      mesh: that they are of, or None.
    Returns:
      A text.

    >>> from lamina_parallel.testing import made_up_devices
    >>> placement_text(Tiles((4,)), made_up_devices(4)[::-1])
    '{devices=[4]3,2,1,0} on cpu:3,2,1,0'
    """
    ids = [d.id for d in devices]
    number = {i: n for n, i in enumerate(sorted(ids))}
    text = f"{tiles.renumbered([number[i] for i in ids]).text()} on {devices[0].platform}:{','.join(map(str, ids))}"
    if mesh is not None and all(isinstance(name, str) and name.isidentifier() for name in mesh.axis_names):
        text += f" of {','.join([f'{name}={n}' for name, n in mesh.shape.items()])}"
    return text


def mesh_in_text(text: str, devices: Sequence[Any]) -> Any:
    """The mesh that the text of a constraint speaks of.

    Args:
      text: from `placement_text`.
      devices: those it names.
    Returns:
      A mesh, or None where the text speaks of none.

    >>> from lamina_parallel.testing import made_up_devices
    >>> mesh_in_text("{replicated} on cpu:0,1 of x=1,y=2", made_up_devices(2))
    Mesh('x': 1, 'y': 2)
    """
    _, _, words = text.partition(" of ")
    if not words:
        return None
    axes = [axis.split("=") for axis in words.split(",")]
    grid = np.empty(len(devices), object)
    grid[:] = devices
    return Mesh(grid.reshape([int(n) for _, n in axes]), [name for name, _ in axes])
