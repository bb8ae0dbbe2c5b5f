"""Train on handwritten digits in the workers of a Ray cluster; a lost worker is replaced and gets the state of another one.

    python ray_digits.py                     # starts a cluster of this machine
    python ray_digits.py --kill 1            # worker 1 ends itself in the middle
    python ray_digits.py --across-nodes      # in a cluster with several nodes, on one of them

Each step uses all images, so the result does not depend on the number of workers. The page is
docs/how-to/several-processes/on-ray.md.
"""
import argparse
import functools
import os
import signal

import numpy as np
from sklearn.datasets import load_digits
import lamina
from lamina import distributed, lax
from lamina import numpy as jnp

IMAGES, STEPS, DEVICES = 1680, 40, 2
START = np.zeros((64, 10), np.float32), np.zeros(10, np.float32)


def loss(params, images, labels):
    scores = images @ params[0] + params[1]
    return (jnp.log(jnp.exp(scores).sum(1)) - (scores * (labels[:, None] == jnp.arange(10))).sum(1)).sum()


def step(params, images, labels):
    grads = lax.psum(lamina.grad(loss)(params, images, labels), "all")
    return tuple(p - 0.008 * g / IMAGES for p, g in zip(params, grads))


def rows(rank, count, devices):
    """Return this process's share of the images and labels, one row per device."""
    return [np.float32(x[:IMAGES].reshape(count, devices, -1, *x.shape[1:])[rank]) for x in load_digits(return_X_y=True)]


def train(victim=None, min_processes=2):
    """Train in one worker; return the parameters, and (number of processes, first step) of each group that it was in."""
    lamina.config.update("num_cpu_devices", DEVICES)
    # A mapped function cannot be pickled. So it is made here, unless the workers import this file as a module.
    mapped = lamina.pmap(step, axis_name="all", in_axes=(None, 0, 0), out_axes=None)
    params, done, groups = None, None, []
    while done is None or done < STEPS:
        distributed.initialize(min_processes=min_processes, initialization_timeout=60, heartbeat_timeout_seconds=10)
        try:
            params, done = distributed.share_newest_state(params, done)
            if done is None:
                params, done = START, 0
            rank, count = lamina.process_index(), lamina.process_count()
            mine = rows(rank, count, DEVICES)
            groups.append((count, done))
            print(f"process {rank} of {count}, from step {done}")
            while done < STEPS and not distributed.has_waiting_processes():
                if (done, rank) == (STEPS // 2, victim) and os.environ["LAMINA_RESTART_COUNT"] == "0":
                    os.kill(os.getpid(), signal.SIGKILL)
                params = lamina.device_get(mapped(params, *mine))  # host values: the devices of a lost group are closed
                done += 1
        except distributed.ProcessLostError as e:
            print(f"{e.process_indices} lost at step {done}")
        distributed.shutdown()
    return params, groups


def accuracy(params):
    images, labels = (x[0] for x in rows(0, 1, 1))
    return np.mean((images @ params[0] + params[1]).argmax(1) == labels)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--across-nodes", action="store_true")
    parser.add_argument("--kill", type=int, metavar="RANK")
    options = parser.parse_args()
    results = distributed.ray.run(functools.partial(train, options.kill, max(1, options.workers // 2)),
                                  num_workers=options.workers, max_failures=3, across_nodes=options.across_nodes)
    print(f"{STEPS} steps, {accuracy(results[0][0]):.1%} right")
