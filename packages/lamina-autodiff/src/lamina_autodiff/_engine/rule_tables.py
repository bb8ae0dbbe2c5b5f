"""Rule tables of differentiation. All derivatives come from JVP rules and transpose rules.

    jvp_rules[prim]        `rule(primals, tangents, /, **params) -> (out, tangent)`; a zero tangent is None.
                           `rule_kinds` has two other forms. `ElementwiseJVP` holds the derivative with respect to
                           each operand (see `def_elementwise_jvp`, `def_zero_jvp`). `LinearizeRule` is for
                           primitives with subprograms: it splits the subprogram when the linear part is recorded.
    transpose_rules[prim]  `rule(ct, /, *args, **params)`: linear operands are placeholders (`is_linear`); returns the
                           cotangent (one operand) or one per operand, None for zero or not linear

A linear (`linear_in`) or bilinear (`bilinear_in`) primitive needs no JVP rule: until one is defined, the rule follows
from its linearity.
"""
from __future__ import annotations

from lamina_ir import Primitive, RuleTable
from lamina_ir.typing import Function

from .rule_kinds import ElementwiseJVP, rule_from_linearity

__all__ = ["declare_missing", "def_elementwise_jvp", "def_zero_jvp", "jvp_rules", "transpose_rules"]

jvp_rules = RuleTable("jvp", "lamina_autodiff/jvp_rules", leading_params=("primals", "tangents"), default=rule_from_linearity)
transpose_rules = RuleTable("transpose", "lamina_autodiff/transpose_rules", leading_params=("ct",))


def def_elementwise_jvp(prim: Primitive, *derivatives: Function | None) -> None:
    """Define the JVP rule of an elementwise primitive by its partial derivatives.

    Args:
      prim: the primitive.
      *derivatives: per operand, `f(*primals, ans, **params)` returning d out / d operand from the operands and the
        result, or None if it is zero.
    Raises:
      TypeError: a derivative is not callable, or has a positional parameter named like a parameter of the primitive.

    >>> from lamina_autodiff import grad
    >>> from lamina_ir import Primitive, prims
    >>> from lamina_tracing import lax
    >>> from lamina_tracing.extend import bind
    >>> half_p = Primitive("half", elementwise=True, infer=lambda x: x, numpy=lambda x: x / 2)
    >>> def_elementwise_jvp(half_p, lambda x, ans: lax.full(x.shape, 0.5, x.dtype))
    >>> grad(lambda x: bind(half_p, x))(np.float32(3))
    Array(0.5, dtype=float32)
    """
    jvp_rules.define(prim, ElementwiseJVP(prim, *derivatives))


def def_zero_jvp(*prims: Primitive) -> None:
    """Define a zero JVP rule for primitives that are piecewise constant or have no float or complex results.

    Args:
      *prims: the primitives.

    >>> from lamina_autodiff import grad
    >>> from lamina_ir import Primitive
    >>> from lamina_tracing.extend import bind
    >>> steps_p = Primitive("steps", elementwise=True, infer=lambda x: x, numpy=np.floor)
    >>> def_zero_jvp(steps_p)
    >>> grad(lambda x: bind(steps_p, x))(np.float32(3.5))
    Array(0., dtype=float32)
    """
    for prim in prims:
        jvp_rules.define(prim, ElementwiseJVP(prim))


def declare_missing(prim: Primitive, reason: str) -> None:
    """Record why a primitive has no JVP rule; using its derivative raises an error with this reason."""
    jvp_rules.declare_missing(prim, reason)
