"""The running loop iterations and the position on mapped axes, for error reports.

The NumPy evaluator records each iteration that it begins, and the axes over which it runs.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from .._util.short_repr import short_repr
from .._types.param_values import UnnamedAxis
from ..typing import AxisName, Value
from .source_info import Source

__all__ = ["AxisPosition", "LoopIteration", "axes_scope", "axis_positions", "begin_iteration", "format_axes",
           "format_iterations", "loop_scope", "run_per_device", "running_axis_positions", "running_device",
           "running_iterations"]


class LoopIteration(NamedTuple):
    """One iteration of a loop.

    Attributes:
      loop: the name of the loop's primitive.
      number: the index of the iteration, from 0; of a scan, the index of the slice.
      source: the source line of the loop, or None.

    >>> LoopIteration("scan", 3, None).number
    3
    """

    loop: str
    number: int
    source: Source | None


class AxisPosition(NamedTuple):
    """A position on one mapped axis.

    Attributes:
      name: the name of the axis.
      number: the index along it.
      size: the size of the axis.

    >>> AxisPosition("i", 2, 4).number
    2
    """

    name: AxisName
    number: int
    size: int


class _Running(threading.local):
    loops: tuple[list[Any], ...] = ()  # outermost first: [primitive name, source, iteration or None before the first]
    device: int | None = None
    # Outermost first: (AxisEnv, the position on its axes that runs by itself, or None while all run in lockstep).
    axes: tuple[tuple[Any, int | None], ...] = ()


_running = _Running()


class loop_scope:
    """Context manager for a running loop, which calls `begin_iteration` for each iteration."""

    __slots__ = ("loop", "outer")

    def __init__(self, op: str, source: Source | None) -> None:
        self.loop = [op, source, None]

    def __enter__(self) -> None:
        self.outer = _running.loops
        _running.loops = (*self.outer, self.loop)

    def __exit__(self, *error: object) -> None:
        _running.loops = self.outer


def begin_iteration(index: int) -> None:
    """Record that an iteration of the innermost loop begins."""
    if _running.loops:
        _running.loops[-1][2] = index


def running_iterations() -> tuple[LoopIteration, ...]:
    """Return the loop iterations that the NumPy evaluator runs now in this thread, outermost first.

    Returns:
      A `LoopIteration` for each loop that records its iterations.

    >>> running_iterations()
    ()
    """
    return tuple([LoopIteration(op, index, source) for op, source, index in _running.loops if index is not None])


def run_per_device(size: int, run: Callable[[int], Sequence[Value]]) -> list[tuple[Value, ...]]:
    """Run each device by itself and return, for each result, one value per device; `run(device)` returns a device's
    results."""
    outer_device, axes = _running.device, _running.axes
    results = []
    try:
        for device in range(size):
            if size > 1:
                _running.device = device
            if axes:
                _running.axes = (*axes[:-1], (axes[-1][0], device))
            results.append(run(device))
    finally:
        _running.device, _running.axes = outer_device, axes
    return list(zip(*results))


class axes_scope:
    """Context manager for code that runs in lockstep over the axes of `env`, which include those of an enclosing
    block."""

    __slots__ = ("env", "outer")

    def __init__(self, env: Any) -> None:
        self.env = env

    def __enter__(self) -> None:
        self.outer = outer = _running.axes
        _running.axes = (*(outer[:-1] if outer and outer[-1][1] is None else outer), (self.env, None))

    def __exit__(self, *error: object) -> None:
        _running.axes = self.outer


def running_axis_positions(position: int = 0) -> tuple[AxisPosition, ...]:
    """Return the position on the mapped axes at which the NumPy evaluator runs now in this thread.

    Args:
      position: which of the positions that run in lockstep to return.
    Returns:
      An `AxisPosition` for each axis, outermost first.

    >>> running_axis_positions()
    ()
    """
    found: list[AxisPosition] = []
    for env, at in _running.axes:
        found += axis_positions(zip(env.names, env.sizes), position if at is None else at)
    return tuple(found)


def axis_positions(axes: Iterable[tuple[AxisName, int]], position: int) -> tuple[AxisPosition, ...]:
    """Convert a position in row-major order over some axes to a position on each axis.

    Args:
      axes: (name, size) of each axis, outermost first.
      position: the position, an int.
    Returns:
      An `AxisPosition` for each axis.
    Raises:
      TypeError, ValueError: invalid sizes, or a position out of range.

    >>> axis_positions([("i", 2), ("j", 3)], 4)
    (AxisPosition(name='i', number=1, size=2), AxisPosition(name='j', number=1, size=3))
    """
    try:
        given = [(name, index(n)) for name, n in axes]
        numbers = np.unravel_index(position, [n for _, n in given]) if given else ()
    except (TypeError, ValueError) as error:
        raise type(error)(f"axis_positions: expected (name, size) pairs, and a position in range; got {short_repr(axes)} "
                          f"and {short_repr(position)}") from None
    return tuple([AxisPosition(name, int(i), n) for (name, n), i in zip(given, numbers)])


def _check_triples(call: str, name: str, value: object) -> None:
    if not isinstance(value, (tuple, list)) or not all(isinstance(v, tuple) and len(v) == 3 for v in value):
        raise TypeError(f"{call}: {name} must be a list of triples; got {short_repr(value)}")


def format_axes(places: Iterable[AxisPosition]) -> str:
    """Format positions on mapped axes for messages.

    Args:
      places: `AxisPosition`s, outermost axis first.
    Returns:
      Text; empty if there are none.

    >>> format_axes([AxisPosition("i", 3, 4), AxisPosition("j", 0, 2)])
    "index 3 of axis 'i' of 4, index 0 of axis 'j' of 2"
    """
    _check_triples("format_axes", "places", places)
    return ", ".join([f"index {i} of " + ("the map" if isinstance(name, UnnamedAxis) else f"axis {name!r}") + f" of {size}"
                      for name, i, size in places])


def running_device() -> int | None:
    """Return the device that the NumPy evaluator runs by itself now in this thread.

    Returns:
      Its position on the mapped axes; None if all run in lockstep or there is only one.

    >>> running_device() is None
    True
    """
    return _running.device


def format_iterations(iterations: Iterable[tuple[str, int, Source | None]]) -> str:
    """Format loop iterations for messages, as a suffix of a sentence.

    Args:
      iterations: `LoopIteration`s, outermost loop first.
    Returns:
      Text, innermost loop first, that begins with a comma; empty if there are none.

    >>> format_iterations([LoopIteration("scan", 3, None)])
    ', at index 3 of the scan'
    """
    _check_triples("format_iterations", "iterations", iterations)
    return "".join([f", at index {i} of the {op}" + (f" at {source}" if source else "")
                    for op, i, source in reversed(list(iterations))])
