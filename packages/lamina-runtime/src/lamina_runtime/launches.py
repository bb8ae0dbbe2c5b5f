"""Who is told of each launch of a compiled program: what ran, on which arguments, with which results.

While anybody is told, calls pass through Python: jaxlib's call object is given no program to run by itself, and what it was
given before is asked for again. Nobody being told costs one look at an empty list per call that passes through Python anyway.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, config
from lamina_ir.extend import Placement, new_generation

__all__ = ["Launch", "told", "unwatch_launches", "watch_launches", "watchers", "watching_launches"]


class Launch(NamedTuple):
    """One launch of a compiled program.

    Attributes:
      call: who asked for it: `jit`, `pmap`, `evaluation`.
      name: of the function, or of the op.
      program: the program.
      arguments, results: flat; arguments are as the call got them, and those that were donated can be read no more.
      placement: how it lay on devices.
    """

    call: str
    name: str
    program: ClosedJaxpr | None
    arguments: Sequence[Any]
    results: Sequence[Any]
    placement: Placement


watchers: list[Callable[[Launch], Any]] = []


def watch_launches(tell: Callable[[Launch], Any]) -> None:
    """Tell `tell` of every launch from now on, in all threads, after it: the results may still be on their way.

    Args:
      tell: called with a `Launch`; what it raises, the call raises.
    Raises:
      TypeError: it cannot be called.
    """
    if not callable(tell):
        raise TypeError(f"watch_launches: expected a function; got {type(tell).__name__}: {tell!r:.60}")
    with config.generation.changing():
        watchers.append(tell)
        new_generation()  # so that jaxlib asks again for what it runs by itself


def unwatch_launches(tell: Callable[[Launch], Any]) -> None:
    """Tell `tell` no more. ValueError where it was not told."""
    if tell not in watchers:
        raise ValueError(f"unwatch_launches: {tell!r:.60} is not told of launches")
    with config.generation.changing():
        watchers.remove(tell)
        new_generation()


@contextmanager
def watching_launches(tell: Callable[[Launch], Any]) -> Iterator[None]:
    """A block in which `tell` is told of every launch.

    Args:
      tell: called with a `Launch`.
    Raises:
      TypeError: it cannot be called.

    >>> from lamina_tracing import jit
    >>> f = jit(lambda x: x * 3 + 1)
    >>> with watching_launches(lambda launch: print(launch.call, len(launch.program.eqns), launch.results)):
    ...     y = f(2.0)
    jit 2 [Array(7., dtype=float32, weak_type=True)]
    """
    watch_launches(tell)
    try:
        yield
    finally:
        unwatch_launches(tell)


def told(program: Any, flat: Sequence[Any], outs: Sequence[Any]) -> None:
    """Called by `execution.Program` behind each of its launches, where anybody is to be told."""
    launch = Launch(program.call, program.name, program.staged, list(flat), list(outs), program.placement)
    for tell in list(watchers):
        tell(launch)
