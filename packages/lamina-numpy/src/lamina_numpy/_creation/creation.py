"""Arrays from a shape: constants, ranges, identities.

While a program is traced these write an equation; else small arrays are made on the host and put on the device, which
needs no compilation, and large ones are computed in place.
"""
from __future__ import annotations

from functools import partial
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, dtypes, DTypeError, evaluate_primitive, prims, shaped
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_tracing import Array, ArrayLike, DTypeLike, lax, ShapeLike, hooks
from lamina_ir.typing import Sharding
from lamina_tracing.extend import (as_int, call_with_out_sharding, check_out_sharding, explicit_meshes, resolve_requested_dtype,
                                   share_sharding, Tracer, typeof)

from .._core.promotion import aval, cast, is_array, is_staging, literal, make_constant
from .._core.axes import as_shape
from .._core.conversion import asarray, to_device
from .._shape.layout import broadcast_to

__all__ = ["arange", "empty", "empty_like", "eye", "full", "full_like", "identity", "ones", "ones_like", "tri", "zeros",
           "zeros_like"]

_CREATION = docstring_entries("""
    shape: an int or a sequence of ints; must be known while tracing.
    N: number of rows.
    M: number of columns; None for `N`.
    k: which diagonal: 0 for the main one, positive above it, negative below.
    dtype: element type; None for the default float, float32 (float64 in 64-bit mode).
    device: device or sharding of the result; None for the default.
    out_sharding: None, or the sharding of the result over `Explicit` axes: a `PartitionSpec` or a `NamedSharding`.
    result: Array of this shape and dtype.
    ValueError: a size is negative.
    TypeError: `shape` does not contain integers, or they are traced.
    DTypeError: `dtype` is not an element type of arrays.
    """)
_LIKE = {**_CREATION, **docstring_entries("""
    a: array, number or list of numbers, or an object with a shape and a dtype; its elements are not used.
    dtype: element type; None for that of `a`.
    shape: an int or a sequence of ints; None for that of `a`.
    TypeError: `a` is neither an array nor a number.
    """)}

_SMALL = 1 << 16  # bytes up to which copying from the host beats compiling
_SCALARS = frozenset((bool, int, float, complex))
_I32 = np.dtype("int32")


def _make(shape: tuple[int, ...], dtype: np.dtype, host: Callable[[], np.ndarray], ops: Callable[[], Any]) -> Any:
    if dtypes.is_key(dtype):
        raise DTypeError(f"numbers cannot become PRNG keys; got dtype {dtypes.long_name(dtype)}. "
                         "Use random.wrap_key_data(data)")
    if dtype == dtypes.float0:  # the zero tangent of integers: no device has this dtype
        return np.zeros(shape, dtype)
    if not is_staging() and math.prod(shape) * dtype.itemsize <= _SMALL:
        return hooks.evaluator.array(np.asarray(host(), dtype), shaped(shape, dtype))
    return ops()


def _fill(shape: tuple[int, ...], value: Any, dtype: np.dtype) -> Any:
    if dtype == dtypes.float0:
        return np.zeros(shape, dtype)
    if not is_staging() and math.prod(shape) * dtype.itemsize <= _SMALL:
        return hooks.evaluator.array(np.full(shape, value, dtype), shaped(shape, dtype))
    return lax.broadcast_in_dim(make_constant(value, dtype), shape, ())


def _resolve_float(dtype: Any) -> np.dtype:
    if isinstance(dtype, int):  # `zeros(2, 3)`
        raise DTypeError(f"expected a dtype; got {dtype}. A shape is one tuple, such as (2, 3)")
    return dtypes.canonical_float() if dtype is None else resolve_requested_dtype(dtype)


@fill_docstring(_CREATION)
def zeros(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Any = None,
          out_sharding: Sharding = None) -> Array:
    """An array of zeros.

    Args: {shape, dtype, device, out_sharding}
    Returns: {result}
    Raises: {ValueError, TypeError, DTypeError}

    Source: meaning of `numpy.zeros`.

    >>> zeros((2, 2))
    Array([[0., 0.],
           [0., 0.]], dtype=float32)
    """
    if out_sharding is not None:
        check_out_sharding("zeros", out_sharding)
        return call_with_out_sharding("zeros", partial(zeros, shape, dtype), (), out_sharding)
    out = _fill(as_shape("zeros", shape), 0, _resolve_float(dtype))
    return out if device is None else to_device(out, device)


@fill_docstring(_CREATION)
def ones(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Any = None,
         out_sharding: Sharding = None) -> Array:
    """An array of ones.

    Args: {shape, dtype, device, out_sharding}
    Returns: {result}
    Raises: {ValueError, TypeError, DTypeError}

    Source: meaning of `numpy.ones`.

    >>> ones(2, dtype="int32")
    Array([1, 1], dtype=int32)
    """
    if out_sharding is not None:
        check_out_sharding("ones", out_sharding)
        return call_with_out_sharding("ones", partial(ones, shape, dtype), (), out_sharding)
    out = _fill(as_shape("ones", shape), 1, _resolve_float(dtype))
    return out if device is None else to_device(out, device)


@fill_docstring(_CREATION)
def empty(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Any = None,
          out_sharding: Sharding = None) -> Array:
    """An array of zeros, where NumPy leaves the values open.

    Args: {shape, dtype, device, out_sharding}
    Returns: {result}
    Raises: {ValueError, TypeError, DTypeError}

    Source: meaning of `numpy.empty`.

    >>> empty(2)
    Array([0., 0.], dtype=float32)
    """
    if out_sharding is not None:
        check_out_sharding("empty", out_sharding)
        return call_with_out_sharding("empty", partial(empty, shape, dtype), (), out_sharding)
    return zeros(as_shape("empty", shape), dtype, device=device)


def full(shape: ShapeLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, *, device: Any = None,
         out_sharding: Sharding = None) -> Array:
    """An array whose every element is a given value.

    Args:
      shape: an int or a sequence of ints. Known while tracing.
      fill_value: a number, or an array or list that broadcasts to `shape`; may be traced.
      dtype: element type; None for that of `fill_value`.
      device: device or sharding of the result; None for the default.
      out_sharding: None, or the sharding of the result over `Explicit` axes: a `PartitionSpec` or a `NamedSharding`.
    Returns:
      Array of this shape and dtype, in the units of `fill_value`; complex numbers lose their imaginary part in a real
      dtype.
    Raises:
      ShapeError: `fill_value` does not broadcast to `shape`.
      ValueError: a size is negative.
      TypeError: `shape` holds no integers, or `fill_value` is neither an array nor a number.
      DTypeError: `dtype` is no element type of arrays, or one of keys and `fill_value` neither a key nor an integer.

    Derivative: linear in `fill_value`; the transpose is a sum.
    Source: meaning of `numpy.full`.

    >>> full(2, 7.5)
    Array([7.5, 7.5], dtype=float32, weak_type=True)
    >>> full((2, 2), np.array([1, 2]))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    if out_sharding is not None:
        check_out_sharding("full", out_sharding)
        return call_with_out_sharding("full", partial(full, shape, dtype=dtype), (fill_value,), out_sharding)
    shape = as_shape("full", shape)
    if isinstance(fill_value, (list, tuple)):
        fill_value = asarray(fill_value)
    a = aval("full", fill_value, 1)
    d, weak = (a.dtype, a.weak_type) if dtype is None else (resolve_requested_dtype(dtype), False)
    if dtypes.is_key(d) and type(fill_value) is int:  # the number that each word of the keys is
        return lax.full(shape, fill_value, d, sharding=device)
    if not a.shape:
        if not is_array(fill_value) and not is_staging() and math.prod(shape) * d.itemsize <= _SMALL:
            real = isinstance(fill_value, complex) and not dtypes.is_complex(d) and not dtypes.is_bool(d)
            value = fill_value.real if real else fill_value
            value = evaluate_primitive(prims.convert_element_type_p, (np.asarray(value),),
                                       {"new_dtype": d, "weak_type": weak})
            out = hooks.evaluator.array(np.full(shape, value), shaped(shape, d, weak))
        else:
            out = lax.broadcast_in_dim(cast(fill_value, d, weak), shape, ())
    else:
        out = asarray(broadcast_to(cast(fill_value, d), shape))
    return out if device is None else to_device(out, device)


def _resolve_like(call: str, a: Any, dtype: Any, shape: Any) -> tuple[tuple[int, ...], np.dtype, bool]:
    if isinstance(a, (list, tuple)):
        a = asarray(a)
    t = a if isinstance(getattr(a, "shape", None), tuple) and not isinstance(a, Tracer) and hasattr(a, "dtype") \
        and not isinstance(a, (np.ndarray, np.generic)) else aval(call, a)
    d = dtypes.canonicalize(t.dtype) if dtype is None else resolve_requested_dtype(dtype)
    return (t.shape if shape is None else as_shape(call, shape)), d, dtype is None and getattr(t, "weak_type", False)


def _set_like(x: Any, weak: bool, like: Any) -> Any:
    """Return an array with the weak type of an argument, and the sharding that a traced `like` has in its type."""
    out = cast(x, typeof(x).dtype, True) if weak else x
    return share_sharding(out, like) if explicit_meshes and isinstance(like, Tracer) and like.shape == out.shape else out


@fill_docstring(_LIKE)
def zeros_like(a: ArrayLike, dtype: DTypeLike | None = None, shape: ShapeLike | None = None, *,
               device: Any = None) -> Array:
    """An array of zeros, like another.

    Args: {a, dtype, shape, device}
    Returns: {result}
    Raises: {ValueError, TypeError, DTypeError}

    Source: meaning of `numpy.zeros_like`.

    >>> zeros_like(np.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    shape, d, weak = _resolve_like("zeros_like", a, dtype, shape)
    return _set_like(zeros(shape, d, device=_choose_device(a, shape, device)), weak, a if device is None else None)


@fill_docstring(_LIKE)
def ones_like(a: ArrayLike, dtype: DTypeLike | None = None, shape: ShapeLike | None = None, *,
              device: Any = None) -> Array:
    """An array of ones, like another.

    Args: {a, dtype, shape, device}
    Returns: {result}
    Raises: {ValueError, TypeError, DTypeError}

    Source: meaning of `numpy.ones_like`.

    >>> ones_like(np.array([1, 2]), shape=(1, 3))
    Array([[1, 1, 1]], dtype=int32)
    """
    shape, d, weak = _resolve_like("ones_like", a, dtype, shape)
    return _set_like(ones(shape, d, device=_choose_device(a, shape, device)), weak, a if device is None else None)


def empty_like(prototype: ArrayLike, dtype: DTypeLike | None = None, shape: ShapeLike | None = None, *,
               device: Any = None) -> Array:
    """Make an array like another one with unspecified elements, which are zeros.

    Args:
      prototype: array, number or list of numbers, or anything with a shape and a dtype; only these count.
      dtype: element type; None for that of `prototype`.
      shape: an int or a sequence of ints; None for that of `prototype`.
      device: device or sharding of the result; None for the default.
    Returns:
      Array of zeros of this shape and dtype.
    Raises:
      ValueError: a size is negative.
      TypeError: `prototype` is neither an array nor a number, or `shape` holds no integers.

    Source: meaning of `numpy.empty_like`, which leaves what was there.

    >>> empty_like(np.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return zeros_like(prototype, dtype, shape, device=device)


def full_like(a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: ShapeLike | None = None, *,
              device: Any = None) -> Array:
    """An array whose every element is a given value, like another.

    Args:
      a: array, number or list of numbers, or anything with a shape and a dtype; only these count.
      fill_value: a number, or an array or list that broadcasts to the shape; may be traced.
      dtype: element type; None for that of `a`.
      shape: an int or a sequence of ints; None for that of `a`.
      device: device or sharding of the result; None for the default.
    Returns:
      Array of this shape and dtype, in the units of `fill_value`.
    Raises:
      ShapeError: `fill_value` does not broadcast to the shape.
      ValueError: a size is negative.
      TypeError: `a` or `fill_value` is neither an array nor a number.
      DTypeError: `dtype` is no element type of arrays.

    Derivative: linear in `fill_value`; the transpose is a sum.
    Source: meaning of `numpy.full_like`.

    >>> full_like(np.array([1, 2]), 7.5)
    Array([7, 7], dtype=int32)
    """
    shape, d, weak = _resolve_like("full_like", a, dtype, shape)
    if d == dtypes.float0:
        return zeros(shape, d)
    return _set_like(full(shape, fill_value, d, device=_choose_device(a, shape, device)), weak,
                     a if device is None else None)


def _choose_device(a: Any, shape: tuple[int, ...], device: Any) -> Any:
    """Return the device for an array like `a`: by default the sharding of `a` if it is part of its type."""
    if device is not None or isinstance(a, Tracer) or getattr(a, "shape", None) != shape:
        return device
    sharding = getattr(a, "sharding", None)
    return None if sharding is None else getattr(sharding, "explicit_of_rank", lambda ndim: None)(len(shape))


def _require_concrete(call: str, x: Any) -> Any:
    """A concrete number for a bound of a range."""
    if isinstance(x, Tracer):
        raise _make_traced_bound_error(call, x)
    if type(x) in _SCALARS:
        return x
    value = np.asarray(x)
    if value.dtype.kind not in "biufcV":
        raise TypeError(f"{call}: bounds must be numbers; got {type(x).__name__}: {x!r:.60}")
    if value.shape:
        raise TypeError(f"{call}: bounds must be numbers; got {typeof(x).str_long()}")
    return value[()]


def _make_traced_bound_error(call: str, x: Any) -> Exception:
    return ConcretizationError(f"{call}: the length of the result depends on a traced {x.aval.str_long()}; use a number "
                               "known while tracing (a static argument), or lax.iota with arithmetic")


def arange(start: ArrayLike, stop: ArrayLike | None = None, step: ArrayLike | None = None,
           dtype: DTypeLike | None = None, *, device: Any = None,
           out_sharding: Sharding = None) -> Array:
    """Evenly spaced numbers from a start up to, but not with, a stop.

    Args:
      start: the first number; if `stop` is None, the stop, and the first number is 0.
      stop: what no number reaches; None where only `start` is given.
      step: the distance, which may be negative; None for 1. The three are known real numbers.
      dtype: element type; None for the common one of the numbers given.
      device: device or sharding of the result; None for the default.
      out_sharding: None, or the sharding of the result over `Explicit` axes: a `PartitionSpec` or a `NamedSharding`.
    Returns:
      Array `[n]`, `n = ceil((stop - start) / step)`, or 0 where that is negative; in the units of `start`. In an
      integer dtype start and step are cut to integers first.
    Raises:
      ConcretizationError: a number is traced, as the length depends on it.
      ValueError: `step` is 0, or a number is infinite or NaN.
      TypeError: a number is complex, or an array that has axes.
      DTypeError: `dtype` is no element type of arrays.

    Source: meaning of `numpy.arange`.

    >>> arange(1, 7, 2)
    Array([1, 3, 5], dtype=int32)
    >>> arange(3.0)
    Array([0., 1., 2.], dtype=float32)
    """
    if out_sharding is not None:
        check_out_sharding("arange", out_sharding)
        return call_with_out_sharding("arange", partial(arange, start, stop, step, dtype), (), out_sharding)
    lo, hi = (0, start) if stop is None else (start, stop)
    begin, end, by = (_require_concrete("arange", x) for x in (lo, hi, 1 if step is None else step))
    if dtype is None:
        d = dtypes.promote(*[(a.dtype, a.weak_type) for a in map(typeof, (begin, end, by))])[0]
    else:
        d = resolve_requested_dtype(dtype)
    if by == 0:
        raise ValueError("arange: step must not be zero")
    if any(isinstance(x, (complex, np.complexfloating)) for x in (begin, end, by)):
        raise TypeError(f"arange: bounds and step must be real numbers; got {begin}, {end} and {by}")
    count = (end - begin) / by
    if not math.isfinite(count):
        raise ValueError(f"arange: bounds and step must be finite; got {begin}, {end} and {by}")
    n = max(0, math.ceil(count))

    # Small ones outside of a program are made by NumPy, in its widest type before they are rounded to d; others by ops.
    def host() -> np.ndarray:
        wide = np.float64 if dtypes.is_inexact(d) else np.int64
        first, gap = (begin, by) if dtypes.is_inexact(d) else (int(begin), int(by))
        return (np.arange(n, dtype=wide) * gap + first).astype(d)

    def ops() -> Any:
        out = lax.broadcasted_iota(d, (n,), 0)
        if by != 1:
            out = lax.mul(out, literal(by, d))
        return lax.add(out, literal(begin, d)) if begin != 0 else out
    out = _make((n,), d, host, ops)
    return out if device is None else to_device(out, device)


@fill_docstring(_CREATION)
def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, *, device: Any = None) -> Array:
    """A matrix of ones on a diagonal and zeros elsewhere.

    Args: {N, M, k, dtype, device}
    Returns:
      Array `[N, M]`.
    Raises:
      ValueError: a size is negative.
      TypeError: a size or `k` is no integer.
      DTypeError: `dtype` is no element type of arrays.

    Source: meaning of `numpy.eye`.

    >>> eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    shape: Any = as_shape("eye", (N, N if M is None else M))
    k = as_int("eye", "k", k)
    d = _resolve_float(dtype)

    def ops() -> Any:
        return cast(lax.eq(*_row_column(shape, k)), d)
    out = _make(shape, d, lambda: np.eye(shape[0], shape[1], k=k), ops)
    return out if device is None else to_device(out, device)


def _row_column(shape: tuple[int, int], k: int) -> tuple[Any, Any]:
    row = lax.broadcasted_iota(_I32, shape, 0)
    column = lax.broadcasted_iota(_I32, shape, 1)
    return (lax.add(row, literal(k, _I32)) if k else row), column


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix.

    Args:
      n: number of rows and of columns.
      dtype: element type; None for the default float, float32 (float64 in 64-bit mode).
    Returns:
      Array `[n, n]`.
    Raises:
      ValueError: `n` is negative.
      TypeError: `n` is no integer.
      DTypeError: `dtype` is no element type of arrays.

    Source: meaning of `numpy.identity`.

    >>> identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


@fill_docstring(_CREATION)
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """A matrix of ones on and below a diagonal and zeros above.

    Args: {N, M, k, dtype}
    Returns:
      Array `[N, M]`.
    Raises:
      ValueError: a size is negative.
      TypeError: a size or `k` is no integer.
      DTypeError: `dtype` is no element type of arrays.

    Source: meaning of `numpy.tri`.

    >>> tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    shape: Any = as_shape("tri", (N, N if M is None else M))
    k = as_int("tri", "k", k)
    d = _resolve_float(dtype)

    def ops() -> Any:
        return cast(lax.ge(*_row_column(shape, k)), d)
    return _make(shape, d, lambda: np.tri(shape[0], shape[1], k=k), ops)
