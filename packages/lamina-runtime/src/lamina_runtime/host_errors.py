"""jaxlib's errors in our classes. Exceptions of host callbacks are kept so that they reach whoever asked: jaxlib passes
on no more than their text."""
from __future__ import annotations

import itertools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import CallbackError, CheckError, ExecutionError

from . import gone

__all__ = ["Failures", "guarded", "is_failed_launch", "original", "translated"]

_numbers = itertools.count(1)
_raised: OrderedDict[int, BaseException] = OrderedDict()
_FAILED = re.compile(r"(RESOURCE_EXHAUSTED|INTERNAL|UNKNOWN|ABORTED|UNAVAILABLE|DEADLINE_EXCEEDED): ")
_MARK = re.compile(r" \[callback error (\d+)\]")


class Failures:
    """Exceptions of the callbacks of a program on several devices. The program goes on with zeros after one: a device that
    stopped would leave the others waiting for it for ever, in this program or in the next that reads its results. So each
    launch is waited for here, and raises what its callbacks did.

    The host is not told which launch calls it. Where several threads launch the program at a time, each of their calls raises
    if one of them failed meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = self._launches = 0
        self._kept: list[tuple[int, BaseException]] = []  # number and exception, while somebody waits

    def add(self, error: BaseException) -> None:
        """A callback has raised."""
        with self._lock:
            self._count += 1
            if len(self._kept) < _MOST_KEPT:
                self._kept.append((self._count, error))

    def settled(self, call: str, launch: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """The results of `launch()`, computed. CallbackError, or an interrupt or exit as it is, if a callback raised."""
        with self._lock:
            since = self._count
            self._launches += 1
        try:
            outs = launch()
            for x in outs:
                x.block_until_ready()
        finally:
            with self._lock:
                failed = self._count > since
                raised = next((e for n, e in self._kept if n > since), self._kept[-1][1]) if failed else None
                self._launches -= 1
                if not self._launches:
                    self._kept.clear()
        if raised is None:
            return outs
        if not isinstance(raised, Exception):
            raise raised
        raise kind_of(raised)(f"{call}: {raised}") from (raised.__cause__ or raised)


_MOST_KEPT = 64


def guarded(function: Callable[..., Any], failures: Failures | None = None) -> Callable[..., Any]:
    """`function`, its exceptions kept and numbered. With `failures` they go there, and the program goes on with zeros."""
    def call(*xs: Any) -> Any:
        try:
            return function(*xs)
        except BaseException as e:
            if failures is not None:
                failures.add(e)
                return function.blank()  # type: ignore[attr-defined]
            number = next(_numbers)
            _raised[number] = e
            while len(_raised) > 64:
                _raised.popitem(last=False)
            raise CallbackError(f"{e} [callback error {number}]") from None
    return call


def kind_of(raised: BaseException) -> type[CallbackError]:
    """The class in which a callback's error reaches whoever asked."""
    return type(raised) if isinstance(raised, CheckError) else CallbackError


def is_failed_launch(error: Exception) -> bool:
    """Whether jaxlib itself says that memory is short, or a program failed. On its path without Python it says so with a
    ValueError, which nobody can translate where people hold its call object itself, as that of `jit`."""
    return type(error).__name__ in ("JaxRuntimeError", "ValueError") and _FAILED.match(str(error)) is not None


def original(error: BaseException) -> BaseException | None:
    """The exception of the callback that made jaxlib raise `error`, if that is what happened."""
    found = _MARK.search(str(error))
    return _raised.get(int(found[1])) if found else None


def translated(call: str, error: Exception) -> BaseException:
    """An `ExecutionError` whose cause is jaxlib's `error`; a `CallbackError` with the callback's own where one raised; an
    interrupt or exit that it raised as it is; a `ProcessLostError` where another process is gone."""
    raised = original(error)
    if raised is not None and not isinstance(raised, Exception):
        return raised
    lost = gone.instead(call, error) if raised is None else None
    if lost is not None:
        return lost
    made = kind_of(raised)(f"{call}: {raised}") if raised is not None else ExecutionError(
        f"{call}: the program that computes it failed: {error}")
    made.__cause__ = error if raised is None else raised
    return made

