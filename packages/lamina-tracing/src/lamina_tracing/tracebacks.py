"""Tracebacks without our own frames: what is left are the lines people wrote.

A bare `raise` goes on with the exception's own traceback and adds no frame of the function it stands in, so a public
entry point that sets the filtered traceback and raises on disappears from it too. Nothing is done where nothing fails.
`config.traceback_filtering` (LAMINA_TRACEBACK_FILTERING=0) shows everything; what the innermost entry point took out is
still in the exception's `unfiltered_traceback`.
"""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, TypeVar

from lamina_ir import config

from .stage import is_own_file

__all__ = ["boundary", "filter_traceback"]

F = TypeVar("F", bound=Callable[..., Any])
_HELPERS = frozenset((contextlib.__file__, functools.__file__))


def _kept(tb: TracebackType | None) -> list[TracebackType]:
    """The entries outside of our folders; helpers of the standard library go with the frame that called them."""
    found = []
    inside = False
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if file not in _HELPERS:
            inside = is_own_file(file)
        if not inside:
            found.append(tb)
        tb = tb.tb_next
    return found


def filter_traceback(error: BaseException) -> None:
    """Take our frames out of the traceback of `error` and of the exceptions behind it, if the setting says so."""
    if not config.traceback_filtering.value:
        return
    seen = 0
    at: BaseException | None = error
    while at is not None and seen < 8:
        full = at.__traceback__
        kept = _kept(full)
        tb = None
        for entry in reversed(kept):
            tb = TracebackType(tb, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        if not hasattr(at, "unfiltered_traceback"):
            try:
                at.unfiltered_traceback = full  # type: ignore[attr-defined]
            except AttributeError:  # a class with slots
                pass
        at.__traceback__ = tb
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
        seen += 1


def boundary(fun: F) -> F:
    """Decorator of a public entry point: exceptions leave it with a filtered traceback.

    >>> import traceback
    >>> @boundary
    ... def entry():
    ...     raise ValueError("text")
    >>> try:
    ...     entry()
    ... except ValueError as e:
    ...     print([frame.name for frame in traceback.extract_tb(e.__traceback__)])
    ['<module>', 'entry']
    """
    filtered = filter_traceback

    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except Exception as e:
            filtered(e)
            raise

    # With the globals of `fun` it counts as a function of that module, for doctest say.
    globals_ = getattr(fun, "__globals__", guarded.__globals__)
    made = FunctionType(guarded.__code__, globals_, closure=guarded.__closure__)
    return functools.update_wrapper(made, fun)  # type: ignore[return-value]
