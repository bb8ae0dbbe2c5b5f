"""Detect process index, number of processes and coordinator address from arguments, variables or the launcher.

Only environment variables are read; no tool of a scheduler is called. Arguments have priority, then LAMINA_* and JAX_*
variables. Missing values are taken from one launcher: the first in `METHODS` that has set all its variables. Values of
two launchers are never mixed.
"""
from __future__ import annotations

import glob
import os
import re
import socket
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .rendezvous_protocol import CALL

__all__ = ["METHODS", "LauncherInfo", "detect", "normalize_device_ids", "share_gpus"]

_FIRST_PORT, _PORTS = 20480, 12288  # below the ephemeral ports of usual systems
_POD_PORT = 8476  # a pod has all ports to itself
Env = Mapping[str, str]


@dataclass(frozen=True)
class LauncherInfo:
    """The values found in the variables of a launcher. None: it does not set the value.

    Attributes:
      address, count, rank: as `initialize` takes them.
      local_rank, local_count: index of this process on its machine, and number of processes there.
      several_hosts: whether the processes run on several machines.
      ends_with_task: whether the scheduler kills the children of a process with it, and so would kill the coordinator.
      names_may_come: whether host names become known only when machines start.
      job: text that is the same in all processes of the job and different in other jobs.
      sources: the variables of address, count and rank.
    """

    method: str
    address: str | None = None
    count: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    local_count: int | None = None
    several_hosts: bool | None = None
    ends_with_task: bool = False
    names_may_come: bool = False
    job: str | None = None
    sources: tuple[str, str, str] = ("", "", "")


class _NotDetected(Exception):
    """This launcher did not start this process, with the reason."""


def _int(env: Env, name: str) -> int:
    try:
        return int(env[name])
    except KeyError:
        raise _NotDetected(f"{name} is not set") from None
    except ValueError:
        raise ValueError(f"{CALL}: the variable {name} must be a whole number; got {env[name]!r}") from None


def _text(env: Env, *names: str) -> str:
    for name in names:
        if env.get(name):
            return env[name]
    raise _NotDetected(f"{' or '.join(names)} is not set")


def _port(*key: str) -> int:
    """Return a port that is the same in all processes of a job, and usually different from that of other jobs."""
    return _FIRST_PORT + zlib.crc32("\0".join(key).encode()) % _PORTS


# --- LAMINA_* and JAX_* variables -----------------------------------------------------------------------------------
def _get_variable(env: Env, name: str) -> tuple[str | None, str]:
    for full in (f"LAMINA_{name}", f"JAX_{name}"):
        if env.get(full):
            return env[full], full
    return None, f"LAMINA_{name}"


def _environment(env: Env) -> LauncherInfo:
    """Read the LAMINA_* and JAX_* variables. Any of them may be missing."""
    address, source = _get_variable(env, "COORDINATOR_ADDRESS")
    if address is None and env.get("JAX_COORDINATOR_IP") and env.get("JAX_COORDINATOR_PORT"):
        ip = env["JAX_COORDINATOR_IP"]
        address = f"[{ip}]:{env['JAX_COORDINATOR_PORT']}" if ":" in ip else f"{ip}:{env['JAX_COORDINATOR_PORT']}"
        source = "JAX_COORDINATOR_IP and JAX_COORDINATOR_PORT"
    numbers = [_get_variable(env, name) for name in ("NUM_PROCESSES", "PROCESS_ID")]
    count, rank = [None if text is None else _int(env, name) for text, name in numbers]
    return LauncherInfo("environment", address, count, rank, sources=(source, numbers[0][1], numbers[1][1]))


# --- launchers ----------------------------------------------------------------------------------------------------
def _torchrun(env: Env) -> LauncherInfo:
    """Read torchrun's variables. torchrun itself listens at MASTER_PORT, so another port is derived from it."""
    host, port = _text(env, "MASTER_ADDR"), _text(env, "MASTER_PORT")
    rank, count = _int(env, "RANK"), _int(env, "WORLD_SIZE")
    local = _int(env, "LOCAL_RANK") if "LOCAL_RANK" in env else None
    locals_ = _int(env, "LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in env else None
    derived_port = _port("torchrun", port, env.get("TORCHELASTIC_RUN_ID", ""),
                         env.get("TORCHELASTIC_RESTART_COUNT", ""))
    address = f"[{host}]:{derived_port}" if ":" in host else f"{host}:{derived_port}"
    job = ":".join((host, port, env.get("TORCHELASTIC_RUN_ID", ""), env.get("TORCHELASTIC_RESTART_COUNT", "")))
    return LauncherInfo("torchrun", address, count, rank, local, locals_, None if locals_ is None else locals_ != count,
                        job=f"torchrun {job}", sources=("MASTER_ADDR and MASTER_PORT", "WORLD_SIZE", "RANK"))


def _first_host(nodes: str) -> str:
    """Return the first host of SLURM's compressed list: `n[03-05,9],m1` -> `n03`."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])+", nodes)
    if first is None:
        raise ValueError(f"{CALL}: cannot parse SLURM's list of nodes {nodes!r}. Give coordinator_address")
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", first[0])


def _tasks_on_node(short: str, node: int) -> int:
    """Return the number of tasks on a node from SLURM's compressed list: `2(x3),1` means 2, 2, 2, 1."""
    counts = [int(n) for n, _, times in re.findall(r"(\d+)(\(x(\d+)\))?", short) for _ in range(int(times or 1))]
    return counts[node]


def _slurm(env: Env) -> LauncherInfo:
    """Read the variables of a job step of `srun` with several tasks.

    A shell within a job has some of these variables. A shell inside a step of one task has all of them.
    """
    job, nodes = _text(env, "SLURM_JOB_ID"), _text(env, "SLURM_STEP_NODELIST")
    count, rank, local = _int(env, "SLURM_STEP_NUM_TASKS"), _int(env, "SLURM_PROCID"), _int(env, "SLURM_LOCALID")
    hosts = _int(env, "SLURM_STEP_NUM_NODES")
    step = _text(env, "SLURM_STEP_ID")
    if count < 2:
        raise _NotDetected("the step has one task")
    for ranks, counts in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        if ranks in env and (env[ranks], env.get(counts)) != (str(rank), str(count)):
            raise _NotDetected(f"{ranks} and {counts} have other values: the tasks of the step are those of mpirun")
    locals_ = count if hosts == 1 else None
    if locals_ is None and "SLURM_STEP_TASKS_PER_NODE" in env and "SLURM_NODEID" in env:
        try:
            locals_ = _tasks_on_node(env["SLURM_STEP_TASKS_PER_NODE"], _int(env, "SLURM_NODEID"))
        except (ValueError, IndexError):
            pass
    host = "127.0.0.1" if hosts == 1 else _first_host(nodes)
    return LauncherInfo("slurm", f"{host}:{_port('slurm', job, step)}", count, rank, local, locals_, hosts > 1, True,
                        job=f"slurm {job}.{step}", sources=("SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"))


def _mpi(method: str, env: Env, names: tuple[str, str, str, str], key: Callable[[], str]) -> LauncherInfo:
    ranks, counts, local_ranks, local_counts = names
    rank, count, local, locals_ = (_int(env, n) for n in names)
    one_host = locals_ == count  # on several hosts the address must be given: MPI launchers do not set process 0's host
    address = f"127.0.0.1:{_port(method, key())}" if one_host else None
    # On several hosts the key of MPICH differs between them, and that of Open MPI identifies the job.
    job = f"{method} {key()}" if key() and (one_host or method == "ompi") else None
    return LauncherInfo(method, address, count, rank, local, locals_, not one_host, job=job,
                        sources=(f"all of {local_counts} on one machine" if one_host else "", counts, ranks))


def _ompi(env: Env) -> LauncherInfo:
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
    return _mpi("ompi", env, names, lambda: env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid", ""))


def _mpich(env: Env) -> LauncherInfo:
    return _mpi("mpich", env, ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"), _find_hydra_proxy)


def _find_hydra_proxy() -> str:
    """Return the id of the `mpiexec` process from which all processes of a job on this machine descend.

    It identifies the job, for which MPICH sets no variable.
    """
    pid = os.getppid()
    try:
        while pid > 1:
            with open(f"/proc/{pid}/stat") as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
            if name.startswith("hydra_pmi"):
                return str(pid)
            pid = int(rest.split()[1])
    except OSError:
        pass  # no /proc
    return ""


def _kubernetes(env: Env) -> LauncherInfo:
    """Read the variables of an indexed Job with a headless service, whose pods are named <job>-<index>.<service>...

    Kubernetes sets no variable with the number of pods, so LAMINA_NUM_PROCESSES is needed.
    """
    rank = _int(env, "JOB_COMPLETION_INDEX")
    name = socket.getfqdn()
    pod, dot, rest = name.partition(".")
    if not pod.endswith(f"-{rank}") or not dot:
        if _get_variable(env, "COORDINATOR_ADDRESS")[0] is None:
            raise _NotDetected(f"the pod is {name}, not <job>-{rank}.<service>: give the Job a headless service")
        return LauncherInfo("kubernetes", None, None, rank, several_hosts=True, ends_with_task=True,
                            names_may_come=True, sources=("", "", "JOB_COMPLETION_INDEX"))
    first = f"{pod[:-len(str(rank))]}0.{rest}"
    return LauncherInfo("kubernetes", f"{first}:{_POD_PORT}", None, rank, several_hosts=True, ends_with_task=True,
                        names_may_come=True, job=f"kubernetes {first}", sources=("the pod's name", "", "JOB_COMPLETION_INDEX"))


METHODS: dict[str, Callable[[Env], LauncherInfo]] = {"torchrun": _torchrun, "slurm": _slurm, "ompi": _ompi,
                                                     "mpich": _mpich, "kubernetes": _kubernetes}
_ALIASES = {"k8s": "kubernetes", "openmpi": "ompi"}


# --- all ways ----------------------------------------------------------------------------------------------------
def detect(address: str | None, count: int | None, rank: int | None, method: str | None = None,
           env: Env | None = None) -> tuple[LauncherInfo, str]:
    """Fill in the arguments that are None. Return the values, and a line that names the source of each.

    Args:
      address, count, rank: as for `initialize`.
      method: the launcher to detect, one of `METHODS`; "deactivate": none; None: the first that started this process.
      env: variables. Default: the environment.
    Raises:
      ValueError: a value is missing, a variable is not a number, or the method is unknown or did not start this
        process.
    """
    env = os.environ if env is None else env
    chosen = None if method is None else _ALIASES.get(method, method)
    if chosen not in (None, "deactivate", *METHODS):
        raise ValueError(f"{CALL}: cluster_detection_method must be None, 'deactivate' or one of {', '.join(METHODS)}; "
                         f"got {method!r}")
    found, sources = [address, count, rank], ["argument"] * 3
    launcher = LauncherInfo("arguments")
    reasons = []
    for name, read in {"environment": _environment, **METHODS}.items():
        if all(v is not None for v in found) or (name != "environment" and chosen not in (None, name)):
            continue
        try:
            info = read(env)
        except _NotDetected as e:
            if name == chosen:
                raise ValueError(f"{CALL}: cluster_detection_method={method!r}: {e}") from None
            reasons.append(f"{name} ({e})")
            continue
        for i, value in enumerate((info.address, info.count, info.rank)):
            if found[i] is None and value is not None:
                found[i], sources[i] = value, f"{name}: {info.sources[i]}"
        if name != "environment":
            launcher = info
            break
    arguments = ("coordinator_address", "num_processes", "process_id")
    for i, argument in enumerate(arguments):
        if found[i] is None:
            why = (f"{launcher.method} started this process and does not set it" if launcher.method != "arguments" else
                   f"no launcher was detected: {', '.join(reasons)}" if reasons else "launcher detection is off")
            raise ValueError(f"{CALL}: {argument} is not given, LAMINA_{argument.upper()} is not set, and {why}")
    line = ", ".join(f"{a} {v} ({s})" for a, v, s in zip(arguments, found, sources))
    return replace(launcher, address=found[0], count=found[1], rank=found[2]), line  # type: ignore[arg-type]


def share_gpus(local_rank: int | None, local_count: int | None, env: Env | None = None) -> list[int] | None:
    """Return the ids of this process's share of the machine's GPUs. None: it uses all visible GPUs.

    If the scheduler has already restricted each process to its own GPUs, fewer GPUs than processes are visible: nothing
    is shared.
    """
    env = os.environ if env is None else env
    if local_rank is None or local_count is None or local_count < 2:
        return None
    named = env.get("CUDA_VISIBLE_DEVICES")
    visible = len([p for p in named.split(",") if p.strip()] if named is not None else glob.glob("/dev/nvidia[0-9]*"))
    share, rest = divmod(visible, local_count)
    return list(range(local_rank * share, (local_rank + 1) * share)) if share and not rest else None


def normalize_device_ids(given: Any) -> list[int] | None:
    """Return `local_device_ids` as a list. If None, read the variable, where ids are separated by commas."""
    if given is None:
        text, name = _get_variable(os.environ, "LOCAL_DEVICE_IDS")
        if text is None:
            return None
        given = text.split(",")
        try:
            given = [int(p) for p in given]
        except ValueError:
            raise ValueError(f"{CALL}: the variable {name} must be whole numbers with commas; got {text!r}") from None
    found = [given] if type(given) is int else list(given)
    if not found or any(type(i) is not int or i < 0 for i in found) or len(set(found)) != len(found):
        raise ValueError(f"{CALL}: local_device_ids must be numbers of GPUs, each once; got {given!r}")
    return found
