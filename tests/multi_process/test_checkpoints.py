"""Checkpoints of several processes, loaded by fewer and more; processes that differ, fail or die during a save."""
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import lamina
from lamina.experimental import checkpointing
from lamina_runtime._sharding.shardings import mapped_sharding

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

WIDE = bool(os.environ.get("LAMINA_WIDE"))

WHOLE = np.arange(48 * 48, dtype=np.float32).reshape(48, 48)

START = """
import os
import time
from lamina import jit, lax, pmap
from lamina.distributed import ProcessLostError
from lamina.experimental import checkpointing
from lamina_checkpoint import _zarr as zarr
from lamina_runtime._sharding.shardings import mapped_sharding, replicated_sharding

whole = np.arange(48 * 48, dtype=np.float32).reshape(48, 48)
def arrays():
    every = tuple(lamina.devices())
    shardings = {"rows": mapped_sharding(every, 2, ((0, len(every)),)),
              "columns": mapped_sharding(every[::-1], 2, ((1, len(every)),)),
              "copies": replicated_sharding(every)}
    return {name: lamina.make_array_from_callback(whole.shape, p, lambda at: whole[at]) for name, p in shardings.items()}
def same(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype and got.sharding == want.sharding
    for a, b in zip(got.addressable_shards, want.addressable_shards):
        assert a.device == b.device and np.array_equal(a.data, b.data)
def expect_error(kind, message, tree, step=9, **more):
    try:
        checkpointing.save(folder, tree, step, **more)
    except kind as e:
        assert message in str(e), e
        return e
    raise SystemExit(f"no error with: {message}")
"""

SAVING = START + """
usual, background = zarr.Writer.write, folder + "_background"
def full(*args):
    raise OSError(28, "No space left on device")
first = checkpointing.load(folder, like=arrays(), step=1)  # saved by one process with 8 devices
for name, x in arrays().items():
    same(first[name], x)
assert all(np.array_equal(x, whole) for x in checkpointing.load(folder, like=np.ndarray, step=1).values())

share = pmap(lambda x: x + lax.psum(x, "i"), "i")(np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)[mine])
state = {"params": arrays(), "mine": share, "step": 2, "key": lamina.random.key(7), "host": whole[:3]}
per_process = {"params": False, "mine": True, "step": False, "key": False, "host": False}
checkpointing.save(folder, state, 2, rows=per_process)
back = checkpointing.load(folder, like=state, rows=per_process)
for name, x in state["params"].items():
    same(back["params"][name], x)
assert np.array_equal(back["mine"], share) and back["step"] == 2 and np.array_equal(back["host"], whole[:3])
pieces = [f for f in os.listdir(folder) if f.startswith("2-")][0]
sizes = [os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(os.path.join(folder, pieces)) for f in files
         if f != "zarr.json"]
assert 3 * whole.nbytes < sum(sizes) < 4.2 * whole.nbytes, sizes  # each shard is written once

# Saves in another thread, while programs of all processes run. Other gathers (of loads) do not disturb them.
with checkpointing.Checkpointer(background, keep=2) as checkpointer:
    moving, own = arrays(), {"params": False, "step": False, "mine": True}
    for step in range(5):
        checkpointer.save(step, {"params": moving, "step": step, "mine": share}, rows=own)
        checkpointing.load(folder, like=state, rows=per_process)
        moving = {k: jit(lambda x: lax.mul(x, np.float32(2)))(x) for k, x in moving.items()}
    last = checkpointer.restore(like={"params": arrays(), "step": 0, "mine": np.ndarray}, rows=own)
    assert checkpointer.all_steps() == [3, 4] and last["step"] == 4 and np.array_equal(last["mine"], share)
    for name, x in arrays().items():
        assert all(np.array_equal(a.data, 16 * np.asarray(b.data))
                   for a, b in zip(last["params"][name].addressable_shards, x.addressable_shards, strict=True))
    zarr.Writer.write = full if rank == 1 else usual
    checkpointer.save(5, [np.arange(9)] * 3)
    try:
        checkpointer.wait()
        raise SystemExit("expected an error")
    except (OSError, RuntimeError) as e:
        assert type(e) is (OSError if rank == 1 else RuntimeError) and "No space left" in str(e), e
    zarr.Writer.write = usual
    assert checkpointer.all_steps() == [3, 4]

# Differences raise in all processes, and nothing is saved.
expect_error(ValueError, "tree['a'] differs between processes: process 2 against process 0", {"a": np.arange(3) + (rank == 2)})
expect_error(ValueError, f"tree['b'] differs between processes: processes {', '.join('123'[:processes - 1])}",
     {"a": 1, "b": np.zeros(2 + (rank > 0))})
expect_error(ValueError, "the structure of the tree differs", {"a": 1, **({"b": 2} if rank else {})})
expect_error(ValueError, f"the same step; got {[9, 9, 10, 9][:processes]}", 1, 9 + (rank == 2))
for bad in (0, 2):
    if rank == bad:
        expect_error(TypeError, "tree must be an array", "text")
    else:
        expect_error(RuntimeError, f"another process, so it was not done: process {bad}: TypeError", 1)
zarr.Writer.write = full if rank == 1 else usual
expect_error(OSError if rank == 1 else RuntimeError, "No space left on device", [np.arange(9)] * 3)
# Process 0 removes the data only after the others have stopped writing.
def slow(*args):
    time.sleep(0.5)
    usual(*args)
zarr.Writer.write = full if rank == 0 else slow
expect_error(OSError if rank == 0 else RuntimeError, "No space left on device", [np.arange(9)] * 4)
zarr.Writer.write = usual
assert rank or not [name for name in os.listdir(folder) if name.startswith("9-")]
assert checkpointing.steps(folder) == [1, 2], checkpointing.steps(folder)
try:
    checkpointing.load(folder, like={"params": np.ndarray} if rank == 1 else np.ndarray)
    raise SystemExit("expected an error")
except (ValueError, RuntimeError) as e:
    assert type(e) is (ValueError if rank == 1 else RuntimeError), e

# A process that dies during a save: the others raise, and earlier checkpoints stay. They continue; then process 0 dies.
def death(*args):
    os._exit(0)
def lost(victim, step):
    zarr.Writer.write = death if rank == victim else slow
    e = expect_error(ProcessLostError, f"process {victim}", {"params": arrays()}, step)
    assert e.process_indices == (victim,), e
    assert checkpointing.steps(folder) == [1, 2]
lost(processes - 1, 3)
lamina.distributed.shutdown()
lamina.distributed.initialize(address, processes - 1, rank, initialization_timeout=60)
same(checkpointing.load(folder, {**state, "params": arrays(), "mine": np.ndarray})["params"]["columns"], arrays()["columns"])
lost(0, 3)
lamina.distributed.shutdown()
found = checkpointing.load(folder, np.ndarray)
assert np.array_equal(found["params"]["rows"], whole) and found["mine"].shape == (rows, 4)
if rank == 1:
    checkpointing.save(folder, found, 3, keep=1)
    print("whole")
"""


@pytest.mark.parametrize("processes, devices", [(n, d) for n in (3, 4) for d in (1, 2, 4)] if WIDE else [(3, 1)])
def test_checkpoint_is_loaded_by_other_numbers_of_processes(tmp_path, processes, devices):
    folder, every = tmp_path / "states", tuple(lamina.devices())
    state = {"rows": lamina.device_put(WHOLE, mapped_sharding(every, 2, ((0, 8),))), "copies": lamina.device_put(WHOLE),
             "columns": lamina.device_put(WHOLE, mapped_sharding(every[::-1], 2, ((1, 8),)))}
    checkpointing.save(folder, state, 1)
    texts = run(f"folder = {str(folder)!r}\n" + SAVING, processes, devices)
    assert "whole" in texts[1]
    assert checkpointing.steps(folder) == [3]
    found = checkpointing.load(folder, like={"params": state, "mine": every[0], "step": 0, "key": every[1], "host": np.ndarray})
    for name, x in state.items():
        assert np.array_equal(found["params"][name], x) and found["params"][name].sharding == x.sharding
    rows = np.arange(processes * devices * 4, dtype=np.float32).reshape(-1, 4)
    assert np.array_equal(found["mine"], rows + rows.sum(0)) and found["step"] == 2
