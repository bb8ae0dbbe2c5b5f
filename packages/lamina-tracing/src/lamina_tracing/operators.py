"""The default operators of arrays and tracers: `lax` arithmetic after NumPy promotion and broadcasting.

`lamina_numpy` replaces them with the full set. A table here is name -> plain function; reflected forms swap.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import dtypes

from . import slots
from .arguments import requested_dtype
from .array import ArrayLike, HostArray
from .lax import elementwise as ew
from .lax.conversions import convert_element_type
from .lax import indexing, products, reductions, shape
from .lax._common import match_scalars
from .tracer import Tracer, typeof

__all__ = ["install", "promote_operands"]


def promote_operands(call: str, x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """`x` and `y` in one dtype (the lattice of `lamina_ir.dtypes`) and one shape (NumPy broadcasting)."""
    x, y = match_scalars(x, y)
    a, b = typeof(x), typeof(y)
    if a is b:
        return x, y
    if b.weak_type and not b.shape and a.dtype is b.dtype:  # a number beside an array: neither is changed
        return x, y
    if a.dtype != b.dtype or a.weak_type != b.weak_type:
        dtype, weak = dtypes.promote((a.dtype, a.weak_type), (b.dtype, b.weak_type))
        x = convert_element_type(x, dtype) if a.dtype != dtype else x
        y = convert_element_type(y, dtype) if b.dtype != dtype else y
    if a.shape != b.shape and a.shape and b.shape:
        try:
            full = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            raise ValueError(f"{call}: shapes {a.shape} and {b.shape} do not broadcast: trailing axes must be equal "
                             "or 1") from None
        x, y = _stretch(x, a.shape, full), _stretch(y, b.shape, full)
    return x, y


def _stretch(x: Any, old: tuple[int, ...], new: tuple[int, ...]) -> Any:
    if old == new:
        return x
    return shape.broadcast_in_dim(x, new, tuple(range(len(new) - len(old), len(new))))


def _both(name: str, op: Callable[[Any, Any], Any]) -> dict[str, Any]:
    def forward(x: Any, y: Any) -> Any:
        return op(*promote_operands(name, x, y)) if _fits(y) else NotImplemented

    def reflected(x: Any, y: Any) -> Any:
        return op(*promote_operands(name, y, x)) if _fits(y) else NotImplemented

    return {f"__{name}__": forward, f"__r{name}__": reflected}


def _fits(y: Any) -> bool:
    return isinstance(y, _FITTING) or hasattr(y, "aval")


_FITTING = (np.ndarray, float, int, Tracer, np.generic, complex)


def _compare(name: str, op: Callable[[Any, Any], Any]) -> dict[str, Any]:
    return {f"__{name}__": lambda x, y: op(*promote_operands(name, x, y)) if _fits(y) else NotImplemented}


def _true_div(x: Any, y: Any) -> Any:
    if not dtypes.is_inexact(typeof(x).dtype):
        x, y = (convert_element_type(v, dtypes.inexact_for(typeof(x).dtype)) for v in (x, y))
    return ew.div(x, y)


def _matmul(x: Any, y: Any) -> Any:
    a, b = typeof(x), typeof(y)
    if a.ndim not in (1, 2) or b.ndim not in (1, 2):
        raise ValueError(f"matmul here takes 1 or 2 axes; got {a.long()} and {b.long()}; lamina_numpy has the full one")
    return products.dot_general(x, y, (((a.ndim - 1,), (0,)), ((), ())))


def _getitem(x: Any, index: Any) -> Any:
    if isinstance(x, HostArray) and not isinstance(index, Tracer):
        return HostArray.of(np.asarray(x)[index], x.aval)
    parts = index if isinstance(index, tuple) else (index,)
    axis = 0
    for part in parts:
        if isinstance(part, slice):
            start, stop, step = part.indices(typeof(x).shape[axis])
            if step < 1:
                raise NotImplementedError("negative steps need lamina_numpy")
            x = shape.slice_in_dim(x, start, max(start, stop), step, axis)
            axis += 1
        elif isinstance(part, (int, np.integer, Tracer, np.ndarray)) and typeof(part).shape == ():
            size = typeof(x).shape[axis]
            if isinstance(part, (int, np.integer)) and not -size <= part < size:
                raise IndexError(f"index {part} is out of bounds for axis {axis} with size {size}")
            x = indexing.dynamic_index_in_dim(x, part, axis, keepdims=False)  # type: ignore[arg-type]
        else:
            raise NotImplementedError(f"index {part!r} needs lamina_numpy")
    return x


def _pow(x: Any, y: Any) -> Any:
    if type(y) is int:
        return ew.integer_pow(x, y)
    return ew.pow(*promote_operands("pow", x, y))


def _astype(x: Any, dtype: Any) -> Any:
    return convert_element_type(x, requested_dtype(dtype))


def _reshape(x: Any, *shape_args: Any) -> Any:
    sizes = shape_args[0] if len(shape_args) == 1 and not isinstance(shape_args[0], int) else shape_args
    known = typeof(x)
    if -1 in sizes:
        rest = -int(np.prod(sizes))
        sizes = tuple(known.size // rest if s == -1 else s for s in sizes)
    return shape.reshape(x, tuple(sizes))


def _sum(x: Any, axis: Any = None) -> Any:
    ndim = typeof(x).ndim
    axes = range(ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return reductions.reduce_sum(x, tuple(a % ndim for a in axes))


def install() -> None:
    """Put the default operators on tracers and concrete arrays."""
    table: dict[str, Any] = {
        **_both("add", ew.add), **_both("sub", ew.sub), **_both("mul", ew.mul), **_both("truediv", _true_div),
        **_both("mod", ew.rem), **_both("and", ew.bitwise_and), **_both("or", ew.bitwise_or),
        **_both("xor", ew.bitwise_xor), **_both("lshift", ew.shift_left),
        **_both("rshift", ew.shift_right_arithmetic),
        **_compare("eq", ew.eq), **_compare("ne", ew.ne), **_compare("lt", ew.lt), **_compare("le", ew.le),
        **_compare("gt", ew.gt), **_compare("ge", ew.ge),
        "__neg__": lambda x: ew.neg(x), "__pos__": lambda x: x, "__abs__": lambda x: ew.abs(x),
        "__invert__": lambda x: ew.bitwise_not(x), "__pow__": _pow,
        "__rpow__": lambda x, y: ew.pow(*promote_operands("pow", y, x)),
        "__matmul__": _matmul, "__rmatmul__": lambda x, y: _matmul(y, x), "__getitem__": _getitem,
        "astype": _astype, "reshape": _reshape, "sum": _sum,
        "T": property(lambda x: shape.transpose(x, tuple(range(x.ndim))[::-1])),
        "real": property(lambda x: ew.real(x) if dtypes.is_complex(x.dtype) else x),
        "imag": property(lambda x: ew.imag(x) if dtypes.is_complex(x.dtype) else ew.mul(x, 0)),
    }
    slots.operators.install(table, table)
