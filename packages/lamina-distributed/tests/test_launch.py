"""`python -m lamina_distributed.launch`, called in this process if possible, with programs that do not import lamina."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from lamina_distributed import launch


@pytest.fixture
def program(tmp_path):
    """Write a program to a file; return the path."""
    def write(text):
        path = tmp_path / "program.py"
        path.write_text("import os, signal, subprocess, sys, time\nrank = int(os.environ['LAMINA_PROCESS_ID'])\n" + text)
        return str(path)
    return write


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_ended(pids):
    end = time.monotonic() + 30
    while any(map(is_running, pids)):
        assert time.monotonic() < end, pids
        time.sleep(0.01)
    return bool(pids)


def pids_in(text):
    return [int(line.split()[-1]) for line in text.splitlines() if " pid " in line]


def test_lines_are_prefixed_and_variables_set(program, capfdbinary):
    path = program("""
print(os.environ["LAMINA_NUM_PROCESSES"], os.environ["LAMINA_NUM_CPU_DEVICES"], sys.argv[1:], len(os.environ["LAMINA_TOKEN"]))
print("to", "stderr", file=sys.stderr)
sys.stdout.buffer.write(b"\\xff no end")
""")
    assert launch.main(["-n", "3", "--devices", "2", path, "a", "-n", "--timeout"]) == 0
    out, err = capfdbinary.readouterr()
    want = [line for r in b"012" for line in (b"[%c] 3 2 ['a', '-n', '--timeout'] 64" % r, b"[%c] \xff no end" % r)]
    assert sorted(out.splitlines()) == sorted(want) and sorted(err.splitlines()) == [b"[%c] to stderr" % r for r in b"012"]


def test_first_failure_ends_the_others_and_is_reported_last(program, capfd):
    path = program("""
print("pid", os.getpid(), flush=True)
if rank == 1:
    time.sleep(0.3)
    raise KeyError("of rank 1")
if rank == 2:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("of rank 2"))
child = subprocess.Popen(["sleep", "100"])
print("pid", child.pid, flush=True)
time.sleep(100)
""")
    assert launch.main(["-n", "3", path]) == 1
    out, err = capfd.readouterr()
    assert wait_until_ended(pids_in(out)) and len(pids_in(out)) == 5
    assert "[1] KeyError: 'of rank 1'" in err and "[2] of rank 2" in err
    last = err[err.index("lamina.launch: process 1 failed first, with exit status 1"):].splitlines()
    assert last[1] == "Traceback (most recent call last):" and last[-1] == "KeyError: 'of rank 1'"


def test_signal_is_a_failure_and_m_runs_a_module(program, capfd, monkeypatch):
    path = program("os.kill(os.getpid(), signal.SIGKILL) if rank else time.sleep(100)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(path), os.environ.get("PYTHONPATH", "")]))
    assert launch.main(["-n", "2", "-m", "program"]) == 128 + signal.SIGKILL
    assert "process 1 failed first, with signal SIGKILL" in capfd.readouterr().err


def test_timeout_ends_processes_with_a_stack_trace(program, capfd):
    path = program("""
def sleep_long(): time.sleep(100)
print('pid', os.getpid(), flush=True)
if rank:
    sleep_long()
""")
    assert launch.main(["-n", "2", "--timeout", "1", path]) == 124
    out, err = capfd.readouterr()
    assert "not done in time; ending process 1" in err and "in sleep_long" in err and wait_until_ended(pids_in(out))


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_are_forwarded(program, capfd, number, status):
    path = program("""
def on_signal(n, frame):
    print("received", n, flush=True)
    sys.exit(3)
signal.signal(signal.SIGINT, on_signal)
signal.signal(signal.SIGTERM, on_signal)
open(__file__ + str(rank), "w").close()
time.sleep(100)
""")

    def send_signal():
        while not all(os.path.exists(path + r) for r in "01"):
            time.sleep(0.01)
        os.kill(os.getpid(), number)
    t = threading.Thread(target=send_signal)
    t.start()
    assert launch.main(["-n", "2", path]) == status
    t.join()
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == [f"[{r}] received {int(number)}" for r in (0, 1)] and "failed first" not in err


def test_children_end_when_the_launcher_is_killed(program, processes):
    path = program("print('pid', os.getpid(), flush=True)\ntime.sleep(100)")
    p = processes.start(sys.executable, "-m", "lamina_distributed.launch", "-n", "2", path)
    pids = pids_in(p.stdout.readline() + p.stdout.readline())
    with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
        children = [int(c) for c in f.read().split()]  # includes the coordinator
    assert set(pids) < set(children) and len(children) == 3
    p.kill()
    assert wait_until_ended(children)


@pytest.mark.parametrize("arguments, message", [
    (["x.py"], "required: -n"), (["-n", "0", "x.py"], "must be above 0"), (["-n", "2", "x.py"], "no such program: x.py"),
    (["-n", "2"], "required: program")])
def test_invalid_command_lines_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as e:
        launch.main(arguments)
    assert e.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.slow
def test_launched_processes_initialize(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("""
import numpy as np
import lamina_runtime as rt
from lamina_distributed import _session as distributed
from lamina_runtime._sharding.shardings import mapped_sharding
from lamina_tracing import jit, lax
distributed.initialize()
x = rt.device_put(np.arange(4, dtype=np.float32), mapped_sharding(tuple(rt.devices()), 1, ((0, 4),)))
print(rt.process_index(), rt.device_count(), float(jit(lambda x: lax.reduce_sum(x, (0,)))(x)))
""")
    command = [sys.executable, "-m", "lamina_distributed.launch", "-n", "2", "--devices", "2", "--timeout", "100", path]
    done = subprocess.run(command, env={**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0"}, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert "0 4 6.0" in done.stdout and "1 4 6.0" in done.stdout, done.stdout


def test_result_as_json(program, capfd):
    path = program("if rank == 1: sys.exit(3)\ntime.sleep(100)\n")
    assert launch.main(["-n", "2", "--json", path]) == 3
    found = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert found == {"status": 3, "timed_out": False, "signal": None, "first_failed": 1, "processes": [
        {"process": 0, "status": -signal.SIGTERM}, {"process": 1, "status": 3}]}
