"""Making arrays: from values, and from a shape.

From values: `array` and `asarray`. From a shape: while a program is traced these write an equation; else small arrays
are made on the host and put on the device, which needs no compilation, and large ones are computed in place.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import dtypes, evaluate_primitive, prims
from lamina_ir.avals import shaped
from lamina_tracing import slots
from lamina_tracing.extend import Tracer, bind, typeof

from ._promotion import aval, cast, fixed, is_array, is_staging, literal
from ._publish import compiled, public

__all__ = ["arange", "array", "asarray", "astype", "copy", "empty", "empty_like", "eye", "from_dlpack", "frombuffer",
           "fromfunction", "fromiter", "fromstring", "full", "full_like", "identity", "ones", "ones_like", "tri",
           "zeros", "zeros_like"]

_SMALL = 1 << 16  # bytes up to which copying from the host beats compiling
_SCALARS = frozenset((bool, int, float, complex))
_I32 = np.dtype("int32")


def as_shape(call: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of ints."""
    try:
        if isinstance(shape, int) or getattr(shape, "shape", None) == ():
            sizes: tuple[int, ...] = (operator.index(shape),)
        else:
            sizes = tuple(map(operator.index, shape))
    except TypeError as e:
        if isinstance(shape, Tracer) or any(isinstance(d, Tracer) for d in _items(shape)):
            raise
        raise TypeError(f"{call}: a shape is a sequence of integers; got {shape!r}") from e
    if sizes and min(sizes) < 0:
        raise ValueError(f"{call}: a shape has no negative sizes; got {sizes}")
    return sizes


def _items(x: Any) -> Any:
    return x if isinstance(x, (list, tuple)) else (x,)


def put(value: np.ndarray, dtype: np.dtype | None = None, weak: bool = False) -> Any:
    """A concrete array from host memory."""
    d = dtypes.canonical(value.dtype if dtype is None else dtype)
    return slots.evaluator.array(np.asarray(value, d), shaped(value.shape, d, weak))


def _made(shape: tuple[int, ...], dtype: np.dtype, host: Callable[[], np.ndarray], ops: Callable[[], Any]) -> Any:
    if not is_staging() and math.prod(shape) * dtype.itemsize <= _SMALL:
        return slots.evaluator.array(np.asarray(host(), dtype), shaped(shape, dtype))
    return ops()


# --- from values ----------------------------------------------------------------------------------------------------


def _no_array(call: str, x: Any, dtype: Any) -> TypeError:
    text = repr(x)
    text = text if len(text) < 80 else text[:77] + "..."
    return TypeError(f"{call}: dtype {dtype} is not an array element type; expected booleans or numbers; got {text}")


def _from_numpy(call: str, x: np.ndarray, dtype: np.dtype | None, python: bool = False) -> Any:
    try:
        d = dtypes.canonical(x.dtype)
    except TypeError:
        raise _no_array(call, x, x.dtype) from None
    if dtype is None:
        dtype = d
        if python and x.dtype == np.int64 and d == _I32 and x.size:
            big = max(abs(int(x.max())), abs(int(x.min())))
            if big > 2 ** 31 - 1 and int(x.min()) < -2 ** 31 or int(x.max()) > 2 ** 31 - 1:
                raise OverflowError(f"{call}: integer {big} is out of range for int32; pass a dtype, or set config "
                                    "enable_x64")
    if dtypes.is_complex(d) and not dtypes.is_complex(dtype):
        x = x.real if dtype != dtypes.BOOL else x != 0
    return slots.evaluator.array(np.asarray(x, dtype), shaped(x.shape, dtype))


def _has_arrays(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_has_arrays, x))
    return type(x) not in _SCALARS and (is_array(x) or hasattr(x, "__jax_array__"))


def _from_list(call: str, x: Any, dtype: np.dtype | None) -> Any:
    if _has_arrays(x):
        from ._joins import stack
        return stack([asarray(e, dtype=dtype) for e in x], dtype=dtype)
    try:
        value = np.array(x) if dtype is None or _holds_small(dtype) else np.array(x, dtype)
    except ValueError as e:
        if "inhomogeneous" in str(e):
            raise ValueError(f"{call}: nested lists must have equal lengths; got {_clip(x)}") from e
        raise
    if not value.size and dtype is None:
        value = value.astype(np.float32 if value.dtype == np.float64 else value.dtype)
    return _from_numpy(call, value, dtype, python=True)


def _holds_small(dtype: np.dtype) -> bool:
    return dtype.kind == "V"


def _clip(x: Any) -> str:
    text = repr(x)
    return text if len(text) < 80 else text[:77] + "..."


def asarray(a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None,
            device: Any = None) -> Any:
    """An array of `a`: an array as it is, numbers and NumPy arrays, nested lists of any of these.

    Args:
      a: what to convert. Python numbers give weakly typed arrays unless `dtype` is given.
      dtype: element type of the result.
      order: only "K" and "C" have a meaning here; accepted for NumPy's sake.
      copy: False refuses to copy NumPy arrays, as the array API asks.
      device: where to put it.
    Raises:
      TypeError: strings, objects and whatever else has no number dtype.

    >>> asarray([1, 2.5])
    Array([1. , 2.5], dtype=float32)
    """
    if order not in (None, "K", "C", "A"):
        raise NotImplementedError(f"asarray: order {order!r} is not supported; arrays have no visible memory order")
    d = None if dtype is None else dtypes.canonical(dtype)
    kind = type(a)
    if isinstance(a, Tracer) or is_array(a):
        out = a if d is None else (a if d == a.dtype and not typeof(a).weak_type else cast_compiled(a, d))
    elif kind in _SCALARS:
        t = typeof(a) if d is None else None
        out = slots.evaluator.array(np.asarray(a, t.dtype), t) if t is not None else \
            slots.evaluator.array(_scalar(a, d), shaped((), d))  # type: ignore[arg-type]
    elif isinstance(a, (np.ndarray, np.generic)):
        if kind is not np.ndarray:
            typeof(a)  # refuses masked arrays
        if copy is False:
            raise ValueError("asarray: copy=False, but host memory is always copied; leave copy out")
        out = _from_numpy("asarray", np.asarray(a), d)
    elif isinstance(a, (list, tuple)):
        out = _from_list("asarray", a, d)
    elif hasattr(a, "__jax_array__"):
        out = asarray(a.__jax_array__(), dtype=d)
    elif a is None:
        raise TypeError("asarray: None is not an array; use nan for a missing number")
    else:
        out = _from_numpy("asarray", np.asarray(a), d)
    return out if device is None else _to_device(out, device)


def _scalar(a: Any, d: np.dtype) -> np.ndarray:
    if type(a) is complex and not dtypes.is_complex(d) and d != dtypes.BOOL:
        raise TypeError(f"asarray: the complex number {a} has no place in dtype {d.name}; take its real part")
    if type(a) is float and dtypes.is_integer(d) and not math.isfinite(a):
        raise ValueError(f"asarray: {a} is no integer; it has no place in dtype {d.name}")
    if type(a) is int and dtypes.is_integer(d) and d.kind != "V":
        return np.array(a, d)  # reports overflow
    return np.asarray(a).astype(d)


def _to_device(x: Any, device: Any) -> Any:
    move = getattr(slots.evaluator, "device_put", None)
    if move is None:
        raise ValueError(f"device={device!r}: this evaluator has no devices; import lamina_runtime first")
    return move(x, device)


def array(object: Any, dtype: Any = None, copy: bool = True, order: str | None = "K", ndmin: int = 0, *,
          device: Any = None) -> Any:
    """`asarray` that also adds leading axes up to `ndmin`. Arrays are immutable, so a copy is never visible.

    >>> array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    out = asarray(object, dtype, order, device=device)
    short = ndmin - len(typeof(out).shape)
    if short > 0:
        from ._shape import reshape
        out = reshape(out, (1,) * short + typeof(out).shape)
    return out


@public("dtype")
def _astype(x: Any, dtype: np.dtype) -> Any:
    return cast(x, dtype)


def cast_compiled(x: Any, dtype: np.dtype) -> Any:
    return cast(x, dtype) if isinstance(x, Tracer) else compiled(_astype)(x, dtype)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """`x` with another element type; complex to real drops the imaginary part, None is the default float.

    >>> astype(array([1.7, -1.7]), "int32")
    Array([ 1, -1], dtype=int32)
    """
    t = aval("astype", x)
    d = dtypes.canonical_float() if dtype is None else dtypes.canonical(dtype)
    return x if t.dtype == d and not t.weak_type and is_array(x) else cast_compiled(x, d)


@public("order")
def copy(a: Any, order: str | None = None) -> Any:
    """A new array with the same elements."""
    if isinstance(a, (list, tuple)):
        return asarray(a)
    aval("copy", a)
    return bind(prims.copy_p, a)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Any:
    """An array of the numbers in a bytes-like object."""
    return put(np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Any:
    """An array of the numbers written in a text."""
    return put(np.fromstring(string, dtypes.as_dtype(dtype), count, sep=sep))


def fromiter(iter: Any, dtype: Any, count: int = -1) -> Any:
    """An array of an iterator's numbers."""
    return put(np.fromiter(iter, dtypes.as_dtype(dtype), count))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array from any object with `__dlpack__`."""
    return asarray(np.from_dlpack(x), device=device)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """The values of a function of the indices: it is called once, with the index arrays."""
    from ._grids import indices
    return function(*indices(as_shape("fromfunction", shape), dtype=dtype), **kwargs)


# --- from a shape ---------------------------------------------------------------------------------------------------


def _filled(shape: tuple[int, ...], value: Any, dtype: np.dtype) -> Any:
    if not is_staging() and math.prod(shape) * dtype.itemsize <= _SMALL:
        return slots.evaluator.array(np.full(shape, value, dtype), shaped(shape, dtype))
    return bind(prims.broadcast_in_dim_p, fixed(value, dtype), shape=shape, broadcast_dimensions=())


def _float_or(dtype: Any) -> np.dtype:
    return dtypes.canonical_float() if dtype is None else dtypes.canonical(dtype)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Zeros; float32 unless `dtype` is given.

    >>> zeros(2)
    Array([0., 0.], dtype=float32)
    """
    out = _filled(as_shape("zeros", shape), 0, _float_or(dtype))
    return out if device is None else _to_device(out, device)


def ones(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Ones; float32 unless `dtype` is given."""
    out = _filled(as_shape("ones", shape), 1, _float_or(dtype))
    return out if device is None else _to_device(out, device)


def empty(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Zeros: memory without values cannot be seen."""
    return zeros(shape, dtype, device=device)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of this shape, every element `fill_value` (which broadcasts).

    >>> full(2, 7)
    Array([7, 7], dtype=int32, weak_type=True)
    """
    shape = as_shape("full", shape)
    if isinstance(fill_value, (list, tuple)):
        fill_value = asarray(fill_value)
    a = aval("full", fill_value, 1)
    d, weak = (a.dtype, a.weak_type) if dtype is None else (dtypes.canonical(dtype), False)
    if not a.shape:
        if not is_array(fill_value) and not is_staging() and math.prod(shape) * d.itemsize <= _SMALL:
            value = fill_value.real if isinstance(fill_value, complex) and not dtypes.is_complex(d) else fill_value
            value = evaluate_primitive(prims.convert_element_type_p, (np.asarray(value),),
                                       {"new_dtype": d, "weak_type": weak})
            out = slots.evaluator.array(np.full(shape, value), shaped(shape, d, weak))
        else:
            out = bind(prims.broadcast_in_dim_p, cast(fill_value, d, weak), shape=shape, broadcast_dimensions=())
    else:
        from ._shape import broadcast_to
        out = asarray(broadcast_to(cast(fill_value, d), shape))
    return out if device is None else _to_device(out, device)


def _like(call: str, a: Any, dtype: Any, shape: Any) -> tuple[tuple[int, ...], np.dtype, bool]:
    if isinstance(a, (list, tuple)):
        a = asarray(a)
    t = a if isinstance(getattr(a, "shape", None), tuple) and not isinstance(a, Tracer) and hasattr(a, "dtype") \
        and not isinstance(a, (np.ndarray, np.generic)) else aval(call, a)
    d = dtypes.canonical(t.dtype if dtype is None else dtype)
    return (t.shape if shape is None else as_shape(call, shape)), d, dtype is None and getattr(t, "weak_type", False)


def _weakly(x: Any, weak: bool) -> Any:
    return cast(x, typeof(x).dtype, True) if weak else x


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Zeros of the shape and dtype of `a`."""
    shape, d, weak = _like("zeros_like", a, dtype, shape)
    return _weakly(zeros(shape, d, device=device), weak)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Ones of the shape and dtype of `a`."""
    shape, d, weak = _like("ones_like", a, dtype, shape)
    return _weakly(ones(shape, d, device=device), weak)


empty_like = zeros_like


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """`fill_value` in the shape and dtype of `a`."""
    shape, d, weak = _like("full_like", a, dtype, shape)
    return _weakly(full(shape, fill_value, d, device=device), weak)


def _known(call: str, x: Any) -> Any:
    """A concrete number for a bound of a range."""
    if isinstance(x, Tracer):
        raise _traced_bound(call, x)
    if type(x) in _SCALARS:
        return x
    value = np.asarray(x)
    if value.shape:
        raise TypeError(f"{call}: bounds are numbers; got {typeof(x).long()}")
    return value[()]


def _traced_bound(call: str, x: Any) -> Exception:
    from lamina_ir.errors import ConcretizationError
    return ConcretizationError(f"{call}: the length of the result depends on a traced {x.aval.long()}; use a number "
                               "known while tracing (a static argument), or lax.iota with arithmetic")


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None) -> Any:
    """Evenly spaced numbers in `[start, stop)`; with one argument, in `[0, start)`.

    >>> arange(1, 7, 2)
    Array([1, 3, 5], dtype=int32)
    """
    start = _known("arange", start)
    if stop is None:
        start, stop = 0, start
    stop = _known("arange", stop)
    step = 1 if step is None else _known("arange", step)
    if dtype is None:
        d = dtypes.promote(*[(a.dtype, a.weak_type) for a in map(typeof, (start, stop, step))])[0]
    else:
        d = dtypes.canonical(dtype)
    if step == 0:
        raise ValueError("arange: step must not be zero")
    n = max(0, math.ceil((stop - start) / step)) if not isinstance(start, complex) else 0

    def host() -> np.ndarray:
        wide = np.float64 if dtypes.is_inexact(d) else np.int64
        first, by = (start, step) if dtypes.is_inexact(d) else (int(start), int(step))
        return (np.arange(n, dtype=wide) * by + first).astype(d)

    def ops() -> Any:
        out = bind(prims.iota_p, dtype=d, shape=(n,), dimension=0)
        if step != 1:
            out = bind(prims.mul_p, out, literal(step, d))
        return bind(prims.add_p, out, literal(start, d)) if start != 0 else out
    out = _made((n,), d, host, ops)
    return out if device is None else _to_device(out, device)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Any:
    """Ones on the `k`-th diagonal, zeros elsewhere.

    >>> eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    shape: Any = as_shape("eye", (N, N if M is None else M))
    d = _float_or(dtype)

    def ops() -> Any:
        return cast(bind(prims.eq_p, *_row_column(shape, operator.index(k))), d)
    out = _made(shape, d, lambda: np.eye(shape[0], shape[1], k=operator.index(k)), ops)
    return out if device is None else _to_device(out, device)


def _row_column(shape: tuple[int, int], k: int) -> tuple[Any, Any]:
    row = bind(prims.iota_p, dtype=_I32, shape=shape, dimension=0)
    column = bind(prims.iota_p, dtype=_I32, shape=shape, dimension=1)
    return (bind(prims.add_p, row, literal(k, _I32)) if k else row), column


def identity(n: int, dtype: Any = None) -> Any:
    """The n × n identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones on and below the `k`-th diagonal, zeros above."""
    shape: Any = as_shape("tri", (N, N if M is None else M))
    d = _float_or(dtype)

    def ops() -> Any:
        return cast(bind(prims.ge_p, *_row_column(shape, operator.index(k))), d)
    return _made(shape, d, lambda: np.tri(shape[0], shape[1], k=operator.index(k)), ops)
