"""The rule tables of differentiation. Forward rows and transpose rows are the only sources of truth.

    slopes[prim]           per operand, d out / d operand of an elementwise op: `f(*primals, ans, **params)`, or None
    jvp_rules[prim]        `rule(primals, tangents, **params) -> (out, tangent)`; a zero tangent is None
    linearize_rules[prim]  for calls: like a jvp row, but splits the nested program (`rule(trace, primals, tangents, ...)`)
    transpose_rules[prim]  `rule(ct, *args, **params)`: linear operands are placeholders (`is_linear`); gives the
                           cotangent (one operand) or one per operand, None for zero or not linear

An op that is linear (`linear_in`) or bilinear (`bilinear_in`) needs no forward row.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina_ir.primitive import Primitive
from lamina_ir.tables import RuleTable

__all__ = ["hole", "jvp_rules", "linearize_rules", "slope", "slopes", "transpose_rules", "zero_jvp"]

jvp_rules = RuleTable("jvp", "lamina_autodiff/jvp_rules")
transpose_rules = RuleTable("transpose", "lamina_autodiff/transpose_rules")
linearize_rules: dict[Primitive, Callable[..., Any]] = {}
slopes: dict[Primitive, tuple[Callable[..., Any] | None, ...]] = {}


def slope(prim: Primitive, *fs: Callable[..., Any] | None) -> None:
    """The derivative of an elementwise op with respect to each operand: `f(*primals, ans, **params)`, None for zero."""
    slopes[prim] = fs
    jvp_rules.define(prim, _slope_row)


def zero_jvp(*prims: Primitive) -> None:
    """Ops that are constant almost everywhere, or whose results are not inexact."""
    for prim in prims:
        slopes[prim] = ()
        jvp_rules.define(prim, _slope_row)


def _slope_row(primals: Any, tangents: Any, **params: Any) -> Any:
    raise RuntimeError("slopes are applied by lamina_autodiff.jvp.push")


def hole(prim: Primitive, reason: str) -> None:
    """Say why an op has no derivative."""
    jvp_rules.hole(prim, reason)
