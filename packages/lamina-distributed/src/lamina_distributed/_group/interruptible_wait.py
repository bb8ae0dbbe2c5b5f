"""Wait for arrays such that the wait ends when a process is lost, for platforms whose collectives cannot be aborted.

On CPU the connections of Gloo are cut (`failure_handling`), so pending work fails, with one exception. If a connection
breaks just as Gloo's thread begins to send on it, the collective is not notified, and waits half an hour. This happens in
processes that were suspended. So a wait on CPU that is not over some seconds after the loss is interrupted, see `CpuWaiter`.

The connections of NCCL cannot be reached from here. The GPU client is configured to abort its collectives when it
learns of a failure. But it may not learn of it, or may be inside a call that does not return.

So once a multi-process GPU client is made, no thread waits for an array inside jaxlib. Arrays are polled instead. If a
process is lost and some seconds have passed, the waiting thread raises. First launches are made in a worker thread
anyway (`FailureMonitor.run_in_worker_thread`). The number of launches in progress is limited too, because a launch into
a full queue of the device blocks inside jaxlib.
"""
from __future__ import annotations

import _thread
import inspect
import signal
import threading
import time
from collections import deque
from collections.abc import Sequence

from lamina_ir.typing import Value
from lamina_runtime.extend import processes as runtime

from . import failure_handling, multi_process
from .._typing import Array

__all__ = ["CpuWaiter", "InterruptibleWaiter", "install"]

_ABORT_TIMEOUT = 5.0     # seconds after a loss in which the platform may abort its collectives
_CPU_TIMEOUT = 3.0       # seconds after a loss in which pending work on CPU devices fails by itself
_MAX_POLL_PAUSE = 1e-3   # seconds between two polls, at most
_PAUSE_SHARE = 0.02      # pause until the next poll on CPU, as a share of the time waited so far
_MAX_QUEUED = 8          # launches in progress: NCCL blocks when some tens of them are queued behind a stuck one
_MAX_HELD_BYTES = 1 << 26  # bytes of their results that are retained to count them
_MAIN_THREAD = threading.main_thread().ident
_get_handler = inspect.unwrap(signal.getsignal)  # without the conversion to an enum, which costs 40 us of each wait


class InterruptibleWaiter:
    """Waits for the arrays of one session.

    Args:
      monitor: knows which processes are lost.
    """

    def __init__(self, monitor: failure_handling.FailureMonitor) -> None:
        self._monitor = monitor
        self._newest: Array | None = None  # of the latest multi-process launch; a device runs its programs in order
        self._lost_at: float | None = None  # when a loss was first seen
        self._queue: deque[tuple[int, Array]] = deque()  # (bytes, smallest result) of launches that may be in progress
        self._held_bytes, self._lock = 0, threading.Lock()

    def note_launch(self, outs: Sequence[Value]) -> None:
        """Record a multi-process launch with these results. Wait while too many launches are in progress.

        Raises:
          ProcessLostError: one of these waits for a lost process.
        """
        if not outs:
            return
        smallest = min(outs, key=lambda x: x.nbytes)
        self._newest = runtime.share_buffers(smallest)
        with self._lock:
            self._queue.append((smallest.nbytes, self._newest))
            self._held_bytes += smallest.nbytes
        while True:
            with self._lock:
                if not self._queue:
                    return
                size, oldest = self._queue[0]
            if not self._is_done(oldest):
                if len(self._queue) <= _MAX_QUEUED and self._held_bytes <= _MAX_HELD_BYTES:
                    return
                self._poll("launch", oldest)
            with self._lock:
                if self._queue and self._queue[0][1] is oldest:  # else another thread has removed it
                    self._queue.popleft()
                    self._held_bytes -= size

    def _is_done(self, x: Array) -> bool:
        return runtime.is_ready(x)

    def wait(self, x: Array) -> Array:
        """Wait until an array is computed, and return it.

        Raises:
          ProcessLostError: it is queued behind a launch that waits for a lost process.
        """
        self._poll("block_until_ready", x)
        return runtime.wait_in_jaxlib(x)

    def _poll(self, call: str, x: Array) -> None:
        pause = 1e-5
        while not self._is_done(x):
            self._check(call, self._newest is not None and not self._is_done(self._newest))
            time.sleep(pause)
            pause = min(1.5 * pause, _MAX_POLL_PAUSE)

    def _check(self, call: str, is_stuck: bool) -> None:
        """Raise if a process has failed and a multi-process launch still runs after `_ABORT_TIMEOUT`."""
        if self._monitor.connection.lost or self._monitor.connection.failed:
            now = time.monotonic()
            self._lost_at = self._lost_at or now
            if is_stuck and now > self._lost_at + _ABORT_TIMEOUT:
                if self._newest is not None:
                    for d in runtime.sharding_of(self._newest)._internal_device_list:
                        runtime.immortalize(d.client)  # its destructor would wait for the stuck launch as well
                raise self._monitor.make_error(call)


class CpuWaiter:
    """Waits for the arrays of one session on CPU devices.

    The main thread waits inside jaxlib, which looks for signals meanwhile. If such a wait would never end, another thread
    interrupts it. Other threads poll: they take no signals. So does the main thread if the program handles SIGINT itself.

    Args:
      monitor: knows which processes are lost.
      launcher: knows the latest launch over several processes.
    """

    def __init__(self, monitor: failure_handling.FailureMonitor, launcher: multi_process.MultiProcessLauncher) -> None:
        self._monitor, self._launcher = monitor, launcher
        # The array that the main thread awaits inside jaxlib, and since when
        self._awaited: tuple[Array, float] | None = None
        self._lock, self._was_interrupted = threading.Lock(), False
        monitor.interrupt_waits = self.interrupt_stuck_wait

    def wait(self, x: Array) -> Array:
        """Wait until an array is computed, and return it.

        Raises:
          ProcessLostError: a process is lost, and a launch over several processes has not ended some seconds later.
        """
        if runtime.is_ready(x):
            return runtime.wait_in_jaxlib(x)
        if _thread.get_ident() == _MAIN_THREAD and _get_handler(signal.SIGINT) is signal.default_int_handler:
            return self._wait_for_signals(x)
        self._poll(x)
        return runtime.wait_in_jaxlib(x)

    def _wait_for_signals(self, x: Array) -> Array:
        """Wait in jaxlib, in the main thread. `interrupt_stuck_wait` ends a wait that would never end."""
        try:
            return self._wait_in_jaxlib(x)
        except KeyboardInterrupt:
            if not self._was_interrupted:
                raise
            self._was_interrupted = False
            raise self._monitor.make_error("block_until_ready") from None

    def _wait_in_jaxlib(self, x: Array) -> Array:
        outer, self._awaited = self._awaited, (x, time.monotonic())  # a signal handler may wait too
        has_come = False
        try:
            return runtime.wait_in_jaxlib(x)
        except KeyboardInterrupt:
            has_come = True
            raise
        finally:
            self._awaited = outer
            if self._monitor.failed_at is not None and not has_come:
                with self._lock:
                    pass  # the other thread has interrupted this wait, or will not
                until = time.monotonic() + 1
                while self._was_interrupted and time.monotonic() < until:
                    time.sleep(_MAX_POLL_PAUSE)  # receives the interrupt, which the caller would get otherwise
                self._was_interrupted = False

    def interrupt_stuck_wait(self) -> None:
        """Interrupt the main thread if it waits for an array that will never be computed. Called after a failure."""
        with self._lock:
            failed_at = self._monitor.failed_at
            if self._awaited is None or failed_at is None or self._was_interrupted:
                return
            if time.monotonic() > max(failed_at, self._awaited[1]) + _CPU_TIMEOUT and self._has_pending_launch():
                self._was_interrupted = True
                _thread.interrupt_main()

    def _poll(self, x: Array) -> None:
        began = time.monotonic()
        while not runtime.is_ready(x):
            now = time.monotonic()
            failed_at = self._monitor.failed_at
            if failed_at is not None and now > max(failed_at, began) + _CPU_TIMEOUT and self._has_pending_launch():
                raise self._monitor.make_error("block_until_ready")
            time.sleep(min((now - began) * _PAUSE_SHARE, _MAX_POLL_PAUSE))

    def settle(self) -> None:
        """Wait after a loss until the latest launch has ended, or some seconds: then it never ends."""
        failed_at = self._monitor.failed_at
        if failed_at is None or self._launcher.is_stuck:
            return
        while (latest := self._launcher.latest) is not None and not runtime.is_ready(latest):
            if time.monotonic() > failed_at + _CPU_TIMEOUT:
                for d in runtime.sharding_devices(runtime.sharding_of(latest)):
                    runtime.immortalize(d.client)  # its destructor would wait for the launch as well
                return self._launcher.mark_stuck()
            time.sleep(_MAX_POLL_PAUSE)

    def _has_pending_launch(self) -> bool:
        latest = self._launcher.latest
        return (self._launcher.is_stuck or self._monitor.is_connecting
                or (latest is not None and not runtime.is_ready(latest)))


def install(monitor: failure_handling.FailureMonitor) -> InterruptibleWaiter:
    """Wait for all arrays with a new waiter from now on, until `runtime.set_wait(None)`."""
    waiter = InterruptibleWaiter(monitor)
    runtime.set_wait(waiter.wait)
    return waiter
