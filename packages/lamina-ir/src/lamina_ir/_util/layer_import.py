"""The tables that the import of a layer makes: until it ends, their rules are not in use, and no cache depends on them."""
from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["importing_layer", "note_table"]


class _Table(Protocol):
    is_importing: bool


class _Import(threading.local):
    """The tables made so far by the import that runs in this thread; None if none runs."""

    tables: list[_Table] | None = None


_import = _Import()


@contextmanager
def importing_layer() -> Iterator[None]:
    """Mark the tables that are made in the block with `is_importing`, until the block ends."""
    outer, _import.tables = _import.tables, []
    try:
        yield
    finally:
        for table in _import.tables:
            table.is_importing = False
        _import.tables = outer


def note_table(table: _Table) -> None:
    """Set `is_importing` of a new table."""
    table.is_importing = _import.tables is not None
    if _import.tables is not None:
        _import.tables.append(table)
