"""Train on handwritten digits in four processes, of which one is killed every 30 steps and started again.

The other three continue without it. When the new process waits, they form the group of four again with it, and it gets the
state of another process; with --from-checkpoint, all load the last checkpoint instead. Each step uses all images, so the
result equals that of a single process. The page is docs/how-to/several-processes/elastic-training.md.

usage: python examples/elastic_digits.py [--steps 170] [--from-checkpoint]
"""
import argparse
import os
import signal
import sys
import tempfile
import time

import numpy as np
from sklearn.datasets import load_digits
import lamina
from lamina import distributed, launch, lax
from lamina import numpy as jnp
from lamina.experimental import checkpointing

PROCESSES, IMAGES, EVERY = 4, 1680, 5  # a checkpoint is saved every 5 steps
FAILURES = {20: 1, 50: 0, 80: 3, 110: 2, 140: 1}  # step -> the process that is killed
START = np.zeros((64, 10), np.float32), np.zeros(10, np.float32)


def loss(params, images, labels):
    scores = images @ params[0] + params[1]
    return (jnp.log(jnp.exp(scores).sum(1)) - (scores * (labels[:, None] == jnp.arange(10))).sum(1)).sum()


def step(params, images, labels):
    grads = lax.psum(lamina.grad(loss)(params, images, labels), "all")
    return tuple(p - 0.008 * g / IMAGES for p, g in zip(params, grads))


train = lamina.pmap(step, axis_name="all", in_axes=(None, 0, 0), out_axes=None)


def rows():
    """Return this process's share of the images and labels, one row per device."""
    each = lamina.process_count(), lamina.local_device_count(), -1
    return [np.float32(x[:IMAGES].reshape(*each, *x.shape[1:])[lamina.process_index()]) for x in load_digits(return_X_y=True)]


def fail_as_planned(done):
    number, restarts = int(os.environ["LAMINA_PROCESS_ID"]), int(os.environ["LAMINA_RESTART_COUNT"])
    if FAILURES.get(done) == number and restarts <= done // 30:  # not again if the step is repeated
        os.kill(os.getpid(), signal.SIGKILL)


def has_new_process(done):
    """Return whether a new process waits. Fifteen steps after a loss, the others wait for it, so that each run is alike."""
    patience = 600 if lamina.process_count() < PROCESSES and done % 30 == 5 else 1
    for _ in range(patience):
        if distributed.has_waiting_processes():
            return True
        time.sleep(0.1 if patience > 1 else 0)
    return False


def work(folder, steps, from_checkpoint):
    """Train until all steps are done, in as many groups as that takes. Return the parameters and the process index."""
    params = done = None
    while done != steps:
        # At first all must come; after a loss, the others go on after a second.
        distributed.initialize(min_processes=2, initialization_timeout=60 if done is None else 1, heartbeat_timeout_seconds=10)
        print(f"{lamina.process_count()} processes at step {done}", flush=True)
        try:
            if not from_checkpoint:
                params, done = distributed.share_newest_state(params, done)
            if from_checkpoint or done is None:
                is_new = not checkpointing.steps(folder)
                params, done = (START, 0) if is_new else checkpointing.load(folder, (np.ndarray, 0))
            mine = rows()
            while done < steps and not has_new_process(done):
                fail_as_planned(done)
                params, done = lamina.device_get(train(params, *mine)), done + 1
                if done % EVERY == 0:
                    checkpointing.save(folder, (params, done), step=done, keep=2)
        except distributed.ProcessLostError as e:
            print(f"{e.process_indices} lost at step {done}", flush=True)
        index = lamina.process_index()
        distributed.shutdown()
    return params, index


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=170)
    parser.add_argument("--from-checkpoint", action="store_true")
    parser.add_argument("--folder")
    given = parser.parse_args()
    if given.folder is None:
        with tempfile.TemporaryDirectory() as folder:
            return launch.main(["-n", str(PROCESSES), "--devices", "2", "--replace", "--max-restarts", str(len(FAILURES)),
                                "--min-processes", "2",
                                __file__, *sys.argv[1:], "--folder", folder])
    (w, b), index = work(given.folder, given.steps, given.from_checkpoint)
    if index == 0:
        mine, alone = rows(), START
        for _ in range(given.steps):
            alone = train(alone, *mine)
        right = np.mean((mine[0] @ w + b).argmax(-1) == mine[1])
        print(f"{given.steps} steps, {right:.1%} right; as one process alone: {np.allclose(alone[0], w, atol=1e-4)}")


if __name__ == "__main__":
    sys.exit(main())
