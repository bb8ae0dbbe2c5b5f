"""Order of effects as data: a number is handed from each ordered callback to the next, through all nested programs.

A compiler may reorder calls that do not depend on each other. `thread_order` makes each ordered call an operand of the
next, so that any backend keeps them in the order of the text with nothing but data dependence. It is the last step
before lowering: no transformation sees threaded programs.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import prims
from .avals import shaped
from .errors import MissingRuleError
from .primitive import Primitive
from .program import ClosedJaxpr, Eqn, Jaxpr, Var, eqn_effectful, subprograms

__all__ = ["calls_host", "has_ordered_effects", "order_rules", "thread_order"]

_TOKEN = shaped((), np.dtype("int32"))
_HOST = frozenset((prims.pure_callback_p, prims.io_callback_p, prims.debug_callback_p))

# Ops with nested programs: rule(eqn, token, thread) -> (equation, token afterwards). `thread(program)` is the program
# with the token as one more argument and one more result, both last.
order_rules: dict[Primitive, Callable[..., tuple[Eqn, Any]]] = {}


def calls_host(program: ClosedJaxpr) -> bool:
    """Whether a callback of any kind is in a program or in one nested in it."""
    return program.memo("calls host", lambda: any(e.primitive in _HOST or any(map(calls_host, subprograms(e)))
                                                  for e in program.jaxpr.eqns))


def has_ordered_effects(program: ClosedJaxpr) -> bool:
    """Whether a program, or one nested in it, has effects whose order counts."""
    return program.memo("ordered effects", lambda: program.jaxpr.effectful and any(map(_ordered, program.jaxpr.eqns)))


def _ordered(e: Eqn) -> bool:
    if e.primitive.family == "callbacks":
        return bool(e.params.get("ordered"))
    return eqn_effectful(e) and any(map(has_ordered_effects, subprograms(e)))


def thread_order(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with one more int32 argument and result, last, that every ordered effect passes on.

    Raises:
      MissingRuleError: an op holds a program with ordered effects and has no row in `order_rules`.
    """
    return program.memo("threaded", lambda: _thread(program))


def _thread(program: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = program.jaxpr
    start = Var(_TOKEN)
    token: Any = start
    eqns = []
    for e in jaxpr.eqns:
        if _ordered(e):
            if e.primitive.family == "callbacks":
                e, token = _appended(e, token, {**e.params, "threaded": True})
            else:
                rule = order_rules.get(e.primitive)
                if rule is None:
                    raise MissingRuleError(f"ordered effects inside of `{e.primitive.name}` have no rule; use "
                                           "ordered=False, or add a row to lamina_ir.effects.order_rules")
                e, token = rule(e, token, thread_order)
        eqns.append(e)
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, [*jaxpr.invars, start], eqns, [*jaxpr.outvars, token]), program.consts)


def _appended(e: Eqn, token: Any, params: dict[str, Any]) -> tuple[Eqn, Var]:
    after = Var(_TOKEN)
    return Eqn(e.primitive, [*e.invars, token], [*e.outvars, after], params, e.source), after


def _call(e: Eqn, token: Any, thread: Any) -> tuple[Eqn, Any]:
    """Custom and checkpointed calls too: their rules for derivatives have been used by now."""
    params = {**e.params, "call_jaxpr": thread(e.params["call_jaxpr"])}
    if params.get("donated_invars"):
        params["donated_invars"] = (*params["donated_invars"], False)
    return _appended(e, token, params)


def _cond(e: Eqn, token: Any, thread: Any) -> tuple[Eqn, Any]:
    return _appended(e, token, {**e.params, "branches": tuple(map(thread, e.params["branches"]))})


def _while(e: Eqn, token: Any, thread: Any) -> tuple[Eqn, Any]:
    """The condition reads the token and need not return it: it runs between two runs of the body in any case."""
    cond = thread(e.params["cond_jaxpr"])
    jaxpr = cond.jaxpr
    cond = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.eqns, jaxpr.outvars[:1]), cond.consts)
    return _appended(e, token, {**e.params, "cond_jaxpr": cond, "body_jaxpr": thread(e.params["body_jaxpr"])})


def _scan(e: Eqn, token: Any, thread: Any) -> tuple[Eqn, Any]:
    """The token joins the carry: after the other carried values, before what is scanned over."""
    carried = e.params["num_carry"]
    first = e.params["num_consts"] + carried
    body = thread(e.params["jaxpr"])
    jaxpr = body.jaxpr
    body = ClosedJaxpr(Jaxpr(jaxpr.constvars, _moved(jaxpr.invars, first), jaxpr.eqns, _moved(jaxpr.outvars, carried)),
                       body.consts)
    after = Var(_TOKEN)
    outvars = [*e.outvars[:carried], after, *e.outvars[carried:]]
    invars = [*e.invars[:first], token, *e.invars[first:]]
    return Eqn(e.primitive, invars, outvars, {**e.params, "jaxpr": body, "num_carry": carried + 1}, e.source), after


def _moved(xs: Sequence[Any], at: int) -> list[Any]:
    return [*xs[:at], xs[-1], *xs[at:-1]]


for _prim in prims.ALL:
    if "call_jaxpr" in _prim.subprograms and _prim is not prims.xla_pmap_p:
        order_rules[_prim] = _call
order_rules[prims.cond_p] = _cond
order_rules[prims.while_p] = _while
order_rules[prims.scan_p] = _scan
