"""Show in the terminal what is being done: one line on stderr, which is replaced and in the end removed.

The line is written between runs and compilations, by the thread that does the work, so it does not disturb measurements.
Without a terminal nothing is written.
"""
from __future__ import annotations

import os
import shutil
import sys
import time
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from typing_extensions import override

__all__ = ["Progress", "note_progress"]

_INTERVAL = 0.1  # seconds between two texts of one phase
_PREFIX = "lamina see: "


class _Lines:
    """Writes a line for each phase, for terminals without control sequences."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def show(self, text: str, is_new: bool) -> None:
        if is_new:
            self._stream.write(f"{_PREFIX}{text}\n")
            self._stream.flush()

    def clear(self) -> None:
        """Leave the lines."""


class _Line(_Lines):
    """Replaces one line, with a carriage return."""

    @override
    def show(self, text: str, is_new: bool) -> None:
        # The cursor returns to the start, so that output of the program begins there.
        self._stream.write(f"\r\x1b[K{(_PREFIX + text)[:shutil.get_terminal_size().columns - 1]}\r")
        self._stream.flush()

    @override
    def clear(self) -> None:
        self._stream.write("\r\x1b[K")
        self._stream.flush()


class _RichLine(_Line):
    """Replaces one line, in colour.

    Raises:
      ImportError: rich is not installed.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        from rich.console import Console  # noqa: PLC0415 (optional)
        self._console = Console(file=stream, highlight=False, soft_wrap=True)

    @override
    def show(self, text: str, is_new: bool) -> None:
        from rich.text import Text  # noqa: PLC0415 (optional)
        line = Text.assemble((_PREFIX, "bold cyan"), text)
        line.truncate(max(1, self._console.width - 1), overflow="ellipsis")
        self._stream.write("\r\x1b[K")
        self._console.print(line, end="\r")
        self._stream.flush()


def _choose_display() -> _Lines | None:
    stream = sys.stderr
    try:
        if stream is None or not stream.isatty():
            return None
    except ValueError:  # closed
        return None
    if os.environ.get("TERM", "") in ("", "dumb") and os.name != "nt":
        return _Lines(stream)
    try:
        return _RichLine(stream)
    except ImportError:
        return _Line(stream)


class Progress:
    """Context in which `note_progress` shows texts, in this thread."""

    def __init__(self) -> None:
        self._display = _choose_display()
        self._phase, self._shown = "", 0.0
        self._token: Token[Progress | None] | None = None

    def __enter__(self) -> Progress:
        if _current.get() is not None:
            self._display = None  # a report inside of a report
        self._token = _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        assert self._token is not None
        _current.reset(self._token)
        self._safely("clear")

    def note(self, phase: str, detail: str = "") -> None:
        """Show a phase, and a detail that changes often."""
        now = time.monotonic()
        is_new = phase != self._phase
        if self._display is None or not is_new and now - self._shown < _INTERVAL:
            return
        self._phase, self._shown = phase, now
        self._safely("show", f"{phase} {detail}".rstrip(), is_new)

    def announce(self, text: str) -> None:
        """Show a text that stays, because a program may write to the terminal next."""
        if self._display is not None:
            self._display = _Lines(sys.stderr)
            self._safely("show", text, True)

    def _safely(self, method: str, *arguments: Any) -> None:
        try:
            if self._display is not None:
                getattr(self._display, method)(*arguments)
        except (OSError, ValueError):  # the terminal has gone
            self._display = None


_current: ContextVar[Progress | None] = ContextVar("lamina_see progress", default=None)


def note_progress(phase: str, detail: str = "") -> None:
    """Show what is being done, if a report is being made in this thread.

    Args:
      phase: such as `compiling variants`; shown at once.
      detail: such as `3 of 7`; shown at most ten times a second.
    """
    found = _current.get()
    if found is not None:
        found.note(phase, detail)
