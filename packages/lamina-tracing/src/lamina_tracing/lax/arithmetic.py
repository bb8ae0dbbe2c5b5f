"""Elementwise functions written with others: high words of products, the logarithm to base 2, `1 - x**2`."""
from __future__ import annotations

import math

import numpy as np
from lamina_ir import DTypeError, dtypes
from lamina_ir.typing import Value

from .._core.array import Array, ArrayLike
from .._diagnostics.argument_errors import rename_errors
from . import elementwise as ew
from ._util.conversions import bitcast_convert_type, convert_element_type
from ._util.operands import match_scalars, scalar, typeof

__all__ = ["log2", "mulhi", "one_minus_square"]


@rename_errors
def log2(x: ArrayLike) -> Array:
    """The logarithm to base 2.

    >>> import numpy as np
    >>> log2(np.float32([1, 8, 0]))
    Array([  0.,   3., -inf], dtype=float32)
    """
    y = ew.log(x)
    dtype = typeof(y).dtype
    if not dtypes.is_complex(dtype):
        return ew.div(y, scalar(math.log(2), dtype))
    divisor = scalar(math.log(2), dtypes.real_dtype(dtype))  # by parts: an infinite one would make the other NaN
    return ew.complex(ew.div(ew.real(y), divisor), ew.div(ew.imag(y), divisor))


@rename_errors
def one_minus_square(x: ArrayLike) -> Array:
    """`1 - x**2` as `(1 - x) (1 + x)`, accurate near -1 and 1.

    >>> import numpy as np
    >>> one_minus_square(np.float32([0, 1, 3]))
    Array([ 1.,  0., -8.], dtype=float32)
    """
    return ew.mul(ew.sub(1, x), ew.add(1, x))


@rename_errors
def mulhi(x: ArrayLike, y: ArrayLike) -> Array:
    """The high half of the product of two integers of N bits, which has 2 N bits.

    Args:
      x, y: integer arrays of one dtype and shape; a Python number takes the dtype of the other.
    Returns:
      Integer array: the product divided by `2**N`, rounded down.
    Raises:
      DTypeError: the operands are not integers.

    >>> import numpy as np
    >>> mulhi(np.int32([2**30, -1]), np.int32([8, 1]))
    Array([ 2, -1], dtype=int32)
    """
    x, y = match_scalars(x, y)
    t = typeof(x)
    for operand in (x, y):
        if not dtypes.is_integer(typeof(operand).dtype):
            raise DTypeError(f"expected integers; got {typeof(operand).str_long()}")
    bits = dtypes.iinfo(t.dtype).bits
    if bits <= 16:
        wide = np.dtype("uint32" if t.dtype.kind == "u" or t.dtype.name.startswith("u") else "int32")
        product = ew.mul(*(convert_element_type(v, wide) for v in (x, y)))
        shift = ew.shift_right_logical if wide.kind == "u" else ew.shift_right_arithmetic
        return convert_element_type(shift(product, scalar(bits, wide)), t.dtype)
    return _multiply_halves(x, y, np.dtype(t.dtype), bits)


def _multiply_halves(x: Value, y: Value, dtype: np.dtype, bits: int) -> Array:
    """By four products of halves, without overflow. The bits of a negative x are those of x + 2**N, whose product with y is
    too large by 2**N y."""
    word = np.dtype(f"uint{bits}")
    half, mask = scalar(bits // 2, word), scalar(2 ** (bits // 2) - 1, word)
    a, b = (v if dtype == word else bitcast_convert_type(v, word) for v in (x, y))
    (a1, a0), (b1, b0) = ((ew.shift_right_logical(v, half), ew.bitwise_and(v, mask)) for v in (a, b))
    middle = ew.add(ew.mul(a1, b0), ew.shift_right_logical(ew.mul(a0, b0), half))
    other = ew.add(ew.mul(a0, b1), ew.bitwise_and(middle, mask))
    high = ew.add(ew.mul(a1, b1), ew.add(ew.shift_right_logical(middle, half), ew.shift_right_logical(other, half)))
    if dtype == word:
        return high
    zero = scalar(0, dtype)
    high = bitcast_convert_type(high, dtype)
    for v, w in ((x, y), (y, x)):
        high = ew.sub(high, ew.select(ew.lt(v, zero), w, scalar(0, dtype)))
    return high
