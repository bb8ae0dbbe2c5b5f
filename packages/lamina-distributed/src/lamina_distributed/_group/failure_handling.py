"""React to the failure of another process: unblock what waits for it, and raise an error.

Without help, waiting threads would hang. If several devices of this process take part in a collective, Gloo waits
forever for a process that is gone. If a process never comes to connect a group of devices, jaxlib waits for half a
minute. So when the coordinator reports a failure, this module

1. shuts down Gloo's sockets, which ends the first kind of wait with an error;
2. disconnects from jaxlib's coordination service if devices are being connected, which ends the second kind;
3. if Gloo waits for a connection that will never come, makes that connection in the lost process's place and closes it.

Steps 1 and 3 are in `gloo_cuts`.

All processes do so, hence all pending multi-process launches fail at once. No others are launched afterwards.

A launch that all processes had agreed on may fail in one process only. The others then wait for its data in the same
way, and are unblocked in the same way.

If the coordinator is gone, no process is lost. See `peer_probes`.
"""
from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from lamina_runtime.extend.processes import CoordinatorLostError, LaunchFailedError, ProcessLostError

from . import descriptor_guard, gloo_cuts, peer_probes, peer_sockets
from .._rendezvous import rendezvous_client
from .gloo_sockets import Address

__all__ = ["FailureMonitor"]

_JOIN_INTERVAL = 0.1  # seconds between two looks at a launch in a worker thread
_UNBLOCK_TIMEOUT = 3.0  # seconds after a failure until blocked launches are abandoned
_INTERRUPT_INTERVAL = 0.2  # seconds between two looks for waits that never end
_MAX_LISTED = 8  # processes named in a message
_MAX_TEXT = 2000  # characters of an error that are reported
_T = TypeVar("_T")
launch_threads: dict[threading.Thread, FailureMonitor] = {}  # threads that make a launch in which devices are connected


@atexit.register
def _finish_launch_threads() -> None:
    """Wait for abandoned launches at exit.

    A thread that returns from jaxlib while the interpreter shuts down would abort the process and change its exit code.
    """
    for thread, monitor in list(launch_threads.items()):
        monitor.finish(thread)


class FailureMonitor:
    """Tracks the other processes of a session and unblocks waits for failed ones.

    Args:
      connection: the coordinator connection, which reports failures.
      disconnect: disconnects from jaxlib's coordination service.
      sockets: connections to the other processes; None if there is none.

    Attributes:
      cuts: Gloo's connections, which are shut down after a failure.
      probes: asks the other processes whether they live.
      failed_at: when the first loss, or failed launch, was reported; None before.
      interrupt_waits: called repeatedly after a failure; interrupts waits that would never end.
      settle_launches: called before an error is raised; waits shortly for the launches in progress to end.
    """

    def __init__(self, connection: rendezvous_client.CoordinatorConnection, disconnect: Callable[[], None],
                 sockets: peer_sockets.PeerSockets | None = None) -> None:
        self.connection = connection
        self._closed, self._creating_client = threading.Event(), threading.Event()
        self.cuts = gloo_cuts.GlooCuts(lambda: self._connecting > 0, self._closed)
        self.probes = peer_probes.PeerProbes(connection, sockets, self._closed)
        self.settle_launches: Callable[[], None] = _do_nothing
        self.interrupt_waits: Callable[[], None] = _do_nothing
        self._connecting = 0  # launches in progress that may connect a group of devices
        self._connecting_lock = threading.Lock()
        self._disconnect = disconnect
        self._threads: list[threading.Thread] = []
        self._is_cutting = False
        self._guard: descriptor_guard.DescriptorGuard | None = None
        self.failed_at: float | None = None  # when the first loss, or failed launch, was reported
        connection.add_listener(self._on_event)

    def set_gloo_addresses(self, addresses: dict[int, list[Address]]) -> None:
        """Set the addresses at which Gloo of each process listens, once the client is made."""
        own = addresses.get(self.connection.rank, [])
        self._guard = descriptor_guard.DescriptorGuard(own)
        self.cuts.set_addresses(own, [a for those in addresses.values() for a in those])

    def check(self, program: Any) -> None:
        """Raise ProcessLostError or LaunchFailedError if a multi-process program cannot be launched any more."""
        here = self.connection
        if here.lost or here.left or here.failed:
            gone = [] if here.lost else [r for r in program.processes if r in here.left]
            if here.lost or gone or here.failed:
                raise self._make_error(f"{program.call} of `{program.name}`", gone)

    @contextlib.contextmanager
    def creating_client(self) -> Iterator[None]:
        """Context in which the jaxlib client is made.

        Every process must publish its devices for this. A lost process may have done so before, so after a loss the
        client is given a moment to complete, and then aborted.

        Raises:
          ProcessLostError: it failed, and a process is lost or has left.
        """
        self._creating_client.set()
        if self.connection.lost or self.connection.left:
            self._start_thread(self._abort_client_creation)
        try:
            yield
        except Exception as e:
            if not self._await_explanation():
                raise
            raise self._make_error("making the devices of all processes known", self.connection.left,
                                   "Until shutdown() there are no devices") from e
        finally:
            self._creating_client.clear()

    def _abort_client_creation(self) -> None:
        if not self._closed.wait(peer_probes.REPORT_TIMEOUT) and self._creating_client.is_set():
            self._disconnect()

    @property
    def is_connecting(self) -> bool:
        """Whether a launch is in progress that may connect devices of several processes."""
        return self._connecting > 0

    @contextlib.contextmanager
    def connecting_devices(self) -> Iterator[None]:
        """Context in which devices of several processes may be connected."""
        with self._connecting_lock:
            self._connecting += 1
            if self.connection.lost or self.connection.failed:
                self._disconnect()
        try:
            yield
        finally:
            with self._connecting_lock:
                self._connecting -= 1

    def run_in_worker_thread(self, call: str, act: Callable[[], _T]) -> _T:
        """Return `act()`, a launch that may connect devices of several processes. It runs in another thread.

        jaxlib may wait for a lost process longer than the caller should. Then the error is raised and the thread is
        abandoned; it ends later.

        Args:
          call: the operation that failed, for the error.
          act: the launch.
        Raises:
          ProcessLostError, LaunchFailedError: a process or launch has failed, and `act` has not ended in time.
          RuntimeError: no more descriptors may be used for connections.
        """
        if self._guard is not None:
            self._guard.raise_if_closed(call)
        # A thread inside of jaxlib cannot be interrupted, so the caller must be another thread.
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                with self.connecting_devices():
                    results.append(act())
            except BaseException as e:
                errors.append(e)
            finally:
                del launch_threads[threading.current_thread()]

        thread = threading.Thread(target=run, name="lamina-launch", daemon=True)
        launch_threads[thread] = self
        thread.start()
        while thread.is_alive():
            thread.join(_JOIN_INTERVAL)
            if (self.failed_at is not None and time.monotonic() > self.failed_at + _UNBLOCK_TIMEOUT
                    and thread.is_alive()):
                raise self.make_error(call)
        if errors:
            raise errors[0]
        return results[0]

    def finish(self, thread: threading.Thread) -> None:
        """Unblock an abandoned launch and wait for its thread. With NCCL it may never end, so do not wait."""
        while self.cuts.addresses and thread.is_alive():
            self.cuts.connect_for_lost()
            self.cuts.cut()
            thread.join(gloo_cuts.CUT_PAUSE)

    def preserve_connections(self) -> AbstractContextManager[None]:
        """Context in which devices of this process are connected. Their connections survive later cuts."""
        return self.cuts.preserve()

    def confirm_failure(self, suspects: Iterable[int] = ()) -> bool:
        """Wait shortly for the coordinator's report after a connection broke. Return whether a process has failed or
        left.

        Args:
          suspects: processes at the other end of the connection. Without a report they are considered lost.
        """
        here, until = self.connection, time.monotonic() + peer_probes.REPORT_TIMEOUT
        with here.changed:
            while (not (here.lost or here.failed or here.coordinator_lost or self._closed.is_set())
                   and (remaining := until - time.monotonic()) > 0):
                # A process that has left explains the broken connection; still wait a quarter of the time for a loss.
                if here.left and remaining < peer_probes.REPORT_TIMEOUT * 3 / 4:
                    break
                here.changed.wait(min(remaining, peer_probes.REPORT_TIMEOUT / 4))
        for r in suspects:
            self.probes.judge_suspect(r)
        while here.coordinator_lost and not here.lost and not here.failed and not self._closed.is_set():
            self.probes.probe_processes()  # repeatedly: a process that is being killed may still answer
            if here.lost or time.monotonic() > until or self._closed.wait(peer_probes.WATCH_INTERVAL):
                break
        return bool(here.lost or here.left or here.failed or here.coordinator_lost)

    def _await_explanation(self) -> bool:
        """Wait shortly for the coordinator's report, or its end. Return whether it explains an error."""
        here = self.connection
        with here.changed:
            return here.changed.wait_for(lambda: bool(here.lost or here.left or here.coordinator_lost),
                                         peer_probes.REPORT_TIMEOUT)

    def report_launch_failure(self, call: str, launch: str, processes: int, error: BaseException) -> None:
        """Report that an agreed launch failed in this process. The others are notified unless it failed in all of them.

        Args:
          call: the operation, for the message.
          launch: identifier of the launch, the same in all its processes.
          processes: number of its processes.
          error: the error, which gets a note if the others are notified.
        """
        here = self.connection
        if here.lost or here.failed or self._closed.is_set() or here.report_failure(
                launch, processes, f"{call}: {type(error).__name__}: {error}"[:_MAX_TEXT]):
            return
        if hasattr(error, "add_note"):
            error.add_note(f"{call}: the other processes were about to launch this too, and are notified that it "
                           "failed here; lamina.distributed.shutdown() and initialize(...) in all of them are the way "
                           "on")

    def report_lost_step(self, text: str) -> None:
        """Have all processes raise LaunchFailedError from now on: their launches cannot agree any more."""
        here = self.connection
        if not (here.lost or here.failed or self._closed.is_set()):
            here.report_failure("lost step", here.count + 1, text)  # never alike in all processes

    def make_error(self, call: str) -> ProcessLostError | LaunchFailedError:
        """Return the error of an operation that failed. It names the failed processes."""
        return self._make_error(call, self.connection.left)

    def close(self) -> None:
        """End the threads: the session is over."""
        self._closed.set()
        self._disconnect = _do_nothing
        if self._guard is not None:
            self._guard.close()
        for t in self._threads:
            if t is not threading.current_thread() and t.ident is not None and not self._connecting:
                t.join()  # a thread that starts now finds the monitor closed

    def _make_error(self, call: str, left: Iterable[int],
                    then: str = "Operations that need no other process keep working"
                    ) -> ProcessLostError | LaunchFailedError:
        here = self.connection
        here.await_membership()
        if here.coordinator_lost and not here.lost:
            self.probes.probe_processes()
        self.settle_launches()
        failed = dict(here.failed)
        if failed and not here.lost:
            reasons = "; ".join([failed[r] for r in sorted(failed)[:_MAX_LISTED]]).rstrip(".")
            return LaunchFailedError(
                f"{call}: a launch of all processes failed in process_indices {tuple(sorted(failed))} and not in the others: "
                f"{reasons}. No more programs of several processes can run. Operations that need no other process keep "
                "working; call lamina.distributed.shutdown() and initialize(...) in all processes to continue", failed)
        if here.coordinator_lost and not here.lost:
            return CoordinatorLostError(
                f"{call}: the coordinator is gone, and no process is known to be lost. {then}; "
                "lamina.distributed.shutdown() and initialize(...) in all processes start another coordinator")
        names = {r: f"{here.left[r]} has left" for r in (() if here.lost else left)}
        names |= {r: f"{name} was lost" for r, name in dict(here.lost).items()}
        ranks = tuple(sorted(names))
        here.named = tuple(sorted({*here.named, *ranks}))
        reasons = "; ".join([names[r] for r in ranks[:_MAX_LISTED]])
        more = f"; and {len(ranks) - _MAX_LISTED} more" if len(ranks) > _MAX_LISTED else ""
        return ProcessLostError(
            f"{call}: process_indices {ranks} are gone: {reasons}{more}. {then}; "
            "lamina.distributed.shutdown() and initialize(...) form a new system of the remaining processes", ranks)

    def _on_event(self, event: rendezvous_client.Event) -> None:
        """Handle a report of the coordinator, in the thread of its connection."""
        if self._closed.is_set():
            return
        kind = event[0]
        if kind in ("lost", "failed") and self.failed_at is None:
            self.failed_at = time.monotonic()
        if kind != "coordinator" and self._creating_client.is_set():
            self._start_thread(self._abort_client_creation)
        if kind == "coordinator" and not self.connection.lost:
            self._start_thread(lambda: self.probes.watch(self.cuts.count_external))
        elif kind in ("lost", "failed"):
            if self.probes.sockets is not None:
                self.probes.sockets.abort_connecting()
            self.cuts.cut()
            if not self._is_cutting:
                self._is_cutting = True
                self._start_thread(self.cuts.keep_cutting)
                self._start_thread(self._keep_interrupting)
            with self._connecting_lock:
                if self._connecting:
                    self._disconnect()

    def _keep_interrupting(self) -> None:
        while not self._closed.wait(_INTERRUPT_INTERVAL):
            self.interrupt_waits()

    def _start_thread(self, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=act, name="lamina-failure-monitor", daemon=True)
        self._threads.append(thread)
        thread.start()


def _do_nothing() -> None:
    """Replaces `disconnect` of a closed monitor, so that the session is freed."""
