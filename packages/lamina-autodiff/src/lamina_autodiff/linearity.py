"""Whether a program is linear, from its equations, for `linear_transpose`: the first that is not, and why."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import prims
from lamina_ir.program import ClosedJaxpr, Literal
from lamina_tracing.extend import Tracer

from .tables import transpose_rules

__all__ = ["LINEAR", "UNKNOWN", "check_control_flow", "not_linear", "why_not_linear"]

LINEAR, UNKNOWN = object(), object()  # operands: depends on the arguments; does not, and its value is not known here

_LINEAR_IN = {"div": (0,), "gather": (0,), "scatter": (0, 2)}  # linear, without being so jointly or bilinearly


def why_not_linear(prim: Any, operands: Sequence[Any]) -> str:
    """Why an op is not linear in those of its operands that are `LINEAR`; empty when it is.

    Args:
      prim: the primitive.
      operands: `LINEAR`, `UNKNOWN`, or values.
    """
    linear = [i for i, a in enumerate(operands) if a is LINEAR]
    if prim not in transpose_rules or prim is prims.stop_gradient_p:
        return "this op is not linear"
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
    return x is not LINEAR and x is not UNKNOWN and not isinstance(x, Tracer) and bool(np.any(np.asarray(x) != 0))


def check_control_flow(name: str, prim: Any, operands: Sequence[Any], params: dict[str, Any], source: Any) -> None:
    """TypeError unless the bodies of a loop or branch are linear in what depends on its `LINEAR` operands."""
    if prim is prims.cond_p:
        for branch in params["branches"]:
            _walk(name, branch, operands[1:], source)
    elif prim is prims.scan_p:
        n = params["num_consts"]
        at = n + params["num_carry"]
        slices = [x if x is LINEAR else UNKNOWN for x in operands[at:]]
        _loop(name, prim, params["jaxpr"], operands[:n], operands[n:at], slices, source)
    elif prim is prims.while_p:
        nc = params["cond_nconsts"]
        n = nc + params["body_nconsts"]
        carry = _loop(name, prim, params["body_jaxpr"], operands[nc:n], operands[n:], (), source)
        _walk(name, params["cond_jaxpr"], [*operands[:nc], *carry], source)


def _loop(name: str, prim: Any, body: ClosedJaxpr, consts: Sequence[Any], start: Sequence[Any], xs: Sequence[Any],
          source: Any) -> list[Any]:
    """The carry, with what depends on the arguments after any number of rounds."""
    carry = [x if x is LINEAR else UNKNOWN for x in start]
    while True:
        out = _walk(name, body, [*consts, *carry, *xs], source)
        new = [LINEAR if LINEAR in (a, b) else UNKNOWN for a, b in zip(carry, out)]
        if new == carry:
            break
        carry = new
    for i, (x, on) in enumerate(zip(start, carry)):
        if on is LINEAR and _not_zero(x):
            raise TypeError(f"linear_transpose: `{name}` is not linear: {prim.name} at {source}: part {i} of its carry, "
                            "to which the arguments are added, starts from a constant that is not zero")
    return carry


def _walk(name: str, closed: ClosedJaxpr, operands: Sequence[Any], source: Any) -> list[Any]:
    """What the results of a program are: `LINEAR`, or `UNKNOWN`."""
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
        if "call_jaxpr" in e.params and len(e.params["call_jaxpr"].jaxpr.invars) == len(found):
            env.update(zip(e.outvars, _walk(name, e.params["call_jaxpr"], found, at)))
            continue
        why = why_not_linear(e.primitive, found)
        if why:
            raise not_linear(name, e.primitive, [a.aval for a in e.invars], at, why)
        check_control_flow(name, e.primitive, found, e.params, at)
        env.update((v, LINEAR) for v in e.outvars)
    return [LINEAR if value(v) is LINEAR else UNKNOWN for v in closed.jaxpr.outvars]


def not_linear(name: str, prim: Any, types: Sequence[Any], source: Any, why: str) -> TypeError:
    """The error about an equation that is not linear."""
    return TypeError(f"linear_transpose: `{name}` is not linear: {prim.name}({', '.join(a.long() for a in types)}) at "
                     f"{source}: {why}")
