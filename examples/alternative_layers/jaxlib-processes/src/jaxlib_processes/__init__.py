"""Several processes with jaxlib's coordination service and Gloo alone; the README lists what that does not guarantee."""
from __future__ import annotations

import atexit
import contextlib
import math
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import lamina_runtime
from jaxlib import _jax
from lamina_distributed._default import (AgreementError, CollectiveTimeoutError, CoordinatorLostError, LaunchFailedError,
                                         ProcessLostError, has_waiting_processes, share_newest_state)
from lamina_parallel.extend import global_view
from lamina_runtime.extend import processes as runtime
from lamina_tracing import hooks

from .host_gather import StoreGather

__all__ = ["AgreementError", "CollectiveTimeoutError", "CoordinatorLostError", "LaunchFailedError", "ProcessLostError",
           "has_waiting_processes", "initialize", "is_initialized", "share_newest_state", "shutdown"]
__version__ = "0.1.0"
__contract__ = 1

_group: Group | None = None


class Group:
    """The connection of this process to the service, and what it sets in the runtime.

    Args:
      address: of the service, which process 0 starts.
      rank, count: index of this process, and number of processes.
      joining, heartbeat, leaving: limits in seconds.
    """

    def __init__(self, address: str, rank: int, count: int, joining: int, heartbeat: int, leaving: int) -> None:
        self.rank, self.count, self._leaving, self._numbers = rank, count, leaving, dict[str, int]()
        self._service = _jax.get_distributed_runtime_service(
            address, count, heartbeat_timeout=heartbeat, cluster_register_timeout=joining,
            shutdown_timeout=leaving) if rank == 0 else None
        self.client = _jax.get_distributed_runtime_client(
            address, rank, init_timeout=joining, heartbeat_timeout=heartbeat, shutdown_timeout=leaving,
            shutdown_on_destruction=False, use_compression=True)
        self.client.connect()  # ends the process if the others do not come in time
        self._first_launch = threading.Lock()
        self._old_maker = runtime.set_client_maker("cpu", self._make_client)
        runtime.active_groups.append(self)
        hooks.staging_context_hooks.append(global_view)  # maps see the devices of all processes

    def _make_client(self) -> Any:
        """Make the CPU client. It waits for the clients of the other processes."""
        host = "127.0.0.1"
        gloo = _jax.make_gloo_tcp_collectives(distributed_client=self.client, hostname=host)
        made = runtime.make_cpu_client(runtime.num_cpu_devices.value, distributed_client=self.client, node_id=self.rank,
                                       num_nodes=self.count, collectives=gloo,
                                       asynchronous=runtime.cpu_enable_async_dispatch.value)
        if self.count > 1:
            runtime.set_launcher(self)
        return made

    # --- launches: the hook `set_launcher` -------------------------------------------------------------------------
    def launch(self, program: runtime.MultiProcessProgram, args: Sequence[Any], start: Callable[[], Any]) -> Any:
        """Launch a program over several processes. The first launch of each connects devices, one program at a time."""
        if program.first_launch_done:
            return start()
        with self._first_launch:
            outs = start()
            for x in outs:
                with contextlib.suppress(*runtime.LAUNCH_ERRORS):  # reading the result raises the error
                    runtime.wait_for(x)
            program.first_launch_done = True
        return outs

    is_stuck, store = False, None  # a lost process ends this one; programs are compiled in one tier

    def connect_local_devices(self) -> None:
        """Do nothing: the first launch connects the devices that it uses."""

    def run_in_new_thread(self, act: Callable[[], Any]) -> Any:
        """Return `act()`. Only launches behind one that never ends need another thread."""
        return act()

    def launch_local_first(self, start: Callable[[], Any], args: Sequence[Any]) -> Any:
        """Launch a program over devices of this process."""
        return start()

    # --- values on the host: the hook `active_groups` --------------------------------------------------------------
    def begin_gather(self, call: str, series: str = "") -> StoreGather:
        """Start a gather between all processes; gathers of different series are independent."""
        return StoreGather(call, self, f"lamina/{series}{self._next(series)}")

    def new_series(self) -> str:
        """Return the name of a new series, which is the same in all processes."""
        return f"series-{self._next('series')}/"

    def _next(self, name: str) -> int:
        self._numbers[name] = self._numbers.get(name, 0) + 1
        return self._numbers[name]

    def leave(self) -> None:
        """Disconnect, after all processes have come here."""
        runtime.set_client_maker("cpu", self._old_maker)
        runtime.active_groups.clear()
        hooks.staging_context_hooks.remove(global_view)
        try:
            # neither shutdown waits for a process that still computes, and it would lose the service
            self.client.wait_at_barrier("lamina/leaving", self._leaving * 1000)
            self.client.shutdown()
        finally:
            if self._service is not None:
                self._service.shutdown()


def is_initialized() -> bool:
    """Return whether this process has joined others."""
    return _group is not None


def _environment(name: str, given: Any) -> Any:
    """Return an argument, or the variable of that name."""
    value = os.environ.get(f"LAMINA_{name}") if given is None else given
    if value is None:
        raise ValueError(f"initialize: {name.lower()} must be given, or LAMINA_{name} set; got None")
    return value


def _integer(name: str, given: Any) -> int:
    value = _environment(name.upper(), given)
    if isinstance(value, bool) or not isinstance(value, int) and not (given is None and str(value).isdigit()):
        raise TypeError(f"initialize: {name} must be a whole number; got {type(value).__name__}: {value!r}")
    return int(value)


def initialize(coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None,
               local_device_ids: int | Sequence[int] | None = None, cluster_detection_method: str | None = None,
               initialization_timeout: float = 300, heartbeat_timeout_seconds: float = 100,
               shutdown_timeout_seconds: float = 300, coordinator_bind_address: str | None = None) -> None:
    """Join several processes into one system. Call this in each of them before the first array.

    The first three arguments default to LAMINA_COORDINATOR_ADDRESS, LAMINA_NUM_PROCESSES and LAMINA_PROCESS_ID.

    Args:
      coordinator_address: `host:port` at which process 0 starts the service.
      num_processes, process_id: number of processes, and index of this one.
      local_device_ids, cluster_detection_method, coordinator_bind_address: not supported; must be None.
      initialization_timeout, heartbeat_timeout_seconds, shutdown_timeout_seconds: limits in seconds, of joining, of the
        silence of a process, and of leaving.
    Raises:
      RuntimeError: called twice, or after a device was used.
      TypeError, ValueError: an argument is missing, out of range or not supported.
      ConnectionError: process 0 cannot listen at the address.

    jaxlib ends the process if the others do not come in time.
    """
    global _group
    if _group is not None:
        raise RuntimeError("initialize: it was called already; call shutdown() first")
    for name, value in (("local_device_ids", local_device_ids), ("cluster_detection_method", cluster_detection_method),
                        ("coordinator_bind_address", coordinator_bind_address)):
        if value is not None:
            raise ValueError(f"initialize: {name} must be None with jaxlib-processes; got {value!r}")
    count, rank = _integer("num_processes", num_processes), _integer("process_id", process_id)
    if count < 1:
        raise ValueError(f"initialize: num_processes must be 1 or more; got {count}")
    if not 0 <= rank < count:
        raise ValueError(f"initialize: process_id must be in [0, num_processes); got {rank} of {count}")
    address = str(_environment("COORDINATOR_ADDRESS", coordinator_address))
    host, mark, port = address.rpartition(":")
    if not (host and mark and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ValueError(f"initialize: coordinator_address must be host:port; got {address!r}")
    if runtime.has_clients():
        raise RuntimeError("initialize: a device has been used already; call this before the first array")
    seconds = []
    for name, x in (("initialization_timeout", initialization_timeout),
                    ("heartbeat_timeout_seconds", heartbeat_timeout_seconds),
                    ("shutdown_timeout_seconds", shutdown_timeout_seconds)):
        if isinstance(x, bool) or not isinstance(x, (int, float)) or not 0 < x < 1e8:
            raise ValueError(f"initialize: {name} must be a number of seconds above 0; got {x!r}")
        seconds.append(math.ceil(x))
    if rank == 0:
        try:
            socket.create_server((host, int(port))).close()  # jaxlib's service would crash
        except OSError as e:
            raise ConnectionError(f"initialize: process 0 cannot listen at {address}: {e.strerror or e}. Give an address of "
                                  "its machine with a free port") from e
    _group = Group(address, rank, count, *seconds)
    atexit.register(shutdown)


def shutdown() -> None:
    """Leave the others, once all of them call this. It does nothing if this process has not joined others."""
    global _group
    with _ending():
        group, _group = _group, None
        if group is not None:
            group.leave()


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Context that completes the work of this process and then releases its devices, if it is in a group."""
    if _group is None:
        yield
        return
    try:
        runtime.effects_barrier()
    finally:
        try:
            yield
        finally:
            atexit.unregister(shutdown)
            if runtime.has_clients():
                lamina_runtime.clear_backends()
