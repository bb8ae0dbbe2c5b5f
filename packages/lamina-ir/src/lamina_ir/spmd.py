"""`AxisEnv`: the mapped axes around a program, and which devices a collective over some of them puts together.

Devices are numbered row by row over the axes, outermost axis first.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .errors import ShapeError, UnboundAxisError

__all__ = ["AxisEnv"]


class AxisEnv:
    """Names and sizes of the mapped axes around a program, outermost first. An inner name hides an equal outer one.

    >>> env = AxisEnv([("i", 2), ("j", 3)])
    >>> env.size, env.groups("j"), env.groups(("j", "i"))
    (6, [[0, 1, 2], [3, 4, 5]], [[0, 3, 1, 4, 2, 5]])
    """

    __slots__ = ("names", "sizes", "size", "_groups")

    def __init__(self, axes: Iterable[tuple[Any, int]] = ()) -> None:
        axes = list(axes)
        self.names = tuple(n for n, _ in axes)
        self.sizes = tuple(s for _, s in axes)
        self.size = int(np.prod(self.sizes, dtype=np.int64))
        self._groups: dict[Any, list[list[int]]] = {}

    def extend(self, name: Any, size: int) -> AxisEnv:
        """With one more axis inside."""
        return AxisEnv([*zip(self.names, self.sizes), (name, size)])

    def position(self, name: Any) -> int:
        """Which axis `name` is; UnboundAxisError when there is none."""
        for i in range(len(self.names) - 1, -1, -1):
            if self.names[i] is name or self.names[i] == name:
                return i
        raise UnboundAxisError(f"axis name {name!r} is not bound here; the mapped axes are "
                               f"{list(self.names) or 'none'}. Bind it with vmap or pmap")

    def axis_size(self, names: Any) -> int:
        """Product of the sizes of a name or a tuple of names."""
        return int(np.prod([self.sizes[self.position(n)] for n in _tuple(names)], dtype=np.int64))

    def groups(self, names: Any, axis_index_groups: Sequence[Sequence[int]] | None = None) -> list[list[int]]:
        """Devices that differ only along the named axes, each group in the order of its index along them.

        Args:
          names: a name or a tuple of names; the first is the slowest in the order.
          axis_index_groups: indices along the named axes that belong together; default: all.
        """
        key = (_tuple(names), None if axis_index_groups is None else tuple(map(tuple, axis_index_groups)))
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = self._make_groups(*key)
        return found

    def _make_groups(self, names: tuple[Any, ...], subgroups: Any) -> list[list[int]]:
        inside = [self.position(n) for n in names]
        if len(set(inside)) != len(inside):
            raise ShapeError(f"a collective names an axis twice: {names}")
        outside = [i for i in range(len(self.sizes)) if i not in inside]
        width = int(np.prod([self.sizes[i] for i in inside], dtype=np.int64))
        ids = np.arange(self.size).reshape(self.sizes).transpose(outside + inside).reshape(-1, width)
        rows = [list(map(int, row)) for row in ids]
        if subgroups is None:
            return rows
        if sorted(i for g in subgroups for i in g) != list(range(width)):
            raise ShapeError(f"axis_index_groups {subgroups} must hold each index in [0, {width}) exactly once")
        return [[row[i] for i in g] for row in rows for g in subgroups]

    def indices(self, names: Any) -> list[int]:
        """Each device's index along the named axes."""
        out = [0] * self.size
        for group in self.groups(names):
            for i, device in enumerate(group):
                out[device] = i
        return out


def _tuple(names: Any) -> tuple[Any, ...]:
    return names if type(names) is tuple else (names,)
