"""How `pmap` lays its rows, in the words of a spec: what becomes of each dimension of an array, and along which axes of a grid
of devices, row by row, its parts lie.

    ShardingSpec((Unstacked(2), NoSharding()), (ShardedAxis(axis=0), Replicated(replicas=4)))

is an array of two rows, each on four devices that follow one another.
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from lamina_ir.extend import Tiles, tiles_of

__all__ = ["Chunked", "NoSharding", "Replicated", "ShardedAxis", "ShardingSpec", "Unstacked", "spec_of", "tiles_for"]


class NoSharding(NamedTuple):
    """A dimension that each device has all of."""


class Unstacked(NamedTuple):
    """A dimension of so many rows, one on a device, which does not see it."""

    size: int

    def __repr__(self) -> str:
        return f"Unstacked({self.size})"


class Chunked(NamedTuple):
    """A dimension in equal parts of several rows."""

    chunks: tuple[int, ...]


class ShardedAxis(NamedTuple):
    """An axis of the grid of devices along which the rows of a dimension lie: of number `axis` among those that are split."""

    axis: int


class Replicated(NamedTuple):
    """An axis of the grid along which so many devices hold the same."""

    replicas: int


class ShardingSpec(NamedTuple):
    """How an array of rows lies on a grid of devices.

    Attributes:
      sharding: for each dimension `NoSharding()` or `Unstacked(size)`.
      mesh_mapping: for each axis of the grid `ShardedAxis(axis)` or `Replicated(replicas)`.

    >>> ShardingSpec((NoSharding(), Unstacked(2)), (ShardedAxis(0),)).indices((3, 2)).tolist()
    [(slice(None, None, None), 0), (slice(None, None, None), 1)]
    """

    sharding: tuple[Any, ...]
    mesh_mapping: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"ShardingSpec({self.sharding!r}, {self.mesh_mapping!r})"

    def indices(self, shape: Any) -> np.ndarray:
        """For each device, in order, its part of an array of this shape: for each dimension a slice, or the number of the row.

        Raises:
          ValueError: an array of this shape does not lie so.
        """
        counts = [k.size if type(k) is Unstacked else 1 for k in self.sharding]
        if len(shape) != len(counts) or any(type(k) is Unstacked and n != k.size for n, k in zip(shape, self.sharding)):
            raise ValueError(f"ShardingSpec.indices: {self!r} is of arrays with {len(counts)} dimensions, and "
                             f"{[k for k in counts if k > 1]} rows; got the shape {tuple(shape)}")
        places = tiles_for("ShardingSpec.indices", self)[0].positions()
        found = np.empty(places.size, object)
        for at in np.ndindex(*places.shape):
            found[places[at]] = tuple([i if type(k) is Unstacked else slice(None) for i, k in zip(at, self.sharding)])
        return found


def spec_of(tiles: Tiles) -> ShardingSpec | None:
    """What a tile assignment is in these words; None where the devices are in no order of axes."""
    split = [d for d, n in enumerate(tiles.counts) if n > 1]
    places = tiles.positions().reshape([tiles.counts[d] for d in split] + [tiles.copies])
    strides = [int(np.take(places, 1, k).flat[0] - places.flat[0]) for k in range(len(split))]
    left, mapping = places.size, []
    for k in sorted(range(len(split)), key=lambda k: -strides[k]):
        width = strides[k] * places.shape[k]
        if width < 1 or left % width:
            return None
        mapping += [Replicated(left // width)] * (left > width) + [ShardedAxis(k)]
        left = strides[k]
    mapping += [Replicated(left)] * (left > 1)
    spec = ShardingSpec(tuple([Unstacked(n) if n > 1 else NoSharding() for n in tiles.counts]), tuple(mapping))
    again = tiles_for("spec_of", spec)[0].positions()
    return spec if np.array_equal(np.sort(again, -1), np.sort(tiles.positions(), -1)) else None


def tiles_for(call: str, spec: Any) -> tuple[Tiles, int]:
    """(The tile assignment of a spec, of how many devices it is).

    Raises:
      TypeError: it is no spec.
      ValueError: it splits a dimension in parts of several rows, or its grid has not each dimension that is split once.
    """
    if not isinstance(spec, ShardingSpec):
        raise TypeError(f"{call}: sharding_spec: expected a ShardingSpec, as another placement's .sharding_spec; got "
                        f"{type(spec).__name__}: {spec!r:.80}. PmapSharding.default(shape, dim, devices) needs none")
    for d, kind in enumerate(spec.sharding):
        if type(kind) not in (NoSharding, Unstacked):
            raise ValueError(f"{call}: sharding_spec: dimension {d} is {kind!r}; pmap lays one row on a device, NoSharding() "
                             "or Unstacked(size). NamedSharding has parts of several rows")
    rows = [k.size for k in spec.sharding if type(k) is Unstacked]
    over = [m.axis for m in spec.mesh_mapping if type(m) is ShardedAxis]
    if sorted(over) != [*range(len(rows))] or any(type(m) not in (ShardedAxis, Replicated) for m in spec.mesh_mapping):
        raise ValueError(f"{call}: sharding_spec: mesh_mapping must have ShardedAxis(k) once for each of the {len(rows)} "
                         f"dimensions that are split, and Replicated(n); got {spec.mesh_mapping!r}")
    sizes = [rows[m.axis] if type(m) is ShardedAxis else m.replicas for m in spec.mesh_mapping]
    at = {m.axis: i for i, m in enumerate(spec.mesh_mapping) if type(m) is ShardedAxis}
    copies = [i for i, m in enumerate(spec.mesh_mapping) if type(m) is Replicated]
    places = np.arange(math.prod(sizes)).reshape(sizes).transpose([*[at[k] for k in range(len(rows))], *copies])
    counts = [k.size if type(k) is Unstacked else 1 for k in spec.sharding]
    return tiles_of(counts, places.size // math.prod(rows), places.reshape(-1).tolist()), places.size
