"""Which turns of which loops are running, and where on the mapped axes, for the reports of what fails. The NumPy evaluator
notes each turn that it begins, and the axes that it runs over."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ._excerpt import excerpt
from .params import UnnamedAxis

__all__ = ["OnAxis", "Turn", "axes_text", "begins", "by_device", "entering", "on_axes", "places_at",
           "running_device", "running_places", "running_turns", "turns_text"]


class Turn(NamedTuple):
    """One turn of a loop.

    Attributes:
      loop: the name of the loop's op.
      number: which turn, counted from 0; of a loop over slices, the number of the slice.
      source: the loop's line, or None.

    >>> Turn("scan", 3, None).number
    3
    """

    loop: str
    number: int
    source: Any


class OnAxis(NamedTuple):
    """Where something stands on one mapped axis.

    Attributes:
      name: of the axis.
      number: the index along it.
      size: how many there are.

    >>> OnAxis("i", 2, 4).number
    2
    """

    name: Any
    number: int
    size: int


class _Running(threading.local):
    loops: tuple[list[Any], ...] = ()  # outermost first: op, its line, and the turn once one has begun
    device: int | None = None
    # Outermost first: an AxisEnv, and where on its axes a part runs by itself; None while all of it runs in lockstep.
    around: tuple[tuple[Any, int | None], ...] = ()


_running = _Running()


class entering:
    """A block in which a loop runs, which tells with `begins` of each turn."""

    __slots__ = ("loop", "around")

    def __init__(self, op: str, source: Any) -> None:
        self.loop = [op, source, None]

    def __enter__(self) -> None:
        self.around = _running.loops
        _running.loops = (*self.around, self.loop)

    def __exit__(self, *error: object) -> None:
        _running.loops = self.around


def begins(index: int) -> None:
    """A turn of the innermost loop begins."""
    if _running.loops:
        _running.loops[-1][2] = index


def running_turns() -> tuple[Turn, ...]:
    """The turns that the NumPy evaluator runs now in this thread, of the outermost loop first.

    Returns:
      A `Turn` for each loop; none for a loop that does not tell.

    >>> running_turns()
    ()
    """
    return tuple([Turn(op, index, source) for op, source, index in _running.loops if index is not None])


def by_device(size: int, run: Callable[[int], Sequence[Any]]) -> list[tuple[Any, ...]]:
    """For each result a value per device, where `run(device)` gives the results of one: devices that run by themselves."""
    device_around, around = _running.device, _running.around
    rows = []
    try:
        for device in range(size):
            if size > 1:
                _running.device = device
            if around:
                _running.around = (*around[:-1], (around[-1][0], device))
            rows.append(run(device))
    finally:
        _running.device, _running.around = device_around, around
    return list(zip(*rows))


class on_axes:
    """A block that runs over the axes of `env` in lockstep: those around it, and perhaps more of them."""

    __slots__ = ("env", "around")

    def __init__(self, env: Any) -> None:
        self.env = env

    def __enter__(self) -> None:
        self.around = around = _running.around
        _running.around = (*(around[:-1] if around and around[-1][1] is None else around), (self.env, None))

    def __exit__(self, *error: object) -> None:
        _running.around = self.around


def running_places(position: int = 0) -> tuple[OnAxis, ...]:
    """Where on the mapped axes the NumPy evaluator runs now in this thread.

    Args:
      position: of those that run in lockstep, which one is meant.
    Returns:
      An `OnAxis` for each axis, of the outermost first.

    >>> running_places()
    ()
    """
    found: list[OnAxis] = []
    for env, at in _running.around:
        found += places_at(zip(env.names, env.sizes), position if at is None else at)
    return tuple(found)


def places_at(axes: Iterable[tuple[Any, int]], position: int) -> tuple[OnAxis, ...]:
    """Where a position, counted row by row over some axes, is on each of them.

    Args:
      axes: name and size of each, of the outermost first.
      position: the number.
    Returns:
      An `OnAxis` for each.
    Raises:
      TypeError, ValueError: these are no sizes, or the position is none among them.

    >>> places_at([("i", 2), ("j", 3)], 4)
    (OnAxis(name='i', number=1, size=2), OnAxis(name='j', number=1, size=3))
    """
    try:
        given = [(name, index(n)) for name, n in axes]
        numbers = np.unravel_index(position, [n for _, n in given]) if given else ()
    except (TypeError, ValueError) as error:
        raise type(error)(f"places_at: expected (name, size) pairs, and a position among them; got {excerpt(axes)} and "
                          f"{excerpt(position)}") from None
    return tuple([OnAxis(name, int(i), n) for (name, n), i in zip(given, numbers)])


def _refuse_others(call: str, name: str, rows: Any) -> None:
    if not isinstance(rows, (tuple, list)) or not all(isinstance(row, tuple) and len(row) == 3 for row in rows):
        raise TypeError(f"{call}: {name} must be a list of triples; got {excerpt(rows)}")


def axes_text(places: Iterable[OnAxis]) -> str:
    """Words for places on mapped axes.

    Args:
      places: of the outermost axis first.
    Returns:
      Text; empty if there are none.

    >>> axes_text([OnAxis("i", 3, 4), OnAxis("j", 0, 2)])
    "index 3 of axis 'i' of 4, index 0 of axis 'j' of 2"
    """
    _refuse_others("axes_text", "places", places)
    return ", ".join([f"index {i} of " + ("the map" if isinstance(name, UnnamedAxis) else f"axis {name!r}") + f" of {size}"
                      for name, i, size in places])


def running_device() -> int | None:
    """The device that the NumPy evaluator runs by itself now in this thread.

    Returns:
      Its position in the mapped axes; None where all run in lockstep, or there is only one.

    >>> running_device() is None
    True
    """
    return _running.device


def turns_text(turns: Iterable[tuple[str, int, Any]]) -> str:
    """Words for turns of loops, to be added to a sentence.

    Args:
      turns: of the outermost loop first.
    Returns:
      Text, the innermost loop first; it begins with a comma, and is empty if there are none.

    >>> turns_text([Turn("scan", 3, None)])
    ', at index 3 of the scan'
    """
    _refuse_others("turns_text", "turns", turns)
    return "".join([f", at index {i} of the {op}" + (f" at {source}" if source else "")
                    for op, i, source in reversed(list(turns))])
