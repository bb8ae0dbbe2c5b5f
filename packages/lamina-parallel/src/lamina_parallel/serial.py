"""`SerialLoop`: a resource that runs an axis in turns, one after the other on one device, for programs too large to run whole.

An axis of size `n` over mesh axes of `d` devices and a loop of `k` turns has the index (device, turn, place within), the device
slowest; a device runs `n / d / k` places at once. How a program is cut into
phases is in `phases.py`, how these become loops in `turns.py`.
"""
from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from lamina_ir import config
from lamina_ir.extend import checked_axis_name

__all__ = ["SerialLoop", "loops_in_scope", "serial_loop"]

# The loops of `with serial_loop(name, length):`, outermost first, which programs are staged under.
_in_scope = config.Option("serial_loops", (), keyed=True, check=lambda value: _check_scope(value),
                          help="the loops of `with serial_loop(...)`, which sets it")


class SerialLoop:
    """A loop of so many turns, as a resource of `xmap`: the axis it is given to runs in that many parts, one after the other.

    Results are those without it. What a program needs at once falls with the number of turns, and so does what its derivative
    keeps: that is computed again turn by turn.

    Args:
      length: how many turns.
    Raises:
      TypeError: `length` is no integer.
      ValueError: it is less than 1.

    >>> from lamina_parallel import xmap
    >>> from lamina_tracing import lax
    >>> import numpy as np
    >>> total = xmap(lambda x: lax.psum(x * x, "i"), {0: "i"}, {}, axis_resources={"i": SerialLoop(4)})
    >>> total(np.arange(8, dtype=np.int32))
    Array(140, dtype=int32)
    """

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = _checked_length("SerialLoop", length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SerialLoop) and self.length == other.length

    def __hash__(self) -> int:
        return hash((SerialLoop, self.length))

    def __repr__(self) -> str:
        return f"SerialLoop({self.length})"


def serial_loop(name: Hashable, length: int) -> AbstractContextManager[None]:
    """A block in which a loop has a name, for `axis_resources` to give axes by it.

    Axes that share a loop must not meet in one value, as those that share an axis of a mesh.

    Args:
      name: what resources call the loop.
      length: how many turns.
    Returns:
      A context manager.
    Raises:
      TypeError: `length` is no integer, or `name` cannot be a name.
      ValueError: `length` is less than 1, or a loop of this name is in scope.

    >>> from lamina_parallel import xmap
    >>> import numpy as np
    >>> twice = xmap(lambda x: x * 2, {0: "i"}, {0: "i"}, axis_resources={"i": "turns"})
    >>> with serial_loop("turns", 2):
    ...     twice(np.arange(4, dtype=np.int32))
    Array([0, 2, 4, 6], dtype=int32)
    """
    checked_axis_name("serial_loop", name)
    return _block(name, _checked_length(f"serial_loop {name!r}", length))


@contextmanager
def _block(name: Hashable, length: int) -> Iterator[None]:
    if name in loops_in_scope():
        raise ValueError(f"serial_loop: a loop {name!r} is in scope already, of {loops_in_scope()[name]} turns. Give each a "
                         "name of its own")
    with _in_scope((*_in_scope.value, (name, length))):
        yield


def loops_in_scope() -> dict[Hashable, int]:
    """The loops of the blocks `with serial_loop(...)` of this thread.

    Returns:
      A dict from name to number of turns.

    >>> loops_in_scope()
    {}
    """
    return dict(_in_scope.value)


def _checked_length(lead: str, length: Any) -> int:
    if isinstance(length, bool) or not hasattr(length, "__index__"):
        raise TypeError(f"{lead}: length must be an integer, the number of turns; got {type(length).__name__}: {length!r:.80}")
    number = length.__index__()
    if number < 1:
        raise ValueError(f"{lead}: length must be at least 1, the number of turns; got {number}")
    return number


def _check_scope(value: Any) -> None:
    if not (isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)):
        raise TypeError(f"config serial_loops: is set by `with serial_loop(...)`; got {value!r:.60}")
