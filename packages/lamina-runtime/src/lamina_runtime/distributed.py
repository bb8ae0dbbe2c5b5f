"""Several processes as one system: `initialize` in each, before the first array; then `devices()` shows everyone's.

Who starts whom, over which sockets they speak and who ends when: `docs/processes.md`.
"""
from __future__ import annotations

import atexit
import errno
import json
import math
import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

from lamina_ir import config
from lamina_parallel.extend import seen_whole
from lamina_tracing import slots
from lamina_tracing.extend import logger

from . import (_gpu, _jaxlib, agreement, backends, clusters, effects, gone, lobby, losses, owner, patience, peers, presence,
               relay, starting, together)
from ._version import __version__
from .agreement import AgreementError, CollectiveTimeoutError
from .lobby import CALL
from .gone import LaunchFailedError, ProcessLostError

__all__ = ["AgreementError", "CollectiveTimeoutError", "LaunchFailedError", "ProcessLostError", "initialize",
           "is_initialized", "shutdown"]

_MOST = 1 << 20
_lock = threading.Lock()
_session: _Session | None = None
_GLOO = "lamina/gloo/"  # and a number: where that process's Gloo listens
_PEERS = "lamina/peers/"  # and a number: where that process's peers find it


def _parted() -> None:
    """There is no session any more."""
    together.joined.clear()
    if seen_whole in slots.on_operands:
        slots.on_operands.remove(seen_whole)


class _Session:
    """What a member holds: its presence, jaxlib's client, and the makers of clients that were in force before."""

    def __init__(self, here: presence.Presence, client: Any, way: relay.Relay, gpus: list[int] | None, stay: float,
                 asks: agreement.Agreement | None) -> None:
        self.presence, self.client, self._way, self._stay = here, client, way, stay
        self._detached = threading.Lock()
        self._watch = losses.Watch(here, self.detach)
        self.launches = together.Launches(self._watch)
        gone.begin(self._watch)
        self._asks = asks
        if asks is not None:
            asks.look, asks.word = self._watch.check, self.launches.await_word
            self.launches.agree = asks.meet
        together.joined.append(self)
        slots.on_operands.append(seen_whole)
        self._usual = [
            (name, backends.set_client_maker(name, make)) for name, make in (
                ("cpu", self._cpu_client),
                ("cuda", lambda: self._gpu_client(gpus)))]

    def _cpu_client(self) -> Any:
        here, client = self.presence, self.client
        with self._watch.joining():
            before = losses.listening(here.here)
            gloo = _jaxlib.gloo_collectives(client, here.here)
            client.key_value_set(f"{_GLOO}{here.rank}", json.dumps([*losses.listening(here.here) - before]))
            n = backends.num_cpu_devices.value
            made = _jaxlib.make_cpu_client(n, distributed_client=client, node_id=here.rank, num_nodes=here.count,
                                           collectives=gloo, asynchronous=backends.cpu_enable_async_dispatch.value)
            # All have been there: none is made without the others.
            self._watch.know({int(key.rpartition("/")[2]): [(h, p) for h, p in json.loads(text)]
                              for key, text in client.key_value_dir_get(_GLOO)})
        return self._told(made)

    def _gpu_client(self, gpus: list[int] | None) -> Any:
        with self._watch.joining():
            made = _gpu.make_client(self.client, self.presence.rank, self.presence.count, gpus)
        self.launches.patience = patience.install(self._watch)
        return self._told(made)

    def _told(self, made: Any) -> Any:
        """Programs of this client over several processes are launched by our leave."""
        if self.presence.count > 1:
            owner.current.together = self.launches
        return made

    def in_child(self) -> None:
        self.presence.in_child()
        _parted()
        if self._asks is not None:
            self._asks.sockets.in_child()

    def detach(self) -> None:
        """Let go of jaxlib's service, once. What is connected stays so; nothing new can be."""
        if self._detached.acquire(blocking=False):
            try:
                self.client.shutdown()
            except _jaxlib.LAUNCH_ERRORS:
                pass  # the service is gone
            self._way.close()

    def leave(self) -> None:
        here = self.presence
        with here.changed:
            here.changed.wait_for(lambda: here.alone or len(here.lost) + len(here.left) >= here.count - 1, self._stay)
        for name, make in self._usual:
            backends.set_client_maker(name, make)
        self.detach()
        self.presence.goodbye()
        self._watch.end()
        patience.uninstall()
        _parted()
        if self._asks is not None:
            self._asks.close()


def is_initialized() -> bool:
    """Whether this process has joined a system of several."""
    return _session is not None


def initialize(coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None,
               local_device_ids: int | Sequence[int] | None = None, cluster_detection_method: str | None = None,
               initialization_timeout: float = 300, heartbeat_timeout_seconds: float = 100,
               shutdown_timeout_seconds: float = 300, coordinator_bind_address: str | None = None) -> None:
    """Join a system of several processes. Call it in each of them before the first array.

    What is not given comes from LAMINA_* or JAX_* variables, else from what started the processes: `lamina.launch`, torchrun,
    SLURM, Open MPI, MPICH or an indexed Job of Kubernetes.

    Args:
      coordinator_address: `host:port` where the processes meet. Process 0 starts a coordinator there where none listens.
      num_processes: how many there are.
      process_id: number of this one, from 0.
      local_device_ids: which of the machine's GPUs are this process's. Default: a fair share of those that it sees.
        (`config.num_cpu_devices` says how many devices the CPU has.)
      cluster_detection_method: what started the processes: 'torchrun', 'slurm', 'ompi', 'mpich', 'kubernetes'; 'deactivate'
        asks none of them.
      initialization_timeout: seconds to wait for the others; the first whose time is over ends the waiting for all.
      heartbeat_timeout_seconds: seconds after which a silent process counts as lost; process 0's counts.
      shutdown_timeout_seconds: seconds that leaving may take.
      coordinator_bind_address: `host:port` at which a coordinator started here listens. Default: `coordinator_address`.
    Raises:
      RuntimeError: called twice, or after a device was used; there is no token.
      ValueError: an argument is missing or out of range, the host is unknown or is the loopback where other machines are meant,
        the number is taken by another process, or the processes disagree on how many they are, on versions or on 64 bits.
      PermissionError: the coordinator has another token, or one that is missing came with another.
      TimeoutError: no coordinator was at the address, or some processes did not come in time; names them.
      ConnectionError: another program has the port, or the coordinator or a process ended meanwhile.

    All of them in every process concerned; none ends a process.
    """
    global _session
    with _lock:
        if _session is not None:
            raise RuntimeError(f"{CALL}: this process has joined already; shutdown() comes before joining again")
        found, line = clusters.find(coordinator_address, num_processes, process_id, cluster_detection_method)
        address, rank, count = found.address, _whole("process_id", found.rank), _whole("num_processes", found.count)
        if not 0 < count <= _MOST:
            raise ValueError(f"{CALL}: num_processes must be in [1, {_MOST}]; got {count}")
        if not 0 <= rank < count:
            raise ValueError(f"{CALL}: process_id must be in [0, num_processes); got {rank} of {count}")
        seconds = [_seconds(n, v) for n, v in (("initialization_timeout", initialization_timeout),
                                               ("heartbeat_timeout_seconds", heartbeat_timeout_seconds),
                                               ("shutdown_timeout_seconds", shutdown_timeout_seconds))]
        host, _ = lobby.place(address)
        bind = coordinator_bind_address or os.environ.get("LAMINA_COORDINATOR_BIND_ADDRESS")
        if bind is not None:
            lobby.place(bind, "coordinator_bind_address")
        gpus = clusters.device_ids(local_device_ids)
        if backends.in_use():
            raise RuntimeError(f"{CALL}: a device has been used already; call this before the first array")
        lobby.check_reach(host, found.several_hosts)
        if gpus is None:
            gpus = clusters.own_gpus(found.local_rank, found.local_count)
        logger.info("%s: %s", CALL, line)
        _session = _joined(str(address), bind or str(address), rank, count, seconds, gpus, found)
        atexit.register(_at_exit, os.getpid())


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{CALL}: {name} must be a whole number; got {type(value).__name__}: {value!r}")
    return int(value)


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{CALL}: {name} must be a number of seconds; got {type(value).__name__}: {value!r}")
    if not 0 < value < 1e8:
        raise ValueError(f"{CALL}: {name} must be a number of seconds above 0; got {value!r}")
    return float(value)


def _joined(address: str, bind: str, rank: int, count: int, seconds: list[float], gpus: list[int] | None,
            found: clusters.Found) -> _Session:
    key = lobby.token()
    timeout, heartbeat, leaving = seconds[0], math.ceil(seconds[1]), math.ceil(seconds[2])
    fits = {"lamina-runtime": __version__, "jaxlib": _jaxlib.VERSION, "enable_x64": bool(config.enable_x64.value),
            "agreement": together.agreement.value}
    about = {"fits": fits, "heartbeat": heartbeat, "leaving": leaving}
    failed: list[str] = []  # to start a coordinator: why, or ""

    def start() -> str:
        failed.append(_start(bind, key, timeout))
        return failed[0] or "The one that process 0 had started there ended; LAMINA_COORDINATOR_LOG=file keeps what it says"

    nobody = start if rank == 0 else None
    here = presence.join(address, rank, count, about, key, timeout, nobody, found.names_may_come)
    client = way = asks = None
    try:
        _reach(here.service)
        way = relay.Relay(here.service)
        client = _jaxlib.new_distributed_client(lobby.written(*way.address), rank, here.limit, leaving)
        client.connect()
        way.shut_door()
        asks = _asking(here, client, key)
        here.confirm(here.limit)
        ends_with_us = failed == [""] and (found.ends_with_task or os.getpid() == 1)  # 1: the first of a container
        session = _Session(here, client, way, gpus, leaving if ends_with_us else 0, asks)
    except BaseException:
        if asks is not None:
            asks.close()
        if client is not None:
            client.shutdown()
        if way is not None:
            way.close()
        here.goodbye()
        raise
    here.watch(session.detach)
    return session


def _start(bind: str, key: bytes, timeout: float) -> str:
    """Start a coordinator: "", or why not, as one that another has started meanwhile, or starts elsewhere, does as well."""
    try:
        starting.start(bind, key, timeout + 30)
        return ""
    except ConnectionError:
        raise
    except OSError as e:
        if e.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
            raise ConnectionError(f"{CALL}: process 0 cannot start a coordinator at {bind}: {e.strerror or e}") from e
        return (f"Process 0 could not start one at {bind}: {e.strerror or e}. Give an address of its machine, or start one by "
                "hand where the address leads")


def _reach(service: tuple[str, int]) -> None:
    """ConnectionError when jaxlib could not reach its service: it would end the process."""
    try:
        socket.create_connection(service, 10).close()
    except OSError as e:
        raise ConnectionError(f"{CALL}: jaxlib's service at {lobby.written(*service)} cannot be reached: {e.strerror or e}. "
                              "The others must be able to reach any port of the coordinator's machine") from e


def _asking(here: presence.Presence, client: Any, key: bytes) -> agreement.Agreement | None:
    """What compares launches with those of the others. Everyone makes it before it says that it is connected."""
    mode = together.agreement.value
    if here.count == 1 or mode == "off":
        return None

    def ask(rank: int) -> str:
        if here.alone:
            raise ConnectionError("the coordinator has gone")
        try:
            return str(client.blocking_key_value_get(f"{_PEERS}{rank}", 10_000))
        except _jaxlib.LAUNCH_ERRORS as e:
            raise ConnectionError(str(e)) from e

    return agreement.Agreement(
        peers.Peers(here.rank, here.here, key, lambda text: client.key_value_set(f"{_PEERS}{here.rank}", text), ask), mode)


def _at_exit(process: int) -> None:
    """Effects first: those of programs in flight may still need the other processes. A forked child is no member."""
    if os.getpid() == process and _session is not None:
        effects.at_exit()
        _leave()


def shutdown() -> None:
    """Leave the system, once the effects of this process's programs have happened. Done at exit in any case, and nothing where
    nobody joined. The others go on, and nobody is waited for, with one exception: where a scheduler would end the coordinator
    with the process that started it (SLURM, Kubernetes), that process stays until the others have left, for
    `shutdown_timeout_seconds` at most.

    The devices are given up: arrays can still be read as far as they lie here, and moved with `device_put`, and what was jitted
    works on the devices that come next. `initialize` may be called again.

    Raises:
      CallbackError: a callback of a program launched before has raised; the system is left all the same.
    """
    try:
        if _session is not None and backends.in_use():
            try:
                effects.effects_barrier()
            except (ProcessLostError, LaunchFailedError):
                pass  # to leave is what there is to do about it
    finally:
        if _leave():
            atexit.unregister(_at_exit)
            if backends.in_use():
                backends.reset()


def _leave() -> bool:
    global _session
    with _lock:
        gone, _session = _session, None
    if gone is not None:
        gone.leave()
    return gone is not None


def _in_child() -> None:
    """A forked child is no member, and must not hide that its parent ends."""
    global _session, _lock
    _lock = threading.Lock()
    if _session is not None:
        _session.in_child()
        _jaxlib.keep_for_ever(_session.client)
        _session = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
