"""Rules of the primitives whose series have recurrences of their own.

All other differentiable primitives use their JVP rule (see `_programs`). The rules below save time: their cost grows with
the square of the order.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lamina_autodiff.extend import jvp_rules
from lamina_ir import Primitive, dtypes, prims
from lamina_ir.typing import ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from . import _series as s
from ._programs import jet_of_jvp, jet_rules
from ._series import Series

__all__: list[str] = []


# --- linear and bilinear primitives ---------------------------------------------------------------------------------
def _push_each(prim: Primitive) -> Callable[..., Series | list[Series]]:
    """Return the rule of a primitive that is linear around the values: its JVP maps each coefficient."""
    def rule(order: int, operands: list[Series], **params: ParamValue) -> Series | list[Series]:
        values = [x[0] for x in operands]
        out: Any = None
        found: list[Any] = []  # tangents, or one list of them per coefficient
        for k in range(1, order + 1):
            terms, tangent = [x[k] for x in operands], None
            if any(t is not None for t in terms):
                out, tangent = jvp_rules[prim](values, terms, **params)
            found.append(tangent)
        if not prim.multiple:
            return [out, *found]
        return [[o, *[None if f is None else f[i] for f in found]] for i, o in enumerate(out)]

    return rule


_LINEAR_AROUND_VALUES = """
    abs clamp max min neg real imag conj complex copy convert_element_type select reduce_precision rem
    add sub
    concatenate broadcast_in_dim expand_dims pad reshape rev slice squeeze transpose
    cummax cummin cumsum reduce_max reduce_min reduce_sum
    reduce_window_max reduce_window_min reduce_window_sum select_and_gather_add select_and_scatter_add
    fft dynamic_slice dynamic_update_slice gather scatter scatter_add scatter_max scatter_min
    sort top_k all_gather all_to_all pmax pmin ppermute psum psum_scatter
    name optimization_barrier sharding_constraint to_memory
""".split()
for _name in _LINEAR_AROUND_VALUES:
    _prim = getattr(prims, f"{_name}_p")
    jet_rules.define(_prim, _push_each(_prim))


def _bilinear(prim: Primitive) -> Callable[..., Series]:
    def rule(order: int, operands: list[Series], **params: ParamValue) -> Series:
        return s.multiply(operands[0], operands[1], lambda x, y: bind(prim, x, y, **params))

    return rule


for _prim in (prims.mul_p, prims.dot_general_p, prims.conv_general_dilated_p):
    jet_rules.define(_prim, _bilinear(_prim))


def _real_only(rule: Callable[..., Series], prim: Primitive) -> Callable[..., Series]:
    """Return the rule for real operands; complex ones use the JVP rule."""
    def wrapped(order: int, operands: list[Series], **params: ParamValue) -> Series:
        if any(dtypes.is_complex(typeof(x[0]).dtype) for x in operands):
            return jet_of_jvp(prim, order, operands, params)
        return rule(order, operands, **params)

    return wrapped


for _prim in (prims.abs_p, prims.max_p, prims.min_p, prims.clamp_p, prims.rem_p):
    jet_rules.define(_prim, _real_only(jet_rules[_prim], _prim))


# --- elementwise functions ------------------------------------------------------------------------------------------
def _def_unary(prim: Primitive, f: Callable[[Series, Value], Series]) -> None:
    """Define the rule of a function of one operand: `f(x, value)` returns the series of the result with this value."""
    def rule(order: int, operands: list[Series], **params: ParamValue) -> Series:
        return f(operands[0], bind(prim, operands[0][0], **params))

    jet_rules.define(prim, rule)


def _def_by_result(prim: Primitive, derivative: Callable[[Series], Value]) -> None:
    """Define a function with y' = g(y) x', where `derivative` returns the last coefficient of g(y)."""
    _def_unary(prim, lambda x, value: s.solve(x, value, derivative))


def _def_derivative(prim: Primitive, derivative: Callable[[Series], Series], factor: float = 1) -> None:
    """Define a function with y' = factor g(x) x', where `derivative` returns the series g(x)."""
    def f(x: Series, value: Value) -> Series:
        change = s.differentiate(x)
        return s.integrate(value, s.scale(s.multiply(derivative(x[:-1]), change), factor))

    _def_unary(prim, f)


def _last_of_square(y: Series) -> Value:
    """Return the last coefficient of y * y that the coefficients of y determine."""
    return s.square(y)[-1]


def _plus_one(k: int, c: Value) -> Value:
    """Add 1 to the coefficient of t**0."""
    return lax.add(c, typeof(c).dtype.type(1)) if k == 0 else c


_def_by_result(prims.exp_p, lambda y: y[-1])
_def_by_result(prims.exp2_p, lambda y: s.scale(y[-1:], math.log(2))[0])
_def_by_result(prims.expm1_p, lambda y: _plus_one(len(y) - 1, y[-1]))
_def_by_result(prims.tan_p, lambda y: _plus_one(len(y) - 1, _last_of_square(y)))
_def_by_result(prims.tanh_p, lambda y: _plus_one(len(y) - 1, s.negate(_last_of_square(y))))
_def_by_result(prims.logistic_p, lambda y: s.subtract(y[-1:], [_last_of_square(y)])[0])

_def_derivative(prims.log_p, s.reciprocal)
_def_derivative(prims.log1p_p, lambda x: s.reciprocal(s.shift(x, 1)))
_def_derivative(prims.asin_p, lambda x: s.reciprocal(s.sqrt(_one_minus(s.square(x)))))
_def_derivative(prims.acos_p, lambda x: s.reciprocal(s.sqrt(_one_minus(s.square(x)))), -1)
_def_derivative(prims.atan_p, lambda x: s.reciprocal(s.shift(s.square(x), 1)))
_def_derivative(prims.asinh_p, lambda x: s.reciprocal(s.sqrt(s.shift(s.square(x), 1))))
_def_derivative(prims.atanh_p, lambda x: s.reciprocal(_one_minus(s.square(x))))
_def_derivative(prims.erf_p, lambda x: _gaussian(x), 2 / math.sqrt(math.pi))
_def_derivative(prims.erfc_p, lambda x: _gaussian(x), -2 / math.sqrt(math.pi))


def _one_minus(x: Series) -> Series:
    return s.shift(s.scale(x, -1), 1)


def _gaussian(x: Series) -> Series:
    """Return exp(-x**2)."""
    exponent = s.scale(s.square(x), -1)
    return s.solve(exponent, lax.exp(exponent[0]), lambda y: y[-1])


def _pair(x: Series, first: Value, second: Value, sign: float) -> tuple[Series, Series]:
    """Return the solution of y' = z x', z' = sign y x' with these values."""
    y, z = [first], [second]
    for k in range(1, len(x)):
        xs = [None, *[s.scale([x[j]], j / k)[0] for j in range(1, k + 1)]]
        more_y = s.multiply(xs, [*z, None])[k]
        more_z = s.scale([s.multiply(xs, [*y, None])[k]], sign)[0]
        y.append(more_y)
        z.append(more_z)
    return y, z


_def_unary(prims.sin_p, lambda x, value: _pair(x, value, lax.cos(x[0]), -1)[0])
_def_unary(prims.cos_p, lambda x, value: _pair(x, lax.sin(x[0]), value, -1)[1])
_def_unary(prims.sinh_p, lambda x, value: _pair(x, value, lax.cosh(x[0]), 1)[0])
_def_unary(prims.cosh_p, lambda x, value: _pair(x, lax.sinh(x[0]), value, 1)[1])
_def_unary(prims.square_p, lambda x, value: [value, *s.square(x)[1:]])
_def_unary(prims.sqrt_p, lambda x, value: s.sqrt(x))
_def_unary(prims.rsqrt_p, lambda x, value: s.reciprocal(s.sqrt(x)))


def _integer_power(x: Series, n: int) -> Series:
    """Return x ** n for n > 0, by repeated squaring."""
    if n == 1:
        return x
    half = s.square(_integer_power(x, n // 2))
    return s.multiply(half, x) if n % 2 else half


def _integer_pow(order: int, operands: list[Series], *, y: int) -> Series:
    x = operands[0]
    value = bind(prims.integer_pow_p, x[0], y=y)
    if y == 0:
        return s.constant(value, order)
    found = _integer_power(x, abs(y))
    return [value, *(found if y > 0 else s.reciprocal(found))[1:]]


def _div(order: int, operands: list[Series]) -> Series:
    x, y = operands
    if s.is_constant(y):
        return [None if c is None else bind(prims.div_p, c, y[0]) for c in x]
    return s.divide(x, y)


def _pow(order: int, operands: list[Series]) -> Series:
    x, y = operands
    value = bind(prims.pow_p, x[0], y[0])
    if s.is_constant(y) and not dtypes.is_complex(typeof(y[0]).dtype) and dtypes.is_inexact(typeof(y[0]).dtype):
        return s.power(x, y[0], value)
    return jet_of_jvp(prims.pow_p, order, operands, {})


def _atan2(order: int, operands: list[Series]) -> Series:
    # theta' = (x y' - y x') / (x**2 + y**2), for theta = atan2(y, x)
    y, x = operands
    value = bind(prims.atan2_p, y[0], x[0])
    dy, dx, y, x = s.differentiate(y), s.differentiate(x), y[:-1], x[:-1]
    turned = s.subtract(s.multiply(x, dy), s.multiply(y, dx))
    return s.integrate(value, s.divide(turned, s.add(s.square(x), s.square(y))))


jet_rules.define(prims.integer_pow_p, _integer_pow)
jet_rules.define(prims.div_p, _div)
jet_rules.define(prims.pow_p, _real_only(_pow, prims.pow_p))
jet_rules.define(prims.atan2_p, _real_only(_atan2, prims.atan2_p))
