"""`AbstractMesh`: names and sizes of the axes of a mesh, without devices; `AxisType`."""
from __future__ import annotations

import enum
import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from typing_extensions import override

__all__ = ["AbstractMesh", "AxisType", "check_axis_types"]


class AxisType(enum.Enum):
    """What decides how arrays are split over a mesh axis.

    All axes are `Auto`: the compiler chooses, and sharding constraints guide it. `Explicit`, which makes shardings part of
    the types of arrays, exists for comparisons only; `shard_map` takes the axes that are `Manual` as an argument.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    @override
    def __repr__(self) -> str:
        return self.name


def check_axis_types(call: str, axis_types: AxisType | Sequence[AxisType] | None, count: int) -> None:
    """Check the types of `count` axes, which must be `Auto`.

    Raises:
      TypeError: one is not an AxisType.
      ValueError: one is not `Auto`, or their number is wrong.
    """
    if axis_types is None:
        return
    given = (axis_types,) * count if isinstance(axis_types, AxisType) else tuple(axis_types)
    for kind in given:
        if not isinstance(kind, AxisType):
            raise TypeError(f"{call}: axis_types: expected AxisType.Auto for each axis; got {type(kind).__name__}: "
                            f"{kind!r:.60}")
        if kind is not AxisType.Auto:
            raise ValueError(f"{call}: axis_types: expected AxisType.Auto for each axis; got AxisType.{kind.name}. Shardings "
                             "are not part of types here: the compiler chooses them, and with_sharding_constraint guides it")
    if len(given) != count:
        raise ValueError(f"{call}: axis_types: expected one for each of {count} axes; got {len(given)}")


class AbstractMesh:
    """The names and sizes of the axes of a mesh, without its devices.

    `shard_map` accepts one: it runs over the devices of the mesh in scope, which must have these axes.

    Args:
      axis_sizes: the size of each axis.
      axis_names: a name for each.
      axis_types: None, or `AxisType.Auto` for all axes or each.
    Attributes:
      axis_sizes, axis_names, axis_types: tuples.
      shape: name -> size, in order.
      size: the number of devices of such a mesh.
      empty: whether there are no axes.
    Raises:
      TypeError: a size is not an int.
      ValueError: a size is below 1, a name occurs twice, or the numbers of sizes and names differ.

    >>> mesh = AbstractMesh((4, 2), ("x", "y"))
    >>> mesh, mesh.size, mesh.shape["y"]
    (AbstractMesh('x': 4, 'y': 2), 8, 2)
    """

    axis_sizes: tuple[int, ...]
    axis_names: tuple[Hashable, ...]

    def __init__(self, axis_sizes: Sequence[int], axis_names: Hashable | Sequence[Hashable],
                 axis_types: AxisType | Sequence[AxisType] | None = None) -> None:
        names = tuple(axis_names) if isinstance(axis_names, (tuple, list)) else (axis_names,)
        sizes = tuple(axis_sizes)
        for size in sizes:
            if not isinstance(size, int) or isinstance(size, bool):
                raise TypeError(f"AbstractMesh: axis_sizes: expected ints; got {type(size).__name__}: {size!r:.60}")
            if size < 1:
                raise ValueError(f"AbstractMesh: axis_sizes: a size must be at least 1; got {size}")
        if len(sizes) != len(names):
            raise ValueError(f"AbstractMesh: axis_names: expected a name for each of {len(sizes)} axes; got {names}")
        if len(set(names)) < len(names):
            raise ValueError(f"AbstractMesh: axis_names: a name occurs twice in {names}. Give each axis its own name")
        check_axis_types("AbstractMesh", axis_types, len(names))
        self.axis_sizes, self.axis_names = sizes, names

    @property
    def axis_types(self) -> tuple[AxisType, ...]:
        return (AxisType.Auto,) * len(self.axis_names)

    @property
    def shape(self) -> OrderedDict[Hashable, int]:
        return OrderedDict(zip(self.axis_names, self.axis_sizes))

    @property
    def shape_tuple(self) -> tuple[tuple[Hashable, int], ...]:
        """(name, size) of each axis."""
        return tuple(zip(self.axis_names, self.axis_sizes))

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        return not self.axis_names

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """This object, as for a `Mesh`."""
        return self

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractMesh) and self.shape_tuple == other.shape_tuple

    @override
    def __hash__(self) -> int:
        return hash(self.shape_tuple)

    @override
    def __repr__(self) -> str:
        return f"AbstractMesh({', '.join([f'{name!r}: {n}' for name, n in self.shape_tuple])})"
