"""The time line of a report as a Perfetto trace of TrackEvents (https://ui.perfetto.dev opens it).

The fields and their numbers are those of Perfetto's published `trace_packet.proto`, `track_event.proto`,
`track_descriptor.proto`, `counter_descriptor.proto` and `debug_annotation.proto`.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ._files import write_whole

__all__ = ["perfetto_trace", "write_perfetto"]

_BEGIN, _END, _COUNTER = 1, 2, 4
_SEQUENCE = 1
_BYTES_UNIT = 3


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: int | str | bytes) -> bytes:
    """Return a field: a number as a varint (two's complement if negative), else bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value & (1 << 64) - 1)
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _packet(*fields: bytes) -> bytes:
    return _field(1, b"".join(fields) + _field(10, _SEQUENCE))


def _annotation(name: str, value: int | str) -> bytes:
    return _field(4, _field(10, name) + _field(4 if isinstance(value, int) else 6, value))


def _event(time: int, kind: int, track: int, *fields: bytes) -> bytes:
    return _packet(_field(8, time), _field(11, _field(9, kind) + _field(11, track) + b"".join(fields)))


class _Slice(NamedTuple):
    """A row of the time line on its track; rows on one track nest or are disjoint."""

    start: int
    end: int
    row: Mapping[str, Any]


def _tracks(rows: list[Mapping[str, Any]]) -> list[list[_Slice]]:
    """Divide the rows of a device between tracks, because slices of one track must not overlap in part."""
    tracks: list[list[_Slice]] = []
    open_ends: list[list[int]] = []
    for row in sorted(rows, key=lambda row: (row["start"], -row["duration"])):
        new = _Slice(row["start"], row["start"] + max(row["duration"], 1), row)
        for track, ends in zip(tracks, open_ends):
            while ends and ends[-1] <= new.start:
                ends.pop()
            if not ends or new.end <= ends[-1]:
                track.append(new)
                ends.append(new.end)
                break
        else:
            tracks.append([new])
            open_ends.append([new.end])
    return tracks


def _track_events(report: Mapping[str, Any], track: int, slices: list[_Slice]) -> Iterator[bytes]:
    """Yield the events of a track in the order of time."""
    pending: list[int] = []
    for start, end, row in slices:
        while pending and pending[-1] <= start:
            yield _event(pending.pop(), _END, track)
        fields = [_field(23, row["name"])]
        if row["source"] is not None:
            source = report["sources"][row["source"]]
            fields.append(_annotation("line", f"{source['file']}:{row['line']}"))
            at = row["line"] - source["first_line"]
            if 0 <= at < len(source["lines"]):
                fields.append(_annotation("source", source["lines"][at].strip()))
        if row["function"] is not None:
            fields.append(_annotation("function", report["functions"][row["function"]]["name"]))
        yield _event(start, _BEGIN, track, *fields)
        pending.append(end)
    while pending:
        yield _event(pending.pop(), _END, track)


def _memory_events(report: Mapping[str, Any], rows: list[Mapping[str, Any]], track: int) -> Iterator[bytes]:
    """Yield the live bytes at each instruction of a device that the memory table of its function lists."""
    live: dict[int, dict[str, int]] = {}
    for row in sorted(rows, key=lambda row: row["start"]):
        number = row["function"]
        if number is None:
            continue
        if number not in live:
            memory = report["functions"][number]["memory"]
            live[number] = {i["name"]: i["live"] for i in memory["instructions"]} if memory else {}
        found = live[number].get(row["name"])
        if found is not None:
            yield _event(row["start"], _COUNTER, track, _field(30, found))


def perfetto_trace(report: Mapping[str, Any]) -> bytes:
    """Return the time line of a report as the bytes of a Perfetto trace.

    Each process of the report is a process of the trace. Each device is one track, or several if its instructions
    overlap, and a counter of live bytes. A slice has the source line and the function as arguments.

    Args:
      report: facts in the shape of `schema.json`.

    >>> perfetto_trace({"timeline": [], "functions": [], "sources": [], "devices": []})
    b''
    """
    by_device: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in report["timeline"]:
        by_device.setdefault((row["process"], row["device"]), []).append(row)
    kinds = {d["id"]: d["kind"] for d in report["devices"]}
    packets, uuid, described = [], 0, {}
    for (process, device), rows in sorted(by_device.items()):
        if process not in described:
            uuid += 1
            described[process] = uuid
            descriptor = _field(1, uuid) + _field(3, _field(1, process + 1) + _field(6, f"process {process}"))
            packets.append(_packet(_field(60, descriptor)))
        for k, slices in enumerate(_tracks(rows)):
            uuid += 1
            name = f"{kinds.get(device, 'device')}:{device}" + (f" ({k + 1})" if k else "")
            packets.append(_packet(_field(60, _field(1, uuid) + _field(2, name) + _field(5, described[process]))))
            packets.extend(_track_events(report, uuid, slices))
        events = list(_memory_events(report, rows, uuid + 1))
        if events:
            uuid += 1
            counter = _field(8, _field(3, _BYTES_UNIT))
            packets.append(_packet(_field(60, _field(1, uuid) + _field(2, f"live bytes of {device}")
                                          + _field(5, described[process]) + counter)))
            packets.extend(events)
    return b"".join(packets)


def write_perfetto(report: Mapping[str, Any], path: str | Path) -> None:
    """Write the time line of a report as a Perfetto trace; see `perfetto_trace`.

    Raises:
      OSError: the file cannot be written.
    """
    write_whole(path, perfetto_trace(report))
