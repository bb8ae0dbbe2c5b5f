"""Divide the time of a measured step among the instructions that ran in it.

At each instant the time goes to the instructions that run, in equal parts if several threads or devices run some. Worker
threads that finish an instruction record no events. So the time between two instructions goes to the one before. The times
of all instructions and the named rest add up to the time of the step.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ._hlo import Module

__all__ = ["Event", "StepTimes", "divide_step", "read_events"]

STEP = "lamina_see step"
_CONTAINERS = frozenset(("while", "call", "conditional", "async-start"))
_TRANSFERS = ("DevicePut", "H2D", "D2H", "Transfer", "CopyTo", "BufferFromHost", "Memcpy")
_IGNORED = ("ThreadpoolListener", "end: ")


class Event(NamedTuple):
    """A part of a profile: an instruction, a transfer, a call or a step. Times are in nanoseconds."""

    kind: str  # "instruction", "transfer", "call" or "step"
    name: str
    thread: int
    start: float
    end: float
    device: int
    module: str = ""
    run: int = 0


class StepTimes(NamedTuple):
    """Where the time of a step went, in nanoseconds.

    Attributes:
      instructions: name of an instruction -> time.
      rest: (name, time): launch, transfers, host, unattributed.
    """

    instructions: dict[str, float]
    rest: dict[str, float]


def read_events(data: Any) -> list[Event]:
    """Return the events of a profile, a `ProfileData`, that this package uses."""
    found: list[Event] = []
    thread = 0
    for plane in data.planes:
        if plane.name.startswith("/host:metadata"):
            continue
        of_device = "/device:" in plane.name
        ordinal = int(plane.name.rpartition(":")[2]) if of_device and plane.name.rpartition(":")[2].isdigit() else 0
        for line in plane.lines:
            thread += 1
            for e in line.events:
                name = e.name
                if name.startswith(_IGNORED) or not e.duration_ns:
                    continue
                start, end = e.start_ns, e.start_ns + e.duration_ns
                if name.startswith(STEP):
                    found.append(Event("step", name, thread, start, end, 0))
                elif name.startswith("PjitFunction("):
                    found.append(Event("call", name[13:-1], thread, start, end, 0))
                elif name.startswith(_TRANSFERS):
                    found.append(Event("transfer", name, thread, start, end, 0))
                elif (stats := dict(e.stats)) and (op := stats.get("hlo_op")) is not None:
                    found.append(Event("instruction", str(op), thread, start, end, int(stats.get("device_ordinal", ordinal)),
                                       str(stats.get("hlo_module", "")), int(stats.get("run_id", 0))))
    return found


def _own_segments(events: Sequence[Event]) -> Iterable[tuple[float, float, str]]:
    """Yield (start, end, instruction) of one thread, without the time of nested events."""
    open_events: list[Event] = []
    at = 0.0
    for e in sorted(events, key=lambda e: (e.start, -e.end)):
        while open_events and open_events[-1].end <= e.start:
            done = open_events.pop()
            if done.end > at:
                yield at, done.end, done.name
                at = done.end
        if open_events and e.start > at:
            yield at, e.start, open_events[-1].name
        at = max(at, e.start)
        open_events.append(e)
    while open_events:
        done = open_events.pop()
        if done.end > at:
            yield at, done.end, done.name
            at = done.end


def divide_step(step: tuple[float, float], events: Sequence[Event], transfers: Sequence[Event], module: Module) -> StepTimes:
    """Divide the time of a step.

    Args:
      step: its start and end.
      events: the instructions that ran in it.
      transfers: transfers between host and devices.
      module: the compiled module.
    """
    start, end = step
    threads: dict[int, list[Event]] = {}
    for e in events:
        threads.setdefault(e.thread, []).append(e)
    changes: list[tuple[float, int, str]] = []
    for own in threads.values():
        for a, b, name in _own_segments(own):
            a, b = max(a, start), min(b, end)
            if b > a:
                changes += [(a, 1, name), (b, -1, name)]
    changes.sort()
    containers = {name for name, i in module.by_name.items() if i.opcode in _CONTAINERS}
    times: dict[str, float] = {}
    active: dict[str, int] = {}
    gaps: list[tuple[float, float, str]] = []
    at, before = start, ""
    for moment, change, name in changes:
        if moment > at:
            if active:
                running = [n for n in active if n not in containers] or list(active)
                share = (moment - at) / sum([active[n] for n in running])
                for n in running:
                    times[n] = times.get(n, 0.0) + share * active[n]
            else:
                gaps.append((at, moment, before))
            at = moment
        before = name if change < 0 and name not in containers else before
        count = active.get(name, 0) + change
        if count:
            active[name] = count
        else:
            active.pop(name, None)
    if end > at:
        gaps.append((at, end, ""))
    return StepTimes(times, _name_gaps(gaps, changes, transfers, times, end))


def _name_gaps(gaps: Sequence[tuple[float, float, str]], changes: Sequence[tuple[float, int, str]],
               transfers: Sequence[Event], times: dict[str, float], end: float) -> dict[str, float]:
    """Return the time in which no instruction ran: transfers, launch before the first one, host after the last one.

    Other gaps are added to `times` of the instruction before them.
    """
    first = changes[0][0] if changes else end
    last = changes[-1][0] if changes else end
    moving = _union([(e.start, e.end) for e in transfers])
    rest = {"launch": 0.0, "transfers": 0.0, "host": 0.0, "unattributed": 0.0}
    for a, b, before in gaps:
        moved = sum([max(0.0, min(b, stop) - max(a, begin)) for begin, stop in moving])
        rest["transfers"] += moved
        if first < b and a < last and before:
            times[before] = times.get(before, 0.0) + b - a - moved
        else:
            rest["launch" if b <= first else "host" if a >= last else "unattributed"] += b - a - moved
    return rest


def _union(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for a, b in sorted(intervals):
        if found and a <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], b)
        else:
            found.append((a, b))
    return found
