"""Translate jaxlib's errors into the exception classes of lamina, and re-raise exceptions of host callbacks.

jaxlib reports only the text of an exception that a callback raised. So the exception objects are stored here, and
found again by a number in that text.
"""
from __future__ import annotations

import itertools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from lamina_ir import CallbackError, CheckError, ExecutionError, ShapedArray
from lamina_ir.typing import Function, Value

from . import memory_errors, peer_errors
from .._typing import Array

__all__ = ["CallbackFailures", "find_callback_error", "guard_callback", "is_launch_failure", "translate_error"]

_numbers = itertools.count(1)
_raised: OrderedDict[int, BaseException] = OrderedDict()  # the latest exceptions of callbacks, by number
_STATUS = r"(RESOURCE_EXHAUSTED|INTERNAL|UNKNOWN|ABORTED|UNAVAILABLE|DEADLINE_EXCEEDED): "
_NUMBER = r" \[callback error (\d+)\]"
_INTERRUPTED = r"(?s)error calling callback: Traceback .*\nKeyboardInterrupt\b"
_MAX_STORED = 64


class CallbackFailures:
    """Collect the exceptions of the callbacks of a multi-device program.

    After an exception the callback returns zeros and the program continues. If its device stopped instead, the other
    devices would wait for it forever: in this program, or in the next one that reads its results. So each launch is
    waited for here, and raises the exception of its callbacks.

    A callback cannot know which launch calls it. If several threads run the program at the same time, each of their
    calls raises if a callback of any of them failed meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = self._launches = 0
        self._errors: list[tuple[int, BaseException]] = []  # (number, exception), while a launch is waited for

    def add(self, error: BaseException) -> None:
        """Record an exception of a callback."""
        with self._lock:
            self._count += 1
            if len(self._errors) < _MAX_STORED:
                self._errors.append((self._count, error))

    def launch_and_wait(self, call: str, launch: Callable[[], Sequence[Array]]) -> Sequence[Array]:
        """Call `launch()` and wait for its results.

        Raises:
          CallbackError: a callback raised an exception. KeyboardInterrupt and SystemExit are raised unchanged.
        """
        with self._lock:
            # The count never falls, so "above `since`" means: after this launch began.
            since = self._count
            self._launches += 1
        try:
            outs = launch()
            for x in outs:
                x.block_until_ready()
        finally:
            with self._lock:
                failed = self._count > since
                # If so many callbacks failed that the exception of this launch was not stored, one of another launch
                # stands for it.
                raised = next((e for n, e in self._errors if n > since), self._errors[-1][1]) if failed else None
                self._launches -= 1
                # Exceptions hold tracebacks and with them arrays, so they are dropped as soon as no launch needs
                # them.
                if not self._launches:
                    self._errors.clear()
        if raised is None:
            return outs
        if not isinstance(raised, Exception):
            raise raised
        raise callback_error_class(raised)(f"{call}: {raised}") from (raised.__cause__ or raised)


def guard_callback(function: Function, failures: CallbackFailures | None = None) -> Function:
    """Wrap a callback so that its exceptions are stored and numbered.

    With `failures`, they are added there instead, and the callback returns zeros.
    """
    def call(*xs: Value) -> Value:
        try:
            return function(*xs)
        except BaseException as e:
            if failures is not None:
                failures.add(e)
                return function.blank()  # type: ignore[attr-defined]
            number = next(_numbers)
            _raised[number] = e
            # jaxlib may never report a stored exception, if no result of the program is read.
            while len(_raised) > _MAX_STORED:
                _raised.popitem(last=False)
            raise CallbackError(f"{e} [callback error {number}]") from None
    return call


def callback_error_class(raised: BaseException) -> type[CallbackError]:
    """Return the exception class that reports the exception of a callback."""
    return type(raised) if isinstance(raised, CheckError) else CallbackError


def is_launch_failure(error: Exception) -> bool:
    """Return whether an error of jaxlib reports a failed program or exhausted memory.

    jaxlib 0.10 raises ValueError for these out of the fast path. If the user calls jaxlib's call object directly, as
    with `jit`, no code of this package can translate that error.
    """
    return type(error).__name__ in ("JaxRuntimeError", "ValueError") and re.match(_STATUS, str(error)) is not None


def find_callback_error(error: BaseException) -> BaseException | None:
    """Return the exception of the callback that made jaxlib raise `error`; None if it has another cause."""
    text = str(error)
    found = re.search(_NUMBER, text)
    if found:
        return _raised.get(int(found[1]))
    # Ctrl-C while `guard_callback` enters or leaves its `try` block.
    return KeyboardInterrupt() if re.search(_INTERRUPTED, text) else None


def translate_error(call: str, error: Exception, result: ShapedArray | None = None) -> BaseException:
    """Return the exception to raise for an error of jaxlib.

    If a callback raised, it is a `CallbackError`; KeyboardInterrupt and SystemExit are returned unchanged. If another
    process failed, it is a `ProcessLostError`. If memory is exhausted, it is an `OutOfMemoryError`. Otherwise it is an
    `ExecutionError` with `error` as its cause. `result` is the type of the array whose computation failed.
    """
    raised = find_callback_error(error)
    if raised is not None and not isinstance(raised, Exception):
        return raised
    lost = peer_errors.peer_error_for(call, error) if raised is None else None
    if lost is not None:
        return lost
    if raised is None and memory_errors.is_memory_error(error):
        exhausted = memory_errors.make_memory_error(call, error, result=result)
        exhausted.__cause__ = error
        return exhausted
    out = callback_error_class(raised)(f"{call}: {raised}") if raised is not None else ExecutionError(
        f"{call}: the program that computes it failed: {error}")
    out.__cause__ = error if raised is None else raised
    return out

