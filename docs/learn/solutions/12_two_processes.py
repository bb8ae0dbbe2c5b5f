"""Solutions of chapter 12. The programs are small here, so that they end quickly."""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import lamina
import lamina.numpy as jnp
from lamina import random
from lamina.experimental import checkpointing
from transformer import init, sequences, step

# 1. `save` in the loop, with `keep`.
compiled_step = lamina.jit(step)


def train(folder, last):
    params, first = init(random.key(0)), 0
    if checkpointing.steps(folder):
        params, first = checkpointing.load(folder)
    for number in range(first, last):
        params, _ = compiled_step(params, *sequences(random.fold_in(random.key(1), number)))
        if number % 10 == 9:
            checkpointing.save(folder, (params, number + 1), step=number + 1, keep=2)
    return params


with tempfile.TemporaryDirectory() as folder:
    at_once = train(folder, 40)
    assert checkpointing.steps(folder) == [30, 40]

# 2. A global array with one number per process, and a compiled sum. All processes get the result.
PROGRAM = """
import numpy as np
import lamina
lamina.distributed.initialize()
mesh = lamina.make_mesh((lamina.device_count(),), ("all",))
sharding = lamina.sharding.NamedSharding(mesh, lamina.sharding.PartitionSpec("all"))
mine = np.array([10.0 + lamina.process_index()], np.float32)
numbers = lamina.make_array_from_process_local_data(sharding, mine)
total = lamina.jit(lambda x: x.sum(), out_shardings=lamina.sharding.NamedSharding(mesh, lamina.sharding.PartitionSpec()))
print("the sum is", float(total(numbers)), flush=True)
"""
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "total.py"
    path.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "lamina.launch", "-n", "2", "--devices", "1", str(path)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
assert "[0] the sum is 21.0" in output and "[1] the sum is 21.0" in output, output

# 3. A checkpoint holds the exact numbers, and the batches depend on the step only. So nothing differs.
with tempfile.TemporaryDirectory() as folder:
    train(folder, 20)
    resumed = train(folder, 40)
same = lamina.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), at_once, resumed)
assert all(lamina.tree.leaves(same)), same
assert isinstance(np.asarray(resumed["letter"]), np.ndarray)
