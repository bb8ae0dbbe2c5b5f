"""Train under a scheduler: continue from the last checkpoint, and save one when SIGUSR1 or SIGTERM announces the end.

A signal reaches the processes at different steps. So each step also computes whether any process has received one, and all
of them save the same step. The scheduler starts the program again; see docs/how-to/several-processes/.
"""
import argparse
import signal
import time

import numpy as np
import lamina
from lamina import lax
from lamina_checkpoint import Checkpointer


def step(w, x, stop):
    """Return the next weights and whether any process was asked to stop."""
    gradient = lax.pmean(w - x.mean(0), "all")
    return w - 0.1 * gradient, lax.pmax(stop, "all")


train = lamina.pmap(step, axis_name="all", in_axes=(None, 0, 0), out_axes=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="of the checkpoints; all processes share it")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--every", type=int, default=100, help="steps from one checkpoint to the next")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two steps, to watch it")
    options = parser.parse_args()
    received = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda n, frame: received.append(n))
    lamina.distributed.initialize()
    count = lamina.local_device_count()
    rows = np.full((count, 8, 4), 1 + lamina.process_index(), np.float32)
    with Checkpointer(options.folder, keep=2) as checkpointer:
        first = checkpointer.latest_step()
        w, done = (np.zeros(4, np.float32), 0) if first is None else checkpointer.restore(like=(np.ndarray, 0))
        print(f"from step {done}", flush=True)
        while done < options.steps:
            w, stop = train(w, rows, np.full(count, len(received), np.int32))
            done += 1
            if stop or done % options.every == 0 or done == options.steps:
                checkpointer.save(done, (w, done))
            if stop:
                break
            time.sleep(options.pause)
    print(f"saved step {done} of {options.steps}: {np.asarray(w).round(3).tolist()}", flush=True)


if __name__ == "__main__":
    main()
