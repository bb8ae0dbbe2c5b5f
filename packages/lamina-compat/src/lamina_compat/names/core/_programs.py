"""Programs: views of lamina's classes with JAX's constructors, evaluation, and functions of programs."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from lamina_ir import ClosedJaxpr, DebugEffect, Effect, IOEffect, LaminaError, Literal, Primitive, Source, check
from lamina_ir import DropVar as _DropVar
from lamina_ir import Eqn as _Eqn
from lamina_ir import Jaxpr as _Jaxpr
from lamina_ir import Var as _Var
from lamina_ir.typing import Params, Value
from lamina_tracing.extend import eval_jaxpr as _eval_jaxpr

from ..._class_views import ClassView
from ..._rule_views import UnreadTable
from ..._vocabulary import from_jax_jaxpr
from ._types import raise_to_shaped

__all__ = ["Atom", "ClosedJaxpr", "DebugEffect", "DropVar", "Effect", "Effects", "IOEffect", "Jaxpr", "JaxprEqn",
           "JaxprPpContext", "JaxprPpSettings", "JaxprTypeError", "Literal", "Var", "check_jaxpr", "clean_up_dead_vars",
           "custom_typechecks",
           "eval_jaxpr", "function_of_program", "gensym", "is_literalable", "jaxpr_as_fun", "jaxpr_uses_outfeed",
           "jaxprs_in_params", "last_used", "new_jaxpr_eqn", "no_effects", "pp_eqn_rules", "subjaxprs",
           "traverse_jaxpr_params"]

Effects = frozenset
no_effects: frozenset[Any] = frozenset()
pp_eqn_rules = UnreadTable("core.pp_eqn_rules", "programs are printed in lamina's format")
custom_typechecks = UnreadTable("core.custom_typechecks", "the types of results come from def_abstract_eval")


class JaxprTypeError(LaminaError, TypeError):
    """A program is not well-formed.

    Fix: the message names the equation; correct the code that made the program.
    """

    code: ClassVar[str] = "LAM1401"


class Var(metaclass=ClassView, of=_Var):
    """A variable: `Var(aval)`, or `Var(suffix, aval)` as until 0.4.35."""

    def __new__(cls, *args: Any) -> Any:
        """Return a variable of lamina."""
        return _Var(raise_to_shaped(args[-1]))


class DropVar(Var, of=_DropVar):
    """An unused result: `DropVar(aval)`."""

    def __new__(cls, *args: Any) -> Any:
        """Return a variable of lamina."""
        return _DropVar(raise_to_shaped(args[-1]))


class Atom(metaclass=ClassView, of=(_Var, Literal)):
    """A variable or a literal."""


class JaxprEqn(metaclass=ClassView, of=_Eqn):
    """An equation: `JaxprEqn(invars, outvars, primitive, params, effects, source_info, ctx)`.

    Effects are those of the primitive, and `ctx` has no effect.
    """

    def __new__(cls, invars: Sequence[Any], outvars: Sequence[Any], primitive: Primitive, params: Params, effects: object = (),
                source_info: object = None, ctx: object = None) -> Any:
        """Return an equation of lamina."""
        source = source_info if isinstance(source_info, Source) else None
        return _Eqn(primitive, list(invars), list(outvars), dict(params), source)


new_jaxpr_eqn = JaxprEqn


class Jaxpr(metaclass=ClassView, of=_Jaxpr):
    """An open program: `Jaxpr(constvars, invars, outvars, eqns)`.

    Args:
      constvars, invars, outvars, eqns: as in JAX.
      effects, debug_info, is_high: accepted without effect; effects are those of the equations.
    Raises:
      TypeError: an equation is not a `JaxprEqn`.
    """

    def __new__(cls, constvars: Sequence[Any], invars: Sequence[Any], outvars: Sequence[Any], eqns: Sequence[Any],
                effects: object = no_effects, debug_info: object = None, is_high: bool = False) -> Any:
        """Return a program of lamina."""
        return _Jaxpr(constvars, invars, eqns, outvars)


def eval_jaxpr(jaxpr: Any, consts: Sequence[Value], *args: Value, propagate_source_info: bool = True) -> list[Value]:
    """Run an open program with these constants and arguments.

    Args:
      jaxpr: the program, in the vocabulary of JAX or of lamina.
      consts: the values of its constvars.
      args: its arguments.
      propagate_source_info: accepted without effect.
    Returns:
      A list of results.
    Raises:
      TypeError: the number of arguments is wrong.
    """
    if len(args) != len(jaxpr.invars):
        raise TypeError(f"eval_jaxpr: the program takes {len(jaxpr.invars)} arguments; got {len(args)}")
    return _eval_jaxpr(ClosedJaxpr(from_jax_jaxpr(jaxpr), consts), args)


def function_of_program(program: Any) -> Callable[..., list[Value]]:
    """Return a program, open without constvars or closed, as a function of flat values."""
    closed = program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program)

    def run(*args: Value) -> list[Value]:
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)
    run.__name__ = "jaxpr_as_fun"
    return run


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr, *args: Value) -> Any:
    """Return a program as a function of flat values; with arguments, its results.

    Raises:
      TypeError: not a `ClosedJaxpr`.
    """
    if not isinstance(closed_jaxpr, ClosedJaxpr):
        raise TypeError(f"jaxpr_as_fun: expected a ClosedJaxpr; got {type(closed_jaxpr).__name__}")
    run = function_of_program(closed_jaxpr)
    return run(*args) if args else run


def gensym(*_: object) -> Callable[..., Any]:
    """Return a function that makes a variable of a type."""
    return lambda aval: _Var(raise_to_shaped(aval))


def is_literalable(x: object) -> bool:
    """Return whether a value may be a literal of a program."""
    return not getattr(x, "shape", ()) and isinstance(x, (bool, int, float, complex)) or hasattr(x, "dtype") and not x.shape  # type: ignore[attr-defined]


def jaxprs_in_params(params: Params) -> Iterator[Any]:
    """Yield the open programs in the params of an equation."""
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, _Jaxpr):
                yield item


def subjaxprs(jaxpr: Any) -> Iterator[Any]:
    """Yield the open programs in the equations of a program."""
    for e in jaxpr.eqns:
        yield from jaxprs_in_params(e.params)


def traverse_jaxpr_params(f: Callable[[Any], Any], params: Params) -> Params:
    """Return `{param: f(open program)}` for the params that hold a program; of a sequence of programs, the list."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        items = [f(j) for j in jaxprs_in_params({name: value})]
        if items:
            found[name] = items if isinstance(value, (tuple, list)) else items[0]
    return found


def check_jaxpr(jaxpr: Any) -> None:
    """Check an open program; JaxprTypeError if it is not well-formed."""
    own = from_jax_jaxpr(jaxpr)
    try:
        check(_Jaxpr([], [*own.constvars, *own.invars], own.eqns, own.outvars))
    except Exception as e:
        raise JaxprTypeError(str(e)) from e


def last_used(jaxpr: Any) -> dict[Any, Any]:
    """Return for each variable the last equation that reads it; None for results."""
    found: dict[Any, Any] = {v: None for v in jaxpr.outvars if isinstance(v, _Var)}
    for e in reversed(jaxpr.eqns):
        for v in e.invars:
            if isinstance(v, _Var):
                found.setdefault(v, e)
    return found


def clean_up_dead_vars(eqn: Any, env: dict[Any, Any], last_used: dict[Any, Any]) -> None:
    """Delete the values of variables that no later equation reads from `env`."""
    for v in {v for v in eqn.invars if isinstance(v, _Var)}:
        if last_used.get(v) is eqn:
            env.pop(v, None)


def jaxpr_uses_outfeed(jaxpr: Any) -> bool:
    """Return False: there are no outfeeds."""
    return False


class JaxprPpSettings:
    """Settings of printing. Programs are printed in lamina's format, so they have no effect."""

    def __init__(self, **settings: object) -> None:
        vars(self).update(settings)


class JaxprPpContext:
    """The names of variables while a program is printed."""


