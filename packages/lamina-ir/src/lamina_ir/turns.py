"""Which turns of which loops are running, and on which device, for the reports of what fails in one. The NumPy evaluator
notes each that it begins."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

__all__ = ["Turn", "begins", "by_device", "entering", "running_device", "running_turns", "turns_text"]


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


class _Running(threading.local):
    loops: tuple[list[Any], ...] = ()  # outermost first: op, its line, and the turn once one has begun
    device: int | None = None


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
    around = _running.device
    rows = []
    try:
        for device in range(size):
            if size > 1:
                _running.device = device
            rows.append(run(device))
    finally:
        _running.device = around
    return list(zip(*rows))


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
    return "".join([f", at index {i} of the {op}" + (f" at {source}" if source else "")
                    for op, i, source in reversed(list(turns))])
