"""Comparisons, truth, bits, and questions about floats."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeDtypeStruct, dtypes, prims
from lamina_ir.extend import fill_docstring, docstring_entries
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._core.promotion import (aval, cast, check_promotion, equation, literal, pair, promote_all, promote_pair,
                               refuse_out)
from .._core.public_api import public_api
from .._core.ufunc_types import Binary, Predicate, Unary, make_binary, make_unary
from .._core.scalar_types import ScalarType
from .._core.select import truth
from .._core.conversion import asarray
from ._docstrings import PAIR, PAIR_RAISES, docstring, ELEMENTWISE, PAIRWISE
from .ufuncs import abs, imag

__all__ = ["allclose", "array_equal", "array_equiv", "bitwise_and", "bitwise_count", "bitwise_invert",
           "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "equal", "greater",
           "greater_equal", "invert", "isclose", "iscomplex", "iscomplexobj", "isfinite", "isinf", "isnan", "isneginf",
           "isposinf", "isreal", "isrealobj", "isscalar", "left_shift", "less", "less_equal", "logical_and",
           "logical_not", "logical_or", "logical_xor", "not_equal", "right_shift"]


_BOOLS = "Boolean array of the shape `x` and `y` broadcast to."


def _make_equality(name: str, prim: Any, says: str, example: str) -> Binary:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = pair(name, x, y)
        return equation(prim, x, y)
    doc = docstring(says, PAIR, _BOOLS + " NaN is equal to nothing.", PAIR_RAISES, f"meaning of `numpy.{name}`.", example)
    return make_binary(name, doc, op)


def _make_order(name: str, prim: Any, says: str, example: str) -> Binary:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y, d = promote_pair(name, x, y)
        if d.kind == "c":  # by real part, then imaginary part, as NumPy
            rx, ry = lax.real(x), lax.real(y)
            tie = equation(prim, lax.imag(x), lax.imag(y))
            return lax.select(lax.eq(rx, ry), tie, equation(prim, rx, ry))
        return equation(prim, x, y)
    returns = _BOOLS + " False if either is NaN; complex numbers are ordered by\n  real, then by imaginary part."
    doc = docstring(says, PAIR, returns, PAIR_RAISES, f"meaning of `numpy.{name}`.", example)
    return make_binary(name, doc, op)


equal = _make_equality("equal", prims.eq_p, "Whether `x == y`, elementwise.",
                       ">>> equal(np.array([1., np.nan]), np.array([1., np.nan]))\nArray([ True, False], dtype=bool)")
not_equal = _make_equality("not_equal", prims.ne_p, "Whether `x != y`, elementwise.",
                           ">>> not_equal(np.array([1, 2]), 1.0)\nArray([False,  True], dtype=bool)")
less = _make_order("less", prims.lt_p, "Whether `x < y`, elementwise.",
                   ">>> less(np.array([1, 2]), 2)\nArray([ True, False], dtype=bool)")
less_equal = _make_order("less_equal", prims.le_p, "Whether `x <= y`, elementwise.",
                         ">>> less_equal(np.array([1, 2]), 1)\nArray([ True, False], dtype=bool)")
greater = _make_order("greater", prims.gt_p, "Whether `x > y`, elementwise.",
                      ">>> greater(np.array([1, 2]), 1)\nArray([False,  True], dtype=bool)")
greater_equal = _make_order("greater_equal", prims.ge_p, "Whether `x >= y`, elementwise.",
                            ">>> greater_equal(np.array([1, 2]), 2)\nArray([False,  True], dtype=bool)")


def _make_logical(name: str, on: Any, says: str, example: str) -> Binary:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        check_promotion(name, x, y)
        x, y = pair(name, truth(name, x, 0), truth(name, y, 1))
        return on(x, y)
    doc = docstring(says, {"x, y": "number or boolean arrays that broadcast to each other; NaN is true."}, _BOOLS, PAIR_RAISES,
                    f"meaning of `numpy.{name}`.", example)
    return make_binary(name, doc, op)


logical_and = _make_logical("logical_and", lax.bitwise_and, "Whether both are true (not zero).",
                            ">>> logical_and(np.array([0, 0, 1, 1]), np.array([0, 2, 0, 2]))\n"
                            "Array([False, False, False,  True], dtype=bool)")
logical_or = _make_logical("logical_or", lax.bitwise_or, "Whether either is true (not zero).",
                           ">>> logical_or(np.array([0, 0, 1, 1]), np.array([0, 2, 0, 2]))\n"
                           "Array([False,  True,  True,  True], dtype=bool)")
logical_xor = _make_logical("logical_xor", lax.bitwise_xor, "Whether exactly one is true (not zero).",
                            ">>> logical_xor(np.array([0, 0, 1, 1]), np.array([0, 2, 0, 2]))\n"
                            "Array([False,  True,  True, False], dtype=bool)")


@public_api(entries=ELEMENTWISE)
def logical_not(x: ArrayLike, /) -> Array:
    """Whether each element is zero.

    Args:
      x: number or boolean array; NaN is true.
    Returns:
      Boolean array of the shape of `x`.
    Raises: {TypeError}

    Source: meaning of `numpy.logical_not`.

    >>> logical_not(np.array([0, 2]))
    Array([ True, False], dtype=bool)
    """
    return lax.bitwise_not(truth("logical_not", x))


def _need_bits(call: str, x: Any) -> np.dtype:
    d = typeof(x).dtype
    if dtypes.is_inexact(d):
        raise DTypeError(f"{call}: expected integers or booleans; got {typeof(x).str_long()}. Convert with astype, or use "
                         "the logical function")
    return d


def _make_bitwise(name: str, on: Any, says: str, example: str) -> Binary:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = pair(name, x, y)
        _need_bits(name, x)
        return on(x, y)
    doc = docstring(says, {"x, y": "integer or boolean arrays that broadcast to each other."},
                    "Array of the shape `x` and `y` broadcast to, in the dtype they meet in.",
                    {**PAIR_RAISES, "DTypeError": "one of them holds floats or complex numbers."},
                    f"meaning of `numpy.{name}`.", example)
    return make_binary(name, doc, op)


bitwise_and = _make_bitwise("bitwise_and", lax.bitwise_and, "Bits set in both; `and` of booleans.",
                            ">>> bitwise_and(np.array([0b0011]), 0b0101)\nArray([1], dtype=int32)")
bitwise_or = _make_bitwise("bitwise_or", lax.bitwise_or, "Bits set in either; `or` of booleans.",
                           ">>> bitwise_or(np.array([0b0011]), 0b0101)\nArray([7], dtype=int32)")
bitwise_xor = _make_bitwise("bitwise_xor", lax.bitwise_xor, "Bits set in exactly one; `xor` of booleans.",
                            ">>> bitwise_xor(np.array([0b0011]), 0b0101)\nArray([6], dtype=int32)")


@public_api(entries=ELEMENTWISE)
def invert(x: ArrayLike, /) -> Array:
    """Every bit flipped; `not` of booleans.

    Args:
      x: integer or boolean array.
    Returns: {same}
    Raises:
      TypeError: `x` is neither an array nor a number.
      DTypeError: `x` holds floats or complex numbers.

    Source: meaning of `numpy.invert`.

    >>> invert(np.array([0, 5]))
    Array([-1, -6], dtype=int32)
    >>> invert(True)
    Array(False, dtype=bool)
    """
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


_SHIFT = {**PAIRWISE, **docstring_entries("""
    x, y: integer or boolean arrays that broadcast to each other.
    DTypeError: an argument holds floats or complex numbers.
    """)}


@public_api(entries=_SHIFT)
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Bits moved `y` places up; zeros move in.

    Args: {x, y}
    Returns: {ints}
      0 if `y` is negative or not below the number of bits.
    Raises: {ShapeError, TypeError, DTypeError}

    Source: meaning of `numpy.left_shift`.

    >>> left_shift(np.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """
    x, y, _ = _shift_operands("left_shift", x, y)
    return lax.shift_left(x, y)


@public_api(entries=_SHIFT)
def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Bits moved `y` places down; copies of the sign bit move in.

    Args: {x, y}
    Returns: {ints}
      If `y` is negative or not below the number of bits: 0, or -1 for negative `x`.
    Raises: {ShapeError, TypeError, DTypeError}

    Source: meaning of `numpy.right_shift`.

    >>> right_shift(np.array([12, -12]), 2)
    Array([ 3, -3], dtype=int32)
    """
    x, y, d = _shift_operands("right_shift", x, y)
    unsigned = dtypes.issubdtype(d, np.unsignedinteger)
    return (lax.shift_right_logical if unsigned else lax.shift_right_arithmetic)(x, y)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


@public_api()
def bitwise_count(x: ArrayLike, /) -> Array:
    """Number of bits set in `|x|`.

    Args:
      x: integer or boolean array.
    Returns:
      uint8 array of the shape of `x`.
    Raises:
      TypeError: `x` is neither an array nor a number.
      DTypeError: `x` holds floats or complex numbers.

    Source: meaning of `numpy.bitwise_count`.

    >>> bitwise_count(np.array([7, -1]))
    Array([3, 1], dtype=uint8)
    """
    aval("bitwise_count", x)
    _need_bits("bitwise_count", x)
    count = abs(x) if typeof(x).dtype == dtypes.BOOL else lax.population_count(abs(x))
    return cast(count, np.dtype("uint8"))


def _make_all_false(a: Any) -> Any:
    return lax.broadcast_in_dim(np.False_, a.shape, ())


@public_api(entries=ELEMENTWISE)
def isnan(x: ArrayLike, /) -> Array:
    """Whether each element is not a number.

    Args:
      x: number or boolean array; of complex numbers either part counts.
    Returns: {never}
    Raises: {TypeError}

    Source: meaning of `numpy.isnan`.

    >>> isnan(np.array([1., np.nan, np.inf]))
    Array([False,  True, False], dtype=bool)
    """
    aval("isnan", x)
    return lax.ne(x, x)


@public_api(entries=ELEMENTWISE)
def isfinite(x: ArrayLike, /) -> Array:
    """Whether each element is neither infinite nor NaN.

    Args:
      x: number or boolean array; of complex numbers both parts count.
    Returns:
      Boolean array of the shape of `x`; True for booleans and integers.
    Raises: {TypeError}

    Source: meaning of `numpy.isfinite`.

    >>> isfinite(np.array([1., np.nan, np.inf]))
    Array([ True, False, False], dtype=bool)
    """
    a = aval("isfinite", x)
    if dtypes.is_float(a.dtype):
        return lax.is_finite(x)
    if dtypes.is_complex(a.dtype):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.broadcast_in_dim(np.True_, a.shape, ())


@public_api(entries=ELEMENTWISE)
def isinf(x: ArrayLike, /) -> Array:
    """Whether each element is infinite, of either sign.

    Args:
      x: number or boolean array; of complex numbers either part counts.
    Returns: {never}
    Raises: {TypeError}

    Source: meaning of `numpy.isinf`.

    >>> isinf(np.array([1., np.nan, -np.inf]))
    Array([False, False,  True], dtype=bool)
    """
    a = aval("isinf", x)
    if dtypes.is_float(a.dtype):
        return lax.eq(lax.abs(x), literal(np.inf, a.dtype))
    if dtypes.is_complex(a.dtype):
        return lax.bitwise_or(isinf(lax.real(x)), isinf(lax.imag(x)))
    return _make_all_false(a)


def _make_is_inf(name: str, value: float, says: str, example: str) -> Unary:
    def op(x: ArrayLike, /, out: None = None) -> Array:
        refuse_out(name, out)
        a = aval(name, x)
        if dtypes.is_complex(a.dtype):
            raise ValueError(f"{name}: not defined for complex numbers; got {a.str_long()}")
        return lax.eq(x, literal(value, a.dtype)) if dtypes.is_float(a.dtype) else _make_all_false(a)
    doc = docstring(says, {"x": "real or boolean array.", "out": "not supported, must be None: arrays never change."},
                    "Boolean array of the shape of `x`; False for booleans and integers.",
                    {"ValueError": "`x` holds complex numbers.", "TypeError": "`x` is neither an array nor a number.",
                     "NotImplementedError": "`out` is given."}, f"meaning of `numpy.{name}`.", example)
    return make_unary(name, doc, op)


isposinf = _make_is_inf("isposinf", np.inf, "Whether each element is plus infinity.",
                        ">>> isposinf(np.array([1., np.inf, -np.inf]))\nArray([False,  True, False], dtype=bool)")
isneginf = _make_is_inf("isneginf", -np.inf, "Whether each element is minus infinity.",
                        ">>> isneginf(np.array([1., np.inf, -np.inf]))\nArray([False, False,  True], dtype=bool)")


def _make_imaginary_test(name: str, prim: Any, says: str, otherwise: bool, example: str) -> Predicate:
    def op(x: ArrayLike) -> Array:
        y = imag(x)
        return equation(prim, y, literal(0, typeof(y).dtype))
    doc = docstring(says, {"x": "number or boolean array."},
                    f"Boolean array of the shape of `x`; {otherwise} for dtypes that are not complex.",
                    {"TypeError": "`x` is neither an array nor a number."}, f"meaning of `numpy.{name}`.", example)
    return public_api(name=name, doc=doc)(op)


iscomplex = _make_imaginary_test("iscomplex", prims.ne_p, "Whether each element has an imaginary part other than zero.",
                                 False, ">>> iscomplex(np.array([1 + 2j, 3]))\nArray([ True, False], dtype=bool)")
isreal = _make_imaginary_test("isreal", prims.eq_p, "Whether the imaginary part of each element is zero.", True,
                              ">>> isreal(np.array([1 + 2j, 3]))\nArray([False,  True], dtype=bool)")


_OBJECT = {**ELEMENTWISE, **docstring_entries("""
    x: an array, a number, a list of numbers, a scalar type such as `float32` of this module, or None.
    """)}


@fill_docstring(_OBJECT)
def iscomplexobj(x: ArrayLike) -> bool:
    """Whether `x` has a complex dtype, whatever its elements are.

    Args: {x}
    Returns:
      A Python bool; False for None.
    Raises: {TypeError}

    Source: meaning of `numpy.iscomplexobj`.

    >>> iscomplexobj(np.array([1 + 0j]))
    True
    """
    if x is None:
        return False
    if isinstance(x, (ShapeDtypeStruct, ScalarType)):
        return dtypes.is_complex(x.dtype)
    return dtypes.is_complex(aval("iscomplexobj", x).dtype) if not isinstance(x, (list, tuple, range)) else np.iscomplexobj(x)


@fill_docstring(ELEMENTWISE)
def isrealobj(x: ArrayLike) -> bool:
    """Whether `x` has a dtype that is not complex.

    Args:
      x: an array, a number, a list of numbers, a scalar type such as `float32` of this module, a `ShapeDtypeStruct`, or None.
    Returns:
      A Python bool; True for None.
    Raises: {TypeError}

    Source: meaning of `numpy.isrealobj`.

    >>> isrealobj(np.array([1 + 0j]))
    False
    """
    return not iscomplexobj(x)


def isscalar(element: ArrayLike) -> bool:
    """Whether `element` is a number, a string, or an array of rank 0.

    Args:
      element: any object.
    Returns:
      A Python bool.
    Raises:
      Nothing: every object has an answer.

    Source: meaning of `numpy.isscalar`, but for arrays of rank 0, which NumPy says no to.

    >>> isscalar(2.5), isscalar(np.array(2.5)), isscalar([2.5])
    (True, True, False)
    """
    if np.isscalar(element):
        return True
    return getattr(element, "shape", None) == () and hasattr(element, "dtype")


_CLOSE = docstring_entries("""
    a, b: number or boolean arrays that broadcast to each other; `b` is the reference.
    rtol, atol: tolerances: the share of `|b|`, and the amount in units of `b`; may be traced.
    equal_nan: whether NaN is close to NaN.
    ShapeError: `a` and `b`, or the tolerances, do not broadcast to each other.
    TypeError: an argument is neither an array nor a number.
    """)


@public_api("equal_nan", entries=_CLOSE)
def isclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08,
            equal_nan: bool = False) -> Array:
    """Whether `|a - b| <= atol + rtol * |b|`, elementwise.

    Args:
      {a, b, rtol, atol}
      equal_nan: whether NaN is close to NaN.
    Returns:
      Boolean array of the shape that `a` and `b` broadcast to. Infinities and booleans are close only if equal.
    Raises: {ShapeError, TypeError}

    Source: meaning of `numpy.isclose`.

    >>> isclose(np.array([1.0, 1.1]), 1.0 + 1e-6)
    Array([ True, False], dtype=bool)
    """
    x, y = pair("isclose", a, b)
    d = typeof(x).dtype
    if d == dtypes.BOOL or dtypes.is_key(d):
        return lax.eq(x, y)
    if not dtypes.is_inexact(d):
        fd = np.dtype("float64") if d.itemsize == 8 else np.dtype("float32")
        x, y, d = cast(x, fd), cast(y, fd), fd
    part = dtypes.real_dtype(d)
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


def _reduce_all(x: Any) -> Any:
    return lax.reduce_and(x, tuple(range(len(typeof(x).shape))))


@public_api("equal_nan", entries=_CLOSE)
def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08,
             equal_nan: bool = False) -> Array:
    """Whether `isclose` is true for all elements.

    Args: {a, b, rtol, atol, equal_nan}
    Returns:
      Boolean array of rank 0; True if there are no elements.
    Raises: {ShapeError, TypeError}

    Source: meaning of `numpy.allclose`.

    >>> allclose(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-6]))
    Array(True, dtype=bool)
    """
    return _reduce_all(isclose(a, b, rtol, atol, equal_nan))


def _to_arrays(*xs: Any) -> list[Any]:
    return [asarray(x) if isinstance(x, (list, tuple, range)) else x for x in xs]


@public_api("equal_nan")
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and elements.

    Args:
      a1, a2: arrays, numbers, or lists of numbers.
      equal_nan: whether NaN is equal to NaN.
    Returns:
      Boolean array of rank 0; False where the shapes differ.
    Raises:
      TypeError: one of them is neither an array nor a number, nor a list of them.

    Source: meaning of `numpy.array_equal`.

    >>> array_equal(np.array([1, 2]), [1.0, 2.0])
    Array(True, dtype=bool)
    >>> array_equal(np.array([1, 2]), 1)
    Array(False, dtype=bool)
    """
    a1, a2 = _to_arrays(a1, a2)
    if aval("array_equal", a1).shape != aval("array_equal", a2, 1).shape:
        return lax.convert_element_type(np.False_, dtypes.BOOL)
    x, y = pair("array_equal", a1, a2)
    same = lax.eq(x, y)
    if equal_nan:
        same = lax.bitwise_or(same, lax.bitwise_and(lax.ne(x, x), lax.ne(y, y)))
    return _reduce_all(same)


@public_api()
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays broadcast to each other and then have the same elements.

    Args:
      a1, a2: arrays, numbers, or lists of numbers.
    Returns:
      Boolean array of rank 0; False where the shapes do not broadcast.
    Raises:
      TypeError: one of them is neither an array nor a number, nor a list of them.

    Source: meaning of `numpy.array_equiv`.

    >>> array_equiv(np.array([1, 1]), 1)
    Array(True, dtype=bool)
    """
    a1, a2 = _to_arrays(a1, a2)
    try:
        x, y = pair("array_equiv", *promote_all("array_equiv", [a1, a2]))
    except ValueError:
        return lax.convert_element_type(np.False_, dtypes.BOOL)
    return _reduce_all(lax.eq(x, y))
