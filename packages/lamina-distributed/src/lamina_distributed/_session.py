"""Join several processes into one system: after `initialize` in each, `devices()` lists the devices of all of them.

`docs/how-to/several-processes/processes.md` describes which process starts which, the sockets between them, and the shutdown.
"""
from __future__ import annotations

import atexit
import contextlib
import errno
import json
import math
import os
import signal
import socket
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from lamina_ir import config
from lamina_parallel.extend import global_view
from lamina_runtime.extend import processes as runtime
from lamina_runtime.extend.processes import CoordinatorLostError, LaunchFailedError, ProcessLostError
from lamina_tracing import hooks
from lamina_tracing.extend import logger

from . import _jaxlib
from ._group import (failure_handling, gloo_sockets, host_gather, interruptible_wait, launch_agreement, multi_process,
                     peer_sockets, shared_texts, stuck_watch)
from ._rendezvous import cluster_env, rendezvous_client, rendezvous_protocol, service_proxy, spawn_coordinator
from ._health import health_server
from ._version import __version__
from ._group.launch_agreement import AgreementError, CollectiveTimeoutError
from ._rendezvous.rendezvous_protocol import CALL
from ._typing import Client, CoordinationClient

__all__ = ["AgreementError", "CollectiveTimeoutError", "CoordinatorLostError", "LaunchFailedError", "ProcessLostError",
           "initialize", "is_initialized", "shutdown"]

_MAX_PROCESSES = 1 << 20
_MAX_JOB_ID = 200  # characters
_MAX_ATTEMPTS = 5  # to meet the other processes, if one ends while they connect and is waited for again
_lock = threading.Lock()
_session: _Session | None = None
_previous: rendezvous_client.Meeting | None = None  # the system that this process was in last
# Prefix of keys in the store of jaxlib's service, followed by a process index
_GLOO = "lamina/gloo/"    # addresses at which Gloo of that process listens


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
      sockets: connections to the other processes. None for one process.
      launch_check: compares launches with the other processes. None if switched off, or for one process.
    """

    def __init__(self, connection: rendezvous_client.CoordinatorConnection, client: CoordinationClient,
                 proxy: service_proxy.ServiceProxy, gpus: list[int] | None, stay: float,
                 sockets: peer_sockets.PeerSockets | None, launch_check: launch_agreement.Agreement | None) -> None:
        self.connection, self.client, self._proxy, self._stay = connection, client, proxy, stay
        self._disconnect_once = threading.Lock()  # acquired by the first call of `disconnect`, never released
        self._sockets = sockets
        self._monitor = failure_handling.FailureMonitor(connection, self.disconnect, sockets)
        self.launcher = multi_process.MultiProcessLauncher(self._monitor)
        self.launcher.store = shared_texts.SharedTexts(client)
        runtime.set_failure_monitor(self._monitor)
        self._launch_check = launch_check
        proxy.on_service_end = self.disconnect
        self._health: health_server.HealthServer | None = None
        if launch_check is not None:
            launch_check.check_peers, launch_check.raise_if_lost = self._monitor.check, self.launcher.raise_if_lost
            self.launcher.launch_agreed = launch_check.agree
            launch_check.report_failure = self._monitor.report_lost_step
        self._watch = None if launch_check is None else stuck_watch.StuckWatch(launch_check, self.launcher,
                                                                               connection.count)
        runtime.active_groups.append(self)
        hooks.staging_context_hooks.append(global_view)
        self._previous_makers = [
            (name, runtime.set_client_maker(name, make)) for name, make in (
                ("cpu", self._cpu_client),
                ("cuda", lambda: self._gpu_client(gpus)))]

    def set_health(self, health: health_server.HealthServer) -> None:
        """Answer probes, and count launches, until this process leaves."""
        self._health, health.connection = health, self.connection
        self.launcher.launch_agreed = health.metrics.count(self.launcher.launch_agreed)

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
            if here.count > 1 and not runtime.has_wait_hook():
                waiter = interruptible_wait.CpuWaiter(self._monitor, self.launcher)
                runtime.set_wait(waiter.wait)
                self._monitor.settle_launches = waiter.settle
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
        if self._health is not None:
            self._health.close_in_child()
        _clear_session()
        if self._sockets is not None:
            self._sockets.close_in_child()

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
        if self._watch is not None:
            self._watch.close()
        for name, make in self._previous_makers:
            runtime.set_client_maker(name, make)
        self._monitor.probes.announce_leave()
        self.disconnect()  # before the coordinator, which ends the service after the last process has left
        self.connection.leave()
        self._monitor.close()
        if self._health is not None:
            self._health.close()
        runtime.set_wait(None)
        _clear_session()
        if self._sockets is not None:
            self._sockets.close()


def is_initialized() -> bool:
    """Return whether this process has joined a system of several processes."""
    return _session is not None


def is_awaited() -> bool:
    """Return whether the coordinator has reported that a process waits to join the system of this one."""
    return _session is not None and _session.connection.is_awaited


def initialize(coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None,
               local_device_ids: int | Sequence[int] | None = None, cluster_detection_method: str | None = None,
               initialization_timeout: float = 300, heartbeat_timeout_seconds: float = 100,
               shutdown_timeout_seconds: float = 300, coordinator_bind_address: str | None = None,
               job_id: str | None = None, health_port: int | None = None, min_processes: int | None = None) -> None:
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
      job_id: text that is the same in all processes that belong together, and different from that of other programs.
        Processes with another one are refused. Default: LAMINA_JOB_ID, or what the launcher provides. Without any of
        these, process 0 draws one, and the processes wait for one second whether others with the same indices come.
      health_port: port of the loopback at which this process answers `/livez`, `/readyz` and `/metrics` over HTTP. Default:
        LAMINA_HEALTH_PORT, else none, and nothing is counted.
      min_processes: after `initialization_timeout` the processes that have come form a smaller system if there are at least
        so many, with indices from 0 in the order of their `process_id`. A process that ends meanwhile is waited for
        again. None: all processes must come. See `share_newest_state` and `has_waiting_processes`.
    Raises:
      RuntimeError: called twice, or after a device was used; there is no token.
      ValueError: an argument is missing or out of range. The host is unknown, or is the loopback although other
        machines must reach it. The process index is taken. The processes differ in their number, versions or 64-bit
        setting. The coordinator serves another job.
      ProcessLostError: processes of the system that this process has left were lost, and no error has named them yet;
        `process_indices` has all of them, in the numbers of that system.
      PermissionError: the coordinator has another token, or a missing process was rejected because of its token.
      TimeoutError: no coordinator was at the address, or some processes did not come in time; names them.
      ConnectionError: another program has the port or the health port, or the coordinator or a process ended meanwhile.

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
        least = None if min_processes is None else _check_int("min_processes", min_processes)
        if least is not None and not 0 < least <= count:
            raise ValueError(f"{CALL}: min_processes must be in [1, num_processes]; got {least} of {count}")
        seconds = [_check_seconds(n, v) for n, v in (("initialization_timeout", initialization_timeout),
                                                     ("heartbeat_timeout_seconds", heartbeat_timeout_seconds),
                                                     ("shutdown_timeout_seconds", shutdown_timeout_seconds))]
        host, _ = rendezvous_protocol.parse_address(address)
        bind = coordinator_bind_address or os.environ.get("LAMINA_COORDINATOR_BIND_ADDRESS")
        if bind is not None:
            rendezvous_protocol.parse_address(bind, "coordinator_bind_address")
        gpus = cluster_env.normalize_device_ids(local_device_ids)
        job = _choose_job_id(job_id, found.job)
        # jaxlib's client cannot join a system later.
        if runtime.has_clients():
            raise RuntimeError(f"{CALL}: a device has been used already; call this before the first array")
        rendezvous_protocol.check_reachable(host, found.several_hosts)
        if gpus is None:
            gpus = cluster_env.share_gpus(found.local_rank, found.local_count)
        logger.info("%s: %s", CALL, sources)
        port = health_server.check_port(health_port)
        health = None if port is None else health_server.HealthServer(port)
        try:
            _session = _join(str(address), bind or str(address), rank, count, seconds, gpus, found, job, least)
        except BaseException:
            if health is not None:
                health.close()
            raise
        if health is not None:
            _session.set_health(health)
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


def _choose_job_id(given: str | None, found: str | None) -> str | None:
    """Return the id of the job: the argument, the variable, the launcher's, else that of the last system."""
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{CALL}: job_id must be a string; got {type(given).__name__}: {given!r:.80}")
    name = given if given is not None else os.environ.get("LAMINA_JOB_ID") or found
    if name is not None and not 0 < len(name) <= _MAX_JOB_ID:
        raise ValueError(f"{CALL}: job_id must have 1 to {_MAX_JOB_ID} characters; got {len(name)}")
    return name or (_previous.job if _previous is not None else None)


def _end_silent_coordinator(meeting: rendezvous_client.Meeting) -> None:
    """Kill the coordinator that this process has met before, if it runs on this machine for this user.

    It is stopped: it accepts connections and does not answer, so no process can use it, and it holds the port.
    """
    if meeting.host != socket.gethostname():
        return
    try:
        with open(f"/proc/{meeting.pid}/cmdline", "rb") as f:
            command = f.read().decode(errors="replace")
        if "coordinator" in command and meeting.address in command:
            logger.warning("%s: ending the coordinator of job %s (process %d), which does not answer", CALL, meeting.job,
                           meeting.pid)
            os.kill(meeting.pid, signal.SIGKILL)
    except OSError:
        pass  # it has ended, belongs to another user, or this system has no /proc


def _join(address: str, bind: str, rank: int, count: int, seconds: list[float], gpus: list[int] | None,
          found: cluster_env.LauncherInfo, job: str | None, least: int | None) -> _Session:
    """Meet the other processes and connect to them. If another one is replaced meanwhile, meet them again."""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            return _join_once(address, bind, rank, count, seconds, gpus, found, job, least)
        except ConnectionError as e:
            if least is None or attempt == _MAX_ATTEMPTS:
                raise
            logger.warning("%s; meeting the other processes again", e)
    raise AssertionError


def _join_once(address: str, bind: str, rank: int, count: int, seconds: list[float], gpus: list[int] | None,
               found: cluster_env.LauncherInfo, job: str | None, least: int | None) -> _Session:
    """Meet the other processes and connect to them. Everything is closed again if that fails."""
    key = rendezvous_protocol.load_token()
    timeout, heartbeat, leaving = seconds[0], math.ceil(seconds[1]), math.ceil(seconds[2])
    fits = {"lamina-distributed": __version__, "jaxlib": runtime.JAXLIB_VERSION, "enable_x64": bool(config.enable_x64.value),
            "agreement": runtime.agreement.value}
    about = {"fits": fits, "heartbeat": heartbeat, "leaving": leaving, "job": job, "drawn": os.urandom(8).hex(), "min": least}
    start_results: list[str] = []  # of starting a coordinator: an error, or ""

    def start() -> str:
        start_results.append(_start_coordinator(bind, key, timeout))
        return start_results[0] or ("The coordinator that process 0 had started there ended; set "
                                    "LAMINA_COORDINATOR_LOG=file to see its output")

    # Nothing of jaxlib before this: with a wrong address, index or number of processes it would abort the process.
    try:
        starts = rank == 0 or (least is not None and _previous is not None)  # process 0 may be the lost one
        here = rendezvous_client.join(address, rank, count, about, key, timeout, start if starts else None,
                                      found.names_may_come, _previous,
                                      _end_silent_coordinator if starts else lambda meeting: None)
    except ProcessLostError as e:
        _remember(_previous, e.process_indices)
        raise
    client = proxy = sockets = launch_check = None
    try:
        here.raise_if_closed()
        _check_service(here.service)
        proxy = service_proxy.ServiceProxy(here.service)
        client = _jaxlib.new_distributed_client(rendezvous_protocol.format_address(*proxy.address), here.rank, here.limit,
                                                leaving)
        here.connect_service(client.connect, (RuntimeError, *runtime.LAUNCH_ERRORS))
        proxy.stop_accepting()
        if here.count > 1:
            sockets = peer_sockets.PeerSockets(here.rank, here.local_address, key, here.peers)
            if runtime.agreement.value != "off":
                launch_check = launch_agreement.Agreement(sockets, runtime.agreement.value)
        # All processes exchange their addresses, so that launches do not need the coordinator.
        here.confirm(here.limit, "" if sockets is None else sockets.address)
        # Some schedulers kill all processes of a task when its main process ends, and so would kill the coordinator
        # that it started. Process 1 is the main process of a container.
        ends_with_this = "" in start_results and (found.ends_with_task or os.getpid() == 1)
        session = _Session(here, client, proxy, gpus, leaving if ends_with_this else 0, sockets, launch_check)
    except BaseException:
        if sockets is not None:
            sockets.close()
        # Client before proxy: a client whose connection breaks aborts the process.
        if client is not None:
            with contextlib.suppress(RuntimeError, *runtime.LAUNCH_ERRORS):  # it may not be connected
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


def _remember(meeting: rendezvous_client.Meeting | None, lost: Iterable[int]) -> None:
    """Store the system that this process leaves, with the losses that an error has named, for the next one."""
    global _previous
    if meeting is not None:
        _previous = meeting._replace(lost=tuple(sorted(lost)))


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
        _remember(session.connection.meeting, session.connection.named)
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
