"""Parts of `lamina_distributed.ray` that need no cluster; tests/ray_cluster has the others (`nox -s ray`)."""
import json
import os
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from lamina_distributed import ProcessLostError
from lamina_distributed._rendezvous import spawn_coordinator
from lamina_distributed.ray import WorkerFailedError, _arguments, _output, _train, _worker, initialize_from_ray_train, run


@pytest.mark.parametrize("arguments, error, message", [
    (dict(num_workers=0), ValueError, "num_workers must be in .1, .*got 0"),
    (dict(num_workers="2"), TypeError, "num_workers must be a whole number; got str: '2'"),
    (dict(num_workers=True), TypeError, "num_workers must be a whole number"),
    (dict(num_workers=2, max_failures=-1), ValueError, "max_failures must be in .0, .*got -1"),
    (dict(num_workers=2, max_failures=0.5), TypeError, "max_failures must be a whole number; got float"),
    (dict(num_workers=2, resources=4), TypeError, "resources must be a dictionary .* got int: 4"),
    (dict(num_workers=2, resources={1: 1}), TypeError, "resources must be a dictionary"),
    (dict(num_workers=2, resources={"CPU": "1"}), TypeError, r"resources\['CPU'\] must be a number; got str"),
    (dict(num_workers=2, resources={"CPU": -1}), ValueError, r"resources\['CPU'\] must be at least 0; got -1"),
    (dict(num_workers=2, resources={"CPU": float("nan")}), ValueError, r"resources\['CPU'\] must be at least 0; got nan"),
    (dict(num_workers=2, resources={}), ValueError, "resources must ask for something"),
    (dict(num_workers=2, resources={"CPU": 0}), ValueError, "resources must ask for something"),
    (dict(num_workers=2, across_nodes=1), TypeError, "across_nodes must be True or False; got int: 1"),
    (dict(num_workers=2, start_timeout_seconds=0), ValueError, "start_timeout_seconds must be above 0; got 0"),
    (dict(num_workers=2, start_timeout_seconds="1"), TypeError, "start_timeout_seconds must be a number of seconds; got str"),
])
def test_wrong_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=f"ray.run: {message}"):
        run(print, **arguments)


def test_numbers_of_numpy_are_accepted():
    found = _arguments.check(np.int64(2), {"CPU": 0, "GPU": 0.5}, np.int32(1), False, 3)
    assert found == (2, {"GPU": 0.5}, 1, False, 3.0) and type(found.num_workers) is int
    assert _arguments.check(1, None, 0, True, 1.5).resources == {"CPU": 1}


@pytest.mark.parametrize("train, message", [
    (3, "ray.run: train must be a function; got int: 3"),
    (lambda: 0, "ray.run: train must be picklable; got .*<lambda>.*Make what cannot be pickled inside of it"),
])
def test_function_that_cannot_be_pickled_is_refused(train, message):
    with pytest.raises(TypeError, match=message):
        _arguments.pickle_train(pickle, train)


def test_missing_ray_is_an_error_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for call in (lambda: run(print, num_workers=2), initialize_from_ray_train):
        with pytest.raises(ImportError, match=r"pip install 'lamina-distributed\[ray\]'") as caught:
            call()
        assert caught.value.name == "ray"


@pytest.fixture
def ray_train(monkeypatch):
    """Fake modules of Ray: worker 0 of 2, the other one on another node."""
    context = SimpleNamespace(get_world_rank=lambda: 0, get_world_size=lambda: 2, get_local_world_size=lambda: 1)
    collective = SimpleNamespace(broadcast_from_rank_zero=lambda value: value)
    found = SimpleNamespace(get_context=lambda: context, collective=collective)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(train=found, util=SimpleNamespace(
        get_node_ip_address=lambda: "127.0.0.1")))
    monkeypatch.setitem(sys.modules, "ray.train", found)
    return found


def test_workers_of_ray_train_on_several_nodes_must_be_allowed(ray_train):
    with pytest.raises(ValueError, match="the 2 workers must be on one node; got 1 on this one. Pass across_nodes=True"):
        initialize_from_ray_train()


def test_worker_0_of_ray_train_passes_address_and_token(ray_train, monkeypatch):
    calls = []
    monkeypatch.setattr(_train._session, "initialize", lambda *args, **options: calls.append((args, options)))
    monkeypatch.setattr(_train.spawn_coordinator, "start_coordinator", lambda address, token, timeout: (
        calls.append((address, len(token), timeout)), ("127.0.0.1:7", None))[1])
    monkeypatch.setenv("LAMINA_TOKEN", "")
    initialize_from_ray_train(across_nodes=True, initialization_timeout=5, heartbeat_timeout_seconds=9)
    (start, (args, options)) = calls
    assert start == ("127.0.0.1:0", 64, 35) and args == ("127.0.0.1:7", 2, 0) and len(os.environ["LAMINA_TOKEN"]) == 64
    assert options.pop("job_id").startswith("ray-train-")
    assert options == {"initialization_timeout": 5, "heartbeat_timeout_seconds": 9}


def test_process_outside_of_ray_train_is_refused(ray_train, monkeypatch):
    monkeypatch.setattr(ray_train, "get_context", lambda: None)
    with pytest.raises(RuntimeError, match="must be a worker of Ray Train. Call it in the training function"):
        initialize_from_ray_train()


def test_output_of_process_is_in_files_until_its_last_byte():
    code = ("import json, os, sys\nfrom lamina_distributed.ray import _output\n"
            "out = os.dup(1)\nfolder = _output.redirect()\nprint('a line')\nos.write(2, b'no end')\nos.system('echo child')\n"
            "os.write(out, json.dumps([folder, os.path.exists(folder)]).encode())\nos.kill(os.getpid(), 9)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    folder, existed = json.loads(done.stdout)
    assert existed and done.returncode == -9
    assert _output.read_files(folder, [2, 0], max_bytes=4) == [b"line", b"no e"]
    assert _output.read_rest(folder, [0, 3]) == [b"a line\nchild\n", b"end"]
    with pytest.raises(FileNotFoundError):
        _output.read_files(folder, [0, 0])


def test_output_is_copied_by_line_with_the_index(capsys):
    copy = _output.OutputCopy(3, 11)
    copy.write([b"one\ntw", b"error\n[Gloo] x\n"])
    copy.write([b"o\n:actor_name:worker 3\n[Gloo] connected\n\xffthree", b""])
    assert copy.offsets == [52, 15]
    assert capsys.readouterr() == ("[ 3] one\n[ 3] two\n", "[ 3] error\n[ 3] [Gloo] x\n[ 3] [Gloo] connected\n")
    copy.close()
    copy.close()
    assert capsys.readouterr() == ("[ 3] \\xffthree\n", "")
    copy.write([b"x" * 70_000, b""])
    assert capsys.readouterr().out == f"[ 3] {'x' * 70_000}\n"


class Unpicklable(Exception):
    def __init__(self, one, two):
        super().__init__("text")


def raise_chained(error, cause):
    try:
        raise error from cause
    except BaseException as e:
        return e


@pytest.mark.parametrize("error, lost", [
    (ProcessLostError("gone", (1, 2)), (1, 2)),
    (raise_chained(KeyError("x"), ProcessLostError("gone", (1,))), (1,)),
    (ConnectionError("distributed.initialize: process 1 ended while the processes were connecting"), ()),
    (ConnectionError("of a database"), None),
    (ConnectionResetError("distributed.initialize: x"), None),
    (Unpicklable(1, 2), None),
    (SystemExit(0), None),
])
def test_error_of_function_is_described(error, lost):
    found = _worker._describe(pickle, error)
    assert found.result is None and found.lost == lost
    assert type(error).__name__ in found.summary and found.summary in found.traceback
    assert (found.error is None) == isinstance(error, Unpicklable)


def test_error_has_rank_and_survives_pickling():
    found = pickle.loads(pickle.dumps(WorkerFailedError("text", 3, "traceback")))
    assert (str(found), found.rank, found.remote_traceback) == ("text", 3, "traceback")


def test_coordinator_that_its_parent_keeps_outlives_the_processes(processes):
    token = "of these tests, with enough bytes"
    address, child = spawn_coordinator.start_coordinator("127.0.0.1:0", token.encode(), 60, detach=False)
    with child:
        for _ in range(2):
            code = f"import lamina_distributed as d; d.initialize({address!r}, 1, 0, job_id='of this test'); d.shutdown()"
            assert processes.wait(processes.start(code, LAMINA_TOKEN=token)) == [(0, "")]
            assert child.poll() is None
        child.stdin.close()
        assert child.wait(20) == 0
