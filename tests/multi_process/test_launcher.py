"""`lamina.launch` with programs whose processes need each other: the root failure is named; smaller groups continue."""
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

START = """
import os, signal, sys, threading, time
import numpy as np
import lamina
from lamina import lax
victim, rank = int(sys.argv[1]), int(os.environ["LAMINA_PROCESS_ID"])
class PlantedError(Exception): pass
lamina.distributed.initialize(heartbeat_timeout_seconds=3)
psum = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
x = np.ones((1, 2), np.float32)
def plant():
    {}
for step in range(500):
    if rank == victim and step == 3: plant()
    {}
    time.sleep(0.01)
"""
CALL, STILL = "np.asarray(psum(x))", "was lost first, while it was still running"
WRAPPED = """try: np.asarray(psum(x))
    except lamina.distributed.ProcessLostError as e: raise RuntimeError("training failed") from e"""
RAISES = "raise PlantedError('planted')"
PLANTED = "failed first, with exit status 1", "PlantedError: planted"
KINDS = {  # (planted failure, call of the others, message of the launcher, its last line)
    "slow exit": (f"import atexit; atexit.register(time.sleep, 1); {RAISES}", CALL, *PLANTED),
    "error": (RAISES, CALL, *PLANTED),
    "cause": (f"""try: {{}}["missing"]
    except KeyError as e: {RAISES} from e""", CALL, *PLANTED),
    "context": (f"""try: {{}}["missing"]
    except KeyError: {RAISES}""", CALL, *PLANTED),
    "wrapped": (RAISES, WRAPPED, *PLANTED),
    "loss in a handler": (f"""try: {RAISES}
    finally: lamina.distributed.shutdown()""", CALL, *PLANTED),
    "other thread": (f"""t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join(); {RAISES}""", CALL, *PLANTED),
    "text": ("sys.exit('planted')", CALL, "failed first, with exit status 1", "planted"),
    "status 3": ("os._exit(3)", CALL, "failed first, with exit status 3", ""),
    "status 0": ("os._exit(0)", CALL, "ended first, with exit status 0, while others still needed it", ""),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", CALL, "failed first, with signal SIGKILL", ""),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", CALL, "failed first, with signal SIGTERM", ""),
    "SIGSTOP": ("os.kill(os.getpid(), signal.SIGSTOP)", CALL, STILL, ""),
}
RUNS = [(kind, victim) for kind in KINDS for victim in (0, 2)]  # 26


def launch(path, *arguments):
    done = subprocess.run([sys.executable, "-m", "lamina.launch", "-n", "3", "--timeout", "60", *arguments], timeout=90,
                          env={**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0"}, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("kind, victim", RUNS if os.environ.get("LAMINA_WIDE") else RUNS[:1])
def test_root_failure_is_named(tmp_path, kind, victim):
    plant, call, message, last = KINDS[kind]
    path = tmp_path / "program.py"
    path.write_text(START.replace("{}\nfor", f"{plant}\nfor").replace("    {}\n    time", f"    {call}\n    time"))
    status, _, err = launch(path, str(path), str(victim))
    assert status and f"lamina.launch: process {victim} {message}" in err, err
    lines = err[err.index(f"lamina.launch: process {victim} "):].splitlines()
    assert lines[-1] == last or not last and len(lines) == 1, lines
    if kind in ("cause", "context"):
        assert "KeyError: 'missing'" in lines


ELASTIC = """
import os, signal
import numpy as np
import lamina
from lamina import lax
rank, count = int(os.environ["LAMINA_PROCESS_ID"]), 3
psum = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
while True:
    lamina.distributed.initialize(os.environ["LAMINA_COORDINATOR_ADDRESS"], count, rank)
    try:
        for step in range(5):
            if rank == count - 1 == 2 and step == 2: os.kill(os.getpid(), signal.SIGKILL)
            total = np.asarray(psum(np.ones((1, 2), np.float32)))[0, 0]
        break
    except lamina.distributed.ProcessLostError as e:
        left = [r for r in range(count) if r not in e.process_indices]
        rank, count = left.index(rank), len(left)
        lamina.distributed.shutdown()
print("total", total)
"""


def test_smaller_group_continues(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(ELASTIC)
    status, out, err = launch(path, "--min-processes", "2", str(path))
    assert status == 0 and sorted(out.splitlines()) == ["[0] total 2.0", "[1] total 2.0"], (out, err)
    assert "process 2 failed, with signal SIGKILL; 2 of 3 go on" in err
