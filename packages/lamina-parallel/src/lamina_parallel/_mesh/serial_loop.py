"""`SerialLoop`: a resource that runs an axis as a sequential loop on one device, for programs too large to run at once.

An axis of size `n` over mesh axes of `d` devices and a loop of `k` iterations has the index (device, iteration, local
position). The device varies slowest, and a device runs `n / d / k` positions at once. `split_phases` splits a program
into phases, and `scan_phases` turns these into loops.
"""
from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager

from typing_extensions import override
from lamina_ir import config
from lamina_ir.extend import check_axis_name

__all__ = ["SerialLoop", "loops_in_scope", "serial_loop"]

# The loops of `with serial_loop(name, length):`, outermost first, under which programs are traced.
_in_scope = config.Option("serial_loops", (), keyed=True, check=lambda value: _check_scope(value),
                          help="the loops of `with serial_loop(...)`, which sets it")


class SerialLoop:
    """A loop of `length` iterations, as a resource of `xmap`: the axis is split into that many parts, which run in
    sequence.

    It does not change results. Peak memory falls with the number of iterations, and so does the memory of residuals:
    the derivative recomputes values iteration by iteration.

    Args:
      length: the number of iterations.
    Raises:
      TypeError: `length` is not an integer.
      ValueError: `length` is less than 1.

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

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, SerialLoop) and self.length == other.length

    @override
    def __hash__(self) -> int:
        return hash((SerialLoop, self.length))

    @override
    def __repr__(self) -> str:
        return f"SerialLoop({self.length})"


def serial_loop(name: Hashable, length: int) -> AbstractContextManager[None]:
    """Return a context in which a loop has a name, so that `axis_resources` can refer to it.

    Axes that share a loop must not occur in the type of one value, like axes that share a mesh axis.

    Args:
      name: the name of the loop in resources.
      length: the number of iterations.
    Returns:
      A context manager.
    Raises:
      TypeError: `length` is not an integer, or `name` is not a valid name.
      ValueError: `length` is less than 1, or a loop of this name is in scope.

    >>> from lamina_parallel import xmap
    >>> import numpy as np
    >>> twice = xmap(lambda x: x * 2, {0: "i"}, {0: "i"}, axis_resources={"i": "chunks"})
    >>> with serial_loop("chunks", 2):
    ...     twice(np.arange(4, dtype=np.int32))
    Array([0, 2, 4, 6], dtype=int32)
    """
    check_axis_name("serial_loop", name)
    return _block(name, _checked_length(f"serial_loop {name!r}", length))


@contextmanager
def _block(name: Hashable, length: int) -> Iterator[None]:
    if name in loops_in_scope():
        raise ValueError(f"serial_loop: a loop {name!r} is in scope already, of {loops_in_scope()[name]} iterations. Give "
                         "each a name of its own")
    with _in_scope((*_in_scope.value, (name, length))):
        yield


def loops_in_scope() -> dict[Hashable, int]:
    """Return the loops of the enclosing `with serial_loop(...)` blocks of this thread.

    Returns:
      A dict from name to number of iterations.

    >>> loops_in_scope()
    {}
    """
    return dict(_in_scope.value)


def _checked_length(lead: str, length: object) -> int:
    if isinstance(length, bool) or not hasattr(length, "__index__"):
        raise TypeError(f"{lead}: length must be an integer, the number of iterations; got {type(length).__name__}: "
                        f"{length!r:.80}")
    number = length.__index__()
    if number < 1:
        raise ValueError(f"{lead}: length must be at least 1, the number of iterations; got {number}")
    return number


def _check_scope(value: object) -> None:
    if not (isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)):
        raise TypeError(f"config serial_loops: the setting is changed only by `with serial_loop(...)`; got {value!r:.60}")
