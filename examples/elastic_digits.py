"""Train on handwritten digits and continue after a process failure: one of three processes is killed during training.

The other two reconnect and continue from the last checkpoint. Each step uses all images, so the result equals that of a
single process, computed at the end for comparison. The page is docs/how-to/several-processes/elastic-training.md.
"""
import os
import signal
import socket
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.datasets import load_digits
import lamina
from lamina import distributed, lax
from lamina import numpy as jnp
from lamina.experimental import checkpointing

PROCESSES, DEVICES, IMAGES, STEPS, EVERY, VICTIM = 3, 2, 1680, 40, 5, 0  # a checkpoint is saved every 5 steps
START = np.zeros((64, 10), np.float32), np.zeros(10, np.float32)


def loss(params, images, labels):
    scores = images @ params[0] + params[1]
    return (jnp.log(jnp.exp(scores).sum(1)) - (scores * (labels[:, None] == jnp.arange(10))).sum(1)).sum()


def step(params, images, labels):
    grads = lax.psum(lamina.grad(loss)(params, images, labels), "all")
    return tuple(p - 0.008 * g / IMAGES for p, g in zip(params, grads))


train = lamina.pmap(step, axis_name="all", in_axes=(None, 0, 0), out_axes=None)


def rows(rank, count):
    """Return this process's share of the images and labels, one row per device."""
    each = count, lamina.local_device_count(), -1
    return [np.float32(x[:IMAGES].reshape(*each, *x.shape[1:])[rank]) for x in load_digits(return_X_y=True)]


def work(folder, address, rank, count=PROCESSES):
    """Run one process until all steps are done."""
    lamina.config.update("num_cpu_devices", DEVICES)
    params, done = START, 0
    while done < STEPS:
        distributed.initialize(address, count, rank, heartbeat_timeout_seconds=10)
        try:
            if checkpointing.steps(folder):
                params, done = checkpointing.load(folder, (np.ndarray, 0))
            mine = rows(rank, count)
            while done < STEPS:
                if (done, rank, count) == (STEPS // 2 + 2, VICTIM, PROCESSES):
                    os.kill(os.getpid(), signal.SIGKILL)
                params, done = train(params, *mine), done + 1
                if done % EVERY == 0:
                    checkpointing.save(folder, (params, done), step=done, keep=2)
        except distributed.ProcessLostError as e:
            print(f"process {rank}: {e.process_indices} lost; on from step {checkpointing.latest(folder)}", flush=True)
            left = [r for r in range(count) if r not in e.process_indices]
            rank, count, done = left.index(rank), len(left), 0
        distributed.shutdown()


if __name__ == "__main__" and len(sys.argv) > 1:
    work(*sys.argv[1:3], int(sys.argv[3]))
elif __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        with socket.create_server(("127.0.0.1", 0)) as server:  # to find a free port
            address = f"127.0.0.1:{server.getsockname()[1]}"
        every = [subprocess.Popen([sys.executable, __file__, folder, address, str(r)]) for r in range(PROCESSES)]
        print("exit codes:", [p.wait() for p in every])
        (w, b), done = checkpointing.load(folder, (np.ndarray, 0))
    mine, alone = rows(0, 1), START
    for _ in range(done):
        alone = train(alone, *mine)
    right = np.mean((mine[0][0] @ w + b).argmax(1) == mine[1][0])
    print(f"{done} steps, {right:.1%} right; as one process alone: {np.allclose(alone[0], w, atol=1e-4)}")
