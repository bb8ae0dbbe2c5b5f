"""Notify watchers of each launch of a compiled program and of each compilation, and let wrappers make launches.

A watcher gets the program, its arguments and results after a launch. A wrapper is called instead of the launch and makes
it itself, so it sees errors, and arguments before they are donated.

While a watcher or wrapper of launches is registered, all calls pass through Python: jaxlib's fast path gets no new
entries, and its old ones are invalidated. Otherwise the cost is one test of an empty list, in calls that pass through
Python anyway. Watchers of compilations are called only when a program is compiled.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, config
from lamina_ir.extend import Placement, invalidate_caches
from lamina_ir.typing import Value

from .._typing import Array

__all__ = ["Compilation", "Launch", "call_wrappers", "compilation_watchers", "notify", "notify_compiled", "state",
           "unwatch_launches", "unwrap_launches", "watch_launches", "watchers", "watching_compilations", "watching_launches",
           "wrap_launches", "wrappers"]


class Launch(NamedTuple):
    """One launch of a compiled program.

    Attributes:
      call: the kind of call: `jit`, `pmap`, `evaluation`.
      name: of the function, or of the primitive.
      program: the program.
      arguments, results: flat; the arguments are those of the call, and donated ones can no longer be read.
      placement: the devices, and how arguments and results were placed on them.
    """

    call: str
    name: str
    program: ClosedJaxpr | None
    arguments: Sequence[Value]
    results: Sequence[Array]
    placement: Placement


watchers: list[Callable[[Launch], object]] = []
# Called with a launch without results, and a function that makes it; returns the results.
Wrapper = Callable[[Launch, Callable[[], list[Array]]], list[Array]]
wrappers: list[Wrapper] = []


class _State(threading.local):
    is_wrapping = False  # whether this thread runs a wrapper


state = _State()


def watch_launches(watcher: Callable[[Launch], object]) -> None:
    """Call a function after every launch from now on, in all threads.

    Args:
      watcher: called with a `Launch`, whose results may not be computed yet. If it raises, the launching call raises.
    Raises:
      TypeError: `watcher` is not callable.
    """
    if not callable(watcher):
        raise TypeError(f"watch_launches: expected a function; got {type(watcher).__name__}: {watcher!r:.60}")
    with config.generation.changing():
        watchers.append(watcher)
        invalidate_caches()  # invalidates jaxlib's fast-path entries


def unwatch_launches(watcher: Callable[[Launch], object]) -> None:
    """Stop calling `watcher` after launches. ValueError if it is not registered."""
    if watcher not in watchers:
        raise ValueError(f"unwatch_launches: {watcher!r:.60} does not watch launches")
    with config.generation.changing():
        watchers.remove(watcher)
        invalidate_caches()


@contextmanager
def watching_launches(watcher: Callable[[Launch], object]) -> Iterator[None]:
    """Context in which a function is called after every launch.

    Args:
      watcher: called with a `Launch`.
    Raises:
      TypeError: `watcher` is not callable.

    >>> from lamina_tracing import jit
    >>> f = jit(lambda x: x * 3 + 1)
    >>> with watching_launches(lambda launch: print(launch.call, len(launch.program.eqns), launch.results)):
    ...     y = f(2.0)
    jit 2 [Array(7., dtype=float32, weak_type=True)]
    """
    watch_launches(watcher)
    try:
        yield
    finally:
        unwatch_launches(watcher)


class Compilation(NamedTuple):
    """One compilation of a program, or its replacement by an executable from a cache.

    Attributes:
      call: the kind of call: `jit`, `pmap`, `evaluation`.
      name: of the function, or of the primitive.
      program: the compiled program: it has `executable`, `lowered`, `placement`, `in_avals`, `in_shardings`, ...
      lower_seconds: time to lower it.
      compile_seconds: time to compile it, or to load it from the disk.
      source: `compiled`, `disk` or `memory`: where the executable comes from.
      reasons: why it is compiled, if another compilation of the same staged program is cached.
    """

    call: str
    name: str
    program: Any
    lower_seconds: float
    compile_seconds: float
    source: str
    reasons: tuple[str, ...]


compilation_watchers: list[Callable[[Compilation], object]] = []


@contextmanager
def watching_compilations(watcher: Callable[[Compilation], object]) -> Iterator[None]:
    """Context in which a function is called after every compilation, in all threads.

    Calls that find their program in memory compile nothing. Later optimisations in the background are not reported.

    Args:
      watcher: called with a `Compilation`. If it raises, the call that needs the program raises.

    >>> from lamina_tracing import jit
    >>> f = jit(lambda x: x * 3 + 2)
    >>> with watching_compilations(lambda compilation: print(compilation.call, compilation.name)):
    ...     y = f(2.0), f(3.0)
    jit <lambda>
    """
    compilation_watchers.append(watcher)
    try:
        yield
    finally:
        compilation_watchers.remove(watcher)


def notify_compiled(compilation: Compilation) -> None:
    """Call the watchers after a compilation."""
    for watcher in list(compilation_watchers):
        watcher(compilation)


def notify(program: Any, flat: Sequence[Value], outs: Sequence[Value]) -> None:
    """Call the watchers after a launch of `program`, an `executable.CompiledProgram`."""
    launch = Launch(program.call, program.name, program.source_program, list(flat), list(outs), program.placement)
    for watcher in list(watchers):
        watcher(launch)


def wrap_launches(wrapper: Wrapper) -> None:
    """Call a function in place of every launch from now on, in all threads.

    Args:
      wrapper: `wrapper(launch, run)` makes the launch with `run()`, which returns the results, and returns them. The
        `Launch` has no results. If it raises, the launching call raises. Its own launches are not wrapped.
    Raises:
      TypeError: `wrapper` is not callable.

    >>> from lamina_tracing import jit
    >>> def count(launch, run):
    ...     results = run()
    ...     print(launch.name, len(launch.arguments), results)
    ...     return results
    >>> wrap_launches(count)
    >>> y = jit(lambda x: x * 3 + 1)(2.0)
    <lambda> 1 [Array(7., dtype=float32, weak_type=True)]
    >>> unwrap_launches(count)
    """
    if not callable(wrapper):
        raise TypeError(f"wrap_launches: expected a function; got {type(wrapper).__name__}: {wrapper!r:.60}")
    with config.generation.changing():
        wrappers.append(wrapper)
        invalidate_caches()


def unwrap_launches(wrapper: Wrapper) -> None:
    """Stop calling `wrapper` in place of launches. ValueError if it is not registered.
    """
    if wrapper not in wrappers:
        raise ValueError(f"unwrap_launches: {wrapper!r:.60} does not wrap launches")
    with config.generation.changing():
        wrappers.remove(wrapper)
        invalidate_caches()


def call_wrappers(program: Any, flat: Sequence[Value], run: Callable[[], list[Array]]) -> list[Array]:
    """Make a launch of `program`, an `executable.CompiledProgram`, through the wrappers; the last one is the outermost.

    The launches that wrappers make in this thread are not wrapped.
    """
    launch = Launch(program.call, program.name, program.source_program, list(flat), (), program.placement)
    for wrapper in list(wrappers):
        run = partial(wrapper, launch, run)
    state.is_wrapping = True
    try:
        return run()
    finally:
        state.is_wrapping = False
