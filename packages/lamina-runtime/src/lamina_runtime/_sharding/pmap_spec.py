"""Describe the shardings of `pmap` as `ShardingSpec`.

A spec says how each dimension of an array is split, and over which axes of a row-major grid of devices:

    ShardingSpec((Unstacked(2), NoSharding()), (ShardedAxis(axis=0), Replicated(replicas=4)))

is an array of length 2 along its first dimension, with each element on four consecutive devices.
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple
from collections.abc import Sequence

import numpy as np
from lamina_ir.extend import Tiles, make_tiles
from typing_extensions import override

__all__ = ["Chunked", "NoSharding", "Replicated", "ShardedAxis", "ShardingSpec", "Unstacked", "spec_from_tiles",
           "tiles_from_spec"]


class NoSharding(NamedTuple):
    """A dimension that is not split."""


class Unstacked(NamedTuple):
    """A mapped dimension of length `size`: one element per device, and the mapped function does not see it."""

    size: int

    @override
    def __repr__(self) -> str:
        return f"Unstacked({self.size})"


class Chunked(NamedTuple):
    """A dimension that is split into equal parts of several elements."""

    chunks: tuple[int, ...]


class ShardedAxis(NamedTuple):
    """An axis of the device grid over which a dimension is split: number `axis` of the split dimensions."""

    axis: int


class Replicated(NamedTuple):
    """An axis of the device grid along which `replicas` devices hold copies."""

    replicas: int


class ShardingSpec(NamedTuple):
    """The sharding of a mapped array over a grid of devices.

    Attributes:
      sharding: for each dimension `NoSharding()` or `Unstacked(size)`.
      mesh_mapping: for each axis of the grid `ShardedAxis(axis)` or `Replicated(replicas)`.

    >>> ShardingSpec((NoSharding(), Unstacked(2)), (ShardedAxis(0),)).indices((3, 2)).tolist()
    [(slice(None, None, None), 0), (slice(None, None, None), 1)]
    """

    sharding: tuple[Any, ...]
    mesh_mapping: tuple[Any, ...]

    @override
    def __repr__(self) -> str:
        return f"ShardingSpec({self.sharding!r}, {self.mesh_mapping!r})"

    def indices(self, shape: Sequence[int]) -> np.ndarray:
        """Return the part of each device, in order, of an array of this shape.

        A part is a tuple with a slice for each unsplit dimension, and an index for each mapped one.

        Raises:
          ValueError: arrays of this shape cannot have this sharding.
        """
        counts = [k.size if type(k) is Unstacked else 1 for k in self.sharding]
        if len(shape) != len(counts) or any(type(k) is Unstacked and n != k.size for n, k in zip(shape, self.sharding)):
            raise ValueError(f"ShardingSpec.indices: {self!r} is for arrays with {len(counts)} dimensions, and mapped "
                             f"dimensions of lengths {[k for k in counts if k > 1]}; got the shape {tuple(shape)}")
        positions = tiles_from_spec("ShardingSpec.indices", self)[0].positions()
        found = np.empty(positions.size, object)
        for at in np.ndindex(*positions.shape):
            found[positions[at]] = tuple([i if type(k) is Unstacked else slice(None)
                                          for i, k in zip(at, self.sharding)])
        return found


def spec_from_tiles(tiles: Tiles) -> ShardingSpec | None:
    """Return the spec of a tile assignment; None if its devices are not in the order of any grid.

    The stride of a split dimension is the distance between the devices of consecutive tiles. Ordered by stride, the
    split dimensions are the axes of the grid, slowest first. A gap between two strides is a `Replicated` axis.
    """
    split = [d for d, n in enumerate(tiles.counts) if n > 1]
    positions = tiles.positions().reshape([tiles.counts[d] for d in split] + [tiles.copies])
    strides = [int(np.take(positions, 1, k).flat[0] - positions.flat[0]) for k in range(len(split))]
    left, mapping = positions.size, []
    for k in sorted(range(len(split)), key=lambda k: -strides[k]):
        width = strides[k] * positions.shape[k]
        if width < 1 or left % width:
            return None
        mapping += [Replicated(left // width)] * (left > width) + [ShardedAxis(k)]
        left = strides[k]
    mapping += [Replicated(left)] * (left > 1)
    spec = ShardingSpec(tuple([Unstacked(n) if n > 1 else NoSharding() for n in tiles.counts]), tuple(mapping))
    described = tiles_from_spec("spec_from_tiles", spec)[0].positions()
    return spec if np.array_equal(np.sort(described, -1), np.sort(tiles.positions(), -1)) else None


def tiles_from_spec(call: str, spec: ShardingSpec) -> tuple[Tiles, int]:
    """Return (the tile assignment of a spec, its number of devices).

    Raises:
      TypeError: `spec` is not a ShardingSpec.
      ValueError: a dimension is split into parts of several elements, or the grid does not have each split dimension
        exactly once.
    """
    if not isinstance(spec, ShardingSpec):
        raise TypeError(f"{call}: sharding_spec: expected a ShardingSpec, as another sharding's .sharding_spec; got "
                        f"{type(spec).__name__}: {spec!r:.80}. PmapSharding.default(shape, dim, devices) needs none")
    for d, kind in enumerate(spec.sharding):
        if type(kind) not in (NoSharding, Unstacked):
            raise ValueError(f"{call}: sharding_spec: dimension {d} must be NoSharding() or Unstacked(size), because "
                             f"pmap puts one element on each device; got {kind!r}. Use NamedSharding for parts of "
                             "several elements")
    lengths = [k.size for k in spec.sharding if type(k) is Unstacked]
    axes = [m.axis for m in spec.mesh_mapping if type(m) is ShardedAxis]
    if sorted(axes) != [*range(len(lengths))] or any(
            type(m) not in (ShardedAxis, Replicated) for m in spec.mesh_mapping):
        raise ValueError(f"{call}: sharding_spec: mesh_mapping must have ShardedAxis(k) once for each of the "
                         f"{len(lengths)} split dimensions, and Replicated(n); got {spec.mesh_mapping!r}")
    sizes = [lengths[m.axis] if type(m) is ShardedAxis else m.replicas for m in spec.mesh_mapping]
    grid_axis = {m.axis: i for i, m in enumerate(spec.mesh_mapping) if type(m) is ShardedAxis}
    copies = [i for i, m in enumerate(spec.mesh_mapping) if type(m) is Replicated]
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    numbers = numbers.transpose([*[grid_axis[k] for k in range(len(lengths))], *copies])
    counts = [k.size if type(k) is Unstacked else 1 for k in spec.sharding]
    return make_tiles(counts, numbers.size // math.prod(lengths), numbers.reshape(-1).tolist()), numbers.size
