"""`jax._src.source_info_util`: the source lines of equations, as `Source` objects of lamina."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from lamina_ir import Source
from lamina_tracing import named_scope as extend_name_stack
from lamina_tracing.extend import find_user_source, trace_state

from .traceback_util import register_exclusion

__all__ = ["Frame", "current", "current_name_stack", "extend_name_stack", "new_source_info", "register_exclusion",
           "summarize", "user_context", "user_frame"]


class Frame(NamedTuple):
    """A line of a user's program."""

    file_name: str
    function_name: str
    start_line: int


def current() -> Source | None:
    """Return the source line of the caller, which must be called by a user's program; None if there is none."""
    return find_user_source(1, {})


new_source_info = current


def current_name_stack() -> str:
    """Return the name stack, such as "encoder/layer"."""
    return trace_state.scope


def summarize(source_info: Source | None, num_frames: int = 1) -> str:
    """Return a source line as a text.

    >>> summarize(Source.from_line("model.py", 12, "loss"))
    'model.py:12 (loss)'
    """
    return "unknown" if source_info is None else str(source_info)


def user_frame(source_info: Source | None) -> Frame | None:
    """Return a source line as a `Frame`."""
    return None if source_info is None else Frame(source_info.file, source_info.function, source_info.line)


@contextlib.contextmanager
def user_context(c: object, *, name_stack: object = None) -> Iterator[None]:
    """Give the equations staged in the block a source line.

    Args:
      c: the line, as a `Source`; another value leaves the lines as they are.
      name_stack: accepted without effect: a `Source` contains the name stack.
    """
    before = trace_state.source
    if isinstance(c, Source):
        trace_state.source = c
    try:
        yield
    finally:
        trace_state.source = before
