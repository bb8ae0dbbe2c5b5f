"""One process of a group into which `inject_faults` injects a fault. It trains, checks every number, and reports in JSON.

Each report is a line of its standard output: what it does now (`phase`), an exception (`error`), a wrong number (`wrong`),
or the end (`done`). Reports of several kinds have the time of `time.monotonic`, which is one clock for all processes of a
machine. After an exception the process does work of its own. Then it reads a line from its standard input: its number
and that of processes of the next group, and an address. After an empty line it ends alone.
"""
from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from typing import Any

# Gloo prints partial lines to descriptor 1 from several threads, so reports have a descriptor of their own.
reports = os.dup(1)
os.dup2(2, 1)
faulthandler.register(signal.SIGUSR1)


def report(**fields: object) -> None:
    os.write(reports, (json.dumps({**fields, "at": time.monotonic()}) + "\n").encode())


report(phase="importing")
import numpy as np  # noqa: E402

import lamina  # noqa: E402
from lamina import distributed, lax  # noqa: E402
from lamina.experimental import checkpointing  # noqa: E402

SORTS = 12
ROWS, COLUMNS, STEPS = 256, 256, 240  # 256 kB for each device in each step


def own_rows(rank: int, devices: int) -> np.ndarray:
    """Return the data of one process: int32 of shape (devices, ROWS, COLUMNS)."""
    first = np.arange(rank * devices, (rank + 1) * devices)[:, None, None]
    return (np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) % 97 + 13 * first).astype(np.int32)


def step(state: Any, rows: Any) -> Any:
    return (3 * state + lax.psum(rows + state % 5, "all")) % 100_003


def heavy(rows: Any) -> Any:
    """A step whose compilation takes some tenths of a second."""
    for i in range(SORTS):
        rows = lax.sort(rows * 3 % (1009 + i))
    return lax.psum(rows, "all")


def check(what: str, found: Any, expected: np.ndarray) -> None:
    found = np.asarray(found)  # np.array_equal would hide an exception of the read
    if not np.array_equal(found, expected):
        report(wrong=f"{what}: {found.ravel()[:3]} instead of {expected.ravel()[:3]}")
        os._exit(3)


def simulate(state: np.ndarray, count: int, devices: int, steps: int) -> np.ndarray:
    """Return the result of some steps, with NumPy."""
    total = sum(own_rows(r, devices).sum(0) for r in range(count))
    for _ in range(steps):
        state = (3 * state + total + count * devices * (state % 5)) % 100_003
    return state.astype(np.int32)


def sort_all(count: int, devices: int) -> np.ndarray:
    result = np.zeros((ROWS, COLUMNS), np.int64)
    for row in np.concatenate([own_rows(r, devices) for r in range(count)]):
        for i in range(SORTS):
            row = np.sort(row * 3 % (1009 + i))
        result += row
    return result.astype(np.int32)


def train(rank: int, count: int, devices: int, folder: str) -> None:
    """Run all phases but joining and leaving, and check all numbers."""
    rows, begin = own_rows(rank, devices), np.zeros((ROWS, COLUMNS), np.int32)
    run = lamina.pmap(step, axis_name="all", in_axes=(None, 0), out_axes=None)
    last = checkpointing.latest(folder)
    if last is not None:  # what an earlier group has saved
        devices_then = int(checkpointing.load(folder, like=np.ndarray, step=last)["devices"])
        begin = checkpointing.load(folder, like=np.ndarray, step=last)["state"]
        check("checkpoint", begin, simulate(np.zeros_like(begin), int(sys.argv[3]), devices_then, STEPS))
    report(phase="compiling")
    compiled = lamina.pmap(heavy, axis_name="all", out_axes=None).lower(rows).compile()
    report(phase="first launch")
    check("first launch", compiled(rows), sort_all(count, devices))
    report(phase="queue of launches")
    state: Any = begin
    for number in range(1, STEPS + 1):
        state = run(state, rows)
        if number % 24 == 0:
            state = np.asarray(state)
    check("queue of launches", state, expected := simulate(begin, count, devices, STEPS))
    if last is None:
        report(phase="checkpoint save")
        tree = {"state": state, "devices": np.int32(devices), "rows": np.ones((200_000, 64), np.float32)}
        checkpointing.save(folder, tree, step=1, rows={"state": False, "devices": False, "rows": True})
        check("after the save", run(state, rows), simulate(expected, count, devices, 1))


def work_alone(devices: int) -> None:
    """Check that what needs no other process works."""
    if float(lamina.jit(lambda x: (x * 2 + 1).sum())(np.arange(5, dtype=np.float32))) != 25:
        report(wrong="own jit")
    own = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i", devices=lamina.local_devices())
    check("own map", own(np.ones(devices, np.float32)), np.full(devices, devices, np.float32))


def run_group(address: str, rank: int, count: int, devices: int, folder: str, heartbeat: float, timeout: float) -> bool:
    """Join a group, train and leave. Return whether that succeeded; else the exception is reported."""
    joined = False
    try:
        report(phase="joining")
        distributed.initialize(address, count, rank, heartbeat_timeout_seconds=heartbeat, initialization_timeout=timeout)
        lamina.devices()
        joined = True
        train(rank, count, devices, folder)
        report(phase="leaving")
        distributed.shutdown()
        return True
    except Exception as e:
        report(error=type(e).__name__, text=str(e)[:600], named=list(getattr(e, "process_indices", ())), joined=joined)
    if joined:
        try:
            work_alone(devices)
        except Exception as e:
            report(wrong=f"own work after the error: {type(e).__name__}: {str(e)[:300]}")
    distributed.shutdown()
    return False


def main() -> None:
    address, rank, count, devices, folder, heartbeat, timeout = sys.argv[1:]
    lamina.config.update("num_cpu_devices", int(devices))
    arguments = (folder, float(heartbeat), float(timeout))
    done = run_group(address, int(rank), int(count), int(devices), *arguments)
    if not done:
        report(waiting=True)
        if line := sys.stdin.readline().split():
            done = run_group(line[2], int(line[0]), int(line[1]), int(devices), *arguments)
        elif int(devices):
            work_alone(int(devices))  # on devices of this process alone, after `shutdown`
            done = True
    report(done=done)


if __name__ == "__main__":
    main()
