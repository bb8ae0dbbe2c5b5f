"""`lamina.distributed.ray` on a local Ray cluster of two nodes. `run.py` runs this file in an environment that has Ray."""
from __future__ import annotations

import functools
import signal
import subprocess
import sys
import threading
import time

import lamina
import numpy as np
import pytest
import ray
import ray_digits
import ray_programs as programs
from lamina.distributed.ray import WorkerFailedError, initialize_from_ray_train, run
from lamina_checkpoint import steps
from lamina_distributed.ray import _placement
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray
NODE = dict(num_cpus=2, object_store_memory=100_000_000)


@pytest.fixture(scope="module")
def cluster():
    found = Cluster(initialize_head=True, head_node_args=dict(NODE, include_dashboard=False))
    found.add_node(**NODE)
    ray.init(address=found.address, logging_level="warning", log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


@functools.cache
def train_alone():
    params, mine = ray_digits.START, ray_digits.rows(0, 1, 1)
    step = lamina.pmap(ray_digits.step, axis_name="all", in_axes=(None, 0, 0), out_axes=None, devices=lamina.devices()[:1])
    for _ in range(ray_digits.STEPS):
        params = step(params, *mine)
    return [np.asarray(p) for p in params]


def check_trained(params):
    """Check that parameters are those of one process, and that they classify."""
    for found, expected in zip(params, train_alone()):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    assert ray_digits.accuracy(params) == ray_digits.accuracy(train_alone()) > 0.9


def test_killed_worker_rejoins_and_training_is_as_accurate(cluster, capfd):
    results = run(functools.partial(ray_digits.train, 1), num_workers=4, max_failures=1, across_nodes=True)
    for params, _ in results:
        check_trained(params)
    groups = [g for _, g in results]
    assert all(g[-1][0] == 4 for g in groups)  # all four again at the end
    assert all(g[0] == (4, 0) and len(g) > 1 for r, g in enumerate(groups) if r != 1)
    assert all(first >= ray_digits.STEPS // 2 for _, first in groups[1])  # the state came from another worker
    err = capfd.readouterr().err
    assert "ray.run: worker 1 was lost and is started again, failure 1 of at most 1" in err


def test_program_without_handler_is_called_again_from_its_checkpoint(cluster, tmp_path, capfd):
    train = functools.partial(programs.train_from_checkpoint, str(tmp_path), {0: 18})
    results = run(train, num_workers=2, max_failures=1)
    for params, first in results:
        check_trained(params)
        assert first in (10, 15)
    assert "[0] the last words" in capfd.readouterr().err


def test_stopped_worker_is_replaced(cluster, tmp_path):
    train = functools.partial(programs.train_from_checkpoint, str(tmp_path), {1: 12}, signal.SIGSTOP, 2)
    for params, _ in run(train, num_workers=2, max_failures=1):
        check_trained(params)


def test_output_has_index_in_front_and_variables_are_set(cluster, capfd):
    results = run(programs.print_lines, num_workers=2)
    out, err = capfd.readouterr()
    for rank in range(2):
        assert out.count(f"[{rank}] the same line\n") == 3
        assert f"[{rank}] without an end, \\xff\n" in out and f"[{rank}] to stderr of {rank}\n" in err
    assert all(address.startswith("127.0.0.1:") and (count, joined) == ("2", 1) for address, count, joined in results)


def test_exception_of_function_is_raised_with_remote_traceback(cluster):
    with pytest.raises(WorkerFailedError, match="exception in worker 1 of 2, on node .*: KeyError: 'the key'") as caught:
        run(functools.partial(programs.fail_in_one, 1), num_workers=2, max_failures=3)
    assert caught.value.rank == 1 and isinstance(caught.value.__cause__, KeyError)
    assert '{}["the key"]' in caught.value.remote_traceback and "fail_in_one" in str(caught.value)


def test_repeated_loss_is_raised_after_max_failures(cluster):
    start = time.monotonic()
    with pytest.raises(WorkerFailedError, match="worker 0 of 2 was lost: (?s:.*)after 1 failures: max_failures is 1") as caught:
        run(functools.partial(programs.die, 0), num_workers=2, max_failures=1)
    assert caught.value.rank == 0 and isinstance(caught.value.__cause__, ray.exceptions.RayActorError)
    assert time.monotonic() - start < 60


def test_missing_resources_are_named(cluster):
    with pytest.raises(TimeoutError, match="num_workers=2 with 1 CPU, 3 GPU each could not be placed within 1 s. .* has 2 CPU, "
                       "0 GPU; .*free in all: 4 CPU, 0 GPU. Ask for less, or pass across_nodes"):
        run(programs.sum_ranks, num_workers=2, resources={"CPU": 1, "GPU": 3}, start_timeout_seconds=1)
    with pytest.raises(TimeoutError, match="num_workers=5 with 1 CPU each .*Ask for less, or add nodes"):
        run(programs.sum_ranks, num_workers=5, across_nodes=True, start_timeout_seconds=1)
    wait_for_resources(4)


def wait_for_resources(cpus):
    until = time.monotonic() + 20
    while ray.available_resources().get("CPU", 0) < cpus:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_worker_that_does_not_start_is_named(cluster, monkeypatch):
    monkeypatch.setattr(_placement, "Worker", programs.LateWorker)
    with pytest.raises(TimeoutError, match="worker(s 0,)? 1 of 2 did not start within 20 s, with 1 CPU each"):
        run(programs.sum_ranks, num_workers=2, start_timeout_seconds=20)


def test_function_that_cannot_be_pickled_is_refused(cluster):
    lock = threading.Lock()
    with pytest.raises(TypeError, match="ray.run: train must be picklable; got .*lock"):
        run(lambda: lock, num_workers=2)


def test_result_that_cannot_be_pickled_is_refused(cluster):
    with pytest.raises(WorkerFailedError, match="the result of train must be picklable; got generator") as caught:
        run(programs.return_generator, num_workers=1)
    assert isinstance(caught.value.__cause__, TypeError)


def test_interrupt_of_driver_ends_the_workers(cluster, tmp_path):
    code = ("import functools, ray, ray_programs, sys; from lamina.distributed.ray import run\n"
            "ray.init(address=sys.argv[1], log_to_driver=False, logging_level='warning')\n"
            "run(functools.partial(ray_programs.wait_forever, sys.argv[2]), num_workers=2)")
    driver = subprocess.Popen([sys.executable, "-c", code, cluster.address, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 60
        while len(pids := [p.read_text() for p in tmp_path.iterdir() if p.read_text()]) < 2:
            assert driver.poll() is None and time.monotonic() < until
            time.sleep(0.1)
        driver.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in driver.communicate(timeout=60)[1] and driver.returncode != 0
    finally:
        driver.kill()
        driver.communicate()
    until = time.monotonic() + 20
    while any(is_running(int(pid)) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.1)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_lost_node_is_replaced(cluster, tmp_path):
    cluster.add_node(**NODE, resources={"slot": 2})
    reserved = ray.util.placement_group([{"slot": 2}])
    assert reserved.wait(60)
    lost = cluster.add_node(**NODE, resources={"slot": 2})  # only this node has slots left

    def lose_node():
        while not steps(str(tmp_path)):
            time.sleep(0.1)
        cluster.remove_node(lost, allow_graceful=False)
        ray.util.remove_placement_group(reserved)

    threading.Thread(target=lose_node, daemon=True).start()
    train = functools.partial(programs.train_from_checkpoint, str(tmp_path), {}, pause=0.4)
    for params, first in run(train, num_workers=2, resources={"slot": 1}, max_failures=2):
        check_trained(params)
        assert first is not None and first >= 5


def test_workers_of_ray_train_join(cluster, tmp_path):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    wait_for_resources(4)
    (tmp_path / "found").mkdir()
    trainer = DataParallelTrainer(programs.train_in_ray_train, scaling_config=ScalingConfig(num_workers=2),
                                  train_loop_config={"across_nodes": True, "folder": str(tmp_path / "found")},
                                  run_config=RunConfig(storage_path=str(tmp_path)))
    trainer.fit()
    assert sorted(p.read_text() for p in (tmp_path / "found").iterdir()) == ["3 of 2"] * 2


def test_initialize_outside_of_ray_train_is_refused(cluster):
    with pytest.raises(RuntimeError, match="this process must be a worker of Ray Train"):
        initialize_from_ray_train()
