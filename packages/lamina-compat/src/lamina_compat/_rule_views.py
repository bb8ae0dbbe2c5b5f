"""Views of lamina's rule tables in JAX's form, and wrappers of JAX's rules in lamina's form.

A view is a mapping: an assignment defines a rule in lamina's table, a look-up returns the assigned rule, or lamina's own
rule in JAX's form. A wrapper checks what a rule returns; its errors name the primitive, the table and the line that
registered the rule.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from lamina_ir import Primitive, RuleTable, ShapedArray, dtypes, prims
from lamina_ir.extend import list_rule_tables, register_primitive
from lamina_ir.typing import Function, Params, Value
from lamina_tracing.extend import find_user_source, hide_frames_of, typeof
from typing_extensions import override

__all__ = ["JaxRule", "RefusedTable", "RuleView", "check_pair", "check_sequence", "check_rule",
           "format_value", "register", "result_avals", "tangent_aval"]

hide_frames_of(str(Path(__file__).parent))


class JaxRule(ABC):
    """A rule in JAX's form, as an entry of lamina's table.

    Args:
      prim: the primitive.
      rule: the rule of the program.
      view: the name of the view, such as `ad.primitive_jvps`.
    """

    __slots__ = ("line", "prim", "rule", "view")

    def __init__(self, prim: Primitive, rule: Function, view: str) -> None:
        self.prim, self.rule, self.view = prim, rule, view
        self.line = find_user_source(3)

    @abstractmethod
    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply the rule to arguments in lamina's form."""

    def describe(self) -> str:
        """Return the start of an error message: table, primitive and line."""
        at = f", registered at {self.line}" if self.line is not None else ""
        return f"{self.view}: rule of `{self.prim.name}`{at}"

    @override
    def __repr__(self) -> str:
        return f"<{self.describe()}>"


class RuleView(MutableMapping[Primitive, Function]):
    """A rule table as a mapping from primitives to rules in JAX's form.

    Args:
      name: the name in messages, such as `ad.primitive_jvps`.
      table: the rule table of lamina.
      wrap: the class of entries made of JAX's rules.
      read: `read(prim, rule)` returns a rule of lamina in JAX's form.
    """

    def __init__(self, name: str, table: RuleTable, wrap: Callable[[Primitive, Function, str], JaxRule],
                 read: Callable[[Primitive, Function], Function]) -> None:
        self.name, self.table, self._wrap, self._read = name, table, wrap, read
        if table.explain_missing is None:  # of several views of a table the first one is suggested
            table.explain_missing = lambda prim: _explain_missing(name, prim)

    @override
    def __getitem__(self, prim: Primitive) -> Function:
        if prim not in self.table:
            raise KeyError(prim)
        rule = self.table[prim]
        return rule.rule if isinstance(rule, JaxRule) and rule.view == self.name else self._read(prim, rule)

    @override
    def __setitem__(self, prim: Primitive, rule: Function) -> None:
        check_rule(self.name, prim, rule)
        self.table.define(prim, self._wrap(prim, rule, self.name))
        register(prim)

    @override
    def __delitem__(self, prim: Primitive) -> None:
        if prim not in self.table:
            raise KeyError(prim)
        del self.table[prim]

    @override
    def __contains__(self, prim: object) -> bool:
        return prim in self.table

    @override
    def __iter__(self) -> Iterator[Primitive]:
        return iter([prim for prim in {**dict.fromkeys(prims.ALL), **dict.fromkeys(self.table)} if prim in self.table])

    @override
    def __len__(self) -> int:
        return len(list(iter(self)))

    @override
    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} rules>"

    __hash__ = object.__hash__


class RefusedTable(dict[Primitive, Function]):
    """A table of JAX that lamina has no use for: it is empty, and an assignment raises an error.

    Args:
      name: the name in messages, such as `ad.call_param_updaters`.
      reason: why, and what to use instead.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__()
        self.name, self.reason = name, reason

    @override
    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise NotImplementedError(f"{self.name}: {self.reason}")


def check_rule(view: str, prim: object, rule: object) -> None:
    """Raise TypeError unless a primitive gets a function as its rule."""
    if not isinstance(prim, Primitive):
        raise TypeError(f"{view}: the key of a rule must be a Primitive; got {format_value(prim)}. Make one with "
                        "jax.extend.core.Primitive(name)")
    if not callable(rule):
        raise TypeError(f"{view}: the rule of `{prim.name}` must be a function; got {format_value(rule)}")


def register(prim: Primitive) -> None:
    """Register a primitive by name, so that saved programs with it can be read."""
    try:
        register_primitive(prim)
    except ValueError:  # JAX does not require different names; saving a program with this primitive raises an error
        pass


def _explain_missing(view: str, prim: Primitive) -> str:
    """Return how to define a missing rule, and where other rules of the primitive are registered."""
    lines = [f"{rule.view} at {rule.line}" for table in list_rule_tables()
             if isinstance(rule := dict.get(table, prim), JaxRule) and rule.line is not None]
    others = f" (registered: {', '.join(dict.fromkeys(lines))})" if lines else ""
    how = f"call jax.interpreters.{view}({prim.name}_p, rule)" if view == "mlir.register_lowering" else (
        f"set jax.interpreters.{view}[{prim.name}_p] = rule")
    return how + others


def format_value(value: object) -> str:
    """Return a type and a short text of a value, for messages."""
    return f"{type(value).__name__}: {value!r:.60}"


def check_pair(rule: JaxRule, made: Any, names: str) -> tuple[Any, Any]:
    """Return the two items that a rule returned; TypeError if it returned something else."""
    if isinstance(made, tuple | list) and len(made) == 2:
        return made[0], made[1]
    raise TypeError(f"{rule.describe()}: must return a pair ({names}); got {format_value(made)}")


def check_sequence(rule: JaxRule, made: Any, count: int, what: str) -> list[Any]:
    """Return the items that a rule returned as a list; TypeError if it is no sequence of this length."""
    if isinstance(made, tuple | list) or not hasattr(made, "dtype") and isinstance(made, Sequence):
        if len(made) == count:
            return list(made)
        raise TypeError(f"{rule.describe()}: must return {count} {what}; got {len(made)}")
    raise TypeError(f"{rule.describe()}: must return a sequence of {count} {what}; got {format_value(made)}")


def tangent_aval(value: Value) -> ShapedArray:
    """Return the type of tangents of a value or type; integers have tangents of dtype float0."""
    aval = value if isinstance(value, ShapedArray) else typeof(value)
    return aval.strip_weak_type() if dtypes.is_inexact(aval.dtype) else ShapedArray(aval.shape, dtypes.float0)


def result_avals(prim: Primitive, operands: Sequence[Value], params: Params) -> list[ShapedArray]:
    """Return the types of the results of a primitive."""
    made = prim.infer(*[x if isinstance(x, ShapedArray) else typeof(x) for x in operands], **params)
    return list(made) if prim.multiple else [made]
