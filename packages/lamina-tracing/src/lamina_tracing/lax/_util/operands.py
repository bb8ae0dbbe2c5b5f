"""Helpers of the `lax` modules: binding, reading types, matching Python scalars, checking axes."""
from __future__ import annotations

from collections.abc import Hashable, Iterator
from operator import index
from typing import Any

import numpy as np
from lamina_ir import LaminaError, ShapeError, config, dtypes
from lamina_ir.prims import broadcast_in_dim_p as _broadcast_in_dim_p
from lamina_ir.typing import Value

from ..._jit import hooks
from ..._core.args import resolve_requested_dtype
from ..._core.array import Array, ArrayLike, DTypeLike, HostArray
from ..._core.trace import EVALUATION, bind, trace_state
from ..._core.tracer import typeof
from ..._typing import Unchecked

__all__ = ["ArrayLike", "as_dtype", "as_int", "as_ints", "bind", "check_axes", "check_axis", "check_callable",
           "check_no_axis_name", "copy_host_result", "full_like", "is_axis_name", "match_scalars", "one_like",
           "scalar", "set_public_name", "typeof", "zeros_like"]

_SCALARS = frozenset((bool, int, float, complex))
_x64, _F32, _F64 = config.enable_x64, np.dtype("float32"), np.dtype("float64")


def copy_host_result(x: ArrayLike) -> Array:
    """Return an operand as a result. NumPy arrays are copied: their owner may write to them, and they lack lamina's
    methods. A program that is being staged makes its own copy."""
    if (isinstance(x, np.ndarray) and not isinstance(x, HostArray) and trace_state.trace is EVALUATION
            and x.dtype != dtypes.float0):
        return hooks.evaluator.array(x, typeof(x))
    return x  # type: ignore[return-value]  # an array or a traced value, or taken for one by the program being written


def check_callable(call: str, what: str, fun: object) -> None:
    """Raise TypeError unless `fun` can be called."""
    if not callable(fun):
        raise TypeError(f"{call}: {what} must be a function; got {type(fun).__name__}: {fun!r:.60}")


def set_public_name(fun: Any, name: str, doc: str) -> Any:
    """Give a function made by another function its public name: errors look it up among the frames."""
    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    fun.__code__ = fun.__code__.replace(co_name=name, co_qualname=name)
    return fun


def scalar(value: Value, dtype: np.dtype) -> Value:
    """Return a NumPy scalar of a dtype, for use with an operand of that dtype.

    Args:
      value: a number.
      dtype: a NumPy dtype; numbers that it does not hold wrap or overflow as in `astype`.
    Returns:
      A NumPy scalar.

    >>> scalar(2, np.dtype("float32")).dtype
    dtype('float32')
    """
    try:
        return dtype.type(value)  # fast path: a tenth of the general cost
    except (OverflowError, TypeError):
        return np.asarray(value).astype(dtype)[()]


def has_default_float_dtype(x: HostArray) -> bool:
    """Return whether an array has the dtype of Python's floats; `typeof` takes longer."""
    return x.dtype is (_F64 if _x64.enabled_in_all_threads or _x64.ever_enabled and _x64.value else _F32)


def match_scalars(x: Value, y: Value) -> tuple[Value, Value]:
    """Convert a Python scalar to the dtype and weak type of the other operand. A scalar that would lose its kind (2.5
    with integers) is unchanged, so that the type rule of the primitive reports it."""
    if type(x) in _SCALARS:
        if type(y) in _SCALARS:
            return _widen(x, y)
        return _match_operand(x, y), y
    if type(y) in _SCALARS:
        return x, _match_operand(y, x)
    return x, y


def _widen(x: Value, y: Value) -> tuple[Value, Value]:
    """Convert two Python numbers to numbers of one type; a boolean is not a number."""
    kinds = {type(x), type(y)}
    if len(kinds) == 1 or bool in kinds:
        return x, y
    kind = complex if complex in kinds else float
    return kind(x), kind(y)


def _match_operand(value: Value, other: Value) -> Value:
    kind = type(value)
    if kind is float and type(other) is HostArray and has_default_float_dtype(other):
        return value
    aval = typeof(other)
    dtype = aval.dtype
    if kind is float and dtype is (_F64 if _x64.enabled_in_all_threads or _x64.ever_enabled and _x64.value else _F32):
        # it has that dtype already, and the strong type wins
        return value
    if dtypes.is_float(dtype):
        if kind is complex:
            return value
    elif dtypes.is_integer(dtype):
        if kind in (float, complex):
            return value
    elif not dtypes.is_complex(dtype):  # bool
        return value if kind is not bool else np.bool_(value)
    if aval.weak_type:
        return complex(value) if dtypes.is_complex(dtype) else float(value) if dtypes.is_float(dtype) else int(value)
    return scalar(value, dtype)


def full_like(x: Value, value: Value) -> Value:
    """Return an array of the shape and dtype of another, with equal elements.

    Args:
      x: the array, or a traced one.
      value: a number; it is converted to the dtype of `x`.
    Returns:
      An array; of rank 0 a NumPy scalar.

    >>> full_like(np.zeros(2, np.int32), 7)
    Array([7, 7], dtype=int32)
    """
    aval = typeof(x)
    fill = scalar(value, aval.dtype)
    return fill if not aval.shape else bind(_broadcast_in_dim_p, fill, shape=aval.shape, broadcast_dimensions=())


def zeros_like(x: Value) -> Value:
    return full_like(x, 0)


def one_like(x: Value) -> Value:
    """Return the number one in the dtype of an array.

    Args:
      x: the array, or a traced one.
    Returns:
      A NumPy scalar: rank 0, so it broadcasts.

    >>> one_like(np.zeros(2, np.float32)).dtype
    dtype('float32')
    """
    return scalar(1, typeof(x).dtype)


def as_dtype(call: str, argument: str, spec: DTypeLike) -> np.dtype:
    """Return the dtype that `spec` means under the 64-bit setting; errors name the argument."""
    try:
        return resolve_requested_dtype(spec)
    except TypeError as error:
        raise type(error)(f"{call}: {argument}: {error}") from None


def as_int(call: str, argument: str, value: Value) -> int:
    """Return an argument that must be a known integer, as an int.

    Args:
      call, argument: the function and its argument, for the message.
      value: the argument.
    Returns:
      The int.
    Raises:
      TypeError: `value` is no integer, or a traced one.

    >>> as_int("eye", "N", np.int64(3))
    3
    """
    try:
        return index(value)
    except LaminaError:  # a traced value raises its own error
        raise
    except TypeError:
        raise TypeError(f"{call}: {argument} must be an integer; got {type(value).__name__}: {value!r:.60}") from None


def as_ints(call: str, argument: str, values: Unchecked) -> tuple[int, ...]:
    """Return a tuple of ints from a sequence of integers, or from one integer."""
    if values.__class__ is tuple:  # fast path for arguments of rules and libraries: a third of the general cost
        for v in values:
            if v.__class__ is not int:
                break
        else:
            return values
    try:
        return tuple([index(v) for v in values])
    except LaminaError:
        raise
    except TypeError:
        if not isinstance(values, str) and (not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0):
            try:
                return (index(values),)
            except LaminaError:
                raise
            except TypeError:
                pass
        raise TypeError(f"{call}: {argument} must be a sequence of integers; got {type(values).__name__}: "
                        f"{values!r:.60}") from None


def is_axis_name(axis: Unchecked) -> bool:
    """Return whether a value is the name of a mapped axis, not an axis of an array.

    Args:
      axis: the argument of the caller.
    Returns:
      True for a hashable value other than an integer, None, or a sequence of integers.

    >>> is_axis_name("batch"), is_axis_name(0), is_axis_name(("batch", 0))
    (True, False, False)
    """
    return isinstance(axis, Hashable) and axis is not None and not isinstance(axis, (tuple, range, Iterator)) \
        and not hasattr(axis, "__index__")


def check_no_axis_name(call: str, argument: str, axis: object) -> None:
    """Raise TypeError for the name of a mapped axis where only axes of an array are allowed.

    Args:
      call, argument: the function and its argument, for the message.
      axis: the argument.
    Raises:
      TypeError: it is a name.

    >>> check_no_axis_name("stack", "axis", "batch")
    Traceback (most recent call last):
    TypeError: stack: axis takes positional axes only, integers; got the name 'batch'
    """
    if is_axis_name(axis):
        raise TypeError(f"{call}: {argument} takes positional axes only, integers; got the name {axis!r}")


def check_axis(call: str, axis: Unchecked, ndim: int, argument: str = "axis") -> int:
    """Check an axis and return it counted from the front.

    Args:
      call: the calling function, for the message.
      axis: an integer; negative counts from the end.
      ndim: the number of axes.
      argument: the name of the argument, for the message.
    Returns:
      An integer in `[0, ndim)`.
    Raises:
      TypeError: it is no integer.
      ShapeError: it is out of range.

    >>> check_axis("sum", -1, 3)
    2
    """
    if axis.__class__ is int and 0 <= axis < ndim:
        return axis
    if not hasattr(axis, "__index__"):
        check_no_axis_name(call, argument, axis)
        raise TypeError(f"{call}: the axis must be an integer; got {axis!r}")
    try:
        at = axis.__index__()
    except LaminaError:  # a traced value raises its own error
        raise
    except TypeError:
        raise TypeError(f"{call}: the axis must be an integer; got {type(axis).__name__}: {axis!r:.60}") from None
    if not -ndim <= at < ndim:
        raise ShapeError(f"{call}: axis {at} is out of range for an array with {ndim} axes; expected "
                         f"{-ndim} <= axis < {ndim}")
    return at + ndim if at < 0 else at


def check_axes(call: str, axes: Unchecked, ndim: int, argument: str = "axis") -> tuple[int, ...]:
    """Check axes and return them counted from the front, without repeats.

    Args:
      call: the calling function, for the message.
      axes: an integer or a sequence of integers; negative ones count from the end.
      ndim: the number of axes.
      argument: the name of the argument, for the message.
    Returns:
      A tuple of integers in `[0, ndim)`, in the order given.
    Raises:
      TypeError: something is no integer.
      ShapeError: one is out of range, or named twice.

    >>> check_axes("sum", (-1, 0), 3)
    (2, 0)
    """
    if axes.__class__ is tuple:  # the common case: ascending and non-negative
        last = -1
        for a in axes:
            if a.__class__ is not int or not last < a < ndim:
                break
            last = a
        else:
            return axes
    if isinstance(axes, (int, np.integer)) or isinstance(axes, str) or not hasattr(axes, "__iter__") and is_axis_name(axes):
        axes = (axes,)  # a name is refused below
    elif not hasattr(axes, "__iter__"):
        raise TypeError(f"{call}: the axes must be a sequence of integers; got {axes!r}")
    found = tuple(check_axis(call, a, ndim, argument) for a in axes)
    if len(set(found)) != len(found):
        raise ShapeError(f"{call}: axes {tuple(axes)} name an axis twice")
    return found
