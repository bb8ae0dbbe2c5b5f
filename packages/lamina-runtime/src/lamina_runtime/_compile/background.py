"""Compile programs in a background thread, one after another.

A compilation cannot be interrupted, and XLA aborts a process that ends during one. So the thread is a daemon that ends when
nothing is queued, and at exit the process waits for the compilation that is running; queued ones are dropped. Ctrl-C during
that wait ends the process at once. A forked child has neither the thread nor the queue.
"""
from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable

from lamina_ir.typing import Device

from .._backend import client_state, fork_state, progress, shutdown  # shutdown registers its exit handler first

__all__ = ["Job", "submit", "wait_for_optimized"]


class Job:
    """A compilation in the background.

    Args:
      name: of the program.
      device: a device of its client; if that is closed, the job is dropped.
      work: compiles the program and replaces its executable. It must not raise.

    Attributes:
      is_finished: set when the work is done or was dropped.
    """

    __slots__ = ("name", "device", "is_finished", "_work")

    def __init__(self, name: str, device: Device, work: Callable[[], None]) -> None:
        self.name, self.device, self._work = name, device, work
        self.is_finished = threading.Event()

    def run(self) -> None:
        """Do the work, which the caller has removed from the queue."""
        try:
            if not client_state.is_closed(self.device):
                self._work()
        finally:
            self.drop()

    def drop(self) -> None:
        """Release what the work refers to, and wake the threads that wait for it."""
        self._work = _do_nothing
        self.is_finished.set()

    def wait(self) -> None:
        """Return when the job is finished. A queued job is run by the calling thread."""
        if fork_state.is_disabled:
            return
        if _queue.remove(self):
            self.run()
        else:
            self.is_finished.wait()


def _do_nothing() -> None:
    pass


class _Queue:
    """The queued jobs, the running one, and the thread that runs them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._running: Job | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def add(self, job: Job) -> bool:
        """Queue a job, and start the thread if there is none. Return False if the process ends or has no more threads."""
        with self._lock:
            if self._is_closed:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="lamina-compile", daemon=True)
                try:
                    thread.start()  # it waits for the lock
                except RuntimeError:
                    return False
                self._thread = thread
            self._jobs.append(job)
        return True

    def remove(self, job: Job) -> bool:
        """Remove a job that is not running yet. Return whether it was queued."""
        with self._lock:
            if job not in self._jobs:
                return False
            self._jobs.remove(job)
            return True

    def unfinished(self) -> list[Job]:
        """Return the running job and the queued ones."""
        with self._lock:
            return [*([self._running] if self._running else []), *self._jobs]

    def close(self) -> None:
        """Drop the queued jobs and wait for the running one. Later jobs are refused."""
        with self._lock:
            self._is_closed = True
            dropped, running, thread = list(self._jobs), self._running, self._thread
            self._jobs.clear()
        for job in dropped:
            job.drop()
        if thread is not None and running is not None:
            with progress.operation(f"compiling `{running.name}` in the background"):
                thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._thread = self._running = None
                    return
                self._running = self._jobs.popleft()
            self._running.run()
            self._running = None


_queue = _Queue()


def submit(job: Job) -> bool:
    """Run a job in the background thread. Return False if there cannot be one."""
    return _queue.add(job)


def wait_for_optimized() -> None:
    """Wait until no program runs its first tier: until all compilations in the background have ended.

    With the setting `compile_tiers="auto"`, the first calls of a large program run code that is compiled quickly, and a
    background thread compiles the optimised code. Benchmarks call this function between the first call and the
    measurement. Otherwise it returns at once.

    >>> import lamina_runtime
    >>> lamina_runtime.wait_for_optimized()
    """
    for job in _queue.unfinished():
        job.wait()


@client_state.on_close
def _drop_jobs(closed: client_state.ClientState) -> None:
    """Drop the queued jobs of closed clients. The result of a running one is dropped when it ends."""
    for job in _queue.unfinished():
        if client_state.is_closed(job.device) and _queue.remove(job):
            job.drop()


def _at_exit() -> None:
    try:
        _queue.close()
    except KeyboardInterrupt:
        shutdown.end_process()


def _reset_after_fork() -> None:
    global _queue
    _queue = _Queue()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
