"""What is raised where another process is gone, and in place of which errors. Who watches the others stands in `losses`, and is
loaded where there are any."""
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

__all__ = ["LaunchFailedError", "ProcessLostError", "begin", "instead"]

# What jaxlib says of a connection that ended, in either place.
_BROKEN = re.compile(r"[Gg]loo|coordination|Connection (closed|reset)|Socket closed|CANCELLED|NCCL")


class _OfProcesses(RuntimeError):
    """An error with the numbers of some processes, in order: `process_indices`."""

    def __init__(self, message: str, process_indices: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.process_indices = tuple(sorted({*process_indices}))

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.process_indices)


class ProcessLostError(_OfProcesses):
    """Other processes have ended, or are silent, and what this one was to do with them cannot be done.

    What needs no other process works on. `shutdown()` and then `initialize(...)` make a new system of those who are left; what
    was jitted works there.

    Attributes:
      process_indices: numbers of those that are gone, in order. This process's own: the others have taken it for lost.

    >>> ProcessLostError("jit of `f`: process 2 is gone", [2]).process_indices
    (2,)
    """


class LaunchFailedError(_OfProcesses):
    """A launch that all its processes had agreed on has failed in some of them, for want of memory say, and not in all: the
    others would wait for their data for ever. So all launches over several processes end.

    Those in which it failed raise their own error. All of them are there, and what needs no other process works on.
    `shutdown()` and then `initialize(...)` in all make a new system.

    Attributes:
      process_indices: numbers of those in which it failed, in order.

    >>> LaunchFailedError("pmap of `f`: a launch failed in process 1", [1]).process_indices
    (1,)
    """


class Watch(Protocol):
    """Who knows what has become of the other processes, as `losses.Watch`."""

    def told(self) -> bool:
        """Whether one is gone; waits for the word shortly."""

    def error(self, call: str) -> ProcessLostError | LaunchFailedError:
        """Of a call that failed."""


_latest: Watch | None = None


def begin(watch: Watch) -> None:
    """Tell failures of launches from now on by what this one knows, until another takes its place."""
    global _latest
    _latest = watch


def instead(call: str, error: BaseException) -> ProcessLostError | LaunchFailedError | None:
    """What is raised in place of jaxlib's error: None where no process is gone, or has failed, or it has another reason."""
    watch = _latest
    if watch is None or _BROKEN.search(str(error)) is None or not watch.told():
        return None
    made = watch.error(call)
    made.__cause__ = error
    return made
