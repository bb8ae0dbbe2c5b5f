"""Convolution and correlation of lines, and the windows used with them."""
from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import Tracer, typeof, resolve_requested_dtype

from .._core.promotion import cast, literal, pair, promote_all, to_inexact
from .._core.public_api import public_api
from .._core.conversion import asarray, put, to_array, wrap_host_values
from .._elementwise.special import i0
from .._creation.creation import arange
from .._products.products import dot_general
from .._indexing.take import take

__all__ = ["bartlett", "blackman", "convolve", "correlate", "hamming", "hanning", "kaiser"]

_CONVOLUTION = docstring_entries("""
    a, v: number arrays `[n]` and `[m]`.
    mode: "full" (every overlap, `n + m - 1`), "same" (the middle, as long as the longer operand) or "valid" (full
      overlaps, `|n - m| + 1`).
    precision: precision of the products, if the hardware has several: None for the configured one, a name such as
      "high" or "highest", or one per operand.
    preferred_element_type: element type to sum in, and of the result; None for that of the operands.
    sums: Float array, in the dtype that both promote to (integers and booleans to float) or `preferred_element_type`,
      and the product of their units.
    ValueError: an operand is empty or does not have one axis, or `mode` or `precision` is unknown.
    TypeError: `a` or `v` is neither an array nor a number, or `preferred_element_type` cannot hold the products.
    """)


_MOST_WINDOWS = 1 << 20  # elements of all windows, up to which one product of them is the faster way
_FEW_WINDOWS, _SHORT = 1 << 12, 8  # and of how many, of how long a kernel, a loop is, which compiles in half the time
_I32 = np.dtype("int32")
_WIDE = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def _make_windows(x: Any, size: int, count: int) -> Any:
    """`[count, size]` windows of a line, one place apart."""
    places = np.arange(count)[:, None] + np.arange(size)[None, :]
    return take(x, wrap_host_values(places.astype(np.int32)), 0, mode="clip")


def _convolve_short(a: Any, kernel: Any, skip: int, count: int) -> Any:
    """`sum_j a[k + skip - j] kernel[j]` for the first `count` k, in one loop. The line, padded with as many zeros as
    the kernel is long, is reshaped to rows that are one element shorter, so that each row begins one element later."""
    n, m = typeof(a).shape[0], typeof(kernel).shape[0]
    row = n + m - 1
    rows = lax.broadcast_in_dim(lax.pad(a, literal(0, typeof(a).dtype), ((0, m, 0),)), (m, row + 1), (1,))
    shifted = lax.reshape(lax.slice(lax.reshape(rows, (m * (row + 1),)), (0,), (m * row,)), (m, row))
    products = lax.mul(lax.slice(shifted, (0, skip), (m, skip + count)), lax.broadcast_in_dim(kernel, (m, count), (0,)))
    place = lax.sub(lax.broadcasted_iota(_I32, (m, count), 1), lax.broadcasted_iota(_I32, (m, count), 0))
    products = _inside(lax.add(place, literal(skip, _I32)), n, products)
    return lax.reduce_sum(lax.transpose(products, (1, 0)), (1,))


def _inside(places: Any, n: int, products: Any) -> Any:
    """The products at places of a line of n elements, 0 at others: an infinite element of the kernel times 0 is NaN."""
    is_inside = lax.bitwise_and(lax.ge(places, literal(0, _I32)), lax.lt(places, literal(n, _I32)))
    return lax.select(is_inside, products, literal(0, typeof(products).dtype))


def _overhang(a: Any, kernel: Any, first: int, count: int) -> Any:
    """`sum_j a[k + j] kernel[j]` for `count` k from `first` on, whose windows begin before the line or end after it."""
    n, m = typeof(a).shape[0], typeof(kernel).shape[0]
    places = lax.add(lax.broadcasted_iota(_I32, (count, m), 0), lax.broadcasted_iota(_I32, (count, m), 1))
    places = lax.add(places, literal(first, _I32))
    windows = take(a, places, 0, mode="clip")
    return lax.reduce_sum(_inside(places, n, lax.mul(windows, lax.broadcast_in_dim(kernel, (count, m), (1,)))), (1,))


def _slide(call: str, a: Any, v: Any, mode: str, flip: bool, precision: Any, preferred: Any) -> Any:
    a, v = promote_all(call, [to_array(call, a), to_array(call, v, 1)])
    a, v = to_inexact(call, a), to_inexact(call, v)
    if len(typeof(a).shape) != 1 or len(typeof(v).shape) != 1:
        raise ValueError(f"{call}: expected one axis each; got {typeof(a).str_long()} and {typeof(v).str_long()}")
    n, m = typeof(a).shape[0], typeof(v).shape[0]
    if not n or not m:
        raise ValueError(f"{call}: operands must not be empty; got {typeof(a).str_long()} and {typeof(v).str_long()}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{call}: mode must be 'full', 'same' or 'valid'; got {mode!r}")
    swapped = n < m
    if swapped:
        a, v, n, m = v, a, m, n
    lo, hi = {"full": (m - 1, m - 1), "valid": (0, 0), "same": (m // 2, (m - 1) // 2)}[mode]
    count = n + lo + hi - m + 1
    plain = precision is None and preferred is None and typeof(a).dtype in _WIDE
    if plain and m <= _SHORT and count * m <= _FEW_WINDOWS:
        out = _convolve_short(a, v if flip else lax.rev(v, (0,)), m - 1 - lo, count)
        return lax.rev(out, (0,)) if swapped and not flip else out
    kernel = lax.rev(v, (0,)) if flip else v  # correlation with its operands exchanged reverses the result instead
    if precision is None and preferred is None and 2 * m * m <= _MOST_WINDOWS and (lo or hi):
        whole = _slide_plain(a, kernel, 0, 0, n - m + 1, None, None)
        parts = [_overhang(a, kernel, -lo, lo)] * (lo > 0) + [whole] + [_overhang(a, kernel, n - m + 1, hi)] * (hi > 0)
        out = lax.concatenate(parts, 0)
    else:
        out = _slide_plain(a, kernel, lo, hi, count, precision, preferred)
    return lax.rev(out, (0,)) if swapped and not flip else out


def _slide_plain(a: Any, kernel: Any, lo: int, hi: int, count: int, precision: Any, preferred: Any) -> Any:
    """The sums over all windows of a line padded with zeros."""
    m = typeof(kernel).shape[0]
    if count * m <= _MOST_WINDOWS:
        wide = lax.pad(a, literal(0, typeof(a).dtype), ((lo, hi, 0),))
        out = dot_general(_make_windows(wide, m, count), kernel, ((1,), (0,)), precision=precision, preferred=preferred)
    else:  # one channel of one example: up to nine times as slow, but it takes no memory beyond its operands
        out = lax.conv_general_dilated(lax.expand_dims(a, (0, 1)), lax.expand_dims(kernel, (0, 1)), (1,), [(lo, hi)],
                                       precision=precision,
                                       preferred_element_type=preferred and resolve_requested_dtype(preferred))
        out = lax.squeeze(out, (0, 1))
    return out


@public_api("mode", "precision", "preferred_element_type", entries=_CONVOLUTION)
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None,
             preferred_element_type: DTypeLike | None = None) -> Array:
    """Discrete convolution of two lines: `sum_j a[j] v[k - j]`, in float.

    Args: {a, v, mode, precision, preferred_element_type}
    Returns: {sums}
    Raises: {ValueError, TypeError}

    Derivative: linear in either operand.
    Source: meaning of `numpy.convolve`, there in integers for integers. An infinite element in an operand of more than
      724 elements, or with a `precision` or `preferred_element_type`, gives NaN where it is past the other's ends.

    >>> convolve(np.array([1, 2]), np.array([1, 1]))
    Array([1., 3., 2.], dtype=float32)
    """
    return _slide("convolve", a, v, mode, True, precision, preferred_element_type)


@public_api("mode", "precision", "preferred_element_type", entries=_CONVOLUTION)
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None,
              preferred_element_type: DTypeLike | None = None) -> Array:
    """Cross-correlation of two lines: `sum_j a[j + k] conj(v[j])` for each shift k, in float.

    Args: {a, v, mode, precision, preferred_element_type}
    Returns: {sums}
      The shifts ascend.
    Raises: {ValueError, TypeError}

    Derivative: linear in `a`, and in the conjugate of `v`.
    Source: meaning of `numpy.correlate`, there in integers for integers; infinite elements as in `convolve`.

    >>> correlate(np.array([1., 2., 3.]), np.array([0., 1.]))
    Array([2., 3.], dtype=float32)
    """
    v = to_array("correlate", v, 1)
    if dtypes.is_complex(typeof(v).dtype):
        v = lax.conj(v)
    return _slide("correlate", a, v, mode, False, precision, preferred_element_type)


def _check_points(call: str, M: Any) -> None:
    """Raise TypeError unless `M` can be a number of points; NumPy's functions accept any real number."""
    if not isinstance(M, Tracer) and (np.ndim(M) or np.asarray(M).dtype.kind not in "biuf"):
        raise TypeError(f"{call}: M must be an integer; got {type(M).__name__}: {M!r:.60}")


class Window(Protocol):
    """The type of functions from a number of points to the values of a window."""

    def __call__(self, M: int) -> Array: ...


def _make_window(name: str, says: str, example: str) -> Window:
    """Return the window function that NumPy computes under this name."""
    host = getattr(np, name)

    def window(M: int) -> Array:
        _check_points(name, M)
        return put(np.asarray(host(M)), dtypes.canonical_float())
    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"""{says}

    Args:
      M: number of points, a known int; the result is empty below 1.
    Returns:
      Array `[M]` of the default float, symmetric, at most 1; 1 alone for one point.
    Raises:
      TypeError: `M` is not a number.
      ConcretizationError: `M` is traced.

    Source: meaning of `numpy.{name}`, which computes it.

    >>> {name}(5).round(2)
    {example}
    """
    return window


bartlett = _make_window("bartlett", "Return the triangular window of M points, 0 at both ends.",
                        "Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)")
blackman = _make_window("blackman",
                        "Return the Blackman window of M points: `0.42 - 0.5 cos(t) + 0.08 cos(2 t)`, t from 0 to 2 pi.",
                        "Array([-0.  ,  0.34,  1.  ,  0.34, -0.  ], dtype=float32)")
hamming = _make_window("hamming", "Return the Hamming window of M points: `0.54 - 0.46 cos(t)`, t from 0 to 2 pi.",
                       "Array([0.08, 0.54, 1.  , 0.54, 0.08], dtype=float32)")
hanning = _make_window("hanning", "Return the Hann window of M points: `0.5 - 0.5 cos(t)`, t from 0 to 2 pi.",
                       "Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)")


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Return the Kaiser window of M points: `i0(beta sqrt(1 - t^2)) / i0(beta)`, t from -1 to 1.

    Args:
      M: number of points, a known int; none below 1.
      beta: real number, may be traced: 0 gives ones, larger ones a narrower window.
    Returns:
      Float array `[M]`, symmetric, at most 1; 1 alone for one point.
    Raises:
      TypeError: `beta` is neither an array nor a number.
      ConcretizationError: `M` is traced.

    Derivative: in `beta`.
    Source: meaning of `numpy.kaiser`.

    >>> kaiser(3, 5.0).round(4)
    Array([0.0367, 1.    , 0.0367], dtype=float32)
    """
    _check_points("kaiser", M)
    d = dtypes.canonical_float()
    if M == 1:
        return cast(asarray([1.0]), d)
    k = arange(M, dtype=d)
    half = (M - 1) / 2.0
    inside = 1 - ((k - half) / half) ** 2
    x, y = pair("kaiser", beta, lax.sqrt(lax.max(inside, literal(0, d))))
    return i0(lax.mul(x, y)) / i0(beta)
