"""One process of a group in which `inject_replacements` kills processes. It trains until a file exists, in any group.

Each report is a line of JSON on its standard output: what it does now (`phase`, with the number of processes), a wrong
number (`wrong`), or the end (`done`). The state does not depend on the number of processes.
"""
from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from typing import Any

# Gloo prints partial lines to descriptor 1 from several threads, so reports have a descriptor of their own.
reports = os.dup(1)
os.dup2(2, 1)
faulthandler.register(signal.SIGUSR1)


def report(**fields: object) -> None:
    os.write(reports, (json.dumps(fields) + "\n").encode())


report(phase="importing")
import numpy as np  # noqa: E402

import lamina  # noqa: E402
from lamina import distributed, lax  # noqa: E402

ROWS, COLUMNS, PRIME = 12, 4096, 100_003
DATA = (np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) % 97).astype(np.int32)
BALLAST = np.arange(6_000_000) % 251  # 48 MB, so that the exchange of the state takes some tenths of a second


def step(state: Any, rows: Any, stop: Any) -> Any:
    return (3 * state + lax.psum(rows, "all")) % PRIME, lax.psum(stop, "all")


def simulate(state: np.ndarray, steps: int) -> np.ndarray:
    """Return the result of some steps, with NumPy."""
    total = DATA.sum(0)
    for _ in range(steps):
        state = (3 * state + total) % PRIME
    return state.astype(np.int32)


def check(what: str, found: np.ndarray, expected: np.ndarray) -> None:
    if not np.array_equal(found, expected):
        report(wrong=f"{what}: {found.ravel()[:3]} instead of {expected.ravel()[:3]}")
        os._exit(3)


def train(state: Any, done: int | None, until: str) -> Any:
    """Receive the state and train, until the file exists or a process waits. Yield (state, steps, whether it is the end)."""
    report(phase="sharing", count=lamina.process_count())
    tree, newest = distributed.share_newest_state(None if done is None else {"state": state, "ballast": [BALLAST]}, done)
    if newest is None:
        tree, newest = {"state": np.zeros(COLUMNS, np.int32), "ballast": [BALLAST]}, 0
    elif done is not None and newest < done:
        report(wrong=f"received step {newest} in a process at step {done}")
        os._exit(3)
    check("received state", tree["state"], simulate(np.zeros(COLUMNS, np.int32), newest))
    check("received ballast", tree["ballast"][0], BALLAST)
    state, done = tree["state"], newest
    yield state, done, False
    report(phase="first step", count=lamina.process_count())
    run = lamina.pmap(step, axis_name="all", in_axes=(None, 0, 0), out_axes=(None, None))
    own = DATA[lamina.process_index()::lamina.process_count()].sum(0, dtype=np.int32)[None]
    is_first = True
    while not distributed.has_waiting_processes():
        found, stop = (np.asarray(x) for x in run(state, own, np.int32([os.path.exists(until)])))
        check(f"step {done}", found, expected := simulate(state, 1))
        state, done = expected, done + 1
        if is_first:
            report(phase="training", count=lamina.process_count())
        is_first = False
        yield state, done, bool(stop)
        if stop:
            return


def main() -> None:
    address, rank, count, least, timeout, until = sys.argv[1:]
    lamina.config.update("num_cpu_devices", 1)
    state, done, is_end = None, None, False
    while not is_end:
        report(phase="joining")
        distributed.initialize(address, int(count), int(rank), min_processes=int(least), heartbeat_timeout_seconds=5,
                               initialization_timeout=float(timeout), job_id="one")
        try:
            for state, done, is_end in train(state, done, until):
                pass
        except distributed.ProcessLostError:
            report(lost=True)
        distributed.shutdown()
    report(done=done)


if __name__ == "__main__":
    main()
