"""Processes that live but do not come to a launch: all print the same roll call, which says where each of them is."""
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import free  # noqa: E402

EVERY = os.environ.get("LAMINA_WIDE") == "1"  # 20 rounds of each case
STUCK = 4.0  # seconds, as in `stuck_member`
EXPECTED = {
    "stop": r"does not answer: it is stopped, .*; it came to launch \d+ of processes .*, and to none after it",
    "read": r"is blocked in the system, for \d+ s, at .*stuck_member.py:\d+ in <module>: .*# in read; its last launch is "
            r"launch \d+, pmap of `step`",
    "callback": r"is in a callback, for \d+ s, at .*: time.sleep\(STUCK\)  # in callback",
    "compile": r"compiles `big`, for \d+ s, at .*# in compile",
    "launch": r"is in a callback, for \d+ s, at .*: time.sleep\(STUCK\)  # in callback",
    "save": r"is blocked in the system, for \d+ s, at .*# in save",
}
WAITING = {"launch": r"launch \d+, pmap of `with_callback`", "save": r"waits for process \d+ in save"}


class Member:
    """A process, and what it has printed: `reports`, each a text; `rounds`, how many have ended."""

    def __init__(self, arguments):
        program = str(Path(__file__).with_name("stuck_member.py"))
        env = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "2"}
        self.process = subprocess.Popen([sys.executable, program, *arguments], env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.reports, self.rounds, self.stuck, self.rounds_as_victim, self.text = [], 0, 0, 0, ""
        self.threads = [threading.Thread(target=act, daemon=True) for act in (self.read_output, self.read_errors)]
        for t in self.threads:
            t.start()

    def read_output(self):
        for line in self.process.stdout:
            self.stuck += line == "stuck\n"
            self.rounds += line == "round\n"

    def read_errors(self):
        for line in self.process.stderr:
            self.text += line
            if line.startswith("lamina: process"):
                self.reports.append(line)
            elif self.reports and line.startswith("  "):
                self.reports[-1] += line

    def close(self):
        self.process.kill()
        for t in self.threads:
            t.join()
        self.process.communicate()


def wait_until(is_reached, seconds, members):
    until = time.monotonic() + seconds
    while not is_reached():
        assert time.monotonic() < until, "\n".join(m.text for m in members)
        assert all(m.process.poll() in (None, 0) for m in members), "\n".join(m.text for m in members)
        time.sleep(0.02)


def run_round(members, case, victim, number):
    """Run a round. Return the reports that each process has printed in it."""
    stuck = members[victim]
    wait_until(lambda: stuck.stuck == stuck.rounds_as_victim + 1, 60, members)
    stuck.rounds_as_victim += 1
    seen = [len(m.reports) for m in members]
    time.sleep(0.3)
    if case == "stop":
        stuck.process.send_signal(signal.SIGSTOP)
    if case in ("stop", "read"):
        time.sleep(STUCK)
        stuck.process.send_signal(signal.SIGCONT)
        stuck.process.stdin.write("\n")
        stuck.process.stdin.flush()
    wait_until(lambda: all(m.rounds > number for m in members), 60, members)
    return [m.reports[n:] for m, n in zip(members, seen)]


def find_mistake(case, victim, reports, count):
    """Return what is wrong with the first report of a round; "" if it is right and the same in all living processes."""
    living = [r for r in range(count) if r != victim or case != "stop"]
    if not all(reports[r] for r in living):
        return f"no report in {[r for r in living if not reports[r]]}"
    first = reports[living[0]][0]
    if any(reports[r][0] != first for r in living):
        return "the reports differ:\n" + "\n".join(reports[r][0] for r in living)
    for r in range(count):
        lines = re.search(rf"^  process {r}: .*\n(      .*\n)*", first, re.MULTILINE)
        expected = EXPECTED[case] if r == victim else WAITING.get(case, rf"waits for process {victim} in launch \d+, pmap of")
        if lines is None or not re.search(expected, lines[0]):
            return f"process {r} is not described by {expected!r} in\n{first}"
    return ""


@pytest.mark.skipif(sys.platform != "linux", reason="the state of a thread in the system is read from /proc")
def test_all_print_where_each_process_is():
    rounds = [(case, r % 4) for r, case in enumerate([*EXPECTED] * 20)] if EVERY else [
        ("read", 2), ("callback", 0), ("launch", 1), ("stop", 3)]
    address = free()
    members = [Member([address, str(r), "4", *[f"{case}:{victim}" for case, victim in rounds]]) for r in range(4)]
    mistakes = []
    try:
        for number, (case, victim) in enumerate(rounds):
            mistake = find_mistake(case, victim, run_round(members, case, victim, number), 4)
            if mistake:
                mistakes.append(f"round {number}, {case} of {victim}: {mistake}")
        wait_until(lambda: all(m.process.poll() == 0 for m in members), 60, members)
    finally:
        for m in members:
            m.close()
    assert not mistakes, f"{len(mistakes)} of {len(rounds)}:\n" + "\n".join(mistakes)
