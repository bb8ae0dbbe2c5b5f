"""Transpose rules of the elementwise primitives that occur in linear programs.

The cotangent of a broadcast rank-0 operand is summed. Complex cotangents pair with tangents as `Re(sum(ct * t))`,
without conjugation.
"""
from __future__ import annotations

import numpy as np
from lamina_ir import prims
from lamina_ir.typing import Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar

from ..extend import is_linear
from .._engine.linearize import LinearTracer
from .._engine.rule_tables import transpose_rules
from .._typing import Cotangents

__all__: list[str] = []

_define = transpose_rules.define


def _unbroadcast(ct: Value, x: Value) -> Value:
    """Return the cotangent of the operand `x`: `ct`, summed to rank 0 if `x` was broadcast."""
    if x.aval.shape == ct.shape:
        return ct
    return bind(prims.reduce_sum_p, ct, axes=tuple(range(ct.ndim)))


def add_transpose(ct: Value, x: Value, y: Value) -> Cotangents:
    return _unbroadcast(ct, x) if is_linear(x) else None, _unbroadcast(ct, y) if is_linear(y) else None


def sub_transpose(ct: Value, x: Value, y: Value) -> Cotangents:
    return _unbroadcast(ct, x) if is_linear(x) else None, lax.neg(_unbroadcast(ct, y)) if is_linear(y) else None


def mul_transpose(ct: Value, x: Value, y: Value) -> Cotangents:
    # `is_linear` and the common case of `_unbroadcast` are inlined: this is the most frequent rule.
    if type(x) is LinearTracer:
        out = lax.mul(ct, y)
        return out if x.aval.shape == out.shape else _unbroadcast(out, x), None
    out = lax.mul(ct, x)
    return None, out if y.aval.shape == out.shape else _unbroadcast(out, y)


def select_transpose(ct: Value, pred: Value, on_true: Value, on_false: Value) -> Cotangents:
    zero = scalar(0, ct.dtype)
    return (None, _unbroadcast(lax.select(pred, ct, zero), on_true) if is_linear(on_true) else None,
            _unbroadcast(lax.select(pred, zero, ct), on_false) if is_linear(on_false) else None)


def complex_transpose(ct: Value, x: Value, y: Value) -> Cotangents:
    """For z = x + i y, Re(ct z) = Re(ct) x - Im(ct) y."""
    return (_unbroadcast(lax.real(ct), x) if is_linear(x) else None,
            lax.neg(_unbroadcast(lax.imag(ct), y)) if is_linear(y) else None)


def convert_element_type_transpose(ct: Value, x: Value, *, new_dtype: np.dtype, weak_type: bool) -> Cotangents:
    return bind(prims.convert_element_type_p, ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type)


_define(prims.neg_p, lambda ct, x: lax.neg(ct))
_define(prims.copy_p, lambda ct, x: ct)
_define(prims.stop_gradient_p, lambda ct, x: None)  # of a tangent that no result uses, in a batched cond
_define(prims.add_p, add_transpose)
_define(prims.sub_p, sub_transpose)
_define(prims.mul_p, mul_transpose)
_define(prims.div_p, lambda ct, x, y: (_unbroadcast(lax.div(ct, y), x), None))
_define(prims.select_p, select_transpose)
_define(prims.convert_element_type_p, convert_element_type_transpose)
_define(prims.real_p, lambda ct, x: lax.complex(ct, scalar(0, ct.dtype)))
_define(prims.imag_p, lambda ct, x: lax.complex(scalar(0, ct.dtype), lax.neg(ct)))  # Im z = Re(-i z)
_define(prims.conj_p, lambda ct, x: lax.conj(ct))
_define(prims.complex_p, complex_transpose)

for _prim in prims.ALL:
    if _prim.family == "elementwise" and _prim not in transpose_rules:
        transpose_rules.declare_missing(_prim, "it is not linear, so it has no place in a linear program")
transpose_rules.define(prims.reduce_precision_p, lambda ct, x, **params: bind(prims.reduce_precision_p, ct, **params))
