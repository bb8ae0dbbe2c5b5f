"""A test whose processes hang fails with their stacks; without this, it would end pytest and hide which test it was."""
from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TIME_LIMIT = 240  # seconds for a test: less than `faulthandler_timeout`, more than any test waits for its processes


def find_descendants(root: int) -> list[int]:
    """Return the ids of the processes that a process has started, and that these have started."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def end_all(pids: list[int]) -> None:
    """End processes; each prints its stacks first (PYTHONFAULTHANDLER)."""
    for number in (signal.SIGABRT, signal.SIGCONT, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(1.0 if number == signal.SIGCONT else 0.0)


@pytest.fixture(autouse=True)
def end_processes_that_hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the processes of a test that exceeds the time limit, and fail the test.

    By a signal and not in a thread, because lamina does more work if other threads exist.
    """
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    ended: list[int] = []

    def act(*_: object) -> None:
        ended.extend(find_descendants(os.getpid()))
        end_all(ended)

    previous = signal.signal(signal.SIGALRM, act)
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)
    assert not ended, f"the test did not end within {TIME_LIMIT} s; its processes {ended} were ended"
