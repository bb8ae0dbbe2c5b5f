"""`jax._src.traceback_util`: which frames errors show. lamina filters tracebacks at its own entry points."""
from types import FrameType, TracebackType
from typing import TypeVar

from lamina_ir import SimplifiedTraceback
from lamina_tracing.extend import hide_frames_of

__all__ = ["SimplifiedTraceback", "UnfilteredStackTrace", "api_boundary", "filter_traceback", "include_frame",
           "register_exclusion"]

_F = TypeVar("_F")
_excluded: list[str] = []


class UnfilteredStackTrace(Exception):
    """The cause of an error with a shortened traceback in JAX. lamina stores `unfiltered_traceback` in the error itself."""


def api_boundary(fun: _F, **options: object) -> _F:
    """Return the function: the functions of lamina that it calls shorten the tracebacks."""
    return fun


def register_exclusion(path: str) -> None:
    """Hide the frames of a file in tracebacks and source lines.

    Args:
      path: the path of the file.
    """
    _excluded.append(path)
    hide_frames_of(path)


def include_frame(f: FrameType) -> bool:
    """Return whether the file of a frame was not hidden by `register_exclusion`."""
    return not f.f_code.co_filename.startswith(tuple(_excluded))


def filter_traceback(tb: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of hidden files."""
    if tb is None:
        return None
    rest = filter_traceback(tb.tb_next)
    return TracebackType(rest, tb.tb_frame, tb.tb_lasti, tb.tb_lineno) if include_frame(tb.tb_frame) else rest
