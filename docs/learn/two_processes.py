"""Train the transformer of chapter 11 in several processes; continue from the last checkpoint.

usage: python -m lamina.launch -n 2 --devices 4 two_processes.py FOLDER STEPS
"""
import sys

import numpy as np

import lamina
from lamina import random
from lamina.experimental import checkpointing
from lamina.sharding import Mesh, NamedSharding, PartitionSpec as P
from transformer import SPECS, init, sequences, step

folder, last = sys.argv[1], int(sys.argv[2])
lamina.distributed.initialize()
me, count = lamina.process_index(), lamina.process_count()

mesh = Mesh(np.array(lamina.devices()).reshape(-1, 2), ("data", "model"))
places = {name: NamedSharding(mesh, spec) for name, spec in SPECS.items()}
by_rows = NamedSharding(mesh, P("data"))

if checkpointing.steps(folder):
    params, first = checkpointing.load(folder, like=(places, 0))
else:
    params, first = lamina.device_put(init(random.key(0)), places), 0

compiled_step = lamina.jit(step, out_shardings=(places, None))
for number in range(first, last):
    whole = [np.asarray(a) for a in sequences(random.fold_in(random.key(1), number))]
    mine = [np.split(a, count)[me] for a in whole]  # this process's share of the batch
    batch = [lamina.make_array_from_process_local_data(by_rows, a) for a in mine]
    params, value = compiled_step(params, *batch)
    if me == 0 and number % 10 == 9:
        print(f"step {number + 1}: loss {float(value):.1f}", flush=True)

checkpointing.save(folder, (params, last), step=last)
if me == 0:
    print(f"saved step {last} from {lamina.device_count()} devices in {count} processes", flush=True)
