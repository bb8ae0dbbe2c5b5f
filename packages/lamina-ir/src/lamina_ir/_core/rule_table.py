"""`RuleTable`: the rules of one transformation, by primitive. Each primitive has a rule or a declared reason for none.

Rules may change at any time, in any thread, and change for all threads. Results that depend on rules are cached under
`config.cache_key()`, which contains the generation of the active rules (`config.generation`), or under the `version` of
the tables that were read. `define` and `declare_missing` start a new generation. When an `override` block ends and the
earlier rules are active again, the earlier generation returns, so that results cached under it are found.
"""
from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from contextlib import contextmanager
from types import FunctionType
from typing import Any, NoReturn

import typing_extensions  # `override` is also a method of `RuleTable`

from ..config import generation
from ..errors import MissingRuleError
from .primitive import Primitive
from .._util.former_names import former_attributes, former_parameters
from .._util.layer_import import is_filling, is_importing_layer, note_table

__all__ = ["RuleTable", "invalidate_caches", "list_rule_tables"]

RuleFunction = Callable[..., Any]

_numbers = itertools.count(1)
_MAX_STATES = 64  # sets of overrides whose generation is remembered


class _Override:
    """One `override` block. Blocks with the same rule are equal, so entering one again restores its generation."""

    __slots__ = ("prim", "rule", "table")

    def __init__(self, table: RuleTable, prim: Primitive, rule: RuleFunction) -> None:
        self.table, self.prim, self.rule = table, prim, rule

    @typing_extensions.override
    def __hash__(self) -> int:
        # The block refers to all three, so their ids are not reused while it is a key.
        return hash((id(self.table), id(self.prim), id(self.rule)))

    @typing_extensions.override
    def __eq__(self, other: object) -> bool:
        return (isinstance(other, _Override) and self.table is other.table and self.prim is other.prim
                and self.rule is other.rule)


class _State:
    """The generation number of the active rules.

    A permanent change gets a new number. A set of overrides that was active before gets its earlier number again,
    unless a permanent change came in between.
    """

    def __init__(self) -> None:
        self._overrides: frozenset[_Override] = frozenset()
        self._known: dict[frozenset[_Override], int] = {self._overrides: 0}
        self.number = 0

    def change_permanently(self) -> int:
        """Return a number that was never used before."""
        # A rule outside of the known sets of overrides has changed, so none of their numbers is valid any more.
        self._known.clear()
        self.number = self._known[self._overrides] = next(_numbers)
        return self.number

    def set_overrides(self, overrides: frozenset[_Override]) -> int:
        """Return the number while these overrides are active."""
        self._overrides = overrides
        if overrides not in self._known:
            if len(self._known) >= _MAX_STATES:  # the keys keep the rules of their overrides alive
                # Keep the number of the state without overrides: every block returns to it, and most programs have it.
                without_overrides = self._known.get(frozenset())
                self._known.clear()
                if without_overrides is not None:
                    self._known[frozenset()] = without_overrides
            self._known[overrides] = next(_numbers)
        self.number = self._known[overrides]
        return self.number


_all = _State()
_tables: weakref.WeakSet[RuleTable] = weakref.WeakSet()


def list_rule_tables() -> list[RuleTable]:
    """List the rule tables of all imported packages, sorted by name.

    Returns:
      A list of the tables that are alive.

    >>> mine = RuleTable("upkeep", "shop/rows")
    >>> mine in list_rule_tables()
    True
    """
    return sorted(_tables, key=lambda table: table.name)


def invalidate_caches() -> None:
    """Invalidate cached programs after a permanent change of something other than a rule, such as a hook.

    Functions that were staged or called before are staged again, in every thread.

    >>> from lamina_ir import config
    >>> before = config.cache_key()
    >>> invalidate_caches()
    >>> config.cache_key() == before
    False
    """
    with generation.changing():
        generation.set(_all.change_permanently())


@former_attributes(covers="has_rule_or_reason", hole="declare_missing", holes="missing_rules", home="rules_folder",
                   leads="leading_params", unasked="is_unread")
class RuleTable(dict[Primitive, RuleFunction]):
    """Primitive -> rule. A hit costs as much as in a dict; a miss raises an error that names the file for the rule.

    Rules change only through `define`, `declare_missing` and `override` (`table[prim] = rule` is `define`), for all
    threads at once. Later calls use the new rules, also of functions that were staged, compiled or called before.

    Args:
      name: the name of the table in messages, as in "<name> of `sin` has no rule".
      rules_folder: the folder of the rules, with slashes; messages append the file of the primitive's family.
      leading_params: names of the positional arguments that every rule takes before a primitive's operands or params. A
        rule is rejected if its own name of such an argument is also the name of a param of the primitive.
      default: `default(prim)` returns a rule derived from the primitive itself, or None. Defined rules and declared
        reasons take precedence.
    Attributes:
      version: the generation of the active rules of this table, for cache keys of results that depend only on them.
      is_importing: whether the layer that made the table is still being imported. New rules then change no cached program.
      import_rules: imports the modules with the rules; None once they are imported.
      explain_missing: `explain_missing(prim)` returns the end of the error message if a primitive without a family has no
        rule; None for the default text.

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
    lamina_ir.errors.MissingRuleError: price of `cos` has no rule; add a rule to shop/rows/elementwise.py (see ...
    """

    @former_parameters(home="rules_folder", leads="leading_params")
    def __init__(self, name: str, rules_folder: str, *, leading_params: tuple[str, ...] = (),
                 default: Callable[[Primitive], RuleFunction | None] | None = None) -> None:
        super().__init__()
        self.name = name
        self.rules_folder = rules_folder
        self.leading_params = leading_params
        self.default = default
        self.explain_missing: Callable[[Primitive], str] | None = None
        self._missing_rules: dict[Primitive, str] = {}
        self._state = _State()
        self.version = self._state.number
        self._blocks: dict[Primitive, list[_Override]] = {}  # open override blocks; the last one is active
        self._overridden: dict[Primitive, tuple[RuleFunction | None, str | None]] = {}  # rule, reason without overrides
        self._looked_up: set[Primitive] = set()  # primitives without a rule for which `get` was called
        self.is_importing: bool
        self.import_rules: Callable[[], None] | None
        note_table(self)
        self._defined_before_import: set[Primitive] = set()
        self._changed: set[Primitive] = set()
        with generation.changing():
            _tables.add(self)

    @property
    def overridden(self) -> frozenset[Primitive]:
        """The primitives whose rule is that of an open `override` block."""
        return frozenset(self._blocks)

    @property
    def changed(self) -> frozenset[Primitive]:
        """The primitives whose rule or reason was set by another package or program, or in an open `override` block."""
        return self.overridden | self._changed

    @property
    def missing_rules(self) -> dict[Primitive, str]:
        """The primitives that have no rule on purpose, with the reasons."""
        self._import_rules()
        return self._missing_rules

    def _import_rules(self) -> None:
        """Import the modules with the rules, before the first read of a rule that is not there."""
        if self.import_rules is not None:
            self.import_rules()

    def _may_define(self, prim: Primitive) -> bool:
        """Return whether to store a rule; import the rules of the package first, which a rule of a program replaces."""
        if self.import_rules is None:
            return True
        if is_filling(self):  # a rule of the package: a package that was imported before may have replaced it
            return prim not in self._defined_before_import
        if is_importing_layer():
            self._defined_before_import.add(prim)
        else:
            self.import_rules()
        return True

    # --- changes
    def define(self, prim: Primitive, rule: RuleFunction) -> None:
        """Set the rule of a primitive permanently. It replaces an earlier rule or reason, and open overrides.

        Programs are staged again, unless no rule of the primitive was looked up before.

        Raises:
          TypeError: `op` is not a Primitive, or `rule` is not callable, or not with the params of the primitive.
        """
        self._check_prim("define", prim)
        self._check_rule("define", prim, rule)
        if not self._may_define(prim):
            return
        with generation.changing():
            is_own = self.is_importing or is_filling(self)
            fresh = is_own or self.is_unread(prim)
            if not is_own:
                self._changed.add(prim)
            self._end_overrides(prim)
            super().__setitem__(prim, rule)
            self._missing_rules.pop(prim, None)
            if not fresh:
                self._change_permanently()

    def declare_missing(self, prim: Primitive, reason: str) -> None:
        """Declare that a primitive has no rule, with the reason. It replaces the default rule, a rule and open
        overrides.

        Raises:
          TypeError: `op` is not a Primitive, or `reason` is not a non-empty string.
        """
        self._check_prim("declare_missing", prim)
        if not isinstance(reason, str) or not reason.strip():
            raise TypeError(f"table `{self.name}`: declare_missing({prim.name}): reason must be a sentence; got "
                            f"{reason!r:.60}")
        if not self._may_define(prim):
            return
        with generation.changing():
            is_own = self.is_importing or is_filling(self)
            fresh = is_own or self.is_unread(prim)
            if not is_own:
                self._changed.add(prim)
            self._end_overrides(prim)
            self._missing_rules[prim] = reason
            self._remove(prim)
            if not fresh:
                self._change_permanently()

    @contextmanager
    def override(self, prim: Primitive, rule: RuleFunction) -> Iterator[None]:
        """Use `rule` for a primitive inside the block, in every thread.

        Functions that were made, staged or compiled before use it too; results that depend on it are not used after the
        block. Blocks may end in any order, in any thread: among open blocks, the one entered last is active. A call
        that runs in another thread while the rule changes may use either rule, and is not cached.

        Raises:
          TypeError: as for `define`.
        """
        self._check_prim("override", prim)
        self._check_rule("override", prim, rule)
        self._import_rules()
        own = _Override(self, prim, rule)
        with generation.changing():
            if prim not in self._blocks:
                self._overridden[prim] = dict.get(self, prim), self._missing_rules.get(prim)
            self._blocks.setdefault(prim, []).append(own)
            self._activate_last(prim)
        try:
            yield
        finally:
            with generation.changing():
                blocks = self._blocks.get(prim, [])
                # By identity: a block of another thread with the same rule is equal to this one.
                if any(block is own for block in blocks):  # else `define` or `declare_missing` ended the block
                    self._blocks[prim] = [block for block in blocks if block is not own]
                    self._activate_last(prim)

    __setitem__ = define

    @typing_extensions.override
    def __delitem__(self, op: Primitive) -> None:
        self[op]
        with generation.changing():
            self._end_overrides(op)
            self._remove(op)
            self._changed.add(op)
            self._change_permanently()

    def _reject_mutation(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(f"table `{self.name}`: rules are changed with define, declare_missing and override")

    pop = popitem = clear = update = setdefault = __ior__ = _reject_mutation

    def _remove(self, op: Primitive) -> None:
        if dict.__contains__(self, op):
            super().__delitem__(op)

    def _activate_last(self, op: Primitive) -> None:
        """Store the rule of the last open block, or the rule or reason from before all blocks if none is open."""
        blocks = self._blocks[op]
        if blocks:
            super().__setitem__(op, blocks[-1].rule)
            self._missing_rules.pop(op, None)
        else:
            del self._blocks[op]
            rule, reason = self._overridden.pop(op)
            if reason is not None:
                self._missing_rules[op] = reason
            if rule is not None:
                super().__setitem__(op, rule)
            else:
                self._remove(op)
        self._count_overrides()
        generation.set(_all.number)

    def _count_overrides(self) -> None:
        self.version = self._state.set_overrides(frozenset([blocks[-1] for blocks in self._blocks.values()]))
        # The shared number must identify the overrides of all tables, since cached programs depend on all of them.
        _all.set_overrides(frozenset([blocks[-1] for table in _tables for blocks in table._blocks.values()]))

    def _end_overrides(self, op: Primitive) -> None:
        if op in self._blocks:
            del self._blocks[op], self._overridden[op]
            self._count_overrides()

    def _change_permanently(self) -> None:
        self.version = self._state.change_permanently()
        generation.set(_all.change_permanently())

    def _check_prim(self, call: str, op: object) -> None:
        if not isinstance(op, Primitive):
            raise TypeError(f"table `{self.name}`: {call}: expected a Primitive; got {type(op).__name__}: {op!r:.60}")

    def _check_rule(self, call: str, op: Primitive, rule: object) -> None:
        if not callable(rule):
            raise TypeError(f"table `{self.name}`: {call}({op.name}): rule must be a function; got "
                            f"{type(rule).__name__}: {rule!r:.60}")
        if type(rule) is FunctionType and op.params and self.leading_params:
            code = rule.__code__
            own = code.co_varnames[code.co_posonlyargcount:min(code.co_argcount, len(self.leading_params))]
            taken = [name for name in own if name in op.params]
            if taken:
                raise TypeError(f"table `{self.name}`: {call}({op.name}): the parameter `{taken[0]}` of the rule is "
                                f"also the name of a param of `{op.name}`, which is passed by keyword; write the rule as "
                                f"({', '.join(self.leading_params)}, /, ...)")

    # --- looking up
    def has_rule_or_reason(self, op: Primitive) -> bool:
        """Whether the primitive has a rule, defined or by default, or a declared reason for having none."""
        return op in self or op in self.missing_rules

    def is_unread(self, op: Primitive) -> bool:
        """Whether the primitive has no rule or reason, and none was looked up: then a first one changes no cached
        program. Tables that merge several tables override this."""
        return not (dict.__contains__(self, op) or op in self._missing_rules or op in self._blocks or op in self._looked_up)

    @typing_extensions.override
    def get(self, op: Any, default: Any = None) -> Any:
        """Return the defined rule, or `default` if absent; rules by default are not considered."""
        rule = dict.get(self, op)
        if rule is None and isinstance(op, Primitive):
            self._import_rules()
            self._looked_up.add(op)
            # Read again: another thread may have defined a rule before it could see this look-up, and so without
            # starting a new generation.
            rule = dict.get(self, op)
        return default if rule is None else rule

    @typing_extensions.override
    def __contains__(self, op: object) -> bool:
        return self.get(op) is not None or (self.default is not None and isinstance(op, Primitive)
                                            and op not in self.missing_rules and self.default(op) is not None)

    def __missing__(self, op: Primitive) -> RuleFunction:
        self._check_prim("looking up a rule", op)
        self._import_rules()
        with generation.changing():  # locked, so that the default cannot replace a rule that another thread defines now
            rule = self.get(op)
            if rule is not None:
                return rule
            reason = self.missing_rules.get(op)
            if reason is not None:
                raise MissingRuleError(f"{self.name} of `{op.name}` is not defined: {reason}")
            rule = None if self.default is None else self.default(op)
            if rule is not None:
                super().__setitem__(op, rule)
                return rule
        if self.explain_missing is not None and not op.family:
            raise MissingRuleError(f"{self.name} of `{op.name}` has no rule; {self.explain_missing(op)}")
        file = f"/{op.family}.py" if op.family else ""
        raise MissingRuleError(f"{self.name} of `{op.name}` has no rule; add a rule to {self.rules_folder}{file} "
                               "(see docs/contributing/adding-an-op.md)")

    @typing_extensions.override
    def __iter__(self) -> Iterator[Primitive]:
        self._import_rules()
        return super().__iter__()

    @typing_extensions.override
    def __len__(self) -> int:
        self._import_rules()
        return super().__len__()

    @typing_extensions.override
    def keys(self) -> KeysView[Primitive]:  # type: ignore[override]
        """Return the primitives with a rule."""
        return KeysView(self)

    @typing_extensions.override
    def values(self) -> ValuesView[RuleFunction]:  # type: ignore[override]
        """Return the rules."""
        return ValuesView(self)

    @typing_extensions.override
    def items(self) -> ItemsView[Primitive, RuleFunction]:  # type: ignore[override]
        """Return pairs of a primitive and its rule."""
        return ItemsView(self)

    @typing_extensions.override
    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    @typing_extensions.override
    def __eq__(self, other: object) -> bool:
        return self is other

