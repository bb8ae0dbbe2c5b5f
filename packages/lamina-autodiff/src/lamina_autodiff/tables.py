"""The rule tables of differentiation. Forward rows and transpose rows are the only sources of truth.

    jvp_rules[prim]        `rule(primals, tangents, /, **params) -> (out, tangent)`; a zero tangent is None. Or one of the
                           forms of rows.py: `Slopes`, the derivative by each operand of an elementwise op (`slope` and
                           `zero_jvp` define them), and `Split`, for ops with programs, a row that splits its program
                           when the linear part is recorded
    transpose_rules[prim]  `rule(ct, /, *args, **params)`: linear operands are placeholders (`is_linear`); gives the
                           cotangent (one operand) or one per operand, None for zero or not linear

An op that is linear (`linear_in`) or bilinear (`bilinear_in`) needs no forward row: it has the one its facts say, until a
row is defined.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina_ir import Primitive, RuleTable

from .rows import Slopes, row_of_facts

__all__ = ["hole", "jvp_rules", "slope", "transpose_rules", "zero_jvp"]

jvp_rules = RuleTable("jvp", "lamina_autodiff/jvp_rules", leads=("primals", "tangents"), default=row_of_facts)
transpose_rules = RuleTable("transpose", "lamina_autodiff/transpose_rules", leads=("ct",))


def slope(prim: Primitive, *fs: Callable[..., Any] | None) -> None:
    """The derivative of an elementwise op with respect to each operand: `f(*primals, ans, **params)`, None for zero."""
    jvp_rules.define(prim, Slopes(prim, *fs))


def zero_jvp(*prims: Primitive) -> None:
    """Ops that are constant almost everywhere, or whose results are not inexact."""
    for prim in prims:
        jvp_rules.define(prim, Slopes(prim))


def hole(prim: Primitive, reason: str) -> None:
    """Say why an op has no derivative."""
    jvp_rules.hole(prim, reason)
