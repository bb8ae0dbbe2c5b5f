"""Find the process whose failure caused those of the others, and the end of its standard error to show.

A process that fails takes others with it: they raise ProcessLostError, or an error that reports a failure elsewhere. Such
failures are secondary. The launcher may notice one of them before the root failure, because that process is still being
torn down. So the exit order alone does not identify the root: the texts of the errors are needed too.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Ending", "failure_lines", "find_root", "has_traceback", "is_secondary", "starts_traceback"]

_MAX_SHOWN = 30  # lines shown if there is no traceback
_START = re.compile(rb"( *\+ Exception Group )?Traceback \(most recent call last\)")
_FATAL = b"Fatal Python error: "
_CHAIN = (b"The above exception was the direct cause of the following exception:",
          b"During handling of the above exception, another exception occurred:")
# Headers of tracebacks that do not end a process
_HARMLESS = re.compile(rb"Exception (ignored |in thread )|.*exception calling callback|--- Logging error ---")
# Log lines of jaxlib, which may follow a traceback at exit
_NOISE = re.compile(rb"\[Gloo\] |[IWEF]\d{4} \d\d:\d\d|WARNING: All log messages before absl")
_SECONDARY = re.compile(
    rb"(^|\n)([\w.]+\.)?(ProcessLostError|LaunchFailedError)\b"
    rb"|process_indices \([\d, ]+\) are gone: "
    rb"|failed in (another process|other processes), so it was not done"
    rb"|ended while the processes were connecting"
    rb"|[Gg]loo.*(Connection (closed|reset|refused)|Socket closed|Broken pipe)")
_NAMED_PID = re.compile(rb"\(([^()]*, )?pid (\d+)\)")
_NAMED_RANK = re.compile(rb"process_indices \(([\d, ]+)\)")


class Ending(NamedTuple):
    """The state of a process when the root failure is looked for.

    Attributes:
      rank, pid: number and process id.
      status: exit status; negative for a signal; None if the process runs.
      failed_at: the time of its end, or of its last traceback if that came earlier.
      was_signalled: whether the launcher had sent a signal before it ended.
      lines: the last lines of its standard error.
    """

    rank: int
    pid: int
    status: int | None
    failed_at: float
    was_signalled: bool
    lines: Sequence[bytes]


def starts_traceback(line: bytes) -> bool:
    """Return whether a line is the first of a traceback."""
    return _START.match(line) is not None


def has_traceback(lines: Sequence[bytes]) -> bool:
    """Return whether the lines contain a traceback that may have ended the process."""
    return bool(_traceback_starts(lines))


def failure_lines(lines: Sequence[bytes]) -> list[bytes]:
    """Return the last traceback with the exceptions that caused it, else the report of a crash, else the last lines."""
    kept = [line for line in lines if not _NOISE.match(line)]
    starts = _traceback_starts(kept)
    crashes = [i for i, line in enumerate(kept) if line.startswith(_FATAL)]
    if crashes and (not starts or crashes[-1] > starts[-1]):
        return kept[crashes[-1]:]
    if not starts:
        return kept[-_MAX_SHOWN:]
    first = starts[-1]
    for start in reversed(starts[:-1]):
        if not _is_chained(kept, first):
            break
        first = start
    return kept[first:]


def _traceback_starts(lines: Sequence[bytes]) -> list[int]:
    return [i for i, line in enumerate(lines)
            if _START.match(line) and not (i and _HARMLESS.match(lines[i - 1]))]


def _is_chained(lines: Sequence[bytes], start: int) -> bool:
    """Return whether the traceback that starts there has a cause or context before it."""
    before = start - 1
    while before >= 0 and not lines[before].strip():
        before -= 1
    return before >= 0 and lines[before].strip() in _CHAIN


def is_secondary(lines: Sequence[bytes]) -> bool:
    """Return whether the end of standard error reports the failure of another process."""
    shown = failure_lines(lines)
    starts = [i for i in range(len(shown)) if _START.match(shown[i])]
    if not starts:
        return _SECONDARY.search(b"\n".join(shown)) is not None
    # The oldest exception of a chain decides: a KeyError stays the root if its handler then meets a lost process. A
    # ProcessLostError has the error of the broken connection as its direct cause, which is not a root of its own.
    oldest = shown[starts[0]:starts[1]] if len(starts) > 1 else shown
    if _SECONDARY.search(_error_text(oldest)):
        return True
    caused = len(starts) > 1 and _CHAIN[0] in [line.strip() for line in oldest]
    newer = shown[starts[1]:starts[2]] if len(starts) > 2 else shown[starts[1]:] if caused else []
    return caused and _SECONDARY.search(_error_text(newer)) is not None


def _error_text(block: Sequence[bytes]) -> bytes:
    """Return the lines of a traceback without those of frames and source, which may quote any text."""
    return b"\n".join([line for line in block if not line.startswith(b"  ")])


def find_root(endings: Iterable[Ending]) -> Ending | None:
    """Return the process that failed first, or None if none failed.

    These come first: processes that failed by themselves with an error of their own. Then the processes that such
    errors of others name, which may still run or have ended with status 0. Then the earliest failure.
    """
    every = list(endings)
    failed = sorted([e for e in every if e.status and not e.was_signalled], key=lambda e: e.failed_at)
    if not failed:
        return None
    for e in failed:
        if not is_secondary(e.lines):
            return e
    named = [other for e in failed for other in _named_by(e, every)]
    return next((e for e in named if e not in failed), failed[0])


def _named_by(e: Ending, every: Sequence[Ending]) -> list[Ending]:
    """Return the other processes that the error of a process names as lost."""
    text = b"\n".join(failure_lines(e.lines))
    pids = {int(pid) for _, pid in _NAMED_PID.findall(text)}
    if pids:  # process indices may be those of a smaller group that was formed later
        return [other for other in every if other.pid in pids and other is not e]
    ranks = {int(r) for found in _NAMED_RANK.findall(text) for r in found.split(b",") if r.strip()}
    return [other for other in every if other.rank in ranks and other is not e]
