"""`RuleTable`: what one transformation does with each primitive. A row, or a hole with its reason; never silence.

Rows may change at any time, in any thread, for all threads. Whatever is remembered of a program that rows had a part in is
remembered under `config.cache_key()`, which holds a number for the rows in force (`config.generation`), or under the
`version` of the tables it read. `define` and `hole` give new numbers; when a block of `override` ends, the number from
before comes back if the rows from before do, so that what was made then is found again.
"""
from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, NoReturn

from .config import generation
from .errors import MissingRuleError
from .primitive import Primitive

__all__ = ["RuleTable", "every_table", "new_generation"]

Row = Callable[..., Any]

_numbers = itertools.count(1)
_MOST_STATES = 64


class _Override:
    """One block of `override`. Equal to another of the same row, so that the number of a block comes back with it."""

    __slots__ = ("op", "rule", "table")

    def __init__(self, table: RuleTable, op: Primitive, rule: Row) -> None:
        self.table, self.op, self.rule = table, op, rule

    def __hash__(self) -> int:
        return hash((id(self.table), id(self.op), id(self.rule)))

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, _Override) and self.table is other.table and self.op is other.op
                and self.rule is other.rule)


class _State:
    """The number of what is in force: lasting changes give a new one, a set of overrides that was there before its own."""

    def __init__(self) -> None:
        self._overrides: frozenset[_Override] = frozenset()
        self._known: dict[frozenset[_Override], int] = {self._overrides: 0}
        self.number = 0

    def lasting(self) -> int:
        """A number that was never there before."""
        self._known.clear()
        self.number = self._known[self._overrides] = next(_numbers)
        return self.number

    def now(self, overrides: frozenset[_Override]) -> int:
        """The number while these overrides hold."""
        self._overrides = overrides
        if overrides not in self._known:
            if len(self._known) >= _MOST_STATES:  # they hold the rows of their overrides
                outside = self._known.get(frozenset())
                self._known.clear()
                if outside is not None:
                    self._known[frozenset()] = outside
            self._known[overrides] = next(_numbers)
        self.number = self._known[overrides]
        return self.number


_all = _State()
_tables: weakref.WeakSet[RuleTable] = weakref.WeakSet()


def every_table() -> list[RuleTable]:
    """The rule tables there are, by name.

    Returns:
      A list of the tables that are alive, of all rooms that are imported.

    >>> mine = RuleTable("upkeep", "shop/rows")
    >>> mine in every_table()
    True
    """
    return sorted(_tables, key=lambda table: table.name)


def new_generation() -> None:
    """Say that something other than a row has changed for good on which remembered programs depend.

    What fills a slot is such a thing. Whatever was staged or called before is staged again, in every thread.

    >>> from lamina_ir import config
    >>> before = config.cache_key()
    >>> new_generation()
    >>> config.cache_key() == before
    False
    """
    with generation.changing():
        generation.set(_all.lasting())


class RuleTable(dict[Primitive, Row]):
    """Primitive -> rule. A hit costs what a dict costs; a miss raises an error that says where the row belongs.

    Rows change through `define`, `hole` and `override` alone (`table[op] = rule` is `define`), for all threads at once;
    calls made afterwards follow, whatever was staged, compiled or called before.

    Args:
      name: what the table does, in words that fit "<name> of `sin` has no rule".
      home: the folder, with slashes, in which rows live; the family's file name is appended in messages.
      leads: names of the arguments every row gets by position before an op's operands or params. A row whose own names
        for them are also names of the op's params is refused.
      default: `default(op)` gives the row that follows from an op's facts, or None. Any row or hole wins over it.

    >>> from lamina_ir import prims
    >>> table = RuleTable("price", "shop/rows")
    >>> table.define(prims.sin_p, lambda: 3)
    >>> with table.override(prims.sin_p, lambda: 5):
    ...     table[prims.sin_p]()
    5
    >>> table[prims.sin_p]()
    3
    >>> table[prims.cos_p]
    Traceback (most recent call last):
    lamina_ir.errors.MissingRuleError: price of `cos` has no rule; add a row to shop/rows/elementwise.py (see ...
    """

    def __init__(self, name: str, home: str, *, leads: tuple[str, ...] = (),
                 default: Callable[[Primitive], Row | None] | None = None) -> None:
        super().__init__()
        self.name = name
        self.home = home
        self.leads = leads
        self.default = default
        self.holes: dict[Primitive, str] = {}
        self._state = _State()
        self._open: dict[Primitive, list[_Override]] = {}  # the last one holds
        self._beneath: dict[Primitive, tuple[Row | None, str | None]] = {}  # row and hole without the overrides
        self._asked: set[Primitive] = set()  # ops without a row that somebody has asked for one
        with generation.changing():
            _tables.add(self)

    @property
    def version(self) -> int:
        """A number for the rows of this table in force, to key on what was made with them."""
        return self._state.number

    @property
    def overridden(self) -> frozenset[Primitive]:
        """The ops whose row is that of an open block of `override`."""
        return frozenset(self._open)

    # --- changes
    def define(self, op: Primitive, rule: Row) -> None:
        """Add the row for `op`, for good: it replaces an earlier row or hole, and overrides that are open. Programs are
        staged anew, unless nobody has asked for a row of `op` before.

        Raises:
          TypeError: `op` is no Primitive, or `rule` cannot be called, or cannot be called with the params of `op`.
        """
        self._check("define", op)
        self._check_row("define", op, rule)
        with generation.changing():
            fresh = self.unasked(op)
            self._end_overrides(op)
            super().__setitem__(op, rule)
            self.holes.pop(op, None)
            if not fresh:
                self._lasting()

    def hole(self, op: Primitive, reason: str) -> None:
        """Say that `op` has no rule here, and why. It wins over facts, rows, and overrides that are open.

        Raises:
          TypeError: `op` is no Primitive, or `reason` no text.
        """
        self._check("hole", op)
        if not isinstance(reason, str) or not reason.strip():
            raise TypeError(f"table `{self.name}`: hole({op.name}): expected the reason, a sentence; got {reason!r:.60}")
        with generation.changing():
            fresh = self.unasked(op)
            self._end_overrides(op)
            self.holes[op] = reason
            self._drop(op)
            if not fresh:
                self._lasting()

    @contextmanager
    def override(self, op: Primitive, rule: Row) -> Iterator[None]:
        """Use `rule` for `op` inside the block, in every thread: functions made, staged or compiled before follow it, and
        what was made with it is not used after the block.

        Blocks may end in any order, in any thread: of those still open the one begun last holds. A call that runs in
        another thread meanwhile may see either row, and is not remembered.

        Raises:
          TypeError: as for `define`.
        """
        self._check("override", op)
        self._check_row("override", op, rule)
        own = _Override(self, op, rule)
        with generation.changing():
            if op not in self._open:
                self._beneath[op] = dict.get(self, op), self.holes.get(op)
            self._open.setdefault(op, []).append(own)
            self._settle(op)
        try:
            yield
        finally:
            with generation.changing():
                blocks = self._open.get(op, [])
                if any(block is own for block in blocks):  # else a define or hole has come in between
                    self._open[op] = [block for block in blocks if block is not own]
                    self._settle(op)

    __setitem__ = define

    def __delitem__(self, op: Primitive) -> None:
        self[op]
        with generation.changing():
            self._end_overrides(op)
            self._drop(op)
            self._lasting()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"table `{self.name}`: rows are changed with define, hole and override")

    pop = popitem = clear = update = setdefault = __ior__ = _refuse

    def _drop(self, op: Primitive) -> None:
        if dict.__contains__(self, op):
            super().__delitem__(op)

    def _settle(self, op: Primitive) -> None:
        """Put the row in force in its place."""
        blocks = self._open[op]
        if blocks:
            super().__setitem__(op, blocks[-1].rule)
            self.holes.pop(op, None)
        else:
            del self._open[op]
            row, reason = self._beneath.pop(op)
            if reason is not None:
                self.holes[op] = reason
            if row is not None:
                super().__setitem__(op, row)
            else:
                self._drop(op)
        self._count_overrides()
        generation.set(_all.number)

    def _count_overrides(self) -> None:
        self._state.now(frozenset([blocks[-1] for blocks in self._open.values()]))
        _all.now(frozenset([blocks[-1] for table in _tables for blocks in table._open.values()]))

    def _end_overrides(self, op: Primitive) -> None:
        if op in self._open:
            del self._open[op], self._beneath[op]
            self._count_overrides()

    def _lasting(self) -> None:
        self._state.lasting()
        generation.set(_all.lasting())

    def _check(self, call: str, op: Any) -> None:
        if not isinstance(op, Primitive):
            raise TypeError(f"table `{self.name}`: {call}: expected a Primitive; got {type(op).__name__}: {op!r:.60}")

    def _check_row(self, call: str, op: Primitive, rule: Any) -> None:
        if not callable(rule):
            raise TypeError(f"table `{self.name}`: {call}({op.name}): expected a function as the row; got "
                            f"{type(rule).__name__}: {rule!r:.60}")
        if type(rule) is FunctionType and op.params and self.leads:
            code = rule.__code__
            own = code.co_varnames[code.co_posonlyargcount:min(code.co_argcount, len(self.leads))]
            taken = [name for name in own if name in op.params]
            if taken:
                raise TypeError(f"table `{self.name}`: {call}({op.name}): the row's own parameter `{taken[0]}` is also the "
                                f"name of a param of `{op.name}`, which comes by keyword; write the row as "
                                f"({', '.join(self.leads)}, /, ...)")

    # --- looking up
    def covers(self, op: Primitive) -> bool:
        """Whether `op` has a row, by its facts if not by `define`, or a written reason for not having one."""
        return op in self or op in self.holes

    def unasked(self, op: Primitive) -> bool:
        """Whether there is no row or hole for `op` and nobody has looked for one: a first one changes no program that is
        remembered. A table whose rows others stand in for says so too."""
        return not (dict.__contains__(self, op) or op in self.holes or op in self._open or op in self._asked)

    def get(self, op: Any, default: Any = None) -> Any:
        """The row, without that which facts say; `default` where there is none."""
        row = dict.get(self, op)
        if row is None and isinstance(op, Primitive):
            self._asked.add(op)
            row = dict.get(self, op)  # defined just now by another thread, which did not see that somebody asks
        return default if row is None else row

    def __contains__(self, op: object) -> bool:
        return self.get(op) is not None or (self.default is not None and isinstance(op, Primitive)
                                            and op not in self.holes and self.default(op) is not None)

    def __missing__(self, op: Primitive) -> Row:
        self._check("looking up a row", op)
        with generation.changing():  # where another thread defines a row or hole just now, that wins
            row = self.get(op)
            if row is not None:
                return row
            reason = self.holes.get(op)
            if reason is not None:
                raise MissingRuleError(f"{self.name} of `{op.name}` is not defined: {reason}")
            row = None if self.default is None else self.default(op)
            if row is not None:
                super().__setitem__(op, row)
                return row
        file = f"/{op.family}.py" if op.family else ""
        raise MissingRuleError(f"{self.name} of `{op.name}` has no rule; add a row to {self.home}{file} "
                               "(see docs/adding-an-op.md)")

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

