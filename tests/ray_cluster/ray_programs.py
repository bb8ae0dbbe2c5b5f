"""Functions that the tests run in workers. The workers import this module."""
from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import lamina
import numpy as np
from lamina import distributed, lax
from lamina_checkpoint import Checkpointer
from lamina_distributed.ray import _worker
from ray_digits import DEVICES, START, STEPS, rows, step  # of examples/clusters

train_step = lamina.pmap(step, axis_name="all", in_axes=(None, 0, 0), out_axes=None)

def end_once(done, at, number=signal.SIGKILL):
    """End this process at step `at[rank]`, unless it is a replacement."""
    if os.environ["LAMINA_RESTART_COUNT"] == "0" and at.get(int(os.environ["LAMINA_PROCESS_ID"])) == done:
        sys.stderr.write("the last words")
        sys.stderr.flush()
        os.kill(os.getpid(), number)


def train_from_checkpoint(folder, at, number=signal.SIGKILL, heartbeat=10, pause=0.05):
    """Train without a handler of losses, from the last checkpoint; return the parameters, and whether it was called again."""
    lamina.config.update("num_cpu_devices", DEVICES)
    distributed.initialize(heartbeat_timeout_seconds=heartbeat)
    mine = rows(lamina.process_index(), lamina.process_count(), DEVICES)
    with Checkpointer(folder, keep=2) as checkpointer:
        first = checkpointer.latest_step()
        params, done = (START, 0) if first is None else checkpointer.restore(like=((np.ndarray, np.ndarray), 0))
        while done < STEPS:
            end_once(done, at, number)
            params, done = train_step(params, *mine), done + 1
            if done % 5 == 0:
                checkpointer.save(done, (params, done))
            time.sleep(pause)
    return lamina.device_get(params), first


def print_lines():
    rank = os.environ["LAMINA_PROCESS_ID"]
    for _ in range(3):
        print("the same line")
    print(f"to stderr of {rank}", file=sys.stderr)
    os.write(1, b"without an end, \xff")
    return os.environ["LAMINA_COORDINATOR_ADDRESS"], os.environ["LAMINA_NUM_PROCESSES"], lamina.process_count()


def fail_in_one(rank):
    distributed.initialize()
    if lamina.process_index() == rank:
        {}["the key"]
    lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.ones(lamina.local_device_count()))


def die(rank):
    distributed.initialize(heartbeat_timeout_seconds=10)
    if lamina.process_index() == rank:
        os._exit(3)
    lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.ones(lamina.local_device_count())).block_until_ready()


def sum_ranks():
    distributed.initialize()
    return int(np.asarray(lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(
        np.full(lamina.local_device_count(), lamina.process_index() + 1)))[0])


def return_generator():
    return (x for x in ())


def wait_forever(folder):
    (Path(folder) / os.environ["LAMINA_PROCESS_ID"]).write_text(str(os.getpid()))
    time.sleep(600)


def train_in_ray_train(config):
    distributed.ray.initialize_from_ray_train(across_nodes=config["across_nodes"])
    total = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(
        np.full(lamina.local_device_count(), lamina.process_index() + 1))
    rank = lamina.process_index()
    (Path(config["folder"]) / f"rank{rank}").write_text(f"{np.asarray(total)[0]} of {lamina.process_count()}")
    distributed.shutdown()


class LateWorker(_worker.Worker):
    """A worker that does not start if its rank is 1."""

    def __init__(self, rank):
        super().__init__(rank)
        if rank == 1:
            time.sleep(600)
