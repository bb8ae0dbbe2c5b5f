"""Check for `linear_transpose` that a program is linear; report the first nonlinear equation and the reason."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_ir import Atom, ClosedJaxpr, Literal, Primitive, prims, ShapedArray, Source
from lamina_ir.extend import CONST, propagate_forward, Region, RegionView
from lamina_ir.typing import Params, Value
from lamina_tracing.extend import Tracer

from .rule_tables import transpose_rules

__all__ = ["LINEAR", "UNKNOWN", "check_regions_linear", "explain_nonlinearity", "not_linear_error"]

# Marks of operands. LINEAR: depends on the arguments. The others do not: NONZERO is not zero, UNKNOWN may be zero.
LINEAR, NONZERO, UNKNOWN = "linear", "nonzero", "unknown"

# Operands in which a primitive is linear although it declares neither `linear_in` nor `bilinear_in`.
_LINEAR_IN = {prims.div_p: (0,), prims.gather_p: (0,), prims.scatter_p: (0, 2)}


def explain_nonlinearity(prim: Primitive, operands: Sequence[Value]) -> str:
    """Explain why a primitive is not linear in its `LINEAR` operands; return "" if it is linear.

    Args:
      prim: the primitive.
      operands: `LINEAR`, `NONZERO`, `UNKNOWN`, or values.
    Raises:
      MissingRuleError: the primitive is linear but has no transpose rule.
    """
    linear = [i for i, a in enumerate(operands) if a is LINEAR]
    if prim is prims.stop_gradient_p or prim not in transpose_rules and not (prim.linear_in or prim.bilinear_in):
        return "this primitive is not linear"
    transpose_rules[prim]  # raises MissingRuleError for a linear primitive without a transpose rule
    if prim.bilinear_in:
        if len(linear) > 1:
            return "both operands depend on the arguments, and the primitive is linear in one only if the other is constant"
        return "" if linear[0] in prim.bilinear_in else f"the primitive is not linear in operand {linear[0]}"
    positions = prim.linear_in or _LINEAR_IN.get(prim) or (
        tuple(range(len(operands))) if prim is prims.concatenate_p else ())
    if not positions:
        return ""
    for i in linear:
        if i not in positions:
            return f"the primitive is not linear in operand {i}"
    for i in positions:
        # f(x, c) = x + c is affine. It is linear only if the other linear operands are zero.
        if _not_zero(operands[i]):
            return f"operand {i} adds a constant that is not zero"
    return ""


def _not_zero(x: Value) -> bool:
    if type(x) is str:
        return x is NONZERO
    return not isinstance(x, Tracer) and bool(np.any(np.asarray(x) != 0))


def check_regions_linear(name: str, prim: Primitive, operands: Sequence[Value], params: Params,
                         source: Source | None) -> list[bool] | None:
    """Return which results of a higher-order primitive depend on its `LINEAR` operands; None for other primitives.

    Raises:
      TypeError: a subprogram is not linear in its `LINEAR` arguments, or adds them to a nonzero constant.
    """
    if prim.region_signature is None or not prim.region_signature.operands:
        return None
    w = RegionView(prim, params, len(operands))

    def check(wire: Region, marks: Sequence[bool]) -> list[bool]:
        values = tuple([LINEAR if m else NONZERO if w.kinds[i] == CONST and _not_zero(operands[i]) else UNKNOWN
                        for i, m in zip(wire.ins, marks)])
        # Cached with the program, which may be called many times. Errors are not cached.
        return wire.program.memo_with_settings(("linear", values), lambda: _walk(name, wire.program, values, source))

    marks, found = propagate_forward(w, [x is LINEAR for x in operands], check)
    for k, i in enumerate(range(len(operands))[w.carry]):
        # The first iteration starts from the operand: it must be linear itself, or zero.
        if marks[i] and _not_zero(operands[i]):
            raise TypeError(f"linear_transpose: `{name}` is not linear: {prim.name} at {source}: part {k} of its carry, "
                            "to which the arguments are added, starts from a constant that is not zero")
    return list(found)


def _walk(name: str, closed: ClosedJaxpr, operands: Sequence[Value], source: Source | None) -> list[bool]:
    """Return which results of a program are `LINEAR`."""
    env: dict[Atom, Value] = dict(zip(closed.jaxpr.constvars, closed.consts))
    env.update(zip(closed.jaxpr.invars, operands))

    def value(a: Atom) -> Value:
        return a.val if type(a) is Literal else env[a]

    for e in closed.jaxpr.eqns:
        found = [value(a) for a in e.invars]
        # The values are not computed, so whether they are zero is unknown; then no error is reported.
        if not any(x is LINEAR for x in found):
            env.update((v, UNKNOWN) for v in e.outvars)
            continue
        at = e.source or source
        results_on = check_regions_linear(name, e.primitive, found, e.params, at)
        if results_on is None:
            why = explain_nonlinearity(e.primitive, found)
            if why:
                raise not_linear_error(name, e.primitive, [a.aval for a in e.invars], at, why)
            results_on = [True] * len(e.outvars)
        env.update((v, LINEAR if on else UNKNOWN) for v, on in zip(e.outvars, results_on))
    return [value(v) is LINEAR for v in closed.jaxpr.outvars]


def not_linear_error(name: str, prim: Primitive, types: Sequence[ShapedArray], source: Source | None,
                     why: str) -> TypeError:
    """Return the error for an equation that is not linear."""
    return TypeError(f"linear_transpose: `{name}` is not linear: {prim.name}({', '.join(a.str_long() for a in types)}) at "
                     f"{source}: {why}")
