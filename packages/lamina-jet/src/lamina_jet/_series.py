"""Arithmetic of truncated Taylor series.

A series is a list of the coefficients of t**0, t**1, ..., t**n. None is a coefficient that is known to be zero; the first
one, the value at t = 0, is never None. Coefficients have the shape and dtype of the value.

The recurrences are those of Griewank and Walther, Evaluating Derivatives (2nd ed., 2008), section 13.2. A function y of x
with y' = g x' has the coefficients

    y[k] = 1/k * sum over j = 1..k of j x[j] g[k-j].

The derivative g may depend on y: `g[k-j]` needs only coefficients of y that are computed already.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from lamina_ir import prims
from lamina_ir.typing import Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

__all__ = ["Series", "add", "compose", "constant", "differentiate", "divide", "integrate", "is_constant", "multiply",
           "negate", "power", "reciprocal", "scale", "scale_term", "shift", "solve", "sqrt", "square", "subtract"]

Series = list[Value]  # of coefficients, or None


def constant(x: Value, order: int) -> Series:
    """Return the series of a value that does not depend on t."""
    return [x, *[None] * order]


def is_constant(x: Series) -> bool:
    return all(c is None for c in x[1:])


def scale_term(x: Value, factor: float) -> Value:
    """Multiply a coefficient by a number."""
    if x is None or factor == 1:
        return x
    return bind(prims.mul_p, x, scalar(factor, typeof(x).dtype))


def _sum(terms: Sequence[Value]) -> Value:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else bind(prims.add_p, total, term)
    return total


def negate(x: Value) -> Value:
    return None if x is None else bind(prims.neg_p, x)


def _product(x: Value, y: Value, times: Callable[[Value, Value], Value] | None = None) -> Value:
    if x is None or y is None:
        return None
    return bind(prims.mul_p, x, y) if times is None else times(x, y)


def scale(x: Series, factor: float) -> Series:
    """Return factor * x."""
    return [scale_term(c, factor) for c in x]


def shift(x: Series, by: float) -> Series:
    """Return x + by, for a number."""
    return [bind(prims.add_p, x[0], scalar(by, typeof(x[0]).dtype)), *x[1:]]


def add(x: Series, y: Series) -> Series:
    return [_sum([a, b]) for a, b in zip(x, y)]


def subtract(x: Series, y: Series) -> Series:
    return [_sum([a, negate(b)]) for a, b in zip(x, y)]


def multiply(x: Series, y: Series, times: Callable[[Value, Value], Value] | None = None) -> Series:
    """Return the product of two series. `times` multiplies coefficients: any bilinear function, by default `mul`."""
    return [_sum([_product(x[j], y[k - j], times) for j in range(k + 1)]) for k in range(len(x))]


def square(x: Series) -> Series:
    """Return x * x, with half of the products."""
    found = []
    for k in range(len(x)):
        pairs = _sum([_product(x[j], x[k - j]) for j in range((k + 1) // 2)])
        middle = _product(x[k // 2], x[k // 2]) if k % 2 == 0 else None
        found.append(_sum([scale_term(pairs, 2), middle]))
    return found


def divide(x: Series, y: Series) -> Series:
    """Return x / y, from x[k] = sum over j of y[j] z[k-j]."""
    z: Series = []
    for k, c in enumerate(x):
        rest = _sum([c, negate(_sum([_product(y[j], z[k - j]) for j in range(1, k + 1)]))])
        z.append(None if rest is None else bind(prims.div_p, rest, y[0]))
    return z


def reciprocal(x: Series) -> Series:
    one = lax.full_like(x[0], 1)
    return divide(constant(one, len(x) - 1), x)


def sqrt(x: Series) -> Series:
    """Return the square root, from x[k] = sum over j of y[j] y[k-j]."""
    y: Series = [lax.sqrt(x[0])]
    double = scale_term(y[0], 2)
    for k in range(1, len(x)):
        rest = _sum([x[k], negate(_sum([_product(y[j], y[k - j]) for j in range(1, k)]))])
        y.append(None if rest is None else bind(prims.div_p, rest, double))
    return y


def differentiate(x: Series) -> Series:
    """Return the derivative with respect to t, one coefficient shorter."""
    return [scale_term(c, k) for k, c in enumerate(x) if k] if len(x) > 1 else []


def integrate(value: Value, derivative: Series) -> Series:
    """Return the series with this value and this derivative, one coefficient longer than the derivative."""
    return [value, *[scale_term(c, 1 / (k + 1)) for k, c in enumerate(derivative)]]


def solve(x: Series, value: Value, derivative: Callable[[Series], Value]) -> Series:
    """Return the solution of y' = g x' with y[0] = value.

    Args:
      x: the series.
      value: y[0].
      derivative: returns the last coefficient of g that the given coefficients of y determine: g[k] from y[0], ..., y[k].
    """
    y, g = [value], []
    for k in range(1, len(x)):
        g.append(derivative(y))
        y.append(scale_term(_sum([scale_term(_product(x[j], g[k - j]), j) for j in range(1, k + 1)]), 1 / k))
    return y


def compose(derivatives: Sequence[Value], x: Series) -> Series:
    """Return f(x) from the coefficients f^(k)(x[0]) / k! of f, by Horner's rule in x - x[0]."""
    order = len(x) - 1
    # Without its value, the series starts with t**1, so each factor shifts a coefficient out.
    change = [None, *x[1:]]
    total: Series = [derivatives[order], *[None] * order]
    for c in reversed(derivatives[:order]):
        total = multiply(total, change)
        total[0] = c
    return total


def power(x: Series, exponent: Value, value: Value) -> Series:
    """Return x ** exponent for a constant exponent, whose value is given, from the derivatives of the power at x[0]."""
    found, factor = [value], None
    for k in range(1, len(x)):
        # exponent (exponent - 1) ... (exponent - k + 1) / k!
        ratio = scale_term(bind(prims.sub_p, exponent, scalar(k - 1.0, typeof(exponent).dtype)), 1 / k)
        factor = ratio if factor is None else bind(prims.mul_p, factor, ratio)
        lower = bind(prims.pow_p, x[0], bind(prims.sub_p, exponent, scalar(float(k), typeof(exponent).dtype)))
        # The derivatives of a polynomial end: 0 times a negative power of 0 is 0 there.
        is_zero = bind(prims.eq_p, factor, scalar(0.0, typeof(factor).dtype))
        term = bind(prims.mul_p, factor, lower)
        found.append(lax.select(_like(is_zero, term), lax.full_like(term, 0), term))
    return compose(found, x)


def _like(condition: Value, x: Value) -> Value:
    """Broadcast a rank-0 condition to the shape of `x`."""
    shape = typeof(x).shape
    return condition if typeof(condition).shape == shape else lax.broadcast_in_dim(condition, shape, ())
