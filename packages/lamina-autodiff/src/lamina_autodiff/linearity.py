"""Whether a program is linear, from its equations, for `linear_transpose`: the first that is not, and why."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Literal, prims
from lamina_ir.extend import HELD, Wired, forward
from lamina_tracing.extend import Tracer

from .tables import transpose_rules

__all__ = ["LINEAR", "UNKNOWN", "check_program", "not_linear", "why_not_linear"]

# Operands: depends on the arguments; does not, and is not zero; does not, and may be zero.
LINEAR, NONZERO, UNKNOWN = "linear", "nonzero", "unknown"

_LINEAR_IN = {"div": (0,), "gather": (0,), "scatter": (0, 2)}  # linear, without being so jointly or bilinearly


def why_not_linear(prim: Any, operands: Sequence[Any]) -> str:
    """Why an op is not linear in those of its operands that are `LINEAR`; empty when it is.

    Args:
      prim: the primitive.
      operands: `LINEAR`, `NONZERO`, `UNKNOWN`, or values.
    Raises:
      MissingRuleError: it is linear, and has no transpose row.
    """
    linear = [i for i, a in enumerate(operands) if a is LINEAR]
    if prim is prims.stop_gradient_p or prim not in transpose_rules and not (prim.linear_in or prim.bilinear_in):
        return "this op is not linear"
    transpose_rules[prim]  # says which row is missing, of an op that is
    if prim.bilinear_in:
        if len(linear) > 1:
            return "both operands depend on the arguments, and the op is linear in one only while the other is held"
        return "" if linear[0] in prim.bilinear_in else f"the op is not linear in operand {linear[0]}"
    places = prim.linear_in or _LINEAR_IN.get(prim.name) or (
        tuple(range(len(operands))) if prim.name == "concatenate" else ())
    if not places:
        return ""
    for i in linear:
        if i not in places:
            return f"the op is not linear in operand {i}"
    for i in places:
        if _not_zero(operands[i]):
            return f"operand {i} adds a constant that is not zero"
    return ""


def _not_zero(x: Any) -> bool:
    if type(x) is str:
        return x is NONZERO
    return not isinstance(x, Tracer) and bool(np.any(np.asarray(x) != 0))


def check_program(name: str, prim: Any, operands: Sequence[Any], params: dict[str, Any], source: Any) -> list[bool] | None:
    """Which results depend on the `LINEAR` operands of an op, along its flow; None for an op that has none.

    Raises:
      TypeError: a program in it is not linear in what depends on them, or they are added to what is not zero.
    """
    if prim.flow is None or not prim.flow.operands:
        return None
    w = Wired(prim, params, len(operands))

    def through(wire: Any, marks: Sequence[bool]) -> list[bool]:
        values = tuple([LINEAR if m else NONZERO if w.kinds[i] == HELD and _not_zero(operands[i]) else UNKNOWN
                        for i, m in zip(wire.ins, marks)])
        # Remembered, as it stands in many places perhaps; what raises is not.
        return wire.program.derived(("linear", values), lambda: _walk(name, wire.program, values, source))

    marks, found = forward(w, [x is LINEAR for x in operands], through)
    for k, i in enumerate(range(len(operands))[w.carry]):
        if marks[i] and _not_zero(operands[i]):
            raise TypeError(f"linear_transpose: `{name}` is not linear: {prim.name} at {source}: part {k} of its carry, "
                            "to which the arguments are added, starts from a constant that is not zero")
    return list(found)


def _walk(name: str, closed: ClosedJaxpr, operands: Sequence[Any], source: Any) -> list[bool]:
    """Which results of a program are `LINEAR`."""
    env: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts))
    env.update(zip(closed.jaxpr.invars, operands))

    def value(a: Any) -> Any:
        return a.val if type(a) is Literal else env[a]

    for e in closed.jaxpr.eqns:
        found = [value(a) for a in e.invars]
        if not any(x is LINEAR for x in found):
            env.update((v, UNKNOWN) for v in e.outvars)
            continue
        at = e.source or source
        found_on = check_program(name, e.primitive, found, e.params, at)
        if found_on is None:
            why = why_not_linear(e.primitive, found)
            if why:
                raise not_linear(name, e.primitive, [a.aval for a in e.invars], at, why)
            found_on = [True] * len(e.outvars)
        env.update((v, LINEAR if on else UNKNOWN) for v, on in zip(e.outvars, found_on))
    return [value(v) is LINEAR for v in closed.jaxpr.outvars]


def not_linear(name: str, prim: Any, types: Sequence[Any], source: Any, why: str) -> TypeError:
    """The error about an equation that is not linear."""
    return TypeError(f"linear_transpose: `{name}` is not linear: {prim.name}({', '.join(a.long() for a in types)}) at "
                     f"{source}: {why}")
