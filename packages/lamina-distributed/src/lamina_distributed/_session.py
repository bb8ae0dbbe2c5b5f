"""Join several processes into one system: after `initialize` in each, `devices()` lists the devices of all of them.

`docs/how-to/several-processes/processes.md` describes which process starts which, the sockets between them, and the shutdown.
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
from lamina_parallel.extend import global_view
from lamina_runtime.extend import processes as runtime
from lamina_runtime.extend.processes import LaunchFailedError, ProcessLostError
from lamina_tracing import hooks
from lamina_tracing.extend import logger

from . import _jaxlib
from ._group import (cluster_env, failure_handling, gloo_sockets, host_gather, interruptible_wait, launch_agreement,
                     multi_process, peer_sockets, rendezvous_client, rendezvous_protocol, service_proxy,
                     shared_texts, spawn_coordinator)
from ._version import __version__
from ._group.launch_agreement import AgreementError, CollectiveTimeoutError
from ._group.rendezvous_protocol import CALL
from ._typing import Client, CoordinationClient

__all__ = ["AgreementError", "CollectiveTimeoutError", "LaunchFailedError", "ProcessLostError", "initialize",
           "is_initialized", "shutdown"]

_MAX_PROCESSES = 1 << 20
_lock = threading.Lock()
_session: _Session | None = None
# Prefixes of keys in the store of jaxlib's service, followed by a process index
_GLOO = "lamina/gloo/"    # addresses at which Gloo of that process listens
_PEERS = "lamina/peers/"  # address of that process's `PeerSockets`


def _clear_session() -> None:
    """Undo the registrations of a session in other modules."""
    runtime.active_groups.clear()
    if global_view in hooks.staging_context_hooks:
        hooks.staging_context_hooks.remove(global_view)


class _Session:
    """The connections of this process to the others, as long as it is a member of a system.

    Args:
      connection: to the coordinator; it stays open until this process leaves.
      client: jaxlib's client of the coordination service, connected through `proxy`.
      gpus: local GPUs of this process. None: all.
      stay: seconds to wait at the end until the others have left.
      launch_check: compares launches with the other processes. None if switched off, or for one process.
    """

    def __init__(self, connection: rendezvous_client.CoordinatorConnection, client: CoordinationClient,
                 proxy: service_proxy.ServiceProxy, gpus: list[int] | None, stay: float,
                 launch_check: launch_agreement.Agreement | None) -> None:
        self.connection, self.client, self._proxy, self._stay = connection, client, proxy, stay
        self._disconnect_once = threading.Lock()  # acquired by the first call of `disconnect`, never released
        self._monitor = failure_handling.FailureMonitor(connection, self.disconnect)
        self.launcher = multi_process.MultiProcessLauncher(self._monitor)
        self.launcher.store = shared_texts.SharedTexts(client)
        runtime.set_failure_monitor(self._monitor)
        self._launch_check = launch_check
        if launch_check is not None:
            launch_check.check_peers, launch_check.raise_if_lost = self._monitor.check, self.launcher.raise_if_lost
            self.launcher.launch_agreed = launch_check.agree
        runtime.active_groups.append(self)
        hooks.staging_context_hooks.append(global_view)
        self._previous_makers = [
            (name, runtime.set_client_maker(name, make)) for name, make in (
                ("cpu", self._cpu_client),
                ("cuda", lambda: self._gpu_client(gpus)))]

    def _cpu_client(self) -> Client:
        here, client = self.connection, self.client
        with self._monitor.creating_client():
            # jaxlib does not say at which port Gloo listens, so find the sockets that are new.
            before = gloo_sockets.listening_addresses(here.local_address)
            gloo = _jaxlib.gloo_collectives(client, here.local_address)
            new = gloo_sockets.listening_addresses(here.local_address) - before
            client.key_value_set(f"{_GLOO}{here.rank}", json.dumps([*new]))
            n = runtime.num_cpu_devices.value
            runtime.keep_freed_memory()
            made = runtime.make_cpu_client(n, distributed_client=client, node_id=here.rank, num_nodes=here.count,
                                           collectives=gloo, asynchronous=runtime.cpu_enable_async_dispatch.value)
            # All keys exist now: making a client waits for the devices of all processes.
            self._monitor.set_gloo_addresses({int(key.rpartition("/")[2]): [(h, p) for h, p in json.loads(text)]
                                              for key, text in client.key_value_dir_get(_GLOO)})
        return self._install_launcher(made)

    def _gpu_client(self, gpus: list[int] | None) -> Client:
        with self._monitor.creating_client():
            made = runtime.make_gpu_client(self.client, self.connection.rank, self.connection.count, gpus)
        self.launcher.waiter = interruptible_wait.install(self._monitor)
        return self._install_launcher(made)

    def begin_gather(self, call: str, series: str = "") -> host_gather.GroupGather:
        """Start a gather between all processes; gathers of different series are independent."""
        return host_gather.GroupGather(call, self, series)

    def new_series(self) -> str:
        """Return the name of a new series, which is the same in all processes."""
        return host_gather.next_series(self)

    def _install_launcher(self, made: Client) -> Client:
        """Have multi-process programs of a new client launched by this session's launcher. Return the client."""
        if self.connection.count > 1:
            runtime.set_launcher(self.launcher)
        return made

    def close_in_child(self) -> None:
        """Release the sockets in a forked child."""
        self.connection.close_in_child()
        _clear_session()
        if self._launch_check is not None:
            self._launch_check.sockets.close_in_child()

    def disconnect(self) -> None:
        """Disconnect from jaxlib's service, once. Connected devices stay connected; no others can be connected."""
        if self._disconnect_once.acquire(blocking=False):
            try:
                self.client.shutdown()
            except runtime.LAUNCH_ERRORS:
                pass  # the service has ended
            self._proxy.close()

    def leave(self) -> None:
        """Leave the system and close all connections."""
        here = self.connection
        # Only in the process whose end would kill the coordinator: it stays until all others have left.
        with here.changed:
            here.changed.wait_for(lambda: here.coordinator_lost or len(here.lost) + len(here.left) >= here.count - 1,
                                  self._stay)
        for name, make in self._previous_makers:
            runtime.set_client_maker(name, make)
        self.disconnect()  # before the coordinator, which ends the service after the last process has left
        self.connection.leave()
        self._monitor.close()
        runtime.set_wait(None)
        _clear_session()
        if self._launch_check is not None:
            self._launch_check.close()


def is_initialized() -> bool:
    """Return whether this process has joined a system of several processes."""
    return _session is not None


def initialize(coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None,
               local_device_ids: int | Sequence[int] | None = None, cluster_detection_method: str | None = None,
               initialization_timeout: float = 300, heartbeat_timeout_seconds: float = 100,
               shutdown_timeout_seconds: float = 300, coordinator_bind_address: str | None = None) -> None:
    """Join a system of several processes. Call this in each of them before the first array.

    Arguments that are not given are read from LAMINA_* or JAX_* variables, else from variables of the launcher:
    `lamina.launch`, torchrun, SLURM, Open MPI, MPICH or an indexed Job of Kubernetes.

    Args:
      coordinator_address: `host:port` where the processes meet. Process 0 starts a coordinator there if none is
        running.
      num_processes: number of processes.
      process_id: index of this process, from 0.
      local_device_ids: ids of the machine's GPUs that this process uses. Default: an equal share of the visible ones.
        (`config.num_cpu_devices` is the number of CPU devices.)
      cluster_detection_method: the launcher to detect: 'torchrun', 'slurm', 'ompi', 'mpich' or 'kubernetes';
        'deactivate' detects none.
      initialization_timeout: seconds to wait for the other processes. The first timeout ends the wait of all processes.
      heartbeat_timeout_seconds: seconds after which a silent process counts as lost; the value of process 0 is used.
      shutdown_timeout_seconds: seconds that leaving may take.
      coordinator_bind_address: `host:port` at which a coordinator started here listens. Default: `coordinator_address`.
    Raises:
      RuntimeError: called twice, or after a device was used; there is no token.
      ValueError: an argument is missing or out of range. The host is unknown, or is the loopback although other
        machines must reach it. The process index is taken. The processes differ in their number, versions or 64-bit
        setting.
      PermissionError: the coordinator has another token, or a missing process was rejected because of its token.
      TimeoutError: no coordinator was at the address, or some processes did not come in time; names them.
      ConnectionError: another program has the port, or the coordinator or a process ended meanwhile.

    These errors are raised in every process concerned. None of them aborts a process.
    """
    global _session
    with _lock:
        if _session is not None:
            raise RuntimeError(f"{CALL}: initialize was called already; call shutdown() first")
        found, sources = cluster_env.detect(coordinator_address, num_processes, process_id, cluster_detection_method)
        address = found.address
        rank, count = _check_int("process_id", found.rank), _check_int("num_processes", found.count)
        if not 0 < count <= _MAX_PROCESSES:
            raise ValueError(f"{CALL}: num_processes must be in [1, {_MAX_PROCESSES}]; got {count}")
        if not 0 <= rank < count:
            raise ValueError(f"{CALL}: process_id must be in [0, num_processes); got {rank} of {count}")
        seconds = [_check_seconds(n, v) for n, v in (("initialization_timeout", initialization_timeout),
                                                     ("heartbeat_timeout_seconds", heartbeat_timeout_seconds),
                                                     ("shutdown_timeout_seconds", shutdown_timeout_seconds))]
        host, _ = rendezvous_protocol.parse_address(address)
        bind = coordinator_bind_address or os.environ.get("LAMINA_COORDINATOR_BIND_ADDRESS")
        if bind is not None:
            rendezvous_protocol.parse_address(bind, "coordinator_bind_address")
        gpus = cluster_env.normalize_device_ids(local_device_ids)
        # jaxlib's client cannot join a system later.
        if runtime.has_clients():
            raise RuntimeError(f"{CALL}: a device has been used already; call this before the first array")
        rendezvous_protocol.check_reachable(host, found.several_hosts)
        if gpus is None:
            gpus = cluster_env.share_gpus(found.local_rank, found.local_count)
        logger.info("%s: %s", CALL, sources)
        _session = _join(str(address), bind or str(address), rank, count, seconds, gpus, found)
        atexit.register(_at_exit, os.getpid())


def _check_int(name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{CALL}: {name} must be a whole number; got {type(value).__name__}: {value!r}")
    return int(value)


def _check_seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{CALL}: {name} must be a number of seconds; got {type(value).__name__}: {value!r}")
    if not 0 < value < 1e8:
        raise ValueError(f"{CALL}: {name} must be a number of seconds above 0; got {value!r}")
    return float(value)


def _join(address: str, bind: str, rank: int, count: int, seconds: list[float], gpus: list[int] | None,
          found: cluster_env.LauncherInfo) -> _Session:
    """Meet the other processes and connect to them. Everything is closed again if that fails."""
    key = rendezvous_protocol.load_token()
    timeout, heartbeat, leaving = seconds[0], math.ceil(seconds[1]), math.ceil(seconds[2])
    fits = {"lamina-distributed": __version__, "jaxlib": runtime.JAXLIB_VERSION, "enable_x64": bool(config.enable_x64.value),
            "agreement": runtime.agreement.value}
    about = {"fits": fits, "heartbeat": heartbeat, "leaving": leaving}
    start_results: list[str] = []  # of starting a coordinator: an error, or ""

    def start() -> str:
        start_results.append(_start_coordinator(bind, key, timeout))
        return start_results[0] or ("The coordinator that process 0 had started there ended; set "
                                    "LAMINA_COORDINATOR_LOG=file to see its output")

    # Nothing of jaxlib before this: with a wrong address, index or number of processes it would abort the process.
    here = rendezvous_client.join(address, rank, count, about, key, timeout, start if rank == 0 else None,
                                  found.names_may_come)
    client = proxy = launch_check = None
    try:
        _check_service(here.service)
        proxy = service_proxy.ServiceProxy(here.service)
        client = _jaxlib.new_distributed_client(rendezvous_protocol.format_address(*proxy.address), rank, here.limit,
                                                leaving)
        client.connect()
        proxy.stop_accepting()
        # Before `confirm`: after it the others may launch, and look up the address of this process.
        launch_check = _make_launch_check(here, client, key)
        here.confirm(here.limit)
        # Some schedulers kill all processes of a task when its main process ends, and so would kill the coordinator
        # that it started. Process 1 is the main process of a container.
        ends_with_this = start_results == [""] and (found.ends_with_task or os.getpid() == 1)
        session = _Session(here, client, proxy, gpus, leaving if ends_with_this else 0, launch_check)
    except BaseException:
        if launch_check is not None:
            launch_check.close()
        # Client before proxy: a client whose connection breaks aborts the process.
        if client is not None:
            client.shutdown()
        if proxy is not None:
            proxy.close()
        here.leave()
        raise
    here.start(session.disconnect)
    return session


def _start_coordinator(bind: str, key: bytes, timeout: float) -> str:
    """Start a coordinator. Return "", or the reason why it cannot listen there.

    That need not be an error: another process may have started one at the same time, or starts one elsewhere.
    """
    try:
        spawn_coordinator.start_coordinator(bind, key, timeout + 30)
        return ""
    except ConnectionError:
        raise
    except OSError as e:
        if e.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
            raise ConnectionError(f"{CALL}: process 0 cannot start a coordinator at {bind}: {e.strerror or e}") from e
        return (f"Process 0 could not start one at {bind}: {e.strerror or e}. Give an address of its machine, or start "
                "one by hand on the machine of the address")


def _check_service(service: tuple[str, int]) -> None:
    """Raise ConnectionError if jaxlib's service cannot be reached: its client would abort the process."""
    try:
        socket.create_connection(service, 10).close()
    except OSError as e:
        address = rendezvous_protocol.format_address(*service)
        raise ConnectionError(f"{CALL}: jaxlib's service at {address} cannot be reached: {e.strerror or e}. The other "
                              "processes must be able to reach any port of the coordinator's machine") from e


def _make_launch_check(here: rendezvous_client.CoordinatorConnection, client: CoordinationClient,
                       key: bytes) -> launch_agreement.Agreement | None:
    """Return the launch check of a session, or None if it is switched off.

    Each process makes it before it confirms its connection. So every address is published before the first launch.
    """
    mode = runtime.agreement.value
    if here.count == 1 or mode == "off":
        return None

    def look_up(rank: int) -> str:
        if here.coordinator_lost:
            raise ConnectionError("the coordinator is lost")
        try:
            return str(client.blocking_key_value_get(f"{_PEERS}{rank}", 10_000))
        except runtime.LAUNCH_ERRORS as e:
            raise ConnectionError(str(e)) from e

    def publish(text: str) -> None:
        client.key_value_set(f"{_PEERS}{here.rank}", text)

    sockets = peer_sockets.PeerSockets(here.rank, here.local_address, key, publish, look_up)
    return launch_agreement.Agreement(sockets, mode)


def _at_exit(process: int) -> None:
    """Leave at exit. Effects first: those of programs in flight may still need the other processes."""
    if os.getpid() == process and _session is not None:  # a forked child is not a member
        runtime.wait_at_exit()
        _leave()


def shutdown() -> None:
    """Leave the system, once the effects of this process's programs have completed.

    This is done at exit in any case. It does nothing if this process has not joined a system.

    The other processes continue, and this one does not wait for them, with one exception. SLURM and Kubernetes kill a
    coordinator together with the process that started it. That process stays until the others have left, at most
    `shutdown_timeout_seconds`.

    The devices are released. The local shards of arrays can still be read, and moved with `device_put`. Functions
    jitted earlier work on the next devices. `initialize` may be called again.

    Raises:
      CallbackError: a callback of a program launched earlier has raised. The system is left nevertheless.
    """
    try:
        if _session is not None and runtime.has_clients():
            try:
                runtime.effects_barrier()
            except (ProcessLostError, LaunchFailedError):
                pass  # leaving is the remedy
    finally:
        if _leave():
            atexit.unregister(_at_exit)
            if runtime.has_clients():
                runtime.reset()


def _leave() -> bool:
    global _session
    with _lock:
        session, _session = _session, None
    if session is not None:
        session.leave()
    return session is not None


def _in_child() -> None:
    """Drop the session in a forked child. It is no member, and its copies of sockets would hide the parent's end."""
    # Only plain assignments and closes of descriptors are safe here: the threads of the parent do not exist in the
    # child.
    global _session, _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    if _session is not None:
        _session.close_in_child()
        runtime.immortalize(_session.client)
        _session = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
