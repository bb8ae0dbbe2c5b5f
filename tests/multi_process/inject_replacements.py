"""Kill processes that replace others, at random moments, and judge what the group does.

usage: python tests/multi_process/inject_replacements.py [count] [--seed N] [--phase PHASE] [--verbose]

Each run starts 3 or 4 processes (`replaced_member`), which train together. One is killed, and started again under its
number. When the new process reports the phase, a second kill follows after a random pause: of the new process, of another
one, or of both; sometimes of the coordinator too. In most runs the killed ones are started again; in the others the group
goes on with fewer. A run is wrong if a living process gets a wrong number, is ended by a signal, does not end, or raises.

The seed decides everything but the timing of the processes: `1 --seed N` repeats a run. The exit status is 1 if a run is
wrong.
"""
from __future__ import annotations

import argparse
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processes import coordinator_pids, free

# phase of the new process -> seconds after its begin in which the second kill happens
PHASES = {"importing": 1.5, "joining": 0.6, "sharing": 0.8, "first step": 0.4, "training": 0.3}
TARGETS = ("new", "new", "new", "other", "both")
MIN_PROCESSES = 2
JOIN_TIMEOUT = 15  # seconds: `initialization_timeout`
LIMIT = 120  # seconds for each stage of a run


class Member:
    """A process and what it has reported."""

    def __init__(self, rank: int, process: subprocess.Popen[str]) -> None:
        self.rank, self.process = rank, process
        self.phase, self.count = "", 0
        self.wrong: list[str] = []
        self.is_killed = self.has_ended = self.is_done = False


class Run:
    """One group with one loss, and a second one while the first is repaired.

    Attributes:
      problems: what was wrong.
    """

    def __init__(self, seed: int, phase: str | None = None, verbose: bool = False) -> None:
        choose = random.Random(seed)
        self.seed, self.verbose = seed, verbose
        drawn = choose.choice([*PHASES])
        self.phase, self.count = phase or drawn, choose.choice([3, 4])
        self.victim, self.other = choose.sample(range(self.count), 2)
        self.pause, self.target = choose.uniform(0, PHASES[self.phase]), choose.choice(TARGETS)
        self.kills_coordinator, self.replaces_again = choose.random() < 0.2, choose.random() < 0.75
        hit = {self.victim} if self.target == "new" else {self.other} if self.target == "other" else {self.victim, self.other}
        self.hit = sorted(hit)
        # Without process 0 only another process of this machine can start a coordinator again; enough must be left.
        self.replaces_again = self.replaces_again or self.count - len(hit) < MIN_PROCESSES
        self.problems: list[str] = []
        self.members: dict[int, Member] = {}
        self.address = free()
        self._events: queue.Queue[tuple[Member, dict[str, Any] | None]] = queue.Queue()
        self._threads: list[threading.Thread] = []

    def __str__(self) -> str:
        more = ", coordinator too" * self.kills_coordinator + ", for good" * (not self.replaces_again)
        return f"seed {self.seed}: {self.victim} of {self.count}; {self.target}, {self.phase} + {self.pause:.2f} s{more}"

    def execute(self) -> None:
        """Start the processes, kill, start again, and judge."""
        everyone: list[Member] = []
        with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "stderr", "w+") as errors:
            until = Path(folder) / "finish"

            def start(rank: int) -> Member:
                m = self.members[rank] = self._start(rank, str(until), errors)
                everyone.append(m)
                return m

            try:
                for rank in range(self.count):
                    start(rank)
                self._await(lambda: self._all_train(self.count), "the group")
                self._kill([self.victim])
                new = start(self.victim)
                self._await(lambda: new.phase == self.phase or new.phase == "training", "the phase")
                time.sleep(self.pause)
                self._kill(self.hit)
                if self.kills_coordinator:
                    for pid in coordinator_pids(self.address):
                        os.kill(pid, signal.SIGKILL)
                if self.replaces_again:
                    for rank in self.hit:
                        start(rank)
                living = [m for m in self.members.values() if not m.is_killed]
                self._await(lambda: self._all_train(len(living)), "the last group")
                until.touch()
                self._await(lambda: all(m.has_ended for m in living), "the end")
                for m in living:
                    if m.process.returncode != 0 or not m.is_done:
                        self.problems.append(f"{m.rank}: exit status {m.process.returncode} in {m.phase}")
                self.problems += [f"{m.rank}: {text}" for m in everyone for text in m.wrong]
            finally:
                for m in everyone:
                    m.process.kill()
                for t in self._threads:
                    t.join()
                for m in everyone:
                    m.process.wait()
                    assert m.process.stdout is not None
                    m.process.stdout.close()
                for pid in coordinator_pids(self.address):
                    os.kill(pid, signal.SIGKILL)
            if self.problems and self.verbose:
                print((Path(folder) / "stderr").read_text(errors="replace")[-20_000:])

    def _start(self, rank: int, until: str, errors: Any) -> Member:
        env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "2",
               "LAMINA_TOKEN": f"run {self.seed}"}
        command = [sys.executable, str(Path(__file__).with_name("replaced_member.py")), self.address, str(rank),
                   str(self.count), str(MIN_PROCESSES), str(JOIN_TIMEOUT), until]
        m = Member(rank, subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=errors))
        self._threads.append(threading.Thread(target=self._read, args=(m,), daemon=True))
        self._threads[-1].start()
        return m

    def _kill(self, ranks: list[int]) -> None:
        for rank in ranks:
            self.members[rank].is_killed = True
            self.members[rank].process.kill()

    def _read(self, m: Member) -> None:
        assert m.process.stdout is not None
        for line in m.process.stdout:
            self._events.put((m, json.loads(line)))
        m.process.wait()
        self._events.put((m, None))

    def _all_train(self, count: int) -> bool:
        """Return whether all living processes train in one group of `count` processes."""
        living = [m for m in self.members.values() if not m.is_killed]
        return all(m.has_ended or (m.phase == "training" and m.count == count) for m in living)

    def _await(self, is_reached: Callable[[], bool], what: str) -> None:
        """Handle reports until something is reached."""
        until = time.monotonic() + LIMIT
        while not is_reached():
            try:
                m, event = self._events.get(timeout=0.1)
            except queue.Empty:
                if time.monotonic() > until:
                    states = {m.rank: (m.phase, m.count) for m in self.members.values() if not m.has_ended}
                    for m in self.members.values():
                        m.process.send_signal(signal.SIGUSR1)  # faulthandler prints the stacks
                    time.sleep(0.5)
                    self.problems.append(f"hang: no {what} in {LIMIT} s: {states}")
                    return
                continue
            if self.verbose:
                print("   ", m.rank, m.process.pid, event, flush=True)
            if event is None:
                m.has_ended = True
            elif "phase" in event:
                m.phase, m.count = event["phase"], event.get("count", m.count)
            elif "wrong" in event:
                m.wrong.append(event["wrong"])
            m.is_done = m.is_done or "done" in (event or {})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=10, help="number of runs")
    parser.add_argument("--seed", type=int, help="seed of the first run; the next ones follow. Default: by the clock")
    parser.add_argument("--phase", choices=[*PHASES], help="only this phase")
    parser.add_argument("--verbose", action="store_true", help="print each report, and stderr of wrong runs")
    given = parser.parse_args()
    first = int(time.time()) % 1_000_000 * 1000 if given.seed is None else given.seed
    tally: Counter[tuple[str, bool]] = Counter()
    for seed in range(first, first + given.count):
        run, began = Run(seed, given.phase, given.verbose), time.monotonic()
        run.execute()
        tally[run.phase, bool(run.problems)] += 1
        print(f"{run}: {'WRONG' if run.problems else 'right'}, {time.monotonic() - began:.1f} s", flush=True)
        for text in run.problems:
            print(f"      {text}", flush=True)
    print(*[f"{phase}: {tally[phase, False]} right, {tally[phase, True]} wrong" for phase in PHASES], sep="\n")
    return int(any(is_wrong for _, is_wrong in tally))


if __name__ == "__main__":
    sys.exit(main())
