"""Divide the time of a measured step among the instructions that ran in it.

At each instant the time goes to the instructions that run, in equal parts if several threads or devices run some. Worker
threads that finish an instruction record no events. So the time between two instructions goes to the one before. The times
of all instructions and the named rest add up to the time of the step.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ._hlo import Module
from ._wire import read_fields

__all__ = ["Event", "StepTimes", "divide_step", "read_events"]

STEP = "lamina_see step"
_CONTAINERS = frozenset(("while", "call", "conditional", "async-start"))
_TRANSFERS = ("DevicePut", "H2D", "D2H", "Transfer", "CopyTo", "BufferFromHost", "Memcpy")
_IGNORED = ("ThreadpoolListener", "end: ", "Thunk", "ThreadPool", "Wait for")
_STATS = frozenset(("hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal"))


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
    program: int | None = None  # the id of the module, if the profile has it


class StepTimes(NamedTuple):
    """Where the time of a step went, in nanoseconds.

    Attributes:
      instructions: name of an instruction -> time.
      rest: (name, time): launch, transfers, host, unattributed.
    """

    instructions: dict[str, float]
    rest: dict[str, float]


def read_events(profile: bytes) -> list[Event]:
    """Return the events of a profile, a serialized `XSpace`, that this package uses.

    Raises:
      ValueError: the bytes are not a profile.
    """
    found: list[Event] = []
    thread = 0
    for number, plane in read_fields(profile):
        if number != 1:
            continue
        name, lines, names, stat_names = _read_plane(plane)
        kinds = {k: _kind_of(text) for k, text in names.items()}
        tail = name.rpartition(":")[2]
        ordinal = int(tail) if "/device:" in name and tail.isdigit() else 0
        for line in lines:
            thread += 1
            found += _read_line(line, thread, ordinal, names, kinds, stat_names)
    return found


def _read_plane(plane: bytes) -> tuple[str, list[bytes], dict[int, str], dict[int, str]]:
    """Return the name, the lines, and the names of events and of their data by number."""
    name, lines = "", []
    names: dict[int, str] = {}
    stat_names: dict[int, str] = {}
    for number, value in read_fields(plane):
        if number == 2:
            name = value.decode()
        elif number == 3:
            lines.append(value)
        elif number in (4, 5):
            entry = dict(read_fields(value))
            metadata = dict(read_fields(entry.get(2, b"")))
            (names if number == 4 else stat_names)[entry.get(1, 0)] = metadata.get(2, b"").decode("utf-8", "replace")
    return name, lines, names, stat_names


def _kind_of(name: str) -> str:
    """Return the kind of the events of a name; "" if they are not used. Others may be instructions."""
    if name.startswith(_IGNORED):
        return ""
    return ("step" if name.startswith(STEP) else "call" if name.startswith("PjitFunction(") else
            "transfer" if name.startswith(_TRANSFERS) else "instruction")


def _read_line(line: bytes, thread: int, ordinal: int, names: dict[int, str], kinds: dict[int, str],
               stat_names: dict[int, str]) -> list[Event]:
    """Return the events of one thread or stream."""
    origin, events = 0.0, []
    for number, value in read_fields(line):
        if number == 3:
            origin = float(value)
        elif number == 4:
            events.append(value)
    found = []
    for event in events:
        key = offset = duration = 0
        stats: list[bytes] = []
        for number, value in read_fields(event):
            if number == 1:
                key = value
            elif number == 2:
                offset = value
            elif number == 3:
                duration = value
            elif number == 4:
                stats.append(value)
        kind, name = kinds.get(key, ""), names.get(key, "")
        if not kind or not duration:
            continue
        start = origin + offset / 1000
        end = start + duration / 1000
        if kind != "instruction":
            found.append(Event(kind, name[13:-1] if kind == "call" else name, thread, start, end, 0))
        elif stats and (data := _read_stats(stats, stat_names)).get("hlo_op"):
            found.append(Event(kind, str(data["hlo_op"]), thread, start, end, int(data.get("device_ordinal", ordinal)),
                               str(data.get("hlo_module", "")), int(data.get("run_id", 0)), data.get("program_id")))
    return found


def _read_stats(stats: Sequence[bytes], names: dict[int, str]) -> dict[str, Any]:
    """Return the data of an event by name: texts, or references to texts, and numbers."""
    found: dict[str, Any] = {}
    for stat in stats:
        key, value = 0, None
        for number, content in read_fields(stat):
            if number == 1:
                key = content
            elif number in (3, 4):
                value = content
            elif number == 5:
                value = content.decode("utf-8", "replace")
            elif number == 7:
                value = names.get(content, "")
        name = names.get(key, "")
        if name in _STATS and value is not None:
            found[name] = value
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
