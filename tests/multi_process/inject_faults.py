"""Inject faults into groups of processes at random moments, and judge how each process reacts: `nox -s faults -- 200`.

usage: python tests/multi_process/inject_faults.py [count] [--seed N] [--kind KIND] [--phase PHASE] [--verbose]

Each run starts 2 to 4 processes (`faulted_member`), which train and know the right numbers. When one of them reports the
phase, a fault follows after a random pause. A run is wrong if a living process

- gets a wrong number, is ended by a signal, does not end, or has another exit status than 0;
- raises another exception than the expected ones, or one that names a process that lives, or no process that was lost;
- cannot do work of its own afterwards, or no smaller group forms out of those that raised.

It is late if an exception comes more than heartbeat + 5 s after the fault. The seed decides everything but the timing of
the processes: `1 --seed N` repeats a run. The exit status is 1 if a run is wrong or late.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import coordinator_pids, free

KINDS = ("kill", "double kill", "short stop", "long stop", "coordinator killed", "coordinator stopped")
# phase -> seconds after its begin in which the fault happens
PHASES = {"joining": 1.0, "compiling": 0.8, "first launch": 0.12, "queue of launches": 1.5, "checkpoint save": 0.6,
          "leaving": 0.08}
HEARTBEAT, ALLOWED = 5, 5  # seconds; SHORT stops must stay below the heartbeat on a busy machine
SHORT, LONG = (1.0, 3.0), (HEARTBEAT + 1.0, HEARTBEAT + 6.0)
JOIN_TIMEOUT = 20  # seconds: `initialization_timeout`
HANG_TIMEOUT = 60  # seconds after the fault, or after the next group began, in which each process must report something


@dataclass
class Member:
    """A process and what it has reported. `fault_at`: when it was killed or continued after a stop."""

    rank: int
    process: subprocess.Popen[str]
    phase: str = ""
    errors: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    waiting = ended = False
    done: bool | None = None


class Run:
    """One group with one fault.

    Attributes:
      kind, phase, count, devices, victims: the fault, the number of processes, devices of each, and who is hit.
      problems, late: what was wrong; what came too late.
    """

    def __init__(self, seed: int, kind: str | None = None, phase: str | None = None, verbose: bool = False) -> None:
        choose = random.Random(seed)
        self.seed, self.verbose = seed, verbose
        kinds, phases = choose.choice(KINDS), choose.choice([*PHASES])  # drawn in any case: a seed has one meaning
        self.kind, self.phase = kind or kinds, phase or phases
        self.count, self.devices = choose.randint(3 if self.kind == "double kill" else 2, 4), choose.choice([1, 1, 2])
        ranks = choose.sample(range(self.count), self.count)
        self.trigger, self.pause = choose.choice(ranks), choose.uniform(0, PHASES[self.phase])
        self.second_pause = choose.choice([0.0, choose.uniform(0, 0.5)])
        self.duration = choose.uniform(*(SHORT if self.kind == "short stop" else LONG))
        self.victims = [] if "coordinator" in self.kind else ranks[:2 if self.kind == "double kill" else 1]
        self.dead = set(self.victims if "kill" in self.kind else [])
        self.fault_at = self.resumed_at = 0.0
        self.problems: list[str] = []
        self.late: list[str] = []
        self._events: queue.Queue[tuple[Member, dict[str, Any] | None]] = queue.Queue()
        self.address = free()

    def __str__(self) -> str:
        hit = f" of {','.join(map(str, self.victims))}" if self.victims else ""
        return f"seed {self.seed}: {self.kind}{hit}, {self.phase} + {self.pause:.2f} s, {self.count} x {self.devices}"

    def execute(self) -> None:
        """Start the processes, inject the fault, and judge."""
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(Path(__file__).with_name("faulted_member.py"))]
            env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "2",
                   "LAMINA_TOKEN": f"run {self.seed}"}
            with open(Path(folder) / "stderr", "w+") as errors:
                self.members = [Member(r, subprocess.Popen(
                    [*command, self.address, str(r), str(self.count), str(self.devices), folder + "/saved", str(HEARTBEAT),
                     str(JOIN_TIMEOUT)], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors))
                    for r in range(self.count)]
            readers = [threading.Thread(target=self._read, args=(m,), daemon=True) for m in self.members]
            for t in readers:
                t.start()
            try:
                self._await(lambda: self.members[self.trigger].phase == self.phase or self._has_ended(), 90, "the phase")
                time.sleep(self.pause)
                injector = threading.Thread(target=self._inject)
                injector.start()
                self._await(self._all_have_reported, HANG_TIMEOUT, "an exception or the end")
                injector.join()
                self._continue()
                self._await(self._has_ended, HANG_TIMEOUT, "the end")
                self._judge()
            finally:
                for m in self.members:
                    m.process.kill()
                for m, t in zip(self.members, readers):
                    t.join()
                    with contextlib.suppress(OSError):
                        m.process.communicate()
                for pid in coordinator_pids(self.address):
                    os.kill(pid, signal.SIGKILL)
            if self.verbose and self.problems:
                print((Path(folder) / "stderr").read_text(errors="replace")[-20_000:])

    # --- reports --------------------------------------------------------------------------------------------------
    def _read(self, m: Member) -> None:
        assert m.process.stdout is not None
        for line in m.process.stdout:
            self._events.put((m, json.loads(line)))
        self._events.put((m, None))

    def _await(self, is_reached: Any, seconds: float, what: str) -> None:
        """Handle reports until something is reached."""
        until = time.monotonic() + seconds
        while not is_reached():
            try:
                m, event = self._events.get(timeout=0.1)
            except queue.Empty:
                if time.monotonic() < until:
                    continue
                rest = [m.rank for m in self._living() if not (m.ended or m.waiting)]
                self.problems.append(f"hang: no {what} after {seconds} s of {rest} in "
                                     f"{[self.members[r].phase for r in rest]}")
                self._print_stacks(rest)
                return
            if self.verbose and event:
                print("   ", m.rank, f"{event.pop('at') - (self.fault_at or time.monotonic()):+.2f} s", event, flush=True)
            self._handle(m, event)

    def _handle(self, m: Member, event: dict[str, Any] | None) -> None:
        if event is None:
            m.process.wait()
            m.ended = True
        elif "phase" in event:
            m.phase, m.waiting = event["phase"], False
        elif "error" in event:
            event["delay"] = time.monotonic() - max(self.fault_at, self.resumed_at if m.rank in self.victims else 0)
            m.errors.append({**event, "phase": m.phase})
        elif "wrong" in event:
            m.wrong.append(event["wrong"])
        elif "done" in event:
            m.done = event["done"]
        elif "waiting" in event:
            m.waiting = True

    def _print_stacks(self, ranks: list[int]) -> None:
        """Have processes that hang print their Python stacks to stderr, which `--verbose` shows."""
        for r in ranks:
            if self.members[r].process.poll() is None:
                self.members[r].process.send_signal(signal.SIGCONT)
                self.members[r].process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)

    def _living(self) -> list[Member]:
        return [m for m in self.members if m.rank not in self.dead]

    def _has_ended(self) -> bool:
        return all(m.ended for m in self._living())

    def _all_have_reported(self) -> bool:
        return bool(self.resumed_at) and all(m.ended or m.waiting for m in self._living())

    # --- the fault ------------------------------------------------------------------------------------------------
    def _inject(self) -> None:
        if "coordinator" in self.kind:
            until = time.monotonic() + 5
            while not (pids := coordinator_pids(self.address)) and time.monotonic() < until:
                time.sleep(0.02)
        else:
            pids = [self.members[r].process.pid for r in self.victims]
        self.fault_at = time.monotonic()
        for i, pid in enumerate(pids):
            time.sleep(self.second_pause if i else 0)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if "kill" in self.kind else signal.SIGSTOP)
        if "stop" in self.kind:
            time.sleep(self.duration)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.resumed_at = time.monotonic()

    def _continue(self) -> None:
        """Let the processes that raised form the next group; the victim of a long stop, which was counted out, ends alone."""
        waiting = [m for m in self.members if m.waiting and not m.ended]
        alone = [m for m in waiting if m.rank in self.victims and len(waiting) > 1]
        group = [m for m in waiting if m not in alone]
        address = free()
        for m in waiting:
            m.waiting = False
            assert m.process.stdin is not None
            line = f"{group.index(m)} {len(group)} {address}" if m in group else ""
            with contextlib.suppress(OSError):
                m.process.stdin.write(line + "\n")
                m.process.stdin.flush()
        self.address_of_next, self.regrouped = address, len(group)

    # --- the judgement --------------------------------------------------------------------------------------------
    def _judge(self) -> None:
        for m in self._living():
            self.problems += [f"{m.rank}: {text}" for text in m.wrong]
            if m.process.returncode != 0:
                self.problems.append(f"{m.rank}: exit status {m.process.returncode}")
            elif not m.done and not m.wrong:
                self.problems.append(f"{m.rank}: {'no group formed again' if m.errors else 'it did not finish'}")
            for e in m.errors[:1]:
                problem = self._find_problem(m, e)
                if problem:
                    self.problems.append(f"{m.rank}: in {e['phase']}: {e['error']}: {problem}: {e['text'][:200]}")
                limit = ALLOWED + (HEARTBEAT if e["joined"] else JOIN_TIMEOUT + HEARTBEAT)
                if e["delay"] > limit:
                    self.late.append(f"{m.rank}: {e['error']} in {e['phase']} after {e['delay']:.1f} s")
            for e in m.errors[1:]:
                self.problems.append(f"{m.rank}: in {e['phase']} of the next group: {e['error']}: {e['text'][:200]}")

    def _find_problem(self, m: Member, e: dict[str, Any]) -> str:
        """Return what is wrong with a process's exception, "" if it is an expected one."""
        named, victims = set(e["named"]), set(self.victims)
        if self.kind == "short stop":
            return "nothing was lost"
        if not victims:
            if named:
                return f"it names {sorted(named)}, which live"
            return "" if "coordinator" in e["text"] else "it does not say that the coordinator is gone"
        if not e["joined"] and e["error"] in ("ConnectionError", "TimeoutError"):
            lost = {int(n) for text in re.findall(r"process(?:es)? \[?(\d[\d, ]*)", e["text"])
                    for n in re.findall(r"\d+", text)} - {m.rank}
            return f"it names {sorted(lost - victims)}, which live" if lost - victims else ""
        if e["error"] != "ProcessLostError":
            return "expected ProcessLostError"
        if named - victims:
            return f"it names {sorted(named - victims)}, which live"
        if self.kind == "double kill":
            return "" if named else "it names no process"
        return "" if named == victims else f"it names {sorted(named)} instead of {sorted(victims)}"


def print_table(results: list[Run]) -> None:
    """Print the number of right, late and wrong runs by kind and phase."""
    tally: Counter[tuple[str, str, str]] = Counter()
    for r in results:
        tally[r.kind, r.phase, "wrong" if r.problems else "late" if r.late else "right"] += 1
    print("\nright / late / wrong".ljust(21), *[p.rjust(18) for p in PHASES])
    for kind in KINDS:
        cells = [" / ".join(str(tally[kind, p, verdict]) for verdict in ("right", "late", "wrong")) for p in PHASES]
        print(kind.ljust(20), *[c.rjust(18) for c in cells])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=20, help="number of runs")
    parser.add_argument("--seed", type=int, help="seed of the first run; the next ones follow. Default: by the clock")
    parser.add_argument("--kind", choices=KINDS, help="only this kind of fault")
    parser.add_argument("--phase", choices=[*PHASES], help="only this phase")
    parser.add_argument("--verbose", action="store_true", help="print each report, and stderr of wrong runs")
    given = parser.parse_args()
    first = int(time.time()) % 1_000_000 * 1000 if given.seed is None else given.seed
    results = []
    for seed in range(first, first + given.count):
        run, began = Run(seed, given.kind, given.phase, given.verbose), time.monotonic()
        run.execute()
        results.append(run)
        verdict = "WRONG" if run.problems else "LATE" if run.late else "right"
        print(f"{run}: {verdict}, {time.monotonic() - began:.1f} s", flush=True)
        for text in run.problems + run.late:
            print(f"      {text}", flush=True)
    print_table(results)
    return int(any(r.problems or r.late for r in results))


if __name__ == "__main__":
    sys.exit(main())
