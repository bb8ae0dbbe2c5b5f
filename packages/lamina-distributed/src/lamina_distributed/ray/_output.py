"""Copy the output of workers to the driver, line by line, with the process index in front.

A worker writes to two files of its node. So the last lines before a crash remain, and are read by a task on that node.
Ray's own copy of the output is not used: it omits a line if another worker has printed a similar one.
"""
from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from typing import TextIO

__all__ = ["OutputCopy", "read_files", "read_rest", "redirect"]

_MAX_BYTES, _MAX_REST = 1 << 20, 1 << 25  # of one read of a file
_MAX_LINE_BYTES = 1 << 16  # longer lines are split
_PAUSE = 0.1  # seconds between two looks for more output
_RAY_LINES = (b":actor_name:", b":task_name:")  # Ray writes such lines for its own copy of the output
_GLOO_LINE = b"[Gloo] "  # jaxlib writes such lines to standard output when a group of devices is connected


def redirect() -> str:
    """Have standard output and standard error of this process written to two files; return their folder."""
    folder = tempfile.mkdtemp(prefix="lamina-ray-")
    for stream, (number, name) in zip((sys.stdout, sys.stderr), ((1, "stdout"), (2, "stderr"))):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
        file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
        setattr(sys, name, open(number, "w", buffering=1, closefd=False, encoding="utf-8", errors="backslashreplace"))
    return folder


def read_files(folder: str, offsets: list[int], seconds: float = 0.0, max_bytes: int = _MAX_BYTES) -> list[bytes]:
    """Return what was written to both files after the offsets.

    Args:
      folder: that of `redirect`.
      seconds: how long to wait for the first byte.
      max_bytes: the most that is read of each file.
    Raises:
      OSError: a file cannot be read.
    """
    until = time.monotonic() + seconds
    while True:
        found = []
        for name, offset in zip(("stdout", "stderr"), offsets):
            with open(os.path.join(folder, name), "rb") as f:
                f.seek(offset)
                found.append(f.read(max_bytes))
        if any(found) or time.monotonic() >= until:
            return found
        time.sleep(_PAUSE)


def read_rest(folder: str, offsets: list[int]) -> list[bytes]:
    """Return what was written to both files after the offsets, and delete the folder."""
    try:
        return read_files(folder, offsets, max_bytes=_MAX_REST)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class OutputCopy:
    """The output of one worker, as far as it was copied.

    Args:
      rank: process index of the worker.
      count: number of workers.

    Attributes:
      offsets: number of bytes copied from standard output and standard error.
    """

    def __init__(self, rank: int, count: int) -> None:
        self._prefix = f"[{rank:{len(str(count - 1))}}] "
        self.offsets = [0, 0]
        self._partial = [b"", b""]

    def write(self, found: list[bytes]) -> None:
        """Print the lines that are complete now."""
        for i, more in enumerate(found):
            self.offsets[i] += len(more)
            *lines, self._partial[i] = (self._partial[i] + more).split(b"\n")
            if len(self._partial[i]) > _MAX_LINE_BYTES:
                lines.append(self._partial[i])
                self._partial[i] = b""
            self._print(i, [line for line in lines if not line.startswith(_RAY_LINES)])

    def close(self) -> None:
        """Print the last line of each file if it has no end."""
        for i, line in enumerate(self._partial):
            if line:
                self._print(i, [line])
        self._partial = [b"", b""]

    def _print(self, i: int, lines: list[bytes]) -> None:
        if i == 0:
            self._print_to(sys.stderr, [line for line in lines if line.startswith(_GLOO_LINE)])
            lines = [line for line in lines if not line.startswith(_GLOO_LINE)]
        self._print_to(sys.stderr if i else sys.stdout, lines)

    def _print_to(self, out: TextIO, lines: list[bytes]) -> None:
        if not lines:
            return
        text = "".join(f"{self._prefix}{line.decode(errors='backslashreplace')}\n" for line in lines)
        with contextlib.suppress(OSError, ValueError):  # the output may be closed
            try:
                out.write(text)
            except UnicodeEncodeError:  # the encoding of the driver's output lacks a character
                out.write(text.encode("ascii", "backslashreplace").decode())
            out.flush()
