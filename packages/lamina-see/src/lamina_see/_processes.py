"""One report of several processes: process 0 gets the instructions that ran in the others."""
from __future__ import annotations

from typing import Any

__all__ = ["agree_on_numbers", "merge_timelines", "process_count"]

Row = dict[str, Any]
_MAX_TIMELINE = 20_000
_FIELDS = ("process", "device", "function", "name", "start", "duration", "line")


def process_count() -> int:
    """Return the number of processes of the program."""
    import lamina_runtime  # noqa: PLC0415 (absent on the NumPy-only install)
    return int(lamina_runtime.process_count())


def agree_on_numbers(kind: str | None, is_interrupted: bool) -> tuple[str | None, bool]:
    """Return whether a process has a NaN or an infinity in its results, and whether one was interrupted.

    All processes must call this. A NaN counts before an infinity.
    """
    from lamina_runtime.extend import begin_gather  # noqa: PLC0415 (absent on the NumPy-only install)
    with begin_gather("see: numbers") as gather:
        rows = gather.gather(kind=kind, interrupted=is_interrupted)
    kinds = {row["kind"] for row in rows}
    return "nan" if "nan" in kinds else "inf" if "inf" in kinds else None, any(row["interrupted"] for row in rows)


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
