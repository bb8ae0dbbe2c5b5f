"""Launch programs whose devices belong to several processes.

Before a launch, all processes of the program check that they launch the same one. A failed launch is reported to the
others.
"""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, prims, shaped
from lamina_tracing import hooks
from lamina_ir.typing import Value
from lamina_runtime.extend import processes as runtime
from lamina_runtime.extend.processes import MultiProcessProgram

from .._typing import Array

__all__ = ["MultiProcessLauncher"]

_Outs = TypeVar("_Outs", bound=Sequence[Any])
_AXIS = "own"


class MultiProcessLauncher:
    """Launches the multi-process programs of one session. Installed in the client state, which has None for one
    process.

    Attributes:
      monitor: knows which processes have failed.
      launch_agreed: called with the program and a function that launches it. It returns the result of that function, or
        raises if the processes launch different programs. It calls it in the same order in all processes.
      is_stuck: whether a launch over several processes will not end, because a process was lost.
      store: texts that all processes share, a `KeyValueStore`.
      waiter: waits for results if jaxlib cannot abort a wait for a lost process (GPU). None if it can.
      latest_launch: call, name and processes of the latest launch, for `stuck_watch`; None before the first.
    """

    def __init__(self, monitor: runtime.FailureMonitor) -> None:
        self.monitor = monitor
        self.waiter: Any = None
        self.is_stuck = False
        self.store: runtime.KeyValueStore | None = None
        self.launch_agreed: Callable[[MultiProcessProgram, Callable[[], Any]], Any] = _launch_unchecked
        self.latest_launch: tuple[str, str, tuple[int, ...]] | None = None
        self._first_lock = threading.Lock()
        self._launch_numbers: dict[tuple[int, ...], Iterator[int]] = {}
        self._local_devices_connected = False
        self.latest: Array | None = None  # a view of one result of the latest launch, if that may be running or have failed

    def launch(self, program: MultiProcessProgram, args: Sequence[Value], start: Callable[[], _Outs]) -> _Outs:
        """Return `start()`, which launches a multi-process program on `args`, once the previous launch has ended.

        Raises:
          ProcessLostError: a process was lost, or one of the program's has left, before or during the launch.
          LaunchFailedError: an earlier launch failed in some processes but not in all.

        An error raised by `start` in this process is reported to the other processes.
        """
        self.monitor.check(program)
        outs: _Outs = self.launch_agreed(program, lambda: self._launch_next(program, start))
        return outs

    def _launch_next(self, program: MultiProcessProgram, start: Callable[[], _Outs]) -> _Outs:
        """Return `start()` after the previous launch. Threads call this in the order of the agreement."""
        # After the agreement, whose exchange takes place while the previous launch still runs.
        if self.latest is not None:
            self._await_latest(program)
        numbers = self._launch_numbers.get(program.processes)
        # `setdefault` is atomic: two threads get one counter. The number identifies the launch in reports of failures.
        numbers = numbers or self._launch_numbers.setdefault(program.processes, itertools.count())
        number = next(numbers)
        self.latest_launch = program.call, program.name, program.processes
        try:
            outs = start() if program.first_launch_done else self._launch_first(program, number, start)
        except (runtime.ProcessLostError, runtime.LaunchFailedError):
            raise
        except BaseException as e:
            # A broken connection looks like any failed launch. If a process is lost, that is the cause, and the
            # others know it already.
            if isinstance(e, runtime.LAUNCH_ERRORS) and not runtime.find_callback_error(e):
                lost = runtime.peer_error_for(f"{program.call} of `{program.name}`", e)
                if lost is not None:
                    raise lost from e
            self._report_failure(program, number, e)
            raise
        if self.waiter is not None:
            self.waiter.note_launch(outs)
        elif outs:
            self._store_latest(outs)
        return outs

    def _await_latest(self, program: MultiProcessProgram) -> None:
        """Wait for the previous launch: one multi-process launch runs at a time.

        The loss of a process may end one device's collective early and free the buffer that Gloo was to fill. If
        another device of this process is further on, it still sends to that buffer. Gloo then stops reading that
        connection, and does not even see its end: work that the first device had queued behind would hang there for
        half an hour.
        """
        latest = self.latest
        try:
            # Kept meanwhile: a wait that is not ended by the loss of a process is recognized by it.
            error = _wait_all([latest])
        finally:
            if not self.is_stuck:
                self.latest = None
        lost = None if error is None else runtime.peer_error_for(f"{program.call} of `{program.name}`", error)
        if lost is not None:
            raise lost from error

    def _report_failure(self, program: MultiProcessProgram, number: int, error: BaseException) -> None:
        """Report that an agreed launch failed here: the other processes may wait for this process's data."""
        from hashlib import blake2b  # noqa: PLC0415 (late: the import takes some milliseconds)
        launch = blake2b(f"{program.processes} {number}".encode(), digest_size=16).hexdigest()
        self.monitor.report_launch_failure(f"{program.call} of `{program.name}`", launch, len(program.processes), error)

    def _launch_first(self, program: MultiProcessProgram, number: int, start: Callable[[], _Outs]) -> _Outs:
        """Launch a program for the first time, and wait: jaxlib may block while it connects devices."""
        self.connect_local_devices()  # before others: after a loss they could not be connected any more
        call = f"{program.call} of `{program.name}`"
        outs, error = self.monitor.run_in_worker_thread(call, lambda: self._start_and_wait(start))
        if error is not None:
            lost = runtime.peer_error_for(call, error)
            if lost is not None:
                raise lost from error
            self._report_failure(program, number, error)  # the results raise it again in whatever reads them here
        # All device groups of the program are connected, so later launches do not block in jaxlib.
        program.first_launch_done = True
        return outs

    def mark_stuck(self) -> None:
        """Record that a launch over several processes will not end.

        jaxlib runs what one thread launches in order, so later launches of that thread would wait behind it. From now
        on all launches pass through Python, which makes them in other threads.
        """
        self.is_stuck = True
        runtime.clear_fast_paths()

    @staticmethod
    def run_in_new_thread(act: Callable[[], _Outs]) -> _Outs:
        """Return `act()`, which runs in a new thread."""
        results: list[_Outs] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(act())
            except BaseException as e:
                errors.append(e)

        thread = threading.Thread(target=run, name="lamina-launch", daemon=True)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def connect_local_devices(self) -> None:
        """Connect the devices of this process with each other, once.

        This is done as soon as the devices are known: whatever happens later, programs over them need no other process.
        """
        with self._first_lock:
            if not self._local_devices_connected:
                self._local_devices_connected = True
                connect_local_devices()

    def _start_and_wait(self, start: Callable[[], _Outs]) -> tuple[_Outs, Exception | None]:
        outs = start()
        if self.waiter is not None:
            self.waiter.note_launch(outs)
        return outs, _wait_all(outs)

    def launch_local_first(self, start: Callable[[], _Outs], args: Sequence[Value]) -> _Outs:
        """Return `start()`: the first launch, on `args`, of a program over several devices of this process.

        Wait for it, so that all connections made meanwhile are known to be local. Those are preserved when a process is
        lost.
        """
        # The arguments may be results of a multi-process launch that still makes connections.
        _wait_all(args)
        with self.monitor.preserve_connections():
            outs = start()
            _wait_all(outs)
        return outs

    def _store_latest(self, outs: Sequence[Value]) -> None:
        """Store an array that shares the buffer of the smallest result, unless that is computed.

        A result above `MAX_HELD_BYTES` is waited for instead of held. If it failed, it is stored too: it raises later.
        """
        # All results of a launch end together, so the smallest one is enough to wait for, and holds the least memory.
        smallest = outs[0] if len(outs) == 1 else min(outs, key=lambda x: x.nbytes)
        is_ready = smallest.is_ready()
        if is_ready and _wait_all([smallest]) is None:
            return
        self.latest = runtime.share_buffers(smallest)
        if smallest.nbytes > runtime.MAX_HELD_BYTES and not is_ready and _wait_all([self.latest]) is None:
            self.latest = None

    def raise_if_lost(self, call: str, suspects: Iterable[int] = (), cause: BaseException | None = None) -> None:
        """Wait shortly for the coordinator's report on a broken connection, and raise if a process has failed.

        Args:
          call: the operation that failed, for the message.
          suspects: processes at the other end of the connection. Without a report they are considered lost.
          cause: the error of the connection.
        Raises:
          ProcessLostError: a process is lost or has left. Returns if there is neither a report nor a suspect.
        """
        if self.monitor.confirm_failure(suspects):
            raise self.monitor.make_error(call) from cause


def _wait_all(arrays: Sequence[Value]) -> Exception | None:
    """Wait for all arrays. Return the first error; the array raises it again when it is read."""
    error = None
    for x in arrays:
        try:
            runtime.wait_for(x)
        except runtime.LAUNCH_ERRORS as e:
            error = error or e
    return error


def _launch_unchecked(program: MultiProcessProgram, launch: Callable[[], _Outs]) -> _Outs:
    """Launch a program without comparison: the default of `MultiProcessLauncher.launch_agreed`."""
    return launch()


def connect_local_devices() -> None:
    """Run a psum over the devices of this process, if there are several, so that Gloo connects them."""
    devices = runtime.local_devices()
    n = len(devices)
    if n == 1:
        return
    member, stacked = Var(shaped((), np.dtype("float32"))), Var(shaped((n,), np.dtype("float32")))
    out = Var(member.aval)
    psum = Eqn(prims.psum_p, [member], [out], dict(axes=(_AXIS,), axis_index_groups=None))
    body = ClosedJaxpr(Jaxpr((), [member], [psum], [out]))
    result = Var(stacked.aval)
    mapped = Eqn(prims.xla_pmap_p, [stacked], [result], dict(
        axis_name=_AXIS, axis_size=n, backend=None, call_jaxpr=body, devices=tuple(devices), donated_invars=(False,),
        global_arg_shapes=(None,), global_axis_size=n, in_axes=(0,), name="own devices", out_axes=(0,)))
    closed = ClosedJaxpr(Jaxpr((), [stacked], [mapped], [result]))
    hooks.evaluator.program(closed, [np.zeros(n, np.float32)])
