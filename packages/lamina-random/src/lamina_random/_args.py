"""Reading arguments: shapes, dtypes, keys, and parameters that broadcast to the shape drawn."""
from __future__ import annotations

import operator
from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes
from lamina_tracing import Array, lax
from lamina_tracing.extend import Tracer, resolve_requested_dtype, typeof
from lamina_tracing.extend import as_int as an_int  # `as_int` here is of dtypes

__all__ = ["as_dtype", "as_flag", "as_float", "as_int", "as_shape", "as_size", "can_broadcast_to", "check_key",
           "common_shape", "is_high", "key_data_pair", "refuse_complex", "refuse_key", "to_shape"]

_U32 = np.dtype("uint32")


def as_shape(call: str, shape: Any, argument: str = "shape") -> tuple[int, ...]:
    """A tuple of sizes from a sequence, or from one size."""
    given = shape
    if type(shape) is not tuple:
        shape = tuple(shape) if np.iterable(shape) else (shape,)
    for d in shape:
        if type(d) is not int:
            try:
                shape = tuple(operator.index(d) for d in shape)
            except TypeError:
                text = f"{_describe(given)}{_suggest_fix(given)}"
                raise TypeError(f"{call}: {argument} must hold integers; got {text}") from None
            break
    if shape and min(shape) < 0:
        raise ShapeError(f"{call}: {argument} must hold sizes of 0 or more; got {shape}")
    return shape


def as_size(call: str, size: Any, argument: str) -> int:
    """One size."""
    size = an_int(call, argument, size)
    if size < 0:
        raise ShapeError(f"{call}: {argument} must be 0 or more; got {size}")
    return size


def as_flag(call: str, flag: Any, argument: str) -> bool:
    """A truth value."""
    try:
        return bool(flag)
    except ValueError:
        raise ValueError(f"{call}: {argument} must be True or False; got {_describe(flag)}") from None


def is_high(call: str, mode: Any, otherwise: bool = False) -> bool:
    """Whether numbers are to be drawn with twice the bits; `otherwise` where no mode is given."""
    if mode is None:
        return otherwise
    if isinstance(mode, str) and mode in ("low", "high"):
        return mode == "high"
    raise ValueError(f"{call}: mode must be 'low' or 'high'; got {_describe(mode)}")


def _describe(x: Any) -> str:
    if isinstance(x, tuple):
        return f"({', '.join(map(_describe, x))}{',' * (len(x) == 1)})"
    if isinstance(x, Tracer) or isinstance(x, (np.ndarray, Array)) and np.size(x) > 4:
        return f"{'a traced ' * isinstance(x, Tracer)}{typeof(x).str_long()}"
    return f"{x!r:.80}"


def _suggest_fix(shape: Any) -> str:
    sizes = shape if isinstance(shape, (tuple, list, dict)) else (shape,)
    if any(isinstance(d, Tracer) for d in sizes):
        return ", and sizes must be known while a function is traced; make it static (static_argnums, static_argnames)"
    return ". For names: NamedShape(3, name=8)" if sizes is shape and any(isinstance(d, str) for d in sizes) else ""


def as_dtype(call: str, dtype: Any) -> np.dtype:
    """The dtype asked for."""
    try:
        return resolve_requested_dtype(dtype)
    except TypeError as error:
        raise DTypeError(f"{call}: {error}") from None


def as_float(call: str, dtype: Any, *, complex_too: bool = False) -> np.dtype:
    """The float dtype asked for, by default float32 (float64 in 64-bit mode)."""
    if dtype is None:
        return dtypes.canonical_float()
    found = as_dtype(call, dtype)
    if dtypes.is_float(found) or (complex_too and dtypes.is_complex(found)):
        return found
    raise DTypeError(f"{call}: dtype must be a float{' or complex' if complex_too else ''} dtype; got {found.name}")


def as_int(call: str, dtype: Any) -> np.dtype:
    """The integer dtype asked for, by default int32 (int64 in 64-bit mode)."""
    if dtype is None:
        return dtypes.canonical_int()
    found = as_dtype(call, dtype)
    if dtypes.is_integer(found):
        return found
    raise DTypeError(f"{call}: dtype must be an integer dtype; got {found.name}")


def key_data_pair(call: str, key: Any) -> tuple[Any, Any]:
    """Return the two uint32 numbers of key data."""
    refuse_key(call, key)
    return tuple(lax.squeeze(lax.slice(key, (i,), (i + 1,)), (0,)) for i in (0, 1))  # type: ignore[return-value]


def refuse_key(call: str, key: Any) -> None:
    """Raise the error for a value that is not a key of two uint32 words."""
    try:
        aval = typeof(key)
    except TypeError:
        given = f"{type(key).__name__}: {key!r:.60}"
        raise TypeError(f"{call}: expected a key, as random.key(seed) makes it; got {given}") from None
    if aval.shape != (2,) or aval.dtype != _U32:
        remedy = "use vmap for several keys" if aval.dtype == _U32 and aval.shape[-1:] == (2,) else \
            "make one with random.key(seed)"
        raise ShapeError(f"{call}: expected a key, key<...>[] or uint32[2]; got {aval.str_long()}; {remedy}")


def check_key(call: str, key: Any) -> None:
    """Raise an error if `key` is not a key."""
    if not dtypes.is_key(typeof(key).dtype):
        key_data_pair(call, key)


def common_shape(call: str, shape: Any, *given: Any) -> tuple[int, ...]:
    """`shape`, or for None the shape the parameters broadcast to."""
    try:
        avals = [typeof(x) for x in given]
        own = lax.broadcast_shapes(*[a.shape for a in avals])
    except TypeError as e:
        raise type(e)(f"{call}: the parameters: {e}") from None
    refuse_complex(call, *avals)
    if shape is None:
        return own
    shape = as_shape(call, shape)
    if not can_broadcast_to(own, shape):
        raise ShapeError(f"{call}: parameters of shape {own} do not broadcast to the shape drawn, {shape}; leave "
                         "shape out or make it larger")
    return shape


def refuse_complex(call: str, *avals: Any) -> None:
    """Parameters are real: an imaginary part would be dropped."""
    for aval in avals:
        if dtypes.is_complex(aval.dtype):
            raise DTypeError(f"{call}: the parameters must be real; got {aval.str_long()}; take .real of it")


def can_broadcast_to(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether what is of shape `own` broadcasts to `shape`."""
    lead = len(shape) - len(own)
    return lead >= 0 and all(d == 1 or d == shape[lead + i] for i, d in enumerate(own))


def to_shape(x: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """`x` as an array of this dtype, rank 0 or of this shape."""
    x = lax.convert_element_type(x, dtype)
    own = typeof(x).shape
    if not own or own == shape:
        return x
    lead = len(shape) - len(own)
    kept = tuple(i for i, d in enumerate(own) if d != 1 or shape[lead + i] == 1)
    if len(kept) < len(own):
        x = lax.reshape(x, tuple(own[i] for i in kept))
    return lax.broadcast_in_dim(x, shape, tuple(lead + i for i in kept))
