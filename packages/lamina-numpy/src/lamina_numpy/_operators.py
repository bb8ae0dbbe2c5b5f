"""Methods, operators and properties of arrays, put into `lamina_tracing`'s `operators` slot.

Two tables with the same names. Traced values get the plain functions: they write their equations with no layer in
between. Concrete arrays get the jitted twins, mostly the compiled callables themselves: an eager `x + y` is one
compiled call.
"""
from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir.errors import mark_builtin_error
from lamina_tracing import hooks
from lamina_tracing.extend import Tracer, has_jax_array, rename_errors, resolve_requested_dtype

from . import _numpy_protocol
from ._products import products
from ._elementwise import division, logic, powers, rounding, ufuncs
from ._core import conversion
from ._indexing import at, diagonals, getitem, positions, searching, selection, take
from ._indexing.repeats import repeat as _repeat_elements
from ._sorting import sorting
from ._reductions import averages, reductions, cumulative
from ._shape import layout, views
from ._core.promotion import is_array
from ._core.public_api import (PLAIN_NUMBERS, alias, as_method, as_operator, check_known, get_jitted, public_api,
                               to_hashable)

__all__ = ["install"]

Function = Callable[..., Any]

# operator -> (plain function, name of the reflected operator)
_BINARY: dict[str, tuple[Function, str | None]] = {
    "__add__": (ufuncs.add, "__radd__"), "__sub__": (ufuncs.subtract, "__rsub__"),
    "__mul__": (ufuncs.multiply, "__rmul__"), "__truediv__": (ufuncs.true_divide, "__rtruediv__"),
    "__floordiv__": (division.floor_divide, "__rfloordiv__"), "__mod__": (division.remainder, "__rmod__"),
    "__divmod__": (division.divmod, "__rdivmod__"), "__pow__": (powers.power, "__rpow__"),
    "__matmul__": (products.matmul, "__rmatmul__"), "__and__": (logic.bitwise_and, "__rand__"),
    "__or__": (logic.bitwise_or, "__ror__"), "__xor__": (logic.bitwise_xor, "__rxor__"),
    "__lshift__": (logic.left_shift, "__rlshift__"), "__rshift__": (logic.right_shift, "__rrshift__"),
    "__eq__": (logic.equal, None), "__ne__": (logic.not_equal, None), "__lt__": (logic.less, None),
    "__le__": (logic.less_equal, None), "__gt__": (logic.greater, None), "__ge__": (logic.greater_equal, None)}
_SYMBOLS = "+ - * / // % divmod() ** @ & | ^ << >> == != < <= > >=".split()
_AS_THEY_ARE = ("**", "@")  # what they do with a number depends on which it is, or they take none
_SEQUENCES = (list, tuple)
_TEXTS = (str, bytes, bytearray)
_UNARY: dict[str, Function] = {
    "__neg__": ufuncs.negative, "__pos__": ufuncs.positive, "__abs__": ufuncs.abs, "__invert__": logic.invert}
# methods that are the function itself, the array as its first argument
_METHODS: dict[str, Function] = {
    "all": reductions.all, "any": reductions.any, "argmax": reductions.argmax, "argmin": reductions.argmin,
    "argpartition": sorting.argpartition, "argsort": sorting.argsort, "conj": alias(ufuncs.conj, "conj"),
    "conjugate": ufuncs.conj, "copy": conversion.copy, "cumprod": cumulative.cumprod, "cumsum": cumulative.cumsum, "diagonal":
    diagonals.diagonal, "dot": products.dot, "flatten": alias(layout.ravel, "flatten"), "max":
    reductions.max, "mean": averages.mean, "min": reductions.min, "partition": sorting.partition, "prod":
    reductions.prod, "ptp": reductions.ptp, "ravel": layout.ravel, "round": rounding.round, "sort": sorting.sort, "std":
    averages.std, "sum": reductions.sum, "swapaxes": layout.swapaxes, "take": take.take, "trace": diagonals.trace,
    "var": averages.var}


def _is_operand(y: Any) -> bool:
    return isinstance(y, (Tracer, np.ndarray, np.generic, bool, int, float, complex)) or is_array(y) \
        or has_jax_array(y)


def _make_operand_error(symbol: str, left: Any, right: Any) -> TypeError:
    text = isinstance(left, _TEXTS) or isinstance(right, _TEXTS)
    hint = "" if text else "; make lists and tuples arrays first, with numpy.asarray"
    return mark_builtin_error(TypeError(
        f"unsupported operand type(s) for {symbol}: {type(left).__name__!r} and {type(right).__name__!r}{hint}"))


def _make_operator(name: str, symbol: str, fun: Function, ready: Any) -> Function:
    """Return an operator. It returns `NotImplemented` for foreign operands, so that Python tries their reflected operator.
    Lists and tuples are refused: their operators would repeat or join them. Numbers of the types in `ready` are converted to
    cached scalars on the array's device."""
    slot = hooks.operators

    def op(self: Any, other: Any) -> Any:
        if type(other) in ready:
            other = slot.device_scalar_like(self, other)
        try:
            return fun(self, other)
        except TypeError:
            if _is_operand(other):
                raise
            if type(other) in _SEQUENCES or symbol == "*" and isinstance(other, _TEXTS):  # which would be repeated
                raise _make_operand_error(symbol, self, other) from None
            return NotImplemented
    op.__name__ = op.__qualname__ = name
    op.__doc__ = fun.__doc__
    return op


def _make_reflected_operator(name: str, symbol: str, fun: Function, ready: Any) -> Function:
    slot = hooks.operators

    def op(self: Any, other: Any) -> Any:
        if type(other) in ready:
            other = slot.device_scalar_like(self, other)
        try:
            return fun(other, self)
        except TypeError:
            if _is_operand(other):
                raise
            if type(other) in _SEQUENCES or symbol == "*" and isinstance(other, _TEXTS):  # which would be repeated
                raise _make_operand_error(symbol, other, self) from None
            return NotImplemented
    op.__name__ = op.__qualname__ = name
    op.__doc__ = fun.__doc__
    return op


def _operators(pick: Callable[[Function], Function], ready: Any = ()) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for symbol, (name, (fun, back)) in zip(_SYMBOLS, _BINARY.items(), strict=True):
        fast, types = pick(fun), () if symbol in _AS_THEY_ARE else ready
        table[name] = _make_operator(name, symbol, fast, types)
        if back is not None:
            table[back] = _make_reflected_operator(back, symbol, fast, types)
    return table


# --- methods whose arguments need a word -----------------------------------------------------------------------------


def _clip(self: Any, min: Any = None, max: Any = None) -> Any:
    return ufuncs.clip(self, min, max)


def _sizes(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape


def _reshape(self: Any, *shape: Any, order: str = "C") -> Any:
    """The same elements in another shape: `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
    return layout.reshape(self, _sizes(shape), order)


def _transpose(self: Any, *axes: Any) -> Any:
    """Axes in reverse, or in the order given."""
    return layout.transpose(self, _sizes(axes) if axes else None)


def _astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The elements in another dtype."""
    return conversion.astype(self, dtype, copy=copy, device=device)


def _repeat(self: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None) -> Any:
    return _repeat_elements(self, repeats, axis, total_repeat_length=total_repeat_length)


def _compress(self: Any, condition: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0,
              out: None = None) -> Any:
    return selection.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)


def _searchsorted(self: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Any:
    return searching.searchsorted(self, v, side, sorter, method=method)


def _nonzero(self: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    return positions.nonzero(self, size=size, fill_value=fill_value)


def _squeeze(self: Any, axis: Any = None) -> Any:
    """Axes of length 1 removed."""
    return layout.squeeze(self, axis)


@public_api("ndigits", name="round", doc="Python's `round`: integers where no number of digits is given.")
def _rounded(x: Any, ndigits: int | None = None) -> Any:
    out = rounding.round(x, 0 if ndigits is None else ndigits)
    return conversion.astype(out, int) if ndigits is None else out


def _reversed_axes(self: Any) -> Any:
    return layout.transpose(self)


def _to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on another device, or as a sharding says."""
    if stream is not None:
        raise ValueError("to_device: streams are not supported; got one")
    return hooks.device_put(self, device)


def _namespace(self: Any, /, *, api_version: str | None = None) -> Any:
    """The module of NumPy-like functions for this array, as the array API standard has it."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError("__array_namespace__: expected a version of the array API standard, as '2023.12'; got "
                         f"{api_version!r}")
    return sys.modules[__package__]


def _flat(self: Any) -> Any:
    """Not available: a view of an array that can be written through."""
    raise NotImplementedError("arrays have no `flat`, which NumPy writes through; read x.ravel(), and for changes use "
                              "x.ravel().at[i].set(v)")


_MORE: dict[str, Any] = {
    "to_device": _to_device, "__array_namespace__": _namespace, "flat": property(_flat, doc=_flat.__doc__),
    "__array_module__": lambda self, types: sys.modules[__package__], "__hex__": lambda self: hex(operator.index(self)),
    "__oct__": lambda self: oct(operator.index(self)), "__div__": lambda self, other: self / other,
    "__rdiv__": lambda self, other: other / self}


def _name_errors(table: dict[str, Any]) -> dict[str, Any]:
    """Return methods whose error messages start with their names."""
    return {name: rename_errors(fun, name) for name, fun in table.items()}


def _make_traced_table() -> dict[str, Any]:
    return {
        **_MORE, **_operators(lambda fun: rename_errors(fun) if fun is division.divmod else fun), **_UNARY,
        **_name_errors(_METHODS),
        "__getitem__": getitem.traced_getitem,
        "__setitem__": at.setitem, "__round__": rename_errors(_rounded), "at": at.at, **_name_errors({
            "astype": _astype, "choose": selection.choose, "clip": _clip, "compress": _compress, "nonzero": _nonzero,
            "repeat": _repeat, "reshape": _reshape, "searchsorted": _searchsorted, "squeeze": _squeeze,
            "transpose": _transpose, "view": views.view, "to_device": _to_device}),
        "T": property(_reversed_axes, doc="The array with its axes in reverse."),
        "mT": property(layout.matrix_transpose, doc="The array with its last two axes swapped."),
        "real": property(ufuncs.real, doc="Real part."), "imag": property(ufuncs.imag, doc="Imaginary part.")}


def _make_array_table() -> dict[str, Any]:
    # Tracers have the plain functions as methods. These are for arrays, where each call is a compiled program: what must be
    # known (shapes, axes) is made hashable, since it is part of the signature.
    reshape, transpose, squeeze = get_jitted(layout.reshape), get_jitted(layout.transpose), get_jitted(layout.squeeze)
    view = get_jitted(views.view)
    clip, search = get_jitted(ufuncs.clip), get_jitted(searching.searchsorted)
    real, imag, flip = get_jitted(ufuncs.real), get_jitted(ufuncs.imag), get_jitted(layout.matrix_transpose)

    def call_with_known(call: Function, fun: Function, *args: Any) -> Any:
        try:
            return call(*args)
        except ValueError:
            check_known(fun, args, {})
            raise

    def array_reshape(self: Any, *shape: Any, order: str = "C") -> Any:
        """The same elements in another shape: `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
        return call_with_known(reshape, layout.reshape, self, to_hashable(_sizes(shape)), order)

    def array_transpose(self: Any, *axes: Any) -> Any:
        """Axes in reverse, or in the order given."""
        return call_with_known(transpose, layout.transpose, self, to_hashable(_sizes(axes)) if axes else None)

    def array_squeeze(self: Any, axis: Any = None) -> Any:
        """Axes of length 1 removed."""
        return call_with_known(squeeze, layout.squeeze, self, to_hashable(axis))

    def array_clip(self: Any, min: Any = None, max: Any = None) -> Any:
        return clip(self, min, max)

    def array_view(self: Any, dtype: Any = None, type: None = None) -> Any:
        """The same bytes as another dtype; other widths change the last axis."""
        return self if dtype is None and type is None else view(self, resolve_requested_dtype(dtype), type)

    def array_search(self: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Any:
        return search(self, v, side, sorter, method=method)

    def reversed_axes(self: Any) -> Any:
        return self if self.ndim < 2 else transpose(self, None)

    return {
        **_MORE, **_operators(as_operator, PLAIN_NUMBERS),
        **{name: as_method(fun) for name, fun in (_UNARY | _METHODS).items()},
        "__getitem__": getitem.getitem, "__setitem__": at.setitem, "__round__": get_jitted(_rounded), "at": at.at,
        "clip": array_clip, "reshape": array_reshape, "searchsorted": array_search, "squeeze": array_squeeze,
        "transpose": array_transpose, **_name_errors({
            "astype": _astype, "choose": selection.choose, "compress": _compress, "nonzero": _nonzero, "repeat": _repeat,
            "view": array_view, "to_device": _to_device}),
        "T": property(reversed_axes, doc="The array with its axes in reverse."),
        "mT": property(lambda self: flip(self), doc="The array with its last two axes swapped."),
        "real": property(lambda self: real(self), doc="Real part."),
        "imag": property(lambda self: imag(self), doc="Imaginary part.")}


def install() -> None:
    """Give traced values and concrete arrays the full set."""
    hooks.operators.install(_make_traced_table(), _make_array_table())
    hooks.operators.find_numpy_function = _numpy_protocol.find
