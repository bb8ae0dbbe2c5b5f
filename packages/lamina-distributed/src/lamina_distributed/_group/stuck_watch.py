"""Watch for launches that wait too long although all processes live, and report where each process is.

One thread of each process looks at the stacks about once a second. It exists only in a session of several processes that
compare their launches. Nothing is recorded by the calls themselves but the name of the latest launch.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from lamina_runtime.extend.processes import collective_report_seconds, collective_timeout_seconds

from . import launch_agreement
from .multi_process import MultiProcessLauncher
from .roll_call import WAITING, RollCall, format_launch, format_ranks
from .thread_states import ThreadStates, add_source_lines
from .._typing import Message

__all__ = ["StuckWatch"]

_INTERVALS, _MIN_INTERVAL, _MAX_INTERVAL = 20, 0.1, 1.0  # looks in the time until a report; seconds between two looks
_POSTPONE = 4.0      # seconds for the report of a process with a lower index, which waits too
_COMPUTING = 10      # a launch that all processes are in may take so many times as long: they may only compute
_WAITED = 0.7        # share of the time after which a process with a lower index is the one that reports


class StuckWatch:
    """The watching thread of a session.

    Args:
      agreement: the launch check of the session.
      launcher: knows the latest launch.
      count: number of processes.
    """

    def __init__(self, agreement: launch_agreement.Agreement, launcher: MultiProcessLauncher, count: int) -> None:
        self._agreement, self._launcher, self._count = agreement, launcher, count
        self._roll_call: RollCall = agreement.roll_call
        self._roll_call.describe, self._roll_call.on_report = self._describe, self._note_report
        self._roll_call.known_launch = self._known_launch
        self._states = ThreadStates()
        self._closed = threading.Event()
        self._pending: tuple[Any, float] | None = None  # the latest launch while it runs, and when that was first seen
        self._reported_at, self._postponed_until, self._repeat = 0.0, 0.0, 1.0
        self._launches: dict[tuple[int, ...], tuple[int, float]] = {}  # group -> its number of launches, since when
        self._thread = threading.Thread(target=self._watch, name="lamina-stuck-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join(2)

    # --- this process -----------------------------------------------------------------------------------------------
    def _describe(self) -> Message:
        """Return the state of this process, for a roll call."""
        return {"threads": add_source_lines(self._sample_threads()), **self._describe_launches()}

    def _sample_threads(self) -> list[Message]:
        states = self._states.sample()
        for s in states:
            if s["kind"] == "launch":  # agreed on already, so it is counted
                s["number"] = self._agreement.find_group(tuple(s["processes"])).launches
        return states

    def _describe_launches(self) -> Message:
        """Return the latest launch ("last"), and the same as "pending" if its results are not computed yet."""
        name = self._launcher.latest_launch
        if name is None:
            return {}
        call, function, processes = name
        last: Message = {"launch": f"{call} of `{function}`", "processes": [*processes],
                         "number": self._agreement.find_group(processes).launches}
        pending = self._pending
        if pending is not None and pending[0] is self._launcher.latest:
            return {"last": last, "pending": {**last, "seconds": round(time.monotonic() - pending[1], 1)}}
        return {"last": last}

    def _known_launch(self, rank: int) -> str:
        """Return what is known of a process that does not answer: the last launch to which it came."""
        numbers = [(since, n, ranks) for ranks, (n, since) in self._launches.items() if rank in ranks and n]
        if not numbers:
            return "no launch of it is known"
        since, n, ranks = max(numbers)
        return (f"it came to launch {n} of {format_ranks(ranks)}, {time.monotonic() - since:.0f} s ago, and to none "
                "after it")

    def _sample(self) -> list[Message]:
        """Update the times since when, and return the waits of this process: the oldest first."""
        now = time.monotonic()
        latest = self._launcher.latest
        if latest is None or _is_ready(latest):
            self._pending = None
        elif self._pending is None or self._pending[0] is not latest:
            self._pending = latest, now
        for ranks, n in self._agreement.count_launches().items():
            if self._launches.get(ranks, (0, 0.0))[0] != n:
                self._launches[ranks] = n, now
        waits = [s for s in self._sample_threads() if s["kind"] in WAITING]
        pending = self._describe_launches().get("pending")
        if pending:
            waits.append({**pending, "kind": "launch"})
        return sorted(waits, key=lambda s: -s["seconds"])

    # --- the thread -------------------------------------------------------------------------------------------------
    def _watch(self) -> None:
        interval = _MAX_INTERVAL
        while not self._closed.wait(interval):
            seconds = collective_report_seconds.value
            times = [s for s in (seconds, collective_timeout_seconds.value) if s is not None]
            interval = min([_MAX_INTERVAL, *[max(s / _INTERVALS, _MIN_INTERVAL) for s in times]])
            try:
                waits = self._sample()
                if seconds is not None:
                    self._report_if_due(waits, float(seconds))
            except Exception:  # at the end of the session sockets close under this thread
                if self._closed.is_set():
                    return

    def _report_if_due(self, waits: Sequence[Message], seconds: float) -> None:
        if not waits or waits[0]["seconds"] < seconds:
            self._repeat = 1.0
            return
        wait, now = waits[0], time.monotonic()
        if now < self._postponed_until or wait["seconds"] < seconds * self._repeat:
            return
        ranks = sorted(wait["processes"], key=lambda r: r not in wait.get("for", ()))[:64]
        answers = self._roll_call.collect(ranks)
        if self._closed.is_set() or not self._still_waits(wait):
            return
        if wait["kind"] == "launch" and wait["seconds"] < _COMPUTING * seconds and not _has_cause(answers, ranks):
            self._postponed_until = now + seconds / 4
            return
        lower = [r for r in answers if r < self._roll_call.rank and _longest_wait(answers[r]) > _WAITED * seconds]
        if lower and self._postponed_until < now - 2 * _POSTPONE:
            self._postponed_until = now + _POSTPONE
            return
        missing = f" for {format_ranks(wait['for'])}" if wait.get("for") else ""
        head = (f"lamina: {_format_waiting(answers)} waited over {seconds:g} s{missing}, in {format_launch(wait)} "
                "(config.collective_report_seconds). Where each process is:")
        self._roll_call.publish(f"{head}\n{self._roll_call.format(sorted(ranks), answers)}", range(self._count)[:64])

    def _still_waits(self, wait: Message) -> bool:
        return any(s["seconds"] >= wait["seconds"] for s in self._sample())

    def _note_report(self) -> None:
        """Report the same wait again only after twice the time."""
        self._repeat *= 2


def _is_ready(x: Any) -> bool:
    try:
        return bool(x.is_ready())
    except Exception:  # deleted, or failed
        return True


def _has_cause(answers: dict[int, Message], ranks: Sequence[int]) -> bool:
    """Return whether a launch that all processes are in may be stuck: one does not answer, or is in a callback."""
    return any(r not in answers or any(s["kind"] == "callback" for s in answers[r]["threads"]) for r in ranks)


def _longest_wait(answer: Message) -> float:
    times = [s["seconds"] for s in answer["threads"] if s["kind"] in WAITING]
    return max([*times, (answer.get("pending") or {"seconds": 0.0})["seconds"]])


def _format_waiting(answers: dict[int, Message]) -> str:
    ranks = [r for r in sorted(answers) if _longest_wait(answers[r])]
    return f"{format_ranks(ranks)} {'has' if len(ranks) == 1 else 'have'}"
