"""Which process of how many this one is, and where they meet: from arguments, from variables, or from what started it.

Every way reads variables alone and needs no help of a scheduler's tools. Arguments come first, then LAMINA_* and JAX_*; what is
missing then comes from one launcher, the first in `METHODS` that has set all it should have: two of them are never mixed.
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

from .lobby import CALL

__all__ = ["METHODS", "Found", "find", "own_gpus"]

_FIRST_PORT, _PORTS = 20480, 12288  # below the ports that systems give to outgoing connections
_POD_PORT = 8476  # a pod has all ports to itself
Env = Mapping[str, str]


@dataclass(frozen=True)
class Found:
    """What a launcher says. None: it does not.

    Attributes:
      address, count, rank: as `initialize` takes them.
      local_rank, local_count: number of this process on its machine, and of how many.
      several_hosts: whether the processes run on several machines.
      ends_with_task: whether what a process started is ended with it, so that the coordinator is.
      names_may_come: whether host names become known only when machines start.
      sources: for each of the first three, the variable it comes from.
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
    sources: tuple[str, str, str] = ("", "", "")


class _Absent(Exception):
    """This launcher did not start us; why."""


def _int(env: Env, name: str) -> int:
    try:
        return int(env[name])
    except KeyError:
        raise _Absent(f"{name} is not set") from None
    except ValueError:
        raise ValueError(f"{CALL}: the variable {name} must be a whole number; got {env[name]!r}") from None


def _text(env: Env, *names: str) -> str:
    for name in names:
        if env.get(name):
            return env[name]
    raise _Absent(f"{' or '.join(names)} is not set")


def _port(*key: str) -> int:
    """The same number in all processes of a job; another job has another, as a rule."""
    return _FIRST_PORT + zlib.crc32("\0".join(key).encode()) % _PORTS


# --- variables of our own -----------------------------------------------------------------------------------------
def _own(env: Env, name: str) -> tuple[str | None, str]:
    for full in (f"LAMINA_{name}", f"JAX_{name}"):
        if env.get(full):
            return env[full], full
    return None, f"LAMINA_{name}"


def environment(env: Env) -> Found:
    """LAMINA_* and JAX_*, any of them."""
    address, source = _own(env, "COORDINATOR_ADDRESS")
    if address is None and env.get("JAX_COORDINATOR_IP") and env.get("JAX_COORDINATOR_PORT"):
        ip = env["JAX_COORDINATOR_IP"]
        address = f"[{ip}]:{env['JAX_COORDINATOR_PORT']}" if ":" in ip else f"{ip}:{env['JAX_COORDINATOR_PORT']}"
        source = "JAX_COORDINATOR_IP and JAX_COORDINATOR_PORT"
    numbers = [_own(env, name) for name in ("NUM_PROCESSES", "PROCESS_ID")]
    count, rank = [None if text is None else _int(env, name) for text, name in numbers]
    return Found("environment", address, count, rank, sources=(source, numbers[0][1], numbers[1][1]))


# --- launchers ----------------------------------------------------------------------------------------------------
def _torchrun(env: Env) -> Found:
    """MASTER_PORT is taken by torchrun itself, so the port is one that follows from it."""
    host, port = _text(env, "MASTER_ADDR"), _text(env, "MASTER_PORT")
    rank, count = _int(env, "RANK"), _int(env, "WORLD_SIZE")
    local = _int(env, "LOCAL_RANK") if "LOCAL_RANK" in env else None
    locals_ = _int(env, "LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in env else None
    ours = _port("torchrun", port, env.get("TORCHELASTIC_RUN_ID", ""), env.get("TORCHELASTIC_RESTART_COUNT", ""))
    return Found("torchrun", f"[{host}]:{ours}" if ":" in host else f"{host}:{ours}", count, rank, local, locals_,
                 None if locals_ is None else locals_ != count, sources=("MASTER_ADDR and MASTER_PORT", "WORLD_SIZE", "RANK"))


def _first_host(nodes: str) -> str:
    """Of SLURM's short form: `n[03-05,9],m1` -> `n03`."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])+", nodes)
    if first is None:
        raise ValueError(f"{CALL}: SLURM's list of nodes is not understood: {nodes!r}. Give coordinator_address")
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", first[0])


def _tasks_on_node(short: str, node: int) -> int:
    """Of SLURM's short form: `2(x3),1` -> 2, 2, 2, 1."""
    counts = [int(n) for n, _, times in re.findall(r"(\d+)(\(x(\d+)\))?", short) for _ in range(int(times or 1))]
    return counts[node]


def _slurm(env: Env) -> Found:
    """A step of `srun`. A shell within a job has some of these variables, and one inside a step of one task has all."""
    job, nodes = _text(env, "SLURM_JOB_ID"), _text(env, "SLURM_STEP_NODELIST")
    count, rank, local = _int(env, "SLURM_STEP_NUM_TASKS"), _int(env, "SLURM_PROCID"), _int(env, "SLURM_LOCALID")
    hosts = _int(env, "SLURM_STEP_NUM_NODES")
    step = _text(env, "SLURM_STEP_ID")
    if count < 2:
        raise _Absent("the step has one task")
    for ranks, counts in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        if ranks in env and (env[ranks], env.get(counts)) != (str(rank), str(count)):
            raise _Absent(f"{ranks} and {counts} say otherwise: the tasks of the step are those of mpirun")
    locals_ = count if hosts == 1 else None
    if locals_ is None and "SLURM_STEP_TASKS_PER_NODE" in env and "SLURM_NODEID" in env:
        try:
            locals_ = _tasks_on_node(env["SLURM_STEP_TASKS_PER_NODE"], _int(env, "SLURM_NODEID"))
        except (ValueError, IndexError):
            pass
    host = "127.0.0.1" if hosts == 1 else _first_host(nodes)
    return Found("slurm", f"{host}:{_port('slurm', job, step)}", count, rank, local, locals_, hosts > 1, True,
                 sources=("SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"))


def _mpi(method: str, env: Env, names: tuple[str, str, str, str], key: Callable[[], str]) -> Found:
    ranks, counts, local_ranks, local_counts = names
    rank, count, local, locals_ = (_int(env, n) for n in names)
    here = locals_ == count  # no launcher of MPI says where process 0 runs
    return Found(method, f"127.0.0.1:{_port(method, key())}" if here else None, count, rank, local, locals_, not here,
                 sources=(f"all of {local_counts} on one machine" if here else "", counts, ranks))


def _ompi(env: Env) -> Found:
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
    return _mpi("ompi", env, names, lambda: env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid", ""))


def _mpich(env: Env) -> Found:
    return _mpi("mpich", env, ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"), _proxy)


def _proxy() -> str:
    """The process of `mpiexec` that all processes of a job on this machine descend from: no variable names the job."""
    pid = os.getppid()
    try:
        while pid > 1:
            with open(f"/proc/{pid}/stat") as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
            if name.startswith("hydra_pmi"):
                return str(pid)
            pid = int(rest.split()[1])
    except OSError:
        pass  # another system
    return ""


def _kubernetes(env: Env) -> Found:
    """An indexed Job with a headless service: its pods are called <job>-<index>.<service>..., as `/etc/hosts` says. How many
    they are no variable of its says: LAMINA_NUM_PROCESSES does."""
    rank = _int(env, "JOB_COMPLETION_INDEX")
    name = socket.getfqdn()
    pod, dot, rest = name.partition(".")
    if not pod.endswith(f"-{rank}") or not dot:
        if _own(env, "COORDINATOR_ADDRESS")[0] is None:
            raise _Absent(f"the pod is {name}, not <job>-{rank}.<service>: give the Job a headless service")
        return Found("kubernetes", None, None, rank, several_hosts=True, ends_with_task=True, names_may_come=True,
                     sources=("", "", "JOB_COMPLETION_INDEX"))
    first = f"{pod[:-len(str(rank))]}0.{rest}"
    return Found("kubernetes", f"{first}:{_POD_PORT}", None, rank, several_hosts=True, ends_with_task=True,
                 names_may_come=True, sources=("the pod's name", "", "JOB_COMPLETION_INDEX"))


METHODS: dict[str, Callable[[Env], Found]] = {"torchrun": _torchrun, "slurm": _slurm, "ompi": _ompi, "mpich": _mpich,
                                              "kubernetes": _kubernetes}
_ALIASES = {"k8s": "kubernetes", "openmpi": "ompi"}


# --- together -----------------------------------------------------------------------------------------------------
def find(address: str | None, count: int | None, rank: int | None, method: str | None = None,
         env: Env | None = None) -> tuple[Found, str]:
    """Fill in what is None: (what was found, a line that says from where).

    Args:
      method: the one launcher to ask, one of `METHODS`; "deactivate": none; None: the first that started this process.
    Raises:
      ValueError: something is missing, a variable is no number, or the method is unknown or did not start this process.
    """
    env = os.environ if env is None else env
    chosen = None if method is None else _ALIASES.get(method, method)
    if chosen not in (None, "deactivate", *METHODS):
        raise ValueError(f"{CALL}: cluster_detection_method must be None, 'deactivate' or one of {', '.join(METHODS)}; got "
                         f"{method!r}")
    found, sources = [address, count, rank], ["argument"] * 3
    launcher = Found("arguments")
    reasons = []
    for name, ask in {"environment": environment, **METHODS}.items():
        if all(v is not None for v in found) or (name != "environment" and chosen not in (None, name)):
            continue
        try:
            said = ask(env)
        except _Absent as e:
            if name == chosen:
                raise ValueError(f"{CALL}: cluster_detection_method={method!r}: {e}") from None
            reasons.append(f"{name} ({e})")
            continue
        for i, value in enumerate((said.address, said.count, said.rank)):
            if found[i] is None and value is not None:
                found[i], sources[i] = value, f"{name}: {said.sources[i]}"
        if name != "environment":
            launcher = said
            break
    arguments = ("coordinator_address", "num_processes", "process_id")
    for i, argument in enumerate(arguments):
        if found[i] is None:
            asked = (f"{launcher.method} started this process and does not say it" if launcher.method != "arguments" else
                     f"nothing that was asked says it: {', '.join(reasons)}" if reasons else "no launcher was asked")
            raise ValueError(f"{CALL}: {argument} is not given, LAMINA_{argument.upper()} is not set, and {asked}")
    line = ", ".join(f"{a} {v} ({s})" for a, v, s in zip(arguments, found, sources))
    return replace(launcher, address=found[0], count=found[1], rank=found[2]), line  # type: ignore[arg-type]


def own_gpus(local_rank: int | None, local_count: int | None, env: Env | None = None) -> list[int] | None:
    """This process's share of the machine's GPUs; None leaves it all that it sees.

    Where a scheduler already shows each process its own, there are fewer to be seen than processes, and nothing is shared.
    """
    env = os.environ if env is None else env
    if local_rank is None or local_count is None or local_count < 2:
        return None
    named = env.get("CUDA_VISIBLE_DEVICES")
    visible = len([p for p in named.split(",") if p.strip()]) if named is not None else len(glob.glob("/dev/nvidia[0-9]*"))
    share, rest = divmod(visible, local_count)
    return list(range(local_rank * share, (local_rank + 1) * share)) if share and not rest else None


def device_ids(given: Any) -> list[int] | None:
    """`local_device_ids` in one form: a whole number, several, or text as in a variable."""
    if given is None:
        text, name = _own(os.environ, "LOCAL_DEVICE_IDS")
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
