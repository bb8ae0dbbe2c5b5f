"""Arrays from values: numbers, nested lists, NumPy's arrays, buffers and text; and from one element type to another."""
from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes, shaped
from lamina_tracing import Array, ArrayLike, DTypeLike, lax, hooks
from lamina_tracing.extend import (EVALUATION, Tracer, has_jax_array, read_jax_array, resolve_requested_dtype, trace_state,
                                   typeof)

from .promotion import aval, cast, is_array, promote_all
from .public_api import jitted_core, public_api
from .axes import insert_axes, join, reshape_to

__all__ = ["array", "asarray", "astype", "copy", "from_dlpack", "frombuffer", "fromfile", "fromiter", "fromstring",
           "to_array"]


def to_array(call: str, x: Any, position: int = 0) -> Array:
    """`x` where it is an array already, else an array of its numbers, so that it has our methods."""
    if isinstance(x, Array):
        return x
    aval(call, x, position)
    return asarray(x)

_SCALARS = frozenset((bool, int, float, complex))
_I32 = np.dtype("int32")


def put(value: np.ndarray, dtype: np.dtype | None = None, weak: bool = False) -> Array:
    """A concrete array from host memory."""
    d = dtypes.canonicalize(value.dtype if dtype is None else dtype)
    return hooks.evaluator.array(np.asarray(value, d), shaped(value.shape, d, weak))


def wrap_host_values(value: np.ndarray) -> Any:
    """Numbers that a function of ours made on the host: constants of a program that is being written, else an array, as a
    transfer that guards look at is only what a user gives."""
    return value if trace_state.trace is not EVALUATION else put(value)


def _make_element_type_error(call: str, x: Any, dtype: Any) -> TypeError:
    return TypeError(f"{call}: dtype {dtype} is not an array element type; expected booleans or numbers; got "
                     f"{_shorten(x)}")


def _shorten(x: Any) -> str:
    text = repr(x)
    return text if len(text) < 80 else text[:77] + "..."


def _need_number(call: str, found: Any, dtype: np.dtype | None) -> None:
    if dtype is not None and dtypes.is_key(dtype) and found != dtype:
        raise DTypeError(f"{call}: numbers cannot become PRNG keys; got {found} and dtype {dtypes.long_name(dtype)}. "
                         "Use random.wrap_key_data(data)")


def _convert_numpy(call: str, x: np.ndarray, dtype: np.dtype | None, python: bool = False) -> Any:
    try:
        d = dtypes.canonicalize(x.dtype)
    except TypeError:
        raise _make_element_type_error(call, x, x.dtype) from None
    _need_number(call, d, dtype)
    if dtype is None:
        dtype = d
        if python and x.dtype == np.int64 and d == _I32 and x.size:
            big = max(abs(int(x.max())), abs(int(x.min())))
            if big > 2 ** 31 - 1 and int(x.min()) < -2 ** 31 or int(x.max()) > 2 ** 31 - 1:
                raise OverflowError(f"{call}: integer {big} is out of range for int32; pass a dtype, or set config "
                                    "enable_x64")
    if dtypes.is_complex(d) and not dtypes.is_complex(dtype):
        x = x.real if dtype != dtypes.BOOL else x != 0
    return hooks.evaluator.array(np.asarray(x, dtype), shaped(x.shape, dtype))


def _has_arrays(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_has_arrays, x))
    return type(x) not in _SCALARS and (is_array(x) or has_jax_array(x))


def _convert_list(call: str, x: Any, dtype: np.dtype | None) -> Any:
    if _has_arrays(x):
        parts = promote_all(call, [asarray(e, dtype=dtype) for e in x])
        shapes = [typeof(p).shape for p in parts]
        if any(s != shapes[0] for s in shapes):
            raise ShapeError(f"{call}: the arrays in a list must have one shape; got {', '.join(map(str, shapes))}")
        out = join([insert_axes(p, (0,)) for p in parts], 0)
        return cast(out, typeof(out).dtype)  # strong, also of weak elements
    try:
        value = np.array(x) if dtype is None or dtype.kind == "V" else np.array(x, dtype)
    except ValueError as e:
        if "inhomogeneous" in str(e):
            raise ValueError(f"{call}: nested lists must have equal lengths; got {_shorten(x)}") from e
        raise
    return _convert_numpy(call, value, dtype, python=True)


def _scalar(a: Any, d: np.dtype) -> np.ndarray:
    _need_number("asarray", type(a).__name__, d)
    if type(a) is complex and not dtypes.is_complex(d) and d != dtypes.BOOL:
        raise TypeError(f"asarray: the complex number {a} cannot be converted to dtype {d.name}; take its real part")
    if type(a) is float and dtypes.is_integer(d) and not math.isfinite(a):
        raise ValueError(f"asarray: {a} is not an integer, so it cannot be converted to dtype {d.name}")
    if type(a) is int and dtypes.is_integer(d) and d.kind != "V":
        return np.array(a, d)  # reports overflow
    return np.asarray(a).astype(d)


def to_device(x: Any, device: Any) -> Any:
    """`x` on a device, where the evaluator has any."""
    return hooks.device_put(x, device)


def asarray(a: Any, dtype: DTypeLike | None = None, order: str | None = None, *, copy: bool | None = None,
            device: Any = None) -> Array:
    """An array of `a`: an array as it is, numbers and NumPy arrays, nested lists of any of these.

    Args:
      a: what to convert. Python numbers give weakly typed arrays unless `dtype` is given.
      dtype: element type of the result; None for that of the numbers.
      order: only "K", "C" and "A" have a meaning here; accepted for NumPy's sake.
      copy: True gives the result memory of its own, so that deleting it or giving it away leaves `a` alone; False refuses
        to copy NumPy arrays, as the array API asks.
      device: where to put it; None leaves it to the backend.
    Returns:
      Array of the shape of `a`; 64-bit numbers become 32-bit ones unless `enable_x64` is set. Complex NumPy arrays lose
      their imaginary part where `dtype` is real.
    Raises:
      TypeError: strings, objects and whatever else has no number dtype; a complex number and a real `dtype`.
      ValueError: nested lists of unequal lengths; NaN or an infinity and an integer `dtype`; `copy` is False and `a` is a
        NumPy array.
      ShapeError: arrays of different shapes in a list.
      OverflowError: an integer is out of range of the dtype.
      NotImplementedError: `order` is another one.

    Derivative: linear.
    Source: meaning of `numpy.asarray`.

    >>> asarray([1, 2.5])
    Array([1. , 2.5], dtype=float32)
    """
    if order not in (None, "K", "C", "A"):
        raise NotImplementedError(f"asarray: order {order!r} is not supported; arrays have no visible memory order")
    d = None if dtype is None else resolve_requested_dtype(dtype)
    kind = type(a)
    if isinstance(a, Tracer) or is_array(a):
        out: Any = a if d is None else (a if d == a.dtype and not typeof(a).weak_type else _astype(a, d))
        if copy and out is a:  # memory of its own: the copy may be given away or deleted
            out = lax.copy(a)
    elif kind in _SCALARS:
        t = typeof(a) if d is None else None
        out = hooks.evaluator.array(np.asarray(a, t.dtype), t) if t is not None else \
            hooks.evaluator.array(_scalar(a, d), shaped((), d))  # type: ignore[arg-type]
    elif has_jax_array(a):
        out = asarray(read_jax_array(a), dtype=d)
    elif isinstance(a, (np.ndarray, np.generic)):
        if kind is not np.ndarray:
            typeof(a)  # refuses masked arrays
        if copy is False:
            raise ValueError("asarray: copy=False, but host memory is always copied; leave copy out")
        if a.dtype == dtypes.float0 and d in (None, a.dtype):  # the zero tangent of integers stays on the host
            return a  # type: ignore[return-value]
        out = _convert_numpy("asarray", np.asarray(a), d)
    elif isinstance(a, (list, tuple)):
        out = _convert_list("asarray", a, d)
    elif a is None:
        raise TypeError("asarray: None is not an array; use nan for a missing number")
    else:
        out = _convert_numpy("asarray", np.asarray(a), d)
    return out if device is None else to_device(out, device)


def array(object: Any, dtype: DTypeLike | None = None, copy: bool = True, order: str | None = "K", ndmin: int = 0, *,
          device: Any = None) -> Array:
    """Convert to an array: as `asarray`, but copy unless `copy` is False, and add leading axes up to `ndmin`.

    Args:
      object: what to convert: an array, a number, nested lists of these. Python numbers give weakly typed arrays unless
        `dtype` is given.
      dtype: element type of the result; None for that of the numbers.
      copy: whether the result must have memory of its own; False takes arrays as they are.
      order: only "K", "C" and "A" have a meaning here; accepted for NumPy's sake.
      ndmin: how many axes the result has at least.
      device: where to put it; None leaves it to the backend.
    Returns:
      Array of the shape of `object`, after axes of length 1 where it has fewer than `ndmin`; 64-bit numbers become 32-bit
      ones unless `enable_x64` is set.
    Raises:
      TypeError: strings, objects and whatever else has no number dtype; a complex number and a real `dtype`.
      ValueError: nested lists of unequal lengths; NaN or an infinity and an integer `dtype`.
      ShapeError: arrays of different shapes in a list.
      OverflowError: an integer is out of range of the dtype.
      NotImplementedError: `order` is another one.

    Derivative: linear.
    Source: meaning of `numpy.array`.

    >>> array([[1, 2], [3, 4]]).shape
    (2, 2)
    >>> array(5, ndmin=2)
    Array([[5]], dtype=int32, weak_type=True)
    """
    out = asarray(object, dtype, order, copy=copy or None, device=device)
    short = ndmin - len(typeof(out).shape)
    if short > 0:
        out = reshape_to(out, typeof(out).shape, (1,) * short + typeof(out).shape)
    return out


@jitted_core("dtype", name="astype")
def _astype(x: Any, dtype: np.dtype) -> Any:
    return cast(x, dtype)


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Any = None) -> Array:
    """`x` with another element type.

    Args:
      x: number or boolean array.
      dtype: element type of the result; None for the default float.
      copy: whether the result must have memory of its own, also where nothing changes.
      device: where to put it; None leaves it where it is.
    Returns:
      Array of the shape of `x`; whole parts for integers, real parts of complex numbers for real dtypes, and for booleans
      whether an element differs from 0. `x` itself where it has the dtype. Numbers out of range of an integer dtype give
      what the backend has for them.
    Raises:
      TypeError: `x` is neither an array nor a number.
      DTypeError: `dtype` is no number dtype.

    Derivative: linear between inexact dtypes.
    Source: meaning of `numpy.astype`; NumPy refuses complex to real.

    >>> astype(array([1.7, -1.7]), "int32")
    Array([ 1, -1], dtype=int32)
    """
    t = aval("astype", x)
    d = dtypes.canonical_float() if dtype is None else resolve_requested_dtype(dtype)
    out = x if t.dtype == d and not t.weak_type and is_array(x) else _astype(x, d)
    if copy and out is x:  # memory of its own, as in asarray
        out = lax.copy(x)
    return out if device is None else to_device(out, device)


@public_api("order")
def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A new array with the same elements, in memory of its own.

    Args:
      a: an array, a number, or nested lists of numbers.
      order: without meaning here; accepted for NumPy's sake.
    Returns:
      Array of the shape and dtype of `a`.
    Raises:
      TypeError: `a` is neither an array nor a number, nor a list of them.
      ShapeError: lists of unequal lengths.

    Derivative: linear.
    Source: meaning of `numpy.copy`.

    >>> copy([1, 2])
    Array([1, 2], dtype=int32)
    """
    if isinstance(a, (list, tuple)):
        return asarray(a)
    aval("copy", a)
    return lax.copy(a)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """An array of the numbers in a bytes-like object.

    Args:
      buffer: bytes, or what has the buffer interface.
      dtype: type of the numbers in the buffer, with its byte order; by default floats of 64 bits.
      count: how many numbers; -1 for all.
      offset: where to begin, in bytes.
    Returns:
      Array `[n]`; 64-bit numbers become 32-bit ones unless `enable_x64` is set.
    Raises:
      TypeError: `buffer` has no buffer interface.
      ValueError: the buffer does not hold `count` numbers, or not a whole number of them, after `offset`.

    Source: meaning of `numpy.frombuffer`.

    >>> frombuffer(bytes([1, 2, 0, 3]), "uint8", offset=1)
    Array([2, 0, 3], dtype=uint8)
    """
    d = dtypes.as_dtype(dtype)
    if (isinstance(dtype, np.dtype) or isinstance(dtype, str) and dtype[:1] in "<>") and not np.dtype(dtype).isnative:
        d = d.newbyteorder()
    return put(np.frombuffer(buffer, d, count, offset))


def fromfile(file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """An array of the numbers in a file, as bytes or as text.

    Args:
      file: an open file, a path or a name.
      dtype: type of the numbers in the file, with its byte order; by default floats of 64 bits.
      count: how many numbers; -1 for all.
      sep: separator between the numbers of a text; "" for bytes.
      offset: where to begin, in bytes from the file's current position.
    Returns:
      Array `[n]`; 64-bit numbers become 32-bit ones unless `enable_x64` is set.
    Raises:
      OSError: there is no such file.
      ValueError: the file holds fewer than `count` numbers.

    Source: meaning of `numpy.fromfile`; too few numbers, of which NumPy gives those there are, are refused.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".bin") as file:
    ...     _ = file.write(bytes([1, 2, 3]))
    ...     file.flush()
    ...     fromfile(file.name, "uint8")
    Array([1, 2, 3], dtype=uint8)
    """
    d = dtypes.as_dtype(dtype)
    if (isinstance(dtype, np.dtype) or isinstance(dtype, str) and dtype[:1] in "<>") and not np.dtype(dtype).isnative:
        d = d.newbyteorder()
    found = np.fromfile(file, d, count, sep, offset)
    if found.size < count:
        raise ValueError(f"fromfile: expected {count} numbers; the file has {found.size}")
    return put(found)


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """An array of the numbers written in a text.

    Args:
      string: the text.
      dtype: type to read the numbers as; by default floats of 64 bits.
      count: how many numbers; -1 for all.
      sep: separator between numbers; blanks in it match any number of blanks.
    Returns:
      Array `[n]`; 64-bit numbers become 32-bit ones unless `enable_x64` is set.
    Raises:
      ValueError: the text has something else than numbers and separators, or fewer than `count` numbers; `sep` is empty.
      TypeError: `string` is no text.

    Source: meaning of `numpy.fromstring`; too few numbers, which NumPy fills up with anything, are refused.

    >>> fromstring("1, 2, 3", "int32", sep=",")
    Array([1, 2, 3], dtype=int32)
    """
    d = dtypes.as_dtype(dtype)
    value = _parse_numbers(string, d, count, sep)
    if count > 0:
        try:
            found = _parse_numbers(string, d, -1, sep).size
        except ValueError:  # something else follows the numbers
            found = count
        if found < count:  # NumPy would return uninitialized memory for the rest
            raise ValueError(f"fromstring: expected {count} numbers; the text has {found}")
    return put(value)


def _parse_numbers(string: str, d: np.dtype, count: int, sep: str) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # older NumPys only warn where something is no number
        try:
            return np.fromstring(string, d, count, sep=sep)
        except DeprecationWarning as warning:
            raise ValueError(str(warning)) from None


def fromiter(iter: Any, dtype: DTypeLike, count: int = -1) -> Array:
    """An array of an iterator's numbers.

    Args:
      iter: what yields numbers.
      dtype: element type of the result.
      count: how many numbers to take; -1 for all.
    Returns:
      Array `[n]`; 64-bit numbers become 32-bit ones unless `enable_x64` is set.
    Raises:
      TypeError: `iter` is not iterable.
      ValueError: it yields fewer than `count` numbers, or what is no number.

    Source: meaning of `numpy.fromiter`.

    >>> fromiter((i * i for i in range(4)), "int32")
    Array([0, 1, 4, 9], dtype=int32)
    """
    return put(np.fromiter(iter, dtypes.as_dtype(dtype), count))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Make an array from any object with `__dlpack__` in host memory.

    Args:
      x: the object: an array of this or of another library.
      device: where to put the result; None leaves it to the backend.
      copy: accepted for NumPy's sake: the numbers are copied whatever it says.
    Returns:
      Array of the shape of `x`; 64-bit numbers become 32-bit ones unless `enable_x64` is set.
    Raises:
      AttributeError: `x` has no `__dlpack__`.

    Source: meaning of `numpy.from_dlpack`; the array API standard 2023.12.

    >>> from_dlpack(np.arange(3, dtype="int32"))
    Array([0, 1, 2], dtype=int32)
    """
    # an array of ours needs no capsule, which NumPy does not read of every dtype
    return asarray(x if isinstance(x, Array) else np.from_dlpack(x), device=device, copy=True)
