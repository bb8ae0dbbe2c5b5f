"""jaxlib's errors in our classes. Exceptions of host callbacks are kept so that they reach whoever asked: jaxlib passes
on no more than their text."""
from __future__ import annotations

import itertools
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import CallbackError, ExecutionError

__all__ = ["guarded", "original", "said", "settle", "translated"]

_numbers = itertools.count(1)
_raised: OrderedDict[int, BaseException] = OrderedDict()
_MARK = re.compile(r" \[callback error (\d+)\]")


def guarded(function: Callable[..., Any], failures: deque[BaseException] | None = None) -> Callable[..., Any]:
    """`function`, its exceptions kept and numbered.

    With `failures` they go there, and the program goes on with zeros: a device that stopped would leave the others
    waiting for it for ever.
    """
    def call(*xs: Any) -> Any:
        try:
            return function(*xs)
        except BaseException as e:
            if failures is not None:
                failures.append(e)
                return function.blank()  # type: ignore[attr-defined]
            number = next(_numbers)
            _raised[number] = e
            while len(_raised) > 64:
                _raised.popitem(last=False)
            raise CallbackError(f"{e} [callback error {number}]") from None
    return call


def said(raised: BaseException) -> str:
    """A callback's exception, and which call of it that was in the user's code."""
    where = getattr(raised, "called_at", None) or getattr(raised.__cause__, "called_at", None)
    return f"{raised}" + (f" (raised in {where})" if where else "")


def original(error: BaseException) -> BaseException | None:
    """The exception of the callback that made jaxlib raise `error`, if that is what happened."""
    found = _MARK.search(str(error))
    return _raised.get(int(found[1])) if found else None


def translated(call: str, error: Exception) -> BaseException:
    """An `ExecutionError` whose cause is jaxlib's `error`; a `CallbackError` with the callback's own where one raised; an
    interrupt or exit that it raised as it is."""
    raised = original(error)
    if raised is not None and not isinstance(raised, Exception):
        return raised
    made = CallbackError(f"{call}: {said(raised)}") if raised is not None else ExecutionError(
        f"{call}: the program that computes it failed: {error}")
    made.__cause__ = error if raised is None else raised
    return made


def settle(call: str, failures: deque[BaseException], outs: Sequence[Any]) -> None:
    """Wait for the results of a program whose callbacks' exceptions go to `failures`, and raise the first of them."""
    for x in outs:
        x.block_until_ready()
    if failures:
        raised = failures.popleft()
        failures.clear()
        if not isinstance(raised, Exception):  # an interrupt or exit keeps its kind
            raise raised
        raise CallbackError(f"{call}: {said(raised)}") from raised
