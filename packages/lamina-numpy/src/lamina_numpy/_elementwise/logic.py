"""Comparisons, truth, bits, and questions about floats."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes, prims
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._ground.promotion import aval, cast, equation, literal, meet, pair, promote_all
from .._ground.publishing import public
from .._ground.choosing import truth
from .._ground.conversion import asarray
from .ufuncs import abs, imag

__all__ = ["allclose", "array_equal", "array_equiv", "bitwise_and", "bitwise_count", "bitwise_invert",
           "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "equal", "greater",
           "greater_equal", "invert", "isclose", "iscomplex", "iscomplexobj", "isfinite", "isinf", "isnan", "isneginf",
           "isposinf", "isreal", "isrealobj", "isscalar", "left_shift", "less", "less_equal", "logical_and",
           "logical_not", "logical_or", "logical_xor", "not_equal", "right_shift"]


def _equality(name: str, prim: Any, doc: str) -> Any:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = pair(name, x, y)
        return equation(prim, x, y)
    return public(name=name, doc=doc)(op)


def _order(name: str, prim: Any, doc: str) -> Any:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y, d = meet(name, x, y)
        if d.kind == "c":  # by real part, then imaginary part, as NumPy
            rx, ry = lax.real(x), lax.real(y)
            tie = equation(prim, lax.imag(x), lax.imag(y))
            return lax.select(lax.eq(rx, ry), tie, equation(prim, rx, ry))
        return equation(prim, x, y)
    return public(name=name, doc=doc)(op)


equal = _equality("equal", prims.eq_p, "`x == y`, elementwise.\n\n>>> equal(1, 1.0)\nArray(True, dtype=bool)")
not_equal = _equality("not_equal", prims.ne_p, "`x != y`, elementwise.")
less = _order("less", prims.lt_p, "`x < y`, elementwise.")
less_equal = _order("less_equal", prims.le_p, "`x <= y`, elementwise.")
greater = _order("greater", prims.gt_p, "`x > y`, elementwise.")
greater_equal = _order("greater_equal", prims.ge_p, "`x >= y`, elementwise.")


def _logical(name: str, on: Any, doc: str) -> Any:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = pair(name, truth(name, x, 0), truth(name, y, 1))
        return on(x, y)
    return public(name=name, doc=doc)(op)


logical_and = _logical("logical_and", lax.bitwise_and, "Whether both are true (not zero).")
logical_or = _logical("logical_or", lax.bitwise_or, "Whether either is true (not zero).")
logical_xor = _logical("logical_xor", lax.bitwise_xor, "Whether exactly one is true (not zero).")


@public()
def logical_not(x: ArrayLike, /) -> Array:
    """Whether each element is zero."""
    return lax.bitwise_not(truth("logical_not", x))


def _need_bits(call: str, x: Any) -> np.dtype:
    d = typeof(x).dtype
    if dtypes.is_inexact(d):
        raise DTypeError(f"{call}: expected integers or booleans; got {typeof(x).long()}. Convert with astype, or use "
                         "the logical function")
    return d


def _bitwise(name: str, on: Any, doc: str) -> Any:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = pair(name, x, y)
        _need_bits(name, x)
        return on(x, y)
    return public(name=name, doc=doc)(op)


bitwise_and = _bitwise("bitwise_and", lax.bitwise_and, "Bits set in both.")
bitwise_or = _bitwise("bitwise_or", lax.bitwise_or, "Bits set in either.")
bitwise_xor = _bitwise("bitwise_xor", lax.bitwise_xor, "Bits set in exactly one.")


@public()
def invert(x: ArrayLike, /) -> Array:
    """Every bit flipped; `not` on booleans."""
    aval("invert", x)
    _need_bits("invert", x)
    return lax.bitwise_not(x)


bitwise_not = bitwise_invert = invert


def _shift_operands(call: str, x: Any, y: Any) -> tuple[Any, Any, np.dtype]:
    x, y = pair(call, x, y)
    d = _need_bits(call, x)
    if d == dtypes.BOOL:
        d = np.dtype("int32")
        x, y = cast(x, d), cast(y, d)
    return x, y, d


@public()
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Bits moved `y` places up."""
    x, y, _ = _shift_operands("left_shift", x, y)
    return lax.shift_left(x, y)


@public()
def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Bits moved `y` places down; the sign stays."""
    x, y, d = _shift_operands("right_shift", x, y)
    unsigned = dtypes.issubdtype(d, np.unsignedinteger)
    return (lax.shift_right_logical if unsigned else lax.shift_right_arithmetic)(x, y)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


@public()
def bitwise_count(x: ArrayLike, /) -> Array:
    """Number of bits set in `|x|`, as uint8."""
    aval("bitwise_count", x)
    _need_bits("bitwise_count", x)
    return cast(lax.population_count(abs(x)), np.dtype("uint8"))


def _all_false(a: Any) -> Any:
    return lax.broadcast_in_dim(np.False_, a.shape, ())


@public()
def isnan(x: ArrayLike, /) -> Array:
    """Whether each element is not a number.

    >>> isnan(float("nan"))
    Array(True, dtype=bool)
    """
    aval("isnan", x)
    return lax.ne(x, x)


@public()
def isfinite(x: ArrayLike, /) -> Array:
    """Whether each element is neither infinite nor NaN."""
    a = aval("isfinite", x)
    if dtypes.is_float(a.dtype):
        return lax.is_finite(x)
    if dtypes.is_complex(a.dtype):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.broadcast_in_dim(np.True_, a.shape, ())


@public()
def isinf(x: ArrayLike, /) -> Array:
    """Whether each element is infinite."""
    a = aval("isinf", x)
    if dtypes.is_float(a.dtype):
        return lax.eq(lax.abs(x), literal(np.inf, a.dtype))
    if dtypes.is_complex(a.dtype):
        return lax.bitwise_or(isinf(lax.real(x)), isinf(lax.imag(x)))
    return _all_false(a)


def _is_inf(name: str, value: float, doc: str) -> Any:
    def op(x: ArrayLike, /, out: None = None) -> Array:
        a = aval(name, x)
        if dtypes.is_complex(a.dtype):
            raise ValueError(f"{name}: not defined for complex numbers; got {a.long()}")
        return lax.eq(x, literal(value, a.dtype)) if dtypes.is_float(a.dtype) else _all_false(a)
    return public(name=name, doc=doc)(op)


isposinf = _is_inf("isposinf", np.inf, "Whether each element is plus infinity.")
isneginf = _is_inf("isneginf", -np.inf, "Whether each element is minus infinity.")


@public()
def iscomplex(x: ArrayLike) -> Array:
    """Whether each element has an imaginary part other than zero."""
    y = imag(x)
    return lax.ne(y, literal(0, typeof(y).dtype))


@public()
def isreal(x: ArrayLike) -> Array:
    """Whether the imaginary part of each element is zero."""
    y = imag(x)
    return lax.eq(y, literal(0, typeof(y).dtype))


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether `x` has a complex dtype.

    >>> iscomplexobj(1j)
    True
    """
    if x is None:
        return False
    return dtypes.is_complex(aval("iscomplexobj", x).dtype) if not isinstance(x, (list, tuple)) else np.iscomplexobj(x)


def isrealobj(x: ArrayLike) -> bool:
    """Whether `x` has a dtype that is not complex."""
    return not iscomplexobj(x)


def isscalar(element: ArrayLike) -> bool:
    """Whether `element` is a number or a rank-0 array."""
    if np.isscalar(element):
        return True
    return getattr(element, "shape", None) == () and hasattr(element, "dtype")


@public("equal_nan")
def isclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08,
            equal_nan: bool = False) -> Array:
    """Whether `|a - b| <= atol + rtol * |b|`; equal infinities are close.

    >>> isclose(1.0, 1.0 + 1e-7)
    Array(True, dtype=bool)
    """
    x, y = pair("isclose", a, b)
    d = typeof(x).dtype
    if d == dtypes.BOOL:
        return lax.eq(x, y)
    if not dtypes.is_inexact(d):
        fd = np.dtype("float64") if d.itemsize == 8 else np.dtype("float32")
        x, y, d = cast(x, fd), cast(y, fd), fd
    part = dtypes.real_of(d)
    rtol, atol = cast(rtol, part), cast(atol, part)
    size = lax.abs(y)
    near = less_equal(lax.abs(lax.sub(x, y)), _sum(atol, _product(rtol, size)))
    out = lax.bitwise_or(lax.bitwise_and(near, _fit(isfinite(y), near)), lax.eq(x, y))
    if equal_nan:
        both = logical_and(lax.ne(x, x), lax.ne(y, y))
        out = lax.bitwise_or(out, both)
    return out


def _fit(x: Any, like: Any) -> Any:
    return pair("isclose", x, like)[0]


def _sum(x: Any, y: Any) -> Any:
    x, y = pair("isclose", x, y)
    return lax.add(x, y)


def _product(x: Any, y: Any) -> Any:
    x, y = pair("isclose", x, y)
    return lax.mul(x, y)


def _every(x: Any) -> Any:
    return lax.reduce_and(x, tuple(range(len(typeof(x).shape))))


@public("equal_nan")
def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08,
             equal_nan: bool = False) -> Array:
    """Whether all elements are close, as `isclose` says."""
    return _every(isclose(a, b, rtol, atol, equal_nan))


def _arrays(*xs: Any) -> list[Any]:
    return [asarray(x) if isinstance(x, (list, tuple)) else x for x in xs]


@public("equal_nan")
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and elements."""
    a1, a2 = _arrays(a1, a2)
    if aval("array_equal", a1).shape != aval("array_equal", a2, 1).shape:
        return lax.convert_element_type(np.False_, dtypes.BOOL)
    x, y = pair("array_equal", a1, a2)
    same = lax.eq(x, y)
    if equal_nan:
        same = lax.bitwise_or(same, lax.bitwise_and(lax.ne(x, x), lax.ne(y, y)))
    return _every(same)


@public()
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays broadcast to each other and then have the same elements."""
    a1, a2 = _arrays(a1, a2)
    try:
        x, y = pair("array_equiv", *promote_all("array_equiv", [a1, a2]))
    except ValueError:
        return lax.convert_element_type(np.False_, dtypes.BOOL)
    return _every(lax.eq(x, y))
