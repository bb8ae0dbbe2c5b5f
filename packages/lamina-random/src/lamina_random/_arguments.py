"""Reading arguments: shapes, dtypes, keys, and parameters that broadcast to the shape drawn."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes
from lamina_tracing import lax
from lamina_tracing.extend import typeof, requested_dtype

__all__ = ["as_float", "as_int", "as_shape", "check_key", "common_shape", "in_its_name", "key_words", "params", "refuse_key",
           "renamed", "to_shape"]

F = TypeVar("F", bound=Callable[..., Any])
_U32 = np.dtype("uint32")


def as_shape(call: str, shape: Any) -> tuple[int, ...]:
    """A tuple of sizes from a sequence, or from one size."""
    if type(shape) is not tuple:
        shape = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    for d in shape:
        if type(d) is not int:
            if not all(hasattr(d, "__index__") for d in shape):
                raise TypeError(f"{call}: shape must hold integers; got {shape!r:.80}. For names: NamedShape(3, name=8)")
            shape = tuple(d.__index__() for d in shape)
            break
    if shape and min(shape) < 0:
        raise ShapeError(f"{call}: shape must hold sizes of 0 or more; got {shape}")
    return shape


def as_float(call: str, dtype: Any, *, complex_too: bool = False) -> np.dtype:
    """The float dtype asked for, by default float32 (float64 in 64-bit mode)."""
    if dtype is None:
        return dtypes.canonical_float()
    found = requested_dtype(dtype)
    if dtypes.is_float(found) or (complex_too and dtypes.is_complex(found)):
        return found
    raise DTypeError(f"{call}: dtype must be a float{' or complex' if complex_too else ''} dtype; got {found.name}")


def as_int(call: str, dtype: Any) -> np.dtype:
    """The integer dtype asked for, by default int32 (int64 in 64-bit mode)."""
    if dtype is None:
        return dtypes.canonical_int()
    found = requested_dtype(dtype)
    if dtypes.is_integer(found):
        return found
    raise DTypeError(f"{call}: dtype must be an integer dtype; got {found.name}")


def key_words(call: str, key: Any) -> tuple[Any, Any]:
    """The two words of a key."""
    refuse_key(call, key)
    return tuple(lax.squeeze(lax.slice(key, (i,), (i + 1,)), (0,)) for i in (0, 1))  # type: ignore[return-value]


def in_its_name(fun: F) -> F:
    """A public function, in whose name arguments that are no arrays are refused, wherever that is found out."""
    @functools.wraps(fun)
    def run(*args: Any, **settings: Any) -> Any:
        try:
            return fun(*args, **settings)
        except TypeError as error:
            raise renamed(fun.__name__, error) from None
    return run  # type: ignore[return-value]


def renamed(call: str, error: TypeError) -> TypeError:
    """An error about what is no array, in the name of the public function that was called; others as they are."""
    text = str(error)
    return type(error)(f"{call}: {text}") if text.startswith("expected an array") else error


def refuse_key(call: str, key: Any) -> None:
    """Raise what is to be said of what is no key of two words."""
    try:
        aval = typeof(key)
    except TypeError:
        raise TypeError(f"{call}: expected a key, as random.key or PRNGKey make them; got {type(key).__name__}: "
                        f"{key!r:.60}") from None
    if aval.shape != (2,) or aval.dtype != _U32:
        remedy = "use vmap for several keys" if aval.dtype == _U32 and aval.shape[-1:] == (2,) else \
            "make one with PRNGKey(seed)"
        raise ShapeError(f"{call}: a key is uint32[2]; got {aval.long()}; {remedy}")


def check_key(call: str, key: Any) -> None:
    """Refuse what is no key, as cores take it."""
    if not dtypes.is_key(typeof(key).dtype):
        key_words(call, key)


def common_shape(call: str, shape: Any, *given: Any) -> tuple[int, ...]:
    """`shape`, or for None the shape the parameters broadcast to."""
    try:
        own = lax.broadcast_shapes(*[typeof(x).shape for x in given])
    except TypeError as e:
        raise type(e)(f"{call}: the parameters: {e}") from None
    if shape is None:
        return own
    shape = as_shape(call, shape)
    if lax.broadcast_shapes(shape, own) != shape:
        raise ShapeError(f"{call}: parameters of shape {own} do not broadcast to the shape drawn, {shape}; leave "
                         "shape out or make it larger")
    return shape


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


def params(call: str, shape: Any, dtype: Any, *given: Any) -> tuple[Any, ...]:
    """(shape, dtype, parameters as rank-0 or full arrays of that dtype)."""
    shape = common_shape(call, shape, *given)
    return shape, dtype, *(to_shape(x, shape, dtype) for x in given)
