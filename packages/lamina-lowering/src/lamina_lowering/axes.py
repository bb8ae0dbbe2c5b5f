"""Axis names while lowering: which replicas form the groups of a collective, and where a replica stands on an axis.

Replica numbers are the row-major index over (axes, outermost first, then the replicas no axis accounts for).
"""
from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from lamina_ir import AxisEnv as Layout
from lamina_ir import ShapeError, UnboundAxisError

__all__ = ["AxisEnv"]

_SPARE = object()  # the name of the replicas no axis accounts for


class AxisEnv:
    """Mapped axes in force.

    Args:
      names: axis names, outermost first; an inner axis hides an outer one of the same name.
      sizes: their lengths.
      replicas: replicas the program runs on; a multiple of the product of `sizes`.

    >>> AxisEnv(("i", "j"), (4, 2), 8).groups(("i",)).tolist()
    [[0, 2, 4, 6], [1, 3, 5, 7]]
    """

    __slots__ = ("names", "sizes", "replicas", "spare", "_layout")

    def __init__(self, names: Sequence[Hashable] = (), sizes: Sequence[int] = (), replicas: int = 1) -> None:
        self.names = tuple(names)
        self.sizes = tuple(sizes)
        self.replicas = replicas
        used = 1
        for size in self.sizes:
            used *= size
        if used == 0 or replicas % used:
            axes = dict(zip(self.names, self.sizes, strict=True))
            raise ShapeError(f"lower: {replicas} replicas cannot be laid out over axes {axes}; their number must be a "
                             f"multiple of {used}")
        self.spare = replicas // used
        self._layout: Layout | None = None

    def key(self) -> tuple[Any, ...]:
        return self.names, self.sizes, self.replicas

    def extend(self, name: Hashable, size: int) -> AxisEnv:
        """This environment inside one more mapped axis."""
        return AxisEnv((*self.names, name), (*self.sizes, size), self.replicas)

    def position(self, name: Hashable) -> int:
        for i in range(len(self.names) - 1, -1, -1):
            if self.names[i] == name:
                return i
        bound = ", ".join(map(repr, self.names)) or "none"
        raise UnboundAxisError(f"lower: axis name {name!r} is not bound by an enclosing pmap; bound: {bound}")

    def size(self, name: Hashable) -> int:
        return self.sizes[self.position(name)]

    def stride(self, name: Hashable) -> int:
        """How far apart in replica number two neighbours on the axis are."""
        stride = self.spare
        for size in self.sizes[self.position(name) + 1:]:
            stride *= size
        return stride

    def groups(self, axes: Sequence[Hashable], index_groups: Sequence[Sequence[int]] | None = None) -> np.ndarray:
        """Replica numbers `[groups, members]`; members in the order of their index over `axes`, first axis slowest."""
        for name in axes:
            self.position(name)
        if index_groups is not None and len({len(group) for group in index_groups}) != 1:
            raise ShapeError(f"lower: axis_index_groups must have equal sizes; got {list(map(list, index_groups))}")
        if self._layout is None:
            self._layout = Layout([*zip(self.names, self.sizes, strict=True), (_SPARE, self.spare)])
        return np.array(self._layout.groups(tuple(axes), index_groups), np.int64)
