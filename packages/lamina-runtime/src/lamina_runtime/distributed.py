"""Several processes as one system: `initialize` in each, before the first array; then `devices()` shows everyone's.

Process 0 hosts a service that the others find by its address; each brings its own devices. The service is made so that
the survivors of a lost process are not killed with it: what waits for the lost one hangs, so watch collectives.
"""
from __future__ import annotations

import atexit
import math
import os
import threading
from typing import Any

from . import _gpu, _jaxlib, backends, effects, lobby

__all__ = ["initialize", "is_initialized", "shutdown"]

_lock = threading.Lock()
_client: Any = None
_service: Any = None


def is_initialized() -> bool:
    """Whether this process has joined a system of several."""
    return _client is not None


def _from_environment(value: Any, name: str, convert: Any, what: str) -> Any:
    if value is not None:
        return value
    text = os.environ.get(f"LAMINA_{name}") or os.environ.get(f"JAX_{name}")
    if text is None:
        raise ValueError(f"distributed.initialize: {what} is not given and LAMINA_{name} is not set")
    return convert(text)


def initialize(coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None,
               *, initialization_timeout: float = 300, heartbeat_timeout: int = 100) -> None:
    """Join a system of several processes. Call it in each of them before the first array.

    Args:
      coordinator_address: `host:port` at which process 0 listens, open to all: use a private network. Default:
        LAMINA_COORDINATOR_ADDRESS.
      num_processes: how many there are. Default: LAMINA_NUM_PROCESSES.
      process_id: number of this one, from 0. Default: LAMINA_PROCESS_ID.
      initialization_timeout: seconds to wait for the others.
      heartbeat_timeout: seconds after which a silent process counts as lost.
    Raises:
      RuntimeError: called twice, or after a device was used.
      ValueError: an argument is missing or out of range, the host is unknown, the number is taken by another process, or the
        processes disagree on how many they are.
      TimeoutError: nobody was at the address, or some processes did not come in time; names them.
      ConnectionError: process 0 cannot listen at the address, or went away.

    All of these are found before jaxlib is asked. What goes wrong later, a process 0 that ends while others are connected say,
    still ends the others.
    """
    global _client, _service
    address = _from_environment(coordinator_address, "COORDINATOR_ADDRESS", str, "coordinator_address")
    count = _from_environment(num_processes, "NUM_PROCESSES", int, "num_processes")
    rank = _from_environment(process_id, "PROCESS_ID", int, "process_id")
    if not 0 <= rank < count:
        raise ValueError(f"distributed.initialize: process_id must be in [0, num_processes); got {rank} of {count}")
    with _lock:
        if _client is not None:
            raise RuntimeError("distributed.initialize: this process has joined already")
        if backends.in_use():
            raise RuntimeError("distributed.initialize: a device has been used already; call this before the first "
                               "array")
        seconds = max(1, math.ceil(initialization_timeout))
        if rank == 0:
            lobby.host(address, count, initialization_timeout)
            _service = _jaxlib.new_service(address, count, heartbeat_timeout, seconds)
        else:
            lobby.join(address, rank, count, initialization_timeout)
        _client = _jaxlib.new_distributed_client(address, rank, heartbeat_timeout, seconds)
        _client.connect()
        backends.set_client_maker("cpu", lambda: _cpu_client(rank, count))
        backends.set_client_maker("cuda", lambda: _gpu.make_client(_client, rank, count))
        atexit.register(_at_exit, os.getpid())


def _cpu_client(rank: int, count: int) -> Any:
    n = backends.num_cpu_devices.value
    return _jaxlib.make_cpu_client(None if n is None else int(n), distributed_client=_client, node_id=rank,
                                   num_nodes=count, collectives=_jaxlib.gloo_collectives(_client))


def _at_exit(process: int) -> None:
    """Effects first: those of programs in flight may still need the other processes. A forked child is no member."""
    if os.getpid() == process:
        effects.at_exit()
        shutdown()


def shutdown() -> None:
    """Leave the system: waits for this process's effects, then for the others to come to the same point. Done at exit in
    any case.

    Raises:
      CallbackError: a callback of a program launched before has raised; the system is left all the same.
    """
    try:
        if _client is not None and backends.in_use():
            effects.effects_barrier()
    finally:
        _leave()


def _leave() -> None:
    global _client, _service
    with _lock:
        if _client is not None:
            _client.shutdown()  # everyone before the service, or they abort
            _client = None
        if _service is not None:
            _service.shutdown()
            _service = None
