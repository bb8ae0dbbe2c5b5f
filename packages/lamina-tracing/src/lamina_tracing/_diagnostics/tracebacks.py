"""Remove library frames from tracebacks, so that only the user's lines remain.

A bare `raise` keeps the exception's traceback and adds no frame of its own function. So a public entry point that sets
the filtered traceback and re-raises disappears from it too. Calls without errors cost nothing extra. Small functions
(those of `lax` and `numpy`) are called too often for such a wrapper; if their exceptions are not caught,
`sys.excepthook` filters the printed traceback.

`config.traceback_filtering` (LAMINA_TRACEBACK_FILTERING=0) shows all frames, or with "tracebackhide" marks library
frames for tools that hide marked frames. `unfiltered_traceback.traceback` of the exception has all frames.
"""
from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, TypeVar

from typing_extensions import override
from lamina_ir import config
from lamina_ir.typing import Tree

from .._core import tracer_provenance  # noqa: F401  imported to register its hook, which describes tracers in errors
from .._core.source_lines import is_library_file
from .._core.trace import reset_trace_state
from . import leaks
from .argument_errors import mark_library_error, translate_error

__all__ = ["api_boundary", "filter_traceback"]

F = TypeVar("F", bound=Callable[..., Any])
_HELPERS = frozenset((contextlib.__file__, functools.__file__))


class _UnfilteredTraceback:
    """The original traceback of an exception. It is None in a copy from another process: tracebacks cannot be pickled."""

    __slots__ = ("traceback",)

    def __init__(self, traceback: TracebackType | None = None) -> None:
        self.traceback = traceback

    @override
    def __reduce__(self) -> tuple[type[_UnfilteredTraceback], tuple[()]]:
        return _UnfilteredTraceback, ()


def _user_entries(tb: TracebackType | None) -> list[TracebackType]:
    """Return the traceback entries outside the library. Frames of contextlib and functools belong to their caller."""
    found = []
    in_library = False
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if file not in _HELPERS:
            in_library = is_library_file(file)
        if not in_library:
            found.append(tb)
        tb = tb.tb_next
    return found


def _mark_hidden(full: TracebackType | None, shown: list[TracebackType]) -> None:
    """Set `__tracebackhide__` in the frames that are not shown; pytest and IPython hide such frames."""
    while full is not None:
        if full not in shown:
            full.tb_frame.f_locals["__tracebackhide__"] = True
        full = full.tb_next


def filter_traceback(error: BaseException) -> None:
    """Remove library frames from the traceback of an exception and of its causes, according to the setting.

    Args:
      error: an exception that was raised. `unfiltered_traceback.traceback` is its original traceback.

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
        shown = _user_entries(full)
        if mode == "tracebackhide":
            _mark_hidden(full, shown)
            return
        tb = None
        for entry in reversed(shown):
            tb = TracebackType(tb, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        if not hasattr(at, "unfiltered_traceback"):
            try:
                at.unfiltered_traceback = _UnfilteredTraceback(full)  # type: ignore[attr-defined]
            except AttributeError:  # the exception class has __slots__
                pass
        at.__traceback__ = tb
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
        seen += 1


def _install_hooks() -> None:
    """Install exception hooks that filter the printed traceback of uncaught exceptions."""
    before, before_thread = sys.excepthook, threading.excepthook

    def hook(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
        if error is not None and error.__traceback__ is not None:
            error = translate_error(error)
            mark_library_error(error)
            filter_traceback(error)
            kind, tb = type(error), error.__traceback__
        before(kind, error, tb)

    def thread_hook(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            error = translate_error(args.exc_value)
            mark_library_error(error)
            filter_traceback(error)
            args = threading.ExceptHookArgs((type(error), error, error.__traceback__, args.thread))
        before_thread(args)

    sys.excepthook, threading.excepthook = hook, thread_hook


_install_hooks()


def _interrupted() -> None:
    """Reset this thread's trace state if an interrupt or exit leaves the outermost public call."""
    leaks.forget_ended_traces()
    frame = sys._getframe(2)
    while frame is not None:
        if is_library_file(frame.f_code.co_filename):
            return
        frame = frame.f_back  # type: ignore[assignment]
    reset_trace_state()


def api_boundary(fun: F) -> F:
    """Decorate a public entry point: exceptions leave it with a filtered traceback.

    Args:
      fun: the entry point.
    Returns:
      A function of the same name, docstring and signature.

    >>> import traceback
    >>> @api_boundary
    ... def entry():
    ...     raise ValueError("text")
    >>> try:
    ...     entry()
    ... except ValueError as e:
    ...     print([frame.name for frame in traceback.extract_tb(e.__traceback__)])
    ['<module>', 'entry']
    """
    # Closure cells, because `guarded` gets the globals of `fun` below.
    filter_frames, ended, check, forget = filter_traceback, leaks.ended_traces, leaks.check_leaks, leaks.forget_ended_traces
    translate, mark, on_interrupt = translate_error, mark_library_error, _interrupted

    def guarded(*args: Tree, **kwargs: Tree) -> Tree:  # `find_called_name` skips functions of this name
        try:
            out = fun(*args, **kwargs)
            if ended:  # only with checking_leaks
                check()
            return out
        except Exception as e:
            translated_error = translate(e)
            mark(translated_error)
            filter_frames(translated_error)
            forget()
            if translated_error is not e:
                raise translated_error from None
            raise
        except BaseException:  # an interrupt may be raised just before a `try` block is entered, or after it is left
            on_interrupt()
            raise

    # With the globals of `fun` the wrapper counts as a function of that module, as doctest requires.
    globals_ = getattr(fun, "__globals__", guarded.__globals__)
    made = FunctionType(guarded.__code__, globals_, closure=guarded.__closure__)
    return functools.update_wrapper(made, fun)  # type: ignore[return-value]
