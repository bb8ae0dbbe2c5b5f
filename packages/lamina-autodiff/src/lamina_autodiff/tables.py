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
    """Define the row of an elementwise op by its derivatives.

    Args:
      prim: the op.
      *fs: per operand, `f(*primals, ans, **params)` giving d out / d operand from the operands and the result, or None
        where it is zero.
    Raises:
      TypeError: one of them cannot be called, or a name of its own is that of a param of the op.

    >>> from lamina_autodiff import grad
    >>> from lamina_ir import Primitive, prims
    >>> from lamina_tracing import lax
    >>> from lamina_tracing.extend import bind
    >>> half_p = Primitive("half", elementwise=True, infer=lambda x: x, numpy=lambda x: x / 2)
    >>> slope(half_p, lambda x, ans: lax.full(x.shape, 0.5, x.dtype))
    >>> grad(lambda x: bind(half_p, x))(np.float32(3))
    Array(0.5, dtype=float32)
    """
    jvp_rules.define(prim, Slopes(prim, *fs))


def zero_jvp(*prims: Primitive) -> None:
    """Define the row of ops that are constant almost everywhere, or whose results are not inexact.

    Args:
      *prims: the ops.

    >>> from lamina_autodiff import grad
    >>> from lamina_ir import Primitive
    >>> from lamina_tracing.extend import bind
    >>> steps_p = Primitive("steps", elementwise=True, infer=lambda x: x, numpy=np.floor)
    >>> zero_jvp(steps_p)
    >>> grad(lambda x: bind(steps_p, x))(np.float32(3.5))
    Array(0., dtype=float32)
    """
    for prim in prims:
        jvp_rules.define(prim, Slopes(prim))


def hole(prim: Primitive, reason: str) -> None:
    """Say why an op has no derivative."""
    jvp_rules.hole(prim, reason)
