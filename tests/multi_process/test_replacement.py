"""Replacing a lost process: the newest state is sent to all, and rounds of losses free all resources."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes` and `inject_replacements`
import inject_replacements  # noqa: E402
from processes import run  # noqa: E402

EVERY = os.environ.get("LAMINA_LOSSES") == "every"

SHARE = """
import ml_dtypes
from collections import OrderedDict, namedtuple
from lamina.distributed import share_newest_state, has_waiting_processes
Pair = namedtuple("Pair", "a b")
def make(step):
    draw = np.random.default_rng(step)
    words = draw.integers(0, 1 << 32, 5_000_000, np.uint32)  # 20 MB: more than one chunk; with all kinds of NaN
    return {"words": words.view(np.float32), "odd": [np.frombuffer(draw.bytes(7), np.int8), np.float64(step), step, True],
            "empty": np.zeros((0, 3)),
            "b": (words[:5].view(ml_dtypes.bfloat16), None, OrderedDict(z=draw.normal(size=(2, 3)).T)),
            "complex": np.array(1j * step), "wide": np.array([2**63 - step]), "big": draw.normal(size=3).astype(">f8")}
def check(found, step):
    expected = make(step)
    assert type(found["b"][2]) is OrderedDict and type(found["odd"]) is list and found["b"][1] is None
    for x, y in zip(lamina.tree_util.tree_leaves(found), lamina.tree_util.tree_leaves(expected)):
        y = np.asarray(y)
        assert type(x) is np.ndarray and x.shape == y.shape and x.dtype == y.dtype.newbyteorder("="), (x, y)
        assert x.tobytes() == y.astype(x.dtype).tobytes()

assert share_newest_state(None, None) == (None, None)
assert share_newest_state(make(1), None) == (None, None)  # only examples
for steps in ((None, 5, 3), (4, 4, None), (0, None, None), (None, None, 2**40), (7, 8, 9)):
    found, step = share_newest_state(None if steps[rank] is None else make(steps[rank]), steps[rank])
    assert step == max(s for s in steps if s is not None)
    check(found, step)

# A named tuple cannot be made from its description, so the process without state gives an example.
pair = Pair(np.arange(3) + rank, [rank])
expect_error(ValueError, "the node class Pair is not registered for files. Pass a tree of the same structure",
             share_newest_state, pair if rank else None, 3 if rank else None)
found, step = share_newest_state(pair, 3 if rank == 1 else None)
assert type(found) is Pair and found.a.tolist() == [1, 2, 3] and found.b[0] == 1 and step == 3

# Arrays on devices
found, step = share_newest_state({"x": lamina.numpy.arange(3.0) + rank}, rank)
assert found["x"].tolist() == [2, 3, 4] and step == 2

good = {"layers": [{"w": np.zeros((2, 3))}], "n": 1}
def share(tree, step=1, odd=2):
    return share_newest_state(tree if rank == odd else good, step if rank == odd else 1)
def wrong(tree, text, odd=2):
    expect_error(ValueError, f"Unlike process {int(odd == 0)}, " + text, share, tree, 0 if odd == 0 else 1, odd)
start = "state['layers'][0]['w']"
wrong({"layers": [{"w": np.zeros((3, 2))}], "n": 1}, f"process 2 has {start} as float64[3, 2] instead of float64[2, 3]")
wrong({"layers": [{"w": np.zeros((2, 3), np.float32)}], "n": 1}, f"process 2 has {start} as float32[2, 3] instead of")
wrong({"layers": [{}], "n": 1}, f"process 2 has no {start}")
wrong({"layers": [{"w": np.zeros((2, 3))}], "n": 1, "z": 1}, "process 2 has state['z'], int64[], which is not there")
wrong({"layers": ({"w": np.zeros((2, 3))},), "n": 1}, "process 2 has the structure", 2)
wrong({"layers": [{"w": np.zeros((2, 3))}], "n": 1.0}, "process 0 has state['n'] as float64[] instead of int64[]", 0)
kind = TypeError if rank == 2 else RuntimeError
for tree, step, text in (({"a": "text"}, 1, "state['a'] must be an array or a number; got str"), (good, -1, "step must be a"),
                         ({"a": object()}, 1, "state['a'] must be"), (good, 1.5, "step must be"), (None, 3, "without state"),
                         (np.ma.array([1]), 1, "must be an array"), ({1: 0, "a": 1}, 1, "ordered"),
                         (good, True, "step must be"),
                         (np.array([("a", 1)], dtype="U1,i4"), 1, "must be an array"),
                         (np.array(["2020"], "M8[D]"), 1, "must be")):
    expect_error(kind, text, share, tree, step)
share(good)  # all is well again
assert has_waiting_processes() is False
print("right")
"""


@pytest.mark.slow
def test_newest_state_is_sent_bit_for_bit():
    """Or all processes raise, with the same reason."""
    assert run(SHARE, 3, 1) == ["right"] * 3


ROUNDS = """
# In round k, process k % (n - 1) dies in the complete group. The others shrink, and grow again with the new process.
import gc, os, signal, sys, time
from pathlib import Path
import numpy as np
import lamina
from lamina import lax
from lamina.distributed import ProcessLostError, has_waiting_processes, initialize, share_newest_state, shutdown
rounds, devices = int(sys.argv[1]), int(sys.argv[2])
n, me = int(os.environ["LAMINA_NUM_PROCESSES"]), int(os.environ["LAMINA_PROCESS_ID"])
lamina.config.update("num_cpu_devices", devices)
base = [1000] * 4
def count_resources():
    # the threads, descriptors and kB of this process and of the coordinator
    gc.collect()
    children = Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text().split()
    coordinator = next(c for c in children if "coordinator" in Path(f"/proc/{c}/cmdline").read_text())
    paths = [Path(f"/proc/{pid}") for pid in ("self", coordinator)]
    return [len([*(p / kind).iterdir()]) for kind in ("task", "fd") for p in paths] + [
        int((p / "statm").read_text().split()[1]) * 4 for p in paths]
def work(state, step):
    global base
    state, step = share_newest_state(state, step)
    if step is None:
        state, step = {"x": np.zeros(2, np.float32), "round": 0, "ballast": np.ones(1 << 17)}, 0
    count = lamina.process_count()
    train = lamina.pmap(lambda x, i: (x + lax.psum(i, "i"), lax.psum(1, "i")), axis_name="i", in_axes=(None, 0), out_axes=None)
    rows = np.full((devices, 2), 12 / (count * devices), np.float32)
    for _ in range(5):
        x, total = train(state["x"], rows)
        state, step = {**state, "x": np.asarray(x)}, step + 1
        assert int(total) == count * devices and np.allclose(state["x"], 12 * step), (total, state, step)
    if count < n:
        yield state, step
        while not has_waiting_processes():
            time.sleep(0.02)
        return
    number = int(state["round"])
    state["round"] += 1
    yield state, step
    if me == n - 1:
        until = time.monotonic() + 5  # C++ threads and sockets end some time after they are released
        now = count_resources()
        while any(a > b for a, b in zip(now, base)) and time.monotonic() < until:
            time.sleep(0.05)
            now = count_resources()
        base = now[:4] if number <= 2 else base
        print("resources", number, *now, flush=True)
    np.asarray(train(state["x"], rows)[0])  # the others wait for the one that counts
    if number == rounds:
        sys.exit()
    if me == number % (n - 1):
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        train(state["x"], rows)
state = step = None
while True:
    initialize(min_processes=n - 1, initialization_timeout=60 if step is None else 1, heartbeat_timeout_seconds=20)
    try:
        for state, step in work(state, step):
            pass
    except ProcessLostError as e:
        print("lost", e.process_indices, flush=True)
    shutdown()
"""


@pytest.mark.slow
@pytest.mark.skipif(not EVERY, reason="a minute: LAMINA_LOSSES=every")
@pytest.mark.parametrize("devices", [1, 2])
def test_rounds_of_replacement_free_all_resources(tmp_path, devices):
    """4, 3, 4, ... processes: those that remain, and the coordinator, need as much as in round 2; memory, as in round 8."""
    rounds = 12
    path = tmp_path / "program.py"
    path.write_text(ROUNDS, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "lamina.launch", "-n", "4", "--replace", "--max-restarts", str(rounds),
                           "--timeout", "240", path, str(rounds), str(devices)], timeout=300, capture_output=True, text=True,
                          env={**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "2"})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    found = [[int(n) for n in line.split()] for line in re.findall(r"resources ([\d ]+)", done.stdout)]
    print(*found, sep="\n")
    assert [k for k, *_ in found] == [*range(rounds + 1)], done.stdout
    (_, *two), (_, *eight), (_, *last) = found[2], found[8], found[-1]
    assert all(now <= before for now, before in zip(last[:4], two)), found
    assert all(now - before < 4 * 1_500 for now, before in zip(last[4:], eight[4:])), found  # a client has more than 4,000 kB


@pytest.mark.slow
@pytest.mark.skipif(not EVERY, reason="minutes: LAMINA_LOSSES=every")
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_losses_while_a_process_is_replaced(seed):
    found = inject_replacements.Run(seed)
    found.execute()
    assert not found.problems, f"{found}: {found.problems}"
