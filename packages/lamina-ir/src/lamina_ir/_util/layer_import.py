"""The rule tables that the import of a layer makes, and rules that are imported when one of them is first read."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Protocol

__all__ = ["add_rule_module", "import_added_rules", "import_rules_later", "importing_layer", "is_filling",
           "is_importing_layer", "note_table"]


class _Table(Protocol):
    is_importing: bool
    import_rules: Callable[[], None] | None


class _Import(threading.local):
    """The imports that run in this thread.

    Attributes:
      tables: the tables made so far by the import of a layer; None if none runs.
      filled: the tables whose rules are being imported.
    """

    tables: list[_Table] | None = None
    filled: tuple[_Table, ...] = ()


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


def is_importing_layer() -> bool:
    """Return whether this thread imports a layer."""
    return _import.tables is not None


def is_filling(table: _Table) -> bool:
    """Return whether this thread imports the rules of a table. Another one may define rules meanwhile."""
    return any(filled is table for filled in _import.filled)


def note_table(table: _Table) -> None:
    """Set `is_importing` of a new table."""
    table.is_importing, table.import_rules = _import.tables is not None, None
    if _import.tables is not None:
        _import.tables.append(table)


_added: dict[str, list[str]] = {}  # layer -> modules of other packages with rules for its tables
_complete: set[str] = set()  # layers whose rules are imported


def add_rule_module(layer: str, module: str) -> None:
    """Import a module with rules for the tables of a layer together with the rules of the layer.

    If those are imported later, or the layer itself is, so is the module.

    Args:
      layer: `autodiff`, `batching` or `lowering`.
      module: its import name.
    """
    _added.setdefault(layer, []).append(module)
    if layer in _complete:
        import_module(module)


def import_added_rules(layer: str) -> None:
    """Import the modules that were added to a layer, whose own rules are imported."""
    _complete.add(layer)
    for module in _added.get(layer, ()):
        import_module(module)


def import_rules_later(layer: str, modules: Sequence[str]) -> None:
    """Import these modules, which define rules, when one of the tables made in the innermost block is first read."""
    tables = tuple(_import.tables or ())

    def import_rules() -> None:
        if is_filling(tables[0]):  # the modules define rules in these tables, which must not import them again
            return
        outer, _import.filled = _import.filled, (*_import.filled, *tables)
        try:
            with importing_layer():  # rules for tables of other layers do not cause the import of their rules
                for module in modules:
                    import_module(module)
                import_added_rules(layer)
        finally:
            _import.filled = outer
        for table in tables:
            table.import_rules = None

    for table in tables:
        table.import_rules = import_rules
