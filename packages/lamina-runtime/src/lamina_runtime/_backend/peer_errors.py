"""Errors for failed processes, and the mapping from jaxlib errors to them.

Failures are detected by lamina-distributed, which is imported only if there are several processes.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, TypeVar

from lamina_ir import LaminaError

__all__ = ["CoordinatorLostError", "FailureMonitor", "LaunchFailedError", "ProcessLostError", "peer_error_for",
           "set_failure_monitor"]

_T = TypeVar("_T")
# What Gloo, NCCL and jaxlib's coordination client report if a connection broke, at either end. There is no error code
# to test.
_BROKEN_CONNECTION = r"[Gg]loo|coordination|Connection (closed|reset)|Socket closed|CANCELLED|NCCL"


class _PeerError(LaminaError, RuntimeError):
    """An error with the indices of the processes concerned, ascending: `process_indices`."""

    def __init__(self, message: str, process_indices: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.process_indices = tuple(sorted({*process_indices}))


class ProcessLostError(_PeerError):
    """Other processes have ended or do not respond, so an operation that needs them cannot be done.

    Operations that need no other process keep working. `shutdown()` and then `initialize(...)` form a new system of the
    remaining processes; functions jitted earlier work there.

    Fix: call `shutdown()`, then `initialize(...)` in the remaining processes; restore a checkpoint.

    Attributes:
      process_indices: indices of the lost processes, ascending. This process's own index: the others consider it lost.

    >>> ProcessLostError("jit of `f`: process 2 is gone", [2]).process_indices
    (2,)
    """

    code: ClassVar[str] = "LAM1603"


class CoordinatorLostError(ProcessLostError):
    """The coordinator has ended or does not respond, and an operation needs it. No process is known to be lost.

    The coordinator introduces processes and device groups to each other. Programs whose device groups are connected do
    not need it and keep working; so does everything that needs no other process. What needs it raises this error: the
    devices, if they were not used before, and the first launch over devices that were never connected.

    It is a `ProcessLostError` whose `process_indices` is (): code that forms a system of the remaining processes after
    a loss forms one of all processes.

    Fix: call `shutdown()`, then `initialize(...)` in all processes. Process 0 starts another coordinator.

    >>> CoordinatorLostError("jit of `f`: the coordinator is gone").process_indices
    ()
    """

    code: ClassVar[str] = "LAM1605"


class LaunchFailedError(_PeerError):
    """A launch that all its processes had agreed on failed in some of them, but not in all.

    An example is an exhausted memory. The other processes would wait for the missing data forever, so all multi-process
    launches are ended. The processes in which the launch failed raise their own error. No process is lost, and
    operations that need no other process keep working. `shutdown()` and then `initialize(...)` in all processes form a
    new system.

    Fix: correct the error of the named processes; then `shutdown()` and `initialize(...)` in all processes.

    Attributes:
      process_indices: indices of the processes in which the launch failed, ascending.

    >>> LaunchFailedError("pmap of `f`: a launch failed in process 1", [1]).process_indices
    (1,)
    """

    code: ClassVar[str] = "LAM1604"


class FailureMonitor(Protocol):
    """Tracks failures of other processes; set with `set_failure_monitor`."""

    def check(self, program: Any) -> None:
        """Raise if a program over several processes cannot be launched any more."""

    def run_in_worker_thread(self, call: str, act: Callable[[], _T]) -> _T:
        """Run a launch that may connect devices in another thread, which is abandoned if a process fails."""

    def preserve_connections(self) -> AbstractContextManager[None]:
        """Context in which devices of this process are connected; these connections survive the loss of a process."""

    def confirm_failure(self, suspects: Iterable[int] = ()) -> bool:
        """Return whether a process has failed or left, after a short wait for the report."""

    def report_launch_failure(self, call: str, launch: str, processes: int, error: BaseException) -> None:
        """Report to the other processes that an agreed launch failed in this one."""

    def make_error(self, call: str) -> ProcessLostError | LaunchFailedError:
        """Return the error of an operation that failed."""


_monitor: FailureMonitor | None = None


def set_failure_monitor(monitor: FailureMonitor) -> None:
    """Set the monitor by which launch errors are explained, until the next call."""
    global _monitor
    _monitor = monitor


def peer_error_for(call: str, error: BaseException) -> ProcessLostError | LaunchFailedError | None:
    """Return the error to raise instead of jaxlib's. None if `error` has another reason, or no process has failed."""
    monitor = _monitor
    if monitor is None or re.search(_BROKEN_CONNECTION, str(error)) is None or not monitor.confirm_failure():
        return None
    lost = monitor.make_error(call)
    lost.__cause__ = error
    return lost
