"""React to the failure of another process: unblock what waits for it, and raise an error.

Without help, waiting threads would hang. If several devices of this process take part in a collective, Gloo waits
forever for a process that is gone. If a process never comes to connect a group of devices, jaxlib waits for half a
minute. So when the coordinator reports a failure, this module

1. shuts down Gloo's sockets, which ends the first kind of wait with an error;
2. disconnects from jaxlib's coordination service if devices are being connected, which ends the second kind;
3. if Gloo waits for a connection that will never come, makes that connection in the lost process's place and closes it.

Steps 1 and 3 use `gloo_sockets`, which says what they rely on.

All processes do so, hence all pending multi-process launches fail at once. No others are launched afterwards.
Connections between devices of one process are made in the same way, and are preserved.

A launch that all processes had agreed on may fail in one process only. The others then wait for its data in the same
way, and are unblocked in the same way.

If the coordinator is gone, no process is lost: launches over connected devices continue. The processes then ask one
another, over their peer sockets, whether they live.
"""
from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from lamina_runtime.extend.processes import CoordinatorLostError, LaunchFailedError, ProcessLostError

from . import descriptor_guard, gloo_sockets, peer_sockets
from .._rendezvous import rendezvous_client
from .gloo_sockets import Address
from .._typing import Message

__all__ = ["FailureMonitor"]

_REPORT_TIMEOUT = 2.0  # seconds from a broken connection to the coordinator's report, at most
_CUT_PAUSE, _MAX_CUT_PAUSE = 0.05, 4.0  # seconds between two cuts, at first and at most
_CUT_DURATION = 8.0    # seconds during which cuts are repeated: a new connection may be on its way
_MAX_NUMBERS = 4096    # awaited connections that are tried in total, at most; also at most half of the descriptors
_LOCK_TIMEOUT = 0.5    # seconds to wait for devices of this process that are being connected
_CONNECT_TIMEOUT = 5.0  # seconds for a connection to this process's own Gloo
_PROBES = 4  # how often all processes are probed after a connection ended
_MAX_PROBING_THREADS = 16
_WATCH_INTERVAL = 0.5  # seconds between two looks at the connections, if no coordinator reports failures
_JOIN_INTERVAL = 0.1  # seconds between two looks at a launch in a worker thread
_UNBLOCK_TIMEOUT = 3.0  # seconds after a failure until blocked launches are abandoned
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
      failed_at: when the first loss, or failed launch, was reported; None before.
      settle_launches: called before an error is raised; waits shortly for the launches in progress to end.
    """

    def __init__(self, connection: rendezvous_client.CoordinatorConnection, disconnect: Callable[[], None],
                 sockets: peer_sockets.PeerSockets | None = None) -> None:
        self.connection, self._sockets = connection, sockets
        self.settle_launches: Callable[[], None] = _do_nothing
        self._silent_since: dict[int, float] = {}  # process that does not answer -> since when
        connection.is_counted_out = self._is_counted_out
        if sockets is not None:
            sockets.answer_status = self._answer_status
        self._gloo_addresses: dict[int, list[Address]] = {}
        self._all_addresses: frozenset[Address] = frozenset()
        self._unused_numbers: dict[Address, Iterator[int]] = {}  # own address -> connection numbers not yet used there
        self._connecting = 0  # launches in progress that may connect a group of devices
        self._connecting_lock, self._cut_lock = threading.Lock(), threading.Lock()
        self._preserved: set[int] = set()  # inodes of sockets
        self._disconnect = disconnect
        self._closed, self._creating_client = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        self._is_cutting = False
        self._guard: descriptor_guard.DescriptorGuard | None = None
        self.failed_at: float | None = None  # when the first loss, or failed launch, was reported
        connection.add_listener(self._on_event)

    def set_gloo_addresses(self, addresses: dict[int, list[Address]]) -> None:
        """Set the addresses at which Gloo of each process listens, once the client is made."""
        self._all_addresses = frozenset([a for those in addresses.values() for a in those])
        self._gloo_addresses = addresses
        own = addresses.get(self.connection.rank, ())
        self._guard = descriptor_guard.DescriptorGuard(own)
        for address in own:
            # Each number that Gloo does not await costs it a descriptor, see `_connect_for_lost`.
            self._unused_numbers[address] = iter(range(min(_MAX_NUMBERS, os.sysconf("SC_OPEN_MAX") // 2 // len(own))))

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
        if not self._closed.wait(_REPORT_TIMEOUT) and self._creating_client.is_set():
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
        while self._all_addresses and thread.is_alive():
            self._connect_for_lost()
            self._cut_connections()
            thread.join(_CUT_PAUSE)

    @contextlib.contextmanager
    def preserve_connections(self) -> Iterator[None]:
        """Context in which devices of this process are connected. Their connections survive later cuts."""
        held = self._cut_lock.acquire(timeout=_LOCK_TIMEOUT)  # a callback of one launch may wait for another
        try:
            # Connections that appear meanwhile belong to a group of devices of this process alone. Those of a
            # multi-process group must be cut after a loss, even if both of their devices are here.
            before = gloo_sockets.internal_connections(self._all_addresses)
            yield
            self._preserved.update(gloo_sockets.internal_connections(self._all_addresses) - before)
        finally:
            if held:
                self._cut_lock.release()

    def confirm_failure(self, suspects: Iterable[int] = ()) -> bool:
        """Wait shortly for the coordinator's report after a connection broke. Return whether a process has failed or
        left.

        Args:
          suspects: processes at the other end of the connection. Without a report they are considered lost.
        """
        here, until = self.connection, time.monotonic() + _REPORT_TIMEOUT
        with here.changed:
            while (not (here.lost or here.failed or here.coordinator_lost or self._closed.is_set())
                   and (remaining := until - time.monotonic()) > 0):
                # A process that has left explains the broken connection; still wait a quarter of the time for a loss.
                if here.left and remaining < _REPORT_TIMEOUT * 3 / 4:
                    break
                here.changed.wait(min(remaining, _REPORT_TIMEOUT / 4))
        for r in suspects:
            self._judge_suspect(r)
        while here.coordinator_lost and not here.lost and not here.failed and not self._closed.is_set():
            self._probe_processes()  # repeatedly: a process that is being killed may still answer
            if here.lost or time.monotonic() > until or self._closed.wait(_WATCH_INTERVAL):
                break
        return bool(here.lost or here.left or here.failed or here.coordinator_lost)

    def _await_explanation(self) -> bool:
        """Wait shortly for the coordinator's report, or its end. Return whether it explains an error."""
        here = self.connection
        with here.changed:
            return here.changed.wait_for(lambda: bool(here.lost or here.left or here.coordinator_lost), _REPORT_TIMEOUT)

    def _judge_suspect(self, rank: int) -> None:
        """Mark a process as lost that has closed its connection, unless it lives. If it is silent, await the report."""
        here = self.connection
        until = time.monotonic() + here.heartbeat + _REPORT_TIMEOUT
        while rank not in here.left and rank not in here.lost and not self._closed.is_set():
            state = "gone" if self._sockets is None else self._sockets.probe(rank)[0]
            if state == "gone" or (state == "silent" and time.monotonic() > until):
                here.mark_lost(rank, f"process {rank}, which closed its connection,")
            elif state == "alive" or self._closed.wait(_WATCH_INTERVAL):
                return

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
            self._probe_processes()
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
            self._start_thread(self._watch_connections)
        elif kind in ("lost", "failed"):
            if self._sockets is not None:
                self._sockets.abort_connecting()
            self._cut_connections()
            if not self._is_cutting:
                self._is_cutting = True
                self._start_thread(self._keep_cutting)
            with self._connecting_lock:
                if self._connecting:
                    self._disconnect()

    def _start_thread(self, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=act, name="lamina-failure-monitor", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _keep_cutting(self) -> None:
        """Cut connections repeatedly.

        Newer versions of Gloo connect the devices of a group one after the other. Each connection to a lost process
        needs a cut of its own, which can only be made once Gloo waits for it.
        """
        pause, until = _CUT_PAUSE, time.monotonic() + _CUT_DURATION
        while self._connecting or time.monotonic() < until and not self._closed.is_set():
            self._connect_for_lost()
            if self._connecting:
                time.sleep(pause := _CUT_PAUSE)
            else:
                self._closed.wait(pause := min(2 * pause, _MAX_CUT_PAUSE))
            self._cut_connections()

    def _cut_connections(self) -> None:
        """Shut down Gloo's sockets except the preserved ones.

        A connection between two devices of this process that belongs to a multi-process group is shut down too: one
        device would wait there for data that the other, which has failed, never sends. Such a connection may be made
        after the loss.

        Wait shortly for `preserve_connections`. Not longer: that may itself wait for what is to be unblocked.
        """
        held = self._cut_lock.acquire(timeout=_LOCK_TIMEOUT)
        try:
            gloo_sockets.shut_connections(self._all_addresses, self._preserved)
        finally:
            if held:
                self._cut_lock.release()

    def _connect_for_lost(self) -> None:
        """Connect to this process's own Gloo in place of lost processes, and close the connections.

        Which numbers Gloo awaits is unknown, so all are tried, from 0 on. Each costs a descriptor if Gloo does not await
        it, see `gloo_sockets.connect`. So each is used once, and the total is limited: a process without descriptors
        would be aborted.
        """
        for address, numbers in self._unused_numbers.items():
            while self._connecting and (batch := [*itertools.islice(numbers, 64)]):
                for number in batch:
                    gloo_sockets.connect(address, number, _CONNECT_TIMEOUT)
                time.sleep(0.005)

    # --- without a coordinator ------------------------------------------------------------------------------------
    def _watch_connections(self) -> None:
        """Detect losses after the coordinator is lost: when a connection to a process ends, probe all processes."""
        known = probes = 0
        while not self.connection.lost and not self._closed.wait(_WATCH_INTERVAL):
            now = gloo_sockets.count_external_connections(self._all_addresses)
            if now < known:
                probes = _PROBES
            if probes or self._silent_since:
                probes -= bool(probes)
                self._probe_processes()
            known = now

    def _probe_processes(self) -> None:
        """Mark the processes as lost that have ended, and those that were silent for the heartbeat timeout.

        What the others know is taken over, so that all remaining processes find the same losses.
        """
        here, now = self.connection, time.monotonic()
        found = self._ask_all()
        for r, (state, status) in found.items():
            if state == "silent":
                state = "gone" if now - self._silent_since.setdefault(r, now) > here.heartbeat else state
            else:
                self._silent_since.pop(r, None)
            for lost in [r] if state == "gone" else status["lost"] if status else ():
                if lost not in here.lost and lost not in here.left and found.get(lost, ("gone",))[0] != "alive":
                    here.mark_lost(lost, f"process {lost}, which does not answer,")

    def _ask_all(self, **news: object) -> dict[int, tuple[str, Message | None]]:
        """Return (state, status) of each process that is not known to be gone, see `PeerSockets.probe`."""
        here, sockets = self.connection, self._sockets
        ranks = [r for r in range(here.count) if r != here.rank and r not in here.lost and r not in here.left]
        if sockets is None or not ranks:
            return {}
        found: dict[int, tuple[str, Message | None]] = {}
        todo = iter(ranks)

        def ask() -> None:
            for r in todo:
                found[r] = sockets.probe(r, **news)

        # Plain threads: one that waits for a silent process must not keep the interpreter from ending.
        threads = [threading.Thread(target=ask, name="lamina-failure-monitor", daemon=True)
                   for _ in range(min(len(ranks), _MAX_PROBING_THREADS))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return found

    def _answer_status(self, question: Message) -> Message:
        """Answer another process, which asks whom this one considers lost, or says that it leaves."""
        here = self.connection
        rank = question["status"]
        if "leaves" in question and isinstance(rank, int) and here.coordinator_lost:
            for r in question["leaves"]:
                if r != here.rank and r not in here.lost:
                    here.mark_lost(r, f"process {r}, which process {rank} considers lost,")
            here.mark_left(rank, f"process {rank}")
        return {"lost": sorted(here.lost), "coordinator_lost": here.coordinator_lost}

    def announce_leave(self) -> None:
        """Say goodbye to the other processes if the coordinator is gone, so that they do not count this one as lost.

        They also learn which processes this one considers lost.
        """
        if self.connection.coordinator_lost and self.connection.rank not in self.connection.lost:
            self._ask_all(leaves=sorted(self.connection.lost))

    def _is_counted_out(self, has_slept: bool) -> bool:
        """Return whether the other processes continue without this one, after a silence between it and the coordinator.

        Args:
          has_slept: whether this process was suspended for longer than the heartbeat timeout.
        """
        found = [*self._ask_all().values()]
        alive = [status for _, status in found if status is not None]
        if alive:
            return any(self.connection.rank in status["lost"] for status in alive)
        # No process answers: this one was removed while it slept and the others have gone on, or its network is cut.
        return has_slept or any(state == "silent" for state, _ in found)


def _do_nothing() -> None:
    """Replaces `disconnect` of a closed monitor, so that the session is freed."""
