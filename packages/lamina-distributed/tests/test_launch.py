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
from lamina_distributed._launcher import attempt, failure_report


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
    time.sleep(2)  # until the others have printed
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
    (["-n", "2"], "required: program"), (["-n", "2", "--max-restarts", "-1", "x.py"], "must be at least 0"),
    (["-n", "2", "--min-processes", "3", __file__], "must be at most the number of processes, 2"),
    (["-n", "2", "--replace", __file__], "argument --replace: needs --max-restarts"),
    (["-n", "2", "--log-dir", "/dev/null/logs", __file__], "the folder cannot be made")])
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
    assert found == {"status": 3, "timed_out": False, "signal": None, "first_failed": 1, "restarts": 0, "processes": [
        {"process": 0, "status": -signal.SIGTERM}, {"process": 1, "status": 3}]}


# --- the root failure ---------------------------------------------------------------------------------------------
LOST = """
class ProcessLostError(RuntimeError): pass
def lose(named): raise ProcessLostError(f"pmap of `f`: process_indices (1,) are gone: process 1 (host, pid {named}) was lost")
def pid_of_1():
    path = __file__ + ".pid"
    while not os.path.exists(path): time.sleep(0.01)
    return open(path).read()
if rank == 1:
    with open(__file__ + ".draft", "w") as f: f.write(str(os.getpid()))
    os.rename(__file__ + ".draft", __file__ + ".pid")
"""


@pytest.mark.parametrize("text, how, shown", [
    # It still runs its exit handlers when the others end.
    ("import atexit\natexit.register(time.sleep, 1)\nraise KeyError('root')", "failed first, with exit status 1",
     "KeyError: 'root'"),
    ("sys.exit('root')", "failed first, with exit status 1", "root"),
    ("os.kill(os.getpid(), signal.SIGKILL)", "failed first, with signal SIGKILL", ""),
    ("os._exit(0)", "ended first, with exit status 0, while others still needed it", ""),
    ("os.kill(os.getpid(), signal.SIGSTOP)", "was lost first, while it was still running", "")])
def test_root_failure_is_named_although_others_end_first(program, capfd, monkeypatch, text, how, shown):
    if "SIGSTOP" in text:
        monkeypatch.setattr(attempt, "_ROOT_GRACE", 0.5)
        monkeypatch.setattr(attempt, "_GRACE", 0.5)
    path = program(LOST + f"""
if rank == 1:
    {text.replace(chr(10), chr(10) + "    ")}
named = pid_of_1()
time.sleep(0.3)  # as the time until a loss is reported
try: lose(named)
except ProcessLostError as e: raise (RuntimeError("training failed") if rank else ValueError("state")) from e
""")
    assert launch.main(["-n", "3", path]) in (1, 128 + signal.SIGKILL)
    err = capfd.readouterr().err
    last = err[err.index("lamina.launch: process 1 " + how):].splitlines()
    assert last[-1] == shown or not shown and len(last) == 1, last


def test_chained_exceptions_are_shown_with_their_causes(program, capfd):
    path = program("""
def run():
    try: {}["missing"]
    except KeyError as e: raise ValueError("of the state") from e
if rank == 1:
    import threading
    t = threading.Thread(target=lambda: 1 / 0)
    t.start()
    t.join()
    try: run()
    except ValueError: raise RuntimeError("training failed")
time.sleep(100)
""")
    assert launch.main(["-n", "2", path]) == 1
    err = capfd.readouterr().err
    last = err[err.index("lamina.launch: process 1 failed first"):].splitlines()
    found = [line for line in last if line[:1].isalpha() and "Error: " in line]
    assert found == ["KeyError: 'missing'", "ValueError: of the state", "RuntimeError: training failed"]
    assert last[-1] == found[-1] and "direct cause" in err and "During handling" in err


def make_ending(rank, lines, status=1, at=0.0, signalled=False):
    return failure_report.Ending(rank, 100 + rank, status, at, signalled, [line.encode() for line in lines])


TRACE = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "    raise ProcessLostError"]
CAUSE, CONTEXT = ["", failure_report._CHAIN[0].decode(), ""], ["", failure_report._CHAIN[1].decode(), ""]
LOST_LINE = "lamina_runtime._backend.peer_errors.ProcessLostError: f: process_indices (1,) are gone: it was lost"


@pytest.mark.parametrize("lines, expected", [
    ([*TRACE, "KeyError: 1"], False), ([*TRACE, LOST_LINE], True),
    ([*TRACE, "jaxlib.XlaRuntimeError: no", *CAUSE, *TRACE, LOST_LINE], True),
    ([*TRACE, LOST_LINE, *CAUSE, *TRACE, "RuntimeError: training failed"], True),
    ([*TRACE, LOST_LINE, *CONTEXT, *TRACE, "KeyError: 'in the handler'"], True),
    ([*TRACE, "KeyError: 'root'", *CONTEXT, *TRACE, LOST_LINE], False),
    ([*TRACE, "KeyError: 'root'", *CONTEXT, *TRACE, "OSError: Gloo", *CAUSE, *TRACE, LOST_LINE], False),
    ([*TRACE, "RuntimeError: save failed in another process, so it was not done: process 0: OSError"], True),
    (["some text", "f: process_indices (1,) are gone: process 1 was lost"], True), (["some text"], False), ([], False),
    ([*TRACE, "KeyError: 1", "Exception in thread t:", *TRACE, LOST_LINE], False)])
def test_secondary_failures_are_recognized(lines, expected):
    assert failure_report.is_secondary([line.encode() for line in lines]) is expected


def test_root_is_the_earliest_failure_that_reports_no_other():
    lost = [*TRACE, LOST_LINE]
    secondary = make_ending(0, lost, at=1.0)
    assert failure_report.find_root([secondary, make_ending(1, [], -9, at=2.0)]).rank == 1
    assert failure_report.find_root([secondary, make_ending(1, [*TRACE, "KeyError: 1"], 1, at=2.0),
                                     make_ending(2, [*TRACE, "KeyError: 1"], 1, at=1.5)]).rank == 2
    assert failure_report.find_root([secondary, make_ending(1, [], 0)]).rank == 1
    assert failure_report.find_root([secondary, make_ending(1, [], None)]).rank == 1
    assert failure_report.find_root([secondary, make_ending(1, lost, at=0.5)]).rank == 1
    assert failure_report.find_root([secondary]).rank == 0
    assert failure_report.find_root([make_ending(0, [], -15, signalled=True), make_ending(1, [], 0)]) is None


# --- restarts, logs, signals --------------------------------------------------------------------------------------
def test_failed_group_is_started_again_as_a_whole(program, capfd):
    path = program("""
attempt = int(os.environ["LAMINA_RESTART_COUNT"])
print("attempt", attempt, os.environ["LAMINA_TOKEN"], os.environ["LAMINA_COORDINATOR_ADDRESS"], flush=True)
if attempt < 2 and rank == attempt:
    time.sleep(0.5)
    sys.exit(f"failure {attempt}")
if attempt < 2: time.sleep(100)
""")
    assert launch.main(["-n", "2", "--max-restarts", "3", "--json", path]) == 0
    out, err = capfd.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert sorted(line[2] for line in lines) == ["0", "0", "1", "1", "2", "2"]
    assert len({line[3] for line in lines}) == 3 and len({(line[2], *line[3:]) for line in lines}) == 3
    for text in ("process 0 failed first", "failure 0", "again, restart 1 of 3", "process 1 failed first", "failure 1",
                 "restart 2 of 3"):
        assert text in err
    assert json.loads(err.splitlines()[-1])["restarts"] == 2


def test_restarts_end_at_the_limit_and_at_a_timeout(program, capfd):
    path = program("sys.exit(7) if rank else time.sleep(100)")
    assert launch.main(["-n", "2", "--max-restarts", "1", path]) == 7
    err = capfd.readouterr().err
    assert err.count("process 1 failed first") == 2 and err.count("starting all processes again") == 1
    assert launch.main(["-n", "2", "--max-restarts", "5", "--timeout", "1", program("time.sleep(100)")]) == 124
    assert "starting all" not in capfd.readouterr().err


def test_others_go_on_while_enough_processes_are_left(program, capfd):
    path = program("""
if rank == 2: os.kill(os.getpid(), signal.SIGKILL)
time.sleep(0.5)
print("done", flush=True)
""")
    assert launch.main(["-n", "3", "--min-processes", "2", path]) == 0
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["[0] done", "[1] done"] and "process 2 failed, with signal SIGKILL; 2 of 3 go on" in err
    path = program("time.sleep(rank * 0.3)\nif rank < 2: sys.exit(f'failure {rank}')\ntime.sleep(100)")
    assert launch.main(["-n", "3", "--min-processes", "2", path]) == 1
    err = capfd.readouterr().err
    assert "process 0 failed, with exit status 1; 2 of 3 go on" in err
    assert err.splitlines()[-2:] == ["lamina.launch: process 1 failed first, with exit status 1. Its last lines:", "failure 1"]


def test_each_process_has_a_log_file_of_all_attempts(program, capfd, tmp_path):
    path = program("""
print("out", rank, flush=True)
print("err", rank, file=sys.stderr)
if os.environ["LAMINA_RESTART_COUNT"] == "0": sys.exit(1) if rank else time.sleep(100)
""")
    assert launch.main(["-n", "2", "--max-restarts", "1", "--log-dir", str(tmp_path / "logs"), path]) == 0
    for rank in (0, 1):
        lines = (tmp_path / "logs" / f"process-{rank}.log").read_text().splitlines()
        headers = [line for line in lines if line.startswith("lamina.launch: attempt ")]
        assert len(headers) == 2 and f"attempt 1, process {rank} of 2, pid " in headers[1]
        assert sorted({*lines} - {*headers}) == [f"err {rank}", f"out {rank}"]
    assert "[1] out 1" in capfd.readouterr().out


def test_full_disk_ends_a_log_and_not_the_program(program, capfd, tmp_path):
    (tmp_path / "process-0.log").symlink_to("/dev/full")
    assert launch.main(["-n", "1", "--log-dir", str(tmp_path), program("print('done')")]) == 0
    out, err = capfd.readouterr()
    assert out == "[0] done\n" and "process-0.log cannot be written to" in err and "No space left" in err


def test_lines_of_gloo_are_on_standard_error(program, capfd):
    path = program("print('[Gloo] Rank 0 is connected to 1 peer ranks.')\nprint('result')")
    assert launch.main(["-n", "1", path]) == 0
    out, err = capfd.readouterr()
    assert out == "[0] result\n" and err == "[0] [Gloo] Rank 0 is connected to 1 peer ranks.\n"


def test_user_signals_are_passed_on_and_end_nothing(program, capfd):
    path = program("""
received = []
signal.signal(signal.SIGUSR1, lambda *_: received.append(1))
open(__file__ + str(rank), "w").close()
while not received: time.sleep(0.01)
time.sleep(0.2)
print("saved", flush=True)
""")

    def send_signal():
        while not all(os.path.exists(path + r) for r in "01"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGUSR1)
    t = threading.Thread(target=send_signal)
    t.start()
    assert launch.main(["-n", "2", path]) == 0
    t.join()
    assert sorted(capfd.readouterr().out.splitlines()) == ["[0] saved", "[1] saved"]


REPLACED = """
restarts, path = int(os.environ["LAMINA_RESTART_COUNT"]), sys.argv[1]
print("rank", rank, "restarts", restarts, os.environ["LAMINA_COORDINATOR_ADDRESS"], os.environ["LAMINA_JOB_ID"], flush=True)
if rank == 1 and restarts < int(sys.argv[2]):
    sys.exit("failed")
if rank == 1:
    open(path, "w").close()
while not os.path.exists(path):
    time.sleep(0.01)
"""


def test_failed_process_is_replaced_while_the_others_live_on(program, tmp_path, capfd):
    path, done = program(REPLACED), str(tmp_path / "done")
    logs = str(tmp_path / "logs")
    assert launch.main(["-n", "3", "--replace", "--max-restarts", "2", "--log-dir", logs, "--json", path, done, "2"]) == 0
    out, err = capfd.readouterr()
    lines = sorted(line.split()[1:] for line in out.splitlines())
    assert [line[:4] for line in lines] == [["rank", r, "restarts", k] for r, k in ("00", "10", "11", "12", "20")]
    assert len({tuple(line[4:]) for line in lines}) == 1  # one coordinator and one job
    assert "process 1 failed, with exit status 1; starting it again, replacement 2 of 2" in err
    assert json.loads(err.splitlines()[-1])["restarts"] == 2
    log = (tmp_path / "logs" / "process-1.log").read_text()
    assert log.count("failed") == 2 and log.count("lamina.launch: attempt") == 3


def test_failures_beyond_the_last_replacement_end_all_or_are_tolerated(program, tmp_path, capfd):
    path, done = program(REPLACED), str(tmp_path / "done")
    assert launch.main(["-n", "2", "--replace", "--max-restarts", "1", path, done, "9"]) == 1
    assert "process 1 failed first, with exit status 1" in capfd.readouterr()[1]
    path = program("sys.exit(1) if rank else time.sleep(0.5)")
    assert launch.main(["-n", "2", "--replace", "--max-restarts", "1", "--min-processes", "1", path]) == 0
    assert "process 1 failed, with exit status 1; 1 of 2 go on" in capfd.readouterr()[1]


def test_process_is_not_replaced_when_others_are_done(program, capfd):
    path = program("time.sleep(0.5 * rank); sys.exit(rank)")
    assert launch.main(["-n", "2", "--replace", "--max-restarts", "3", path]) == 1
    assert "starting it again" not in capfd.readouterr()[1]


def test_replaced_process_is_the_root_of_secondary_failures(program, capfd):
    path = program("""
if rank == 0 and os.environ["LAMINA_RESTART_COUNT"] == "0":
    with open(sys.argv[1], "w") as f:
        f.write(str(os.getpid()))
    raise KeyError("the root")
time.sleep(1)
print("Traceback (most recent call last):", file=sys.stderr)
name = f"process 0 (here, pid {open(sys.argv[1]).read()})"
print("lamina.distributed.ProcessLostError: np.asarray: process_indices (0,) are gone: " + name + " was lost", file=sys.stderr)
sys.exit(1)
""")
    assert launch.main(["-n", "2", "--replace", "--max-restarts", "1", path, path + ".pid"]) == 1
    last = capfd.readouterr()[1].split("failed first, with exit status 1")[-1]
    assert "KeyError: 'the root'" in last, last
