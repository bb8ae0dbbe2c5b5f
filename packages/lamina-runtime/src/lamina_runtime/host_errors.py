"""Exceptions of host callbacks, kept so that they reach whoever asked: jaxlib passes on no more than their text."""
from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from lamina_ir import CallbackError

__all__ = ["guarded", "original", "translated"]

_numbers = itertools.count(1)
_raised: OrderedDict[int, BaseException] = OrderedDict()
_MARK = re.compile(r" \[callback error (\d+)\]")


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, its exceptions kept and numbered."""
    def call(*xs: Any) -> Any:
        try:
            return function(*xs)
        except BaseException as e:
            number = next(_numbers)
            _raised[number] = e
            while len(_raised) > 64:
                _raised.popitem(last=False)
            raise CallbackError(f"{e} [callback error {number}]") from None
    return call


def original(error: BaseException) -> BaseException | None:
    """The exception of the callback that made jaxlib raise `error`, if that is what happened."""
    found = _MARK.search(str(error))
    return _raised.get(int(found[1])) if found else None


def translated(call: str, error: Exception) -> Exception:
    """`error` of jaxlib, or, when a callback's exception is behind it, a `CallbackError` whose cause that is."""
    raised = original(error)
    if raised is None:
        return error
    made = CallbackError(f"{call}: {raised}")
    made.__cause__ = raised
    return made
