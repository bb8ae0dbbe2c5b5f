"""Rounding to whole numbers or decimals. Integers are round already and come back as they are."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import as_int, typeof

from .._core.promotion import aval, convert, literal, need_real, refuse_out, to_inexact
from .._core.public_api import public_api
from .._core.ufunc_types import Unary, make_unary
from .._core.select import choose_by
from ._docstrings import docstring, ELEMENTWISE
from .ufuncs import positive

__all__ = ["around", "ceil", "fix", "floor", "modf", "rint", "round", "round_", "trunc"]


def _check_round(name: str, x: Any) -> Any:
    """Integers and truth values, which are round."""
    if dtypes.is_key(typeof(x).dtype):
        raise DTypeError(f"{name}: expected numbers; got PRNG keys {typeof(x).str_long()}. Use random.key_data(keys)")
    return positive(x)


def _make_rounding(name: str, on: Any, says: str, example: str) -> Unary:
    """One equation on floats; integers are round already."""
    def op(x: ArrayLike, /) -> Array:
        d = aval(name, x).dtype
        if dtypes.is_complex(d):
            raise DTypeError(f"{name}: complex numbers cannot be rounded; got {typeof(x).str_long()}. Take real "
                             "and imag first")
        if not dtypes.is_float(d):
            return _check_round(name, x)
        return on(x)
    doc = docstring(says, {"x": "real or boolean array."}, "Array of the shape and dtype of `x`.",
                    {"TypeError": "`x` is neither an array nor a number.", "DTypeError": "`x` holds complex numbers."},
                    f"meaning of `numpy.{name}`.", example, "zero.")
    return make_unary(name, doc, op)


@public_api(entries=ELEMENTWISE)
def rint(x: ArrayLike, /) -> Array:
    """Nearest whole number, in float; halves go to even.

    Args:
      x: number or boolean array; of complex numbers both parts are rounded.
    Returns:
      Array of the shape and dtype of `x`; of booleans and integers the default float.
    Raises: {TypeError}

    Derivative: zero.
    Source: meaning of `numpy.rint`.

    >>> rint(np.array([0.5, 1.5, -1.6]))
    Array([ 0.,  2., -2.], dtype=float32)
    """
    a = aval("rint", x)
    if not dtypes.is_inexact(a.dtype):
        return convert(x, dtypes.canonicalize(float), False)
    if dtypes.is_complex(a.dtype):
        return lax.complex(rint(lax.real(x)), rint(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


floor = _make_rounding("floor", lax.floor, "Largest whole number that is not above each element.",
                       ">>> floor(np.array([1.5, -1.5]))\nArray([ 1., -2.], dtype=float32)")
ceil = _make_rounding("ceil", lax.ceil, "Smallest whole number that is not below each element.",
                      ">>> ceil(np.array([1.5, -1.5]))\nArray([ 2., -1.], dtype=float32)")


@public_api("decimals", "out")
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Nearest number with `decimals` digits after the point; halves go to even.

    Args:
      a: number or boolean array.
      decimals: how many digits; negative ones round to tens, hundreds, ...; known, not traced.
      out: not supported, must be None: arrays never change.
    Returns:
      Array of the shape and dtype of `a`; real and imaginary part are rounded by themselves, integers come back as they
      are.
    Raises:
      TypeError: `a` is neither an array nor a number.
      NotImplementedError: `a` holds integers or booleans and `decimals` is negative, or `out` is given.

    Derivative: zero.
    Source: meaning of `numpy.round`.

    >>> round(np.array([0.5, 1.5, -1.6]))
    Array([ 0.,  2., -2.], dtype=float32)
    >>> round(1234.0, -2)
    Array(1200., dtype=float32, weak_type=True)
    """
    refuse_out("round", out)
    decimals = as_int("round", "decimals", decimals)
    d = aval("round", a).dtype
    if not dtypes.is_inexact(d):
        if decimals < 0:
            raise NotImplementedError(f"round: integers cannot be rounded to {decimals} decimals; convert to float "
                                      "first")
        return _check_round("round", a)
    if dtypes.is_complex(d):
        return lax.complex(round(lax.real(a), decimals), round(lax.imag(a), decimals))
    if not decimals:
        return lax.round(a, lax.RoundingMethod.TO_NEAREST_EVEN)
    if d.itemsize < 4:  # the product would be rounded first
        return convert(round(convert(a, np.dtype("float32")), decimals), d)
    scale, even = literal(10.0 ** abs(decimals), d), lax.RoundingMethod.TO_NEAREST_EVEN
    if decimals < 0:
        return lax.mul(lax.round(_divide(a, scale), even), scale)
    return _divide(lax.round(lax.mul(a, scale), even), scale)


def _divide(x: Any, by: Any) -> Any:
    """`x / by`, rounded once: compilers take a division by a number that they know for a product with its inverse."""
    return lax.div(x, choose_by(lax.ne(x, x), x, by))


around = round_ = round


@public_api(entries=ELEMENTWISE)
def trunc(x: ArrayLike) -> Array:
    """Whole part of each element: rounded towards zero.

    Args:
      x: real or boolean array.
    Returns: {same}
    Raises: {TypeError, DTypeError}

    Derivative: zero.
    Source: meaning of `numpy.trunc`.

    >>> trunc(np.array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """
    d = aval("trunc", x).dtype
    need_real("trunc", x)
    if not dtypes.is_inexact(d):
        return _check_round("trunc", x)
    return lax.select(lax.lt(x, literal(0, d)), lax.ceil(x), lax.floor(x))


@public_api("out", entries=ELEMENTWISE)
def fix(x: ArrayLike, out: None = None) -> Array:
    """Whole part of each element, as `trunc`.

    Args:
      x: real or boolean array.
      out: not supported, must be None: arrays never change.
    Returns: {same}
    Raises: {TypeError, DTypeError}
      NotImplementedError: `out` is given.

    Derivative: zero.
    Source: meaning of `numpy.fix`.

    >>> fix(np.array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """
    refuse_out("fix", out)
    return trunc(x)


@public_api("out", entries=ELEMENTWISE)
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """Fractional and whole part of each element, both with its sign.

    Args:
      x: real array; booleans and integers become float.
      out: not supported, must be None: arrays never change.
    Returns:
      (fractional part, whole part), two arrays of the shape and dtype of `x`; float32 for booleans and integers (float64
      for those of 64 bits). The fractional part of an infinity is 0.
    Raises: {TypeError, DTypeError}

    Derivative: 1 for the fractional, zero for the whole part.
    Source: meaning of `numpy.modf`.

    >>> modf(np.array([1.5, -1.5]))
    (Array([ 0.5, -0.5], dtype=float32), Array([ 1., -1.], dtype=float32))
    """
    refuse_out("modf", out)
    x = to_inexact("modf", x)
    d = typeof(x).dtype
    need_real("modf", x)
    rest = lax.rem(x, literal(1, d))  # unlike `x - trunc(x)` it has the sign of `x` where it is 0
    infinite = lax.eq(lax.abs(x), literal(np.inf, d))
    return choose_by(infinite, lax.mul(lax.sign(x), literal(0, d)), rest), trunc(x)
