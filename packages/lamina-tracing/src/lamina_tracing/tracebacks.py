"""Tracebacks without our own frames: what is left are the lines people wrote.

A bare `raise` goes on with the exception's own traceback and adds no frame of the function it stands in, so a public
entry point that sets the filtered traceback and raises on disappears from it too. Nothing is done where nothing fails.
Small functions (those of `lax` and `numpy`) are called too often for an entry point of their own: where nothing catches
their exceptions, `sys.excepthook` filters what is printed.

`config.traceback_filtering` (LAMINA_TRACEBACK_FILTERING=0) shows everything, or with "tracebackhide" marks our frames for
tools that hide such frames; what the innermost entry point took out is still in the exception's `unfiltered_traceback`.
"""
from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, TypeVar

from lamina_ir import config

from . import leaks, origins  # noqa: F401  (origins: errors say where traced values come from)
from .lines import is_own_file
from .call_errors import translated
from .trace import settle

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


def _mark(full: TracebackType | None, kept: list[TracebackType]) -> None:
    """Give the entries that are not kept the local variable by which pytest and IPython know frames to hide."""
    while full is not None:
        if full not in kept:
            full.tb_frame.f_locals["__tracebackhide__"] = True
        full = full.tb_next


def filter_traceback(error: BaseException) -> None:
    """Take our frames out of a traceback, and of those of the exceptions behind it, if the setting says so.

    Args:
      error: an exception that was raised. What it had is in its `unfiltered_traceback` then.

    >>> from lamina_tracing import lax
    >>> try:
    ...     lax.add("one", 2)
    ... except TypeError as e:
    ...     filter_traceback(e)
    ...     e.__traceback__.tb_next is None
    True
    """
    mode = config.traceback_filtering.value
    if not mode or mode == "off":
        return
    seen = 0
    at: BaseException | None = error
    while at is not None and seen < 8:
        full = at.__traceback__
        kept = _kept(full)
        if mode == "tracebackhide":
            _mark(full, kept)
            return
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


def _install_hooks() -> None:
    """Filter what is printed of exceptions that nothing catches."""
    before, before_thread = sys.excepthook, threading.excepthook

    def hook(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
        if error is not None and error.__traceback__ is not None:
            error = translated(error)
            filter_traceback(error)
            kind, tb = type(error), error.__traceback__
        before(kind, error, tb)

    def thread_hook(args: Any) -> None:
        if args.exc_value is not None:
            error = translated(args.exc_value)
            filter_traceback(error)
            args = threading.ExceptHookArgs((type(error), error, error.__traceback__, args.thread))
        before_thread(args)

    sys.excepthook, threading.excepthook = hook, thread_hook


_install_hooks()


def _interrupted() -> None:
    """An interrupt or exit leaves a public call: after the outermost one nothing is being transformed in this thread."""
    leaks.forget()
    frame = sys._getframe(2)
    while frame is not None:
        if is_own_file(frame.f_code.co_filename):
            return
        frame = frame.f_back  # type: ignore[assignment]
    settle()


def boundary(fun: F) -> F:
    """Decorator of a public entry point: exceptions leave it with a filtered traceback.

    Args:
      fun: the entry point.
    Returns:
      A function of the same name, docstring and signature.

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
    filtered, ended, refuse, forget, in_our_words, interrupted = (filter_traceback, leaks.ended, leaks.refuse_leaks,
                                                                  leaks.forget, translated, _interrupted)

    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            out = fun(*args, **kwargs)
            if ended:  # only with checking_leaks
                refuse()
            return out
        except Exception as e:
            ours = in_our_words(e)
            filtered(ours)
            forget()
            if ours is not e:
                raise ours from None
            raise
        except BaseException:  # an interrupt may have struck where no block was there yet to restore, or no longer
            interrupted()
            raise

    # With the globals of `fun` it counts as a function of that module, for doctest say.
    globals_ = getattr(fun, "__globals__", guarded.__globals__)
    made = FunctionType(guarded.__code__, globals_, closure=guarded.__closure__)
    return functools.update_wrapper(made, fun)  # type: ignore[return-value]
