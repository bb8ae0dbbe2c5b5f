"""Views of lamina's rule tables in JAX's form, and wrappers of JAX's rules in lamina's form.

A view is a mapping: an assignment defines a rule in lamina's table, a look-up returns the assigned rule, or lamina's own
rule in JAX's form. A wrapper checks what a rule returns; its errors name the primitive, the table and the line that
registered the rule.
"""
from __future__ import annotations

import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, NoReturn

from lamina_ir import LaminaError, Primitive, RuleTable, ShapedArray, dtypes, prims
from lamina_ir.extend import list_rule_tables, register_primitive
from lamina_ir.typing import Function, Params, Value
from lamina_tracing import primitives
from lamina_tracing.extend import find_user_source, hide_frames_of, typeof
from typing_extensions import override

from ._vocabulary import JAX_PRIMITIVES, TRANSLATIONS, JaxPrimitive, from_jax_equation, show_primitive, to_jax_equation

__all__ = ["Constant", "JaxRule", "MissingRule", "OWN", "RefusedTable", "RuleView", "UnreadTable", "bound_function",
           "check_pair", "check_rule", "check_sequence", "format_value",
           "pick", "put_back", "register", "result_avals", "tangent_aval"]

hide_frames_of(str(Path(__file__).parent))


class _EarlierRules(threading.local):
    """The rules that this thread applies next in place of those that replaced them.

    A program may replace a rule of lamina by one that calls it. In JAX's form that rule binds its primitive, which would
    apply the new rule again.
    """

    def __init__(self) -> None:
        self._rules: dict[tuple[Primitive, str], Function] = {}

    def pop(self, key: tuple[Primitive, str]) -> Function | None:
        """Return the rule to apply, once."""
        return self._rules.pop(key, None) if self._rules else None

    @contextmanager
    def applied(self, key: tuple[Primitive, str], rule: Function) -> Iterator[None]:
        """Apply `rule` in place of the next rule of a primitive and view."""
        self._rules[key] = rule
        try:
            yield
        finally:
            self._rules.pop(key, None)


_earlier = _EarlierRules()


class JaxRule(ABC):
    """A rule in JAX's form, as an entry of lamina's table.

    Args:
      prim: the primitive of lamina.
      rule: the rule of the program, which gets params and operands in JAX's vocabulary.
      view: the name of the view, such as `ad.primitive_jvps`.
    """

    __slots__ = ("line", "prim", "rule", "view")

    def __init__(self, prim: Primitive, rule: Function, view: str) -> None:
        self.prim, self.rule, self.view = prim, rule, view
        self.line = find_user_source(3)

    def arrange(self, params: Params, operands: Sequence[Any]) -> tuple[Params, Sequence[Any]]:
        """Return JAX's params, and what each of JAX's operands is: a position among the operands, or a `Constant`.

        Args:
          params: the params of lamina.
          operands: values or types.
        """
        if self.prim not in TRANSLATIONS or self.prim is prims.expand_dims_p:
            return params, range(len(operands))
        _, shown, places = to_jax_equation(self.prim, params, range(len(operands)), Constant, operands)
        return shown, places

    @abstractmethod
    def call(self, *args: Any, **params: Any) -> Any:
        """Apply the rule to arguments in lamina's form."""

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply the rule, or the earlier one that it replaced, if it calls that one."""
        earlier = _earlier.pop((self.prim, self.view))
        return self.call(*args, **params) if earlier is None else earlier(*args, **params)

    def describe(self) -> str:
        """Return the start of an error message: table, primitive and line."""
        at = f", registered at {self.line}" if self.line is not None else ""
        return f"{self.view}: rule of `{self.prim.name}`{at}"

    @override
    def __repr__(self) -> str:
        return f"<{self.describe()}>"


class Constant(NamedTuple):
    """An operand that JAX has, and lamina stores in the program of a param."""

    value: Value


def pick(values: Sequence[Any], places: Sequence[Any], of_constant: Function) -> list[Any]:
    """Return JAX's operands, or what belongs to them; `of_constant(value)` is that of a constant."""
    return [of_constant(place.value) if isinstance(place, Constant) else values[place] for place in places]


def put_back(values: Sequence[Any], places: Sequence[Any]) -> list[Any]:
    """Return what belongs to lamina's operands, from what belongs to JAX's; the inverse of `pick`."""
    found = {place: value for value, place in zip(values, places) if not isinstance(place, Constant)}
    return [found[i] for i in range(len(found))]


# JAX's primitive -> lamina's, where they differ.
OWN: Final[dict[Primitive, Primitive]] = {
    t.primitive: own for own, t in TRANSLATIONS.items() if t.primitive is not own and own is not prims.expand_dims_p}
# Primitives of JAX that bind other primitives in lamina.
_COMPOSITE: Final = frozenset([
    prim for prim in vars(primitives).values() if isinstance(prim, Primitive) and prim.custom_bind is not None])
OWN.update((shown, shown.own) for shown in JAX_PRIMITIVES.values() if isinstance(shown, JaxPrimitive))


# Primitives of JAX that occur in no program of lamina, and need no rules.
_CALL: Final = "its bind runs the function, so the rules of the primitives inside apply"
_NO_RULES: Final[dict[str, str]] = {
    "call": _CALL, "closed_call": _CALL, "random_gamma": "its bind draws with other primitives, whose rules apply",
    "remat_opt": "lamina makes no equation of it"}


class MissingRule(LaminaError, KeyError):
    """A primitive has no rule in a table of JAX; the message says why.

    Fix: assign a rule in JAX's form: `ad.primitive_jvps[p] = rule`.
    """

    code: ClassVar[str] = "LAM1303"

    @override
    def __str__(self) -> str:
        return str(self.args[0])


class RuleView(MutableMapping[Primitive, Function]):
    """A rule table as a mapping from primitives to rules in JAX's form.

    Args:
      name: the name in messages, such as `ad.primitive_jvps`.
      table: the rule table of lamina.
      wrap: the class of entries made of JAX's rules.
      read: `read(prim, rule)` returns a rule of lamina in JAX's form.
      derive: `derive(prim)` returns the rule in JAX's form of a primitive whose `bind` binds other primitives.
    """

    def __init__(self, name: str, table: RuleTable, wrap: Callable[[Primitive, Function, str], JaxRule],
                 read: Callable[[Primitive, Function], Function], derive: Callable[[Primitive], Function]) -> None:
        self.name, self.table, self._wrap, self._read, self._derive = name, table, wrap, read, derive
        if table.explain_missing is None:  # of several views of a table the first one is suggested
            table.explain_missing = lambda prim: _explain_missing(name, prim)

    @override
    def __getitem__(self, prim: Primitive) -> Function:
        own = self._own(prim)
        if own not in self.table:
            if prim in _COMPOSITE:
                return self._derive(prim)
            raise MissingRule(self._explain(prim))
        rule = self.table[own]
        if isinstance(rule, JaxRule) and rule.view == self.name:
            return rule.rule
        if own is not prim:
            return self._keep(own, rule, self._derive(prim))
        shown = TRANSLATIONS[prim].primitive if prim in TRANSLATIONS else prim
        if shown == prim and shown is not prim:  # rules of lamina's object get JAX's params too
            return self._keep(own, rule, self._derive(shown))
        read = self._read(prim, rule)
        if prim.subprograms:
            return self._keep(own, rule, lambda *args, **params: read(*args, **from_jax_equation(prim, params, ())[1]))
        return self._keep(own, rule, read)

    def _keep(self, own: Primitive, rule: Function, shown: Function) -> Function:
        """Return the rule in JAX's form; it applies `rule` of lamina also when the table has another one."""
        def apply(*args: Any, **params: Any) -> Any:
            current = dict.get(self.table, own, rule)
            if current is rule or not isinstance(current, JaxRule):
                return shown(*args, **params)
            with _earlier.applied((own, current.view), rule):
                return shown(*args, **params)
        return functools.update_wrapper(apply, shown)

    def _own(self, prim: Primitive) -> Primitive:
        """Return lamina's primitive; KeyError for a key that is no primitive."""
        if not isinstance(prim, Primitive):
            raise KeyError(prim)
        return OWN.get(prim, prim)

    def _explain(self, prim: Primitive) -> str:
        """Return why a primitive has no rule."""
        own = OWN.get(prim, prim)
        reason = self.table.missing_rules.get(own) or _NO_RULES.get(prim.name)
        if reason is None and own.family and "transposes" in self.name:
            reason = "it is linear in none of its operands"
        return f"{self.name}: `{prim.name}` has no rule{': ' + reason if reason else '; ' + _explain_missing(self.name, prim)}"

    @override
    def __setitem__(self, prim: Primitive, rule: Function) -> None:
        check_rule(self.name, prim, rule)
        self.define(self._own(prim), rule)

    def define(self, prim: Primitive, rule: Function) -> None:
        """Define the rule of a primitive of lamina."""
        self.table.define(prim, self._wrap(prim, rule, self.name))
        register(prim)

    @override
    def __delitem__(self, prim: Primitive) -> None:
        own = self._own(prim)
        if own not in self.table:
            raise KeyError(prim)
        del self.table[own]

    @override
    def __contains__(self, prim: object) -> bool:
        return isinstance(prim, Primitive) and (OWN.get(prim, prim) in self.table or prim in _COMPOSITE)

    @override
    def __iter__(self) -> Iterator[Primitive]:
        found = [prim for prim in {**dict.fromkeys(prims.ALL), **dict.fromkeys(self.table)} if prim in self.table]
        return iter([show_primitive(prim) for prim in found])

    @override
    def __len__(self) -> int:
        return len(list(iter(self)))

    @override
    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} rules>"

    __hash__ = object.__hash__


class UnreadTable(dict[Primitive, Function]):
    """A table of JAX that accepts rules and is not read: results do not depend on it.

    Args:
      name: the name in messages, such as `partial_eval.padding_rules`.
      reason: why results do not depend on its rules.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__()
        self.name, self.reason = name, reason


class RefusedTable(UnreadTable):
    """A table of JAX whose rules could change results: it is empty, and an assignment raises an error.

    Args:
      name: as in the base class.
      reason: why, and what to use instead.
    """

    @override
    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise NotImplementedError(f"{self.name}: {self.reason}")

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"{self.name}: {self.reason}")

    setdefault = update = __ior__ = _refuse


def check_rule(view: str, prim: object, rule: object) -> None:
    """Raise TypeError unless a primitive gets a function as its rule."""
    if not isinstance(prim, Primitive):
        raise TypeError(f"{view}: the key of a rule must be a Primitive; got {format_value(prim)}. Make one with "
                        "jax.extend.core.Primitive(name)")
    if prim in _COMPOSITE and prim not in OWN:
        raise NotImplementedError(f"{view}: `{prim.name}` binds other primitives in lamina, whose rules apply; use a primitive "
                                  "of your own, jax.custom_jvp or jax.custom_batching.custom_vmap")
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
    made = getattr(prim, "line", None)
    if made is not None:
        lines.append(f"the primitive at {made}")
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


def bound_function(prim: Primitive, params: Params) -> Callable[..., list[Value]]:
    """Return the function that binds a primitive with these params; its results are a list."""
    def run(*xs: Value) -> list[Value]:
        out = prim.bind(*xs, **params)
        return list(out) if prim.multiple else [out]
    return run


def result_avals(prim: Primitive, operands: Sequence[Value], params: Params) -> list[ShapedArray]:
    """Return the types of the results of a primitive."""
    made = prim.infer(*[x if isinstance(x, ShapedArray) else typeof(x) for x in operands], **params)
    return list(made) if prim.multiple else [made]
