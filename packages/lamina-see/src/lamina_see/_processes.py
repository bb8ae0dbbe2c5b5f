"""One report of several processes: process 0 gets the instructions that ran in the others."""
from __future__ import annotations

from typing import Any

__all__ = ["merge_timelines", "process_count"]

Row = dict[str, Any]
_MAX_TIMELINE = 20_000
_FIELDS = ("process", "device", "function", "name", "start", "duration", "line")


def process_count() -> int:
    """Return the number of processes of the program."""
    import lamina_runtime  # noqa: PLC0415 (absent on the NumPy-only install)
    return int(lamina_runtime.process_count())


def merge_timelines(report: Row) -> None:
    """Add the timelines of all processes to the report of process 0. All processes must call this.

    Raises:
      ProcessLostError: a process was lost.
    """
    from lamina_runtime.extend import begin_gather  # noqa: PLC0415 (absent on the NumPy-only install)
    with begin_gather("see") as gather:
        report["processes"] = gather.count
        if gather.count == 1:
            return
        limit = _MAX_TIMELINE // gather.count
        files = [source["file"] for source in report["sources"]]
        # Rows as lists, because the keys would be most of the message. Each process numbers the files itself.
        rows = [[*[row[f] for f in _FIELDS], row["source"]] for row in report["timeline"][:limit]]
        every = gather.gather(files=files, rows=rows)
        if gather.rank == 0:
            report["timeline"] = [row for found in every for row in _named_rows(found, files)]


def _named_rows(found: Row, files: list[str]) -> list[Row]:
    number = {file: k for k, file in enumerate(files)}
    rows = []
    for *values, source in found["rows"]:
        row = dict(zip(_FIELDS, values))
        row["source"] = None if source is None else number.get(found["files"][source])
        rows.append(row if row["source"] is not None else {**row, "line": 0})
    return rows
