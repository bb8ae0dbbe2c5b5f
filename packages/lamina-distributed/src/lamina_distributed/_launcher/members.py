"""The processes that `lamina.launch` starts: their output with prefixes, their log files, and signals to them."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import io
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import IO

from . import failure_report

__all__ = ["Log", "Member"]

_MAX_LINES = 1000  # lines of standard error retained of each process
_MAX_LINE_BYTES = 1 << 16  # longer lines are split
_GLOO_LINE = b"[Gloo] "  # jaxlib writes such lines to standard output when a group of devices is connected


class Log:
    """The log file of one process, to which its output of all attempts is appended.

    Args:
      path: the file.
      header: the first line of this attempt.
    Raises:
      OSError: the file cannot be written to.
    """

    def __init__(self, path: str, header: str) -> None:
        self.path = path
        # Without a buffer, so that nothing is left to be written when the disk is full.
        self._file: io.FileIO | None = open(path, "ab", buffering=0)
        self.write(f"{header}\n".encode())

    def write(self, text: bytes) -> None:
        """Append text. A full disk ends the log with a message, not the program."""
        if self._file is None:
            return
        try:
            while text:
                text = text[self._file.write(text):]
        except OSError as e:
            with contextlib.suppress(OSError):
                print(f"lamina.launch: {self.path} cannot be written to, so this log ends here: {e.strerror or e}",
                      file=sys.stderr, flush=True)
            self.close()

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


class _Stream:
    """Copies the output of a process line by line, with a prefix."""

    def __init__(self, pipe: IO[bytes], out: IO[bytes], member: Member, is_error: bool) -> None:
        self.pipe, self._out, self._member, self._is_error, self._partial = pipe, out, member, is_error, b""

    def read(self) -> bool:
        """Copy the available output. Return False at its end."""
        more = os.read(self.pipe.fileno(), 1 << 16)
        *lines, self._partial = (self._partial + more).split(b"\n")
        if self._partial and (not more or len(self._partial) > _MAX_LINE_BYTES):
            lines.append(self._partial)
            self._partial = b""
        if self._is_error:
            self._member.note_errors(lines)
        else:
            self._write(sys.stderr.buffer, [line for line in lines if line.startswith(_GLOO_LINE)])
            lines = [line for line in lines if not line.startswith(_GLOO_LINE)]
        self._write(self._out, lines)
        return bool(more)

    def _write(self, out: IO[bytes], lines: list[bytes]) -> None:
        if not lines:
            return
        if self._member.log is not None:
            self._member.log.write(b"".join(line + b"\n" for line in lines))
        with contextlib.suppress(OSError):  # the output may be closed
            out.write(b"".join(self._member.prefix + line + b"\n" for line in lines))
            out.flush()


class Member:
    """One process, and the processes that it starts in its session.

    Attributes:
      rank: its number.
      status: its exit status; negative for a signal; None as long as it runs.
      prefix: the start of each line of its output.
      log: its log file, or None.
      is_tolerated: whether it failed and the others continue without it.
    """

    def __init__(self, rank: int, command: list[str], env: dict[str, str], width: int) -> None:
        self.rank = rank
        self.status: int | None = None
        self.prefix = f"[{rank:{width}}] ".encode()
        self.log: Log | None = None
        self.is_tolerated = self._was_signalled = False
        self._ended_at = self._traceback_at = float("inf")
        self._last_lines: collections.deque[bytes] = collections.deque(maxlen=_MAX_LINES)
        with warnings.catch_warnings():
            # Python warns that locks of other threads stay locked in the child. `preexec_fn` acquires none.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_make_preexec())
        assert self.process.stdout is not None and self.process.stderr is not None
        self.streams = [_Stream(self.process.stdout, sys.stdout.buffer, self, False),
                        _Stream(self.process.stderr, sys.stderr.buffer, self, True)]

    def note_errors(self, lines: list[bytes]) -> None:
        """Retain lines of standard error, and the time of the last traceback."""
        self._last_lines.extend(lines)
        if any(map(failure_report.starts_traceback, lines)):
            self._traceback_at = time.monotonic()

    def check_ended(self) -> bool:
        """Return whether it has just ended. If so, kill the processes that it left behind."""
        if self.status is not None:
            return False
        if hasattr(os, "waitid"):
            if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return False
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)  # before the process is reaped: then its id may be reused
        self.status = self.process.poll()
        self._ended_at = time.monotonic()
        return self.status is not None

    def send(self, number: int, ends: bool = True) -> None:
        """Send a signal to the process and those that it has started. `ends`: the signal is meant to end it."""
        if self.status is None:
            self._was_signalled = self._was_signalled or ends
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def ending(self) -> failure_report.Ending:
        """Return its state for the search for the root failure."""
        lines = list(self._last_lines)
        at = min(self._ended_at, self._traceback_at) if failure_report.has_traceback(lines) else self._ended_at
        return failure_report.Ending(self.rank, self.process.pid, self.status, at, self._was_signalled, lines)

    def has_open_traceback(self) -> bool:
        """Return whether it has printed a traceback and still runs, perhaps because it is being torn down."""
        return self.status is None and failure_report.has_traceback(list(self._last_lines))

    def close(self) -> None:
        """Kill it if it runs, and release its pipes and its log."""
        self.send(signal.SIGKILL)
        self.process.wait()
        for s in self.streams:
            s.pipe.close()
        if self.log is not None:
            self.log.close()


def _make_preexec() -> Callable[[], object] | None:
    """Return a function to call in a new child, so that the system kills it when this process ends, even by SIGKILL.

    None on systems other than Linux, which do not support this.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
