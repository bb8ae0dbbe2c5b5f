"""Show long compilations and transfers on a terminal: one line with the elapsed time, erased at the end.

The calling thread may be in C++ for minutes, so another thread draws the line. That thread is started by the first
operation that may be shown, looks at most every five seconds whether an operation has run that long, and ends when
there was none for a while. Where standard error is no terminal (logs, notebooks, tests), no thread is started.
"""
from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from lamina_ir import config
from typing_extensions import override

__all__ = ["LARGE", "operation", "reset_after_fork", "show_progress"]

show_progress = config.Option("show_progress", True, help="if standard error is a terminal, show compilations and host "
                              "transfers of over 5 s there, as one line with the elapsed time, erased at the end")

LARGE = 1 << 26  # bytes from which transfers are watched: smaller ones take less than 5 s on any connection
_DELAY, _REDRAW, _IDLE_ROUNDS = 5.0, 0.5, 2  # seconds, seconds, rounds of _DELAY
_NOTHING = nullcontext()


class _Watcher:
    """The running operations, and the thread that draws the line."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held while a line is written, and while the thread starts or ends
        self.operations: dict[_Operation, float] = {}  # -> time of the start
        self.thread: threading.Thread | None = None
        self.drawn_on: TextIO | None = None

    def start_thread(self) -> None:
        with self.lock:
            if self.thread is None:
                self.thread = threading.Thread(target=self.watch, name="lamina-progress", daemon=True)
                try:
                    self.thread.start()
                except RuntimeError:  # the interpreter is ending, or the system has no more threads
                    self.thread = None

    def watch(self) -> None:
        idle = 0
        while idle < _IDLE_ROUNDS:
            time.sleep(self.draw())
            idle = 0 if self.operations or self.drawn_on else idle + 1
        with self.lock:
            self.thread = None
        if self.operations:  # one came between the last look and the end
            self.start_thread()

    def draw(self) -> float:
        """Draw the line if an operation has run long enough. Return the seconds until the next look."""
        with self.lock:
            now = time.monotonic()
            running = sorted([(start, op.text, op.stream) for op, start in list(self.operations.items())],
                             key=lambda found: found[0])
            if not running:
                self.erase()
                return _DELAY
            start, text, stream = running[0]
            if now - start < _DELAY:
                return start + _DELAY - now
            import shutil  # noqa: PLC0415 (late: it imports modules of compression)
            more = f" and {len(running) - 1} more" if len(running) > 1 else ""
            line = f"lamina: {text}{more}, {_format_seconds(now - start)}"
            self.erase()
            if _write(stream, line[:shutil.get_terminal_size().columns - 1]):
                self.drawn_on = stream
            return _REDRAW

    def erase(self) -> None:
        """Erase the line; the caller holds the lock."""
        if self.drawn_on is not None:
            _write(self.drawn_on, "\r\x1b[2K")
            self.drawn_on = None


_watcher = _Watcher()


class _Operation:
    """The context of one operation."""

    def __init__(self, text: str, stream: TextIO) -> None:
        self.text, self.stream, self.start = text, stream, 0.0

    def __enter__(self) -> None:
        self.start = _watcher.operations[self] = time.monotonic()
        if _watcher.thread is None:
            _watcher.start_thread()

    def __exit__(self, *error: object) -> None:
        _watcher.operations.pop(self, None)
        is_short = time.monotonic() - self.start < _DELAY - _REDRAW
        # With a stopped terminal the other thread may hold the lock for long. It erases the line later.
        if not (is_short and _watcher.drawn_on is None) and _watcher.lock.acquire(timeout=1):
            try:
                _watcher.erase()
            finally:
                _watcher.lock.release()

    @override
    def __repr__(self) -> str:
        return f"<operation {self.text}>"


def operation(text: str) -> AbstractContextManager[None]:
    """Return a context for an operation that may take long, such as "compiling `f`"."""
    stream = sys.stderr
    if not _is_terminal(stream) or not show_progress.value:
        return _NOTHING
    return _Operation(text, stream)


def reset_after_fork() -> None:
    """Forget the thread and the operations of the parent, in a forked child."""
    global _watcher
    _watcher = _Watcher()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except Exception:  # a replacement of sys.stderr without isatty, or a closed file
        return False


def _write(stream: TextIO, text: str) -> bool:
    try:
        stream.write(text)
        stream.flush()
    except Exception:  # the terminal is gone: the operation goes on without a line
        return False
    return True


def _format_seconds(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset_after_fork)
