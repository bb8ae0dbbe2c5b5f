"""Default operators and methods of arrays and tracers: `lax` arithmetic after NumPy promotion and broadcasting.

`lamina_numpy` replaces them with the full set. A table maps names to plain functions; reflected operators swap
operands. Methods of more than one or two equations call the NumPy function of that name through `numpy_dispatch`, which is
imported on first use. Functions that it does not implement are those of lamina_numpy.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
from lamina_ir import Primitive, dtypes, prims
from lamina_ir.typing import Device, Function, Tree, Value

from ._jit import hooks
from ._core.args import resolve_requested_dtype
from ._core.array import ArrayLike, DTypeLike
from ._core.host_array import HostArray
from .lax import elementwise as ew
from .lax._util.conversions import bitcast_convert_type as _bitcast
from .lax._util.conversions import convert_element_type
from .lax import shape
from .lax._util.operands import has_default_float_dtype, match_scalars
from ._core.trace import bind
from ._core.tracer import Tracer, load_numpy_dispatch, typeof
from ._typing import AttributeTable

__all__ = ["install_operators", "promote_operands"]


def promote_operands(call: str, x: ArrayLike, y: ArrayLike) -> tuple[Value, Value]:
    """Convert `x` and `y` to one dtype (promotion lattice of `lamina_ir.dtypes`) and one shape (NumPy broadcasting)."""
    if type(y) is float and type(x) is HostArray and has_default_float_dtype(x):
        return x, y
    x, y = match_scalars(x, y)
    a, b = typeof(x), typeof(y)
    if a is b:
        return x, y
    if a.dtype is b.dtype and (b.weak_type and not b.shape or a.weak_type and not a.shape):
        return x, y  # an array and a Python scalar: neither needs a conversion
    if a.dtype != b.dtype or a.weak_type != b.weak_type:
        dtype, weak = dtypes.promote((a.dtype, a.weak_type), (b.dtype, b.weak_type), call=call)
        x = convert_element_type(x, dtype) if a.dtype != dtype else x
        y = convert_element_type(y, dtype) if b.dtype != dtype else y
    if a.shape != b.shape and a.shape and b.shape:
        try:
            full = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            raise ValueError(f"{call}: shapes {a.shape} and {b.shape} do not broadcast: trailing axes must be equal "
                             "or 1") from None
        x, y = _broadcast(x, a.shape, full), _broadcast(y, b.shape, full)
    return x, y


def _broadcast(x: Value, old: tuple[int, ...], new: tuple[int, ...]) -> Value:
    if old == new:
        return x
    return shape.broadcast_in_dim(x, new, tuple(range(len(new) - len(old), len(new))))


def _binary_methods(name: str, op: Callable[[Value, Value], Value]) -> dict[str, Function]:
    """Return the operator method of this name and its reflected form."""
    def forward(x: Value, y: Value) -> Value:
        return op(x, y) if _is_operand(y) else NotImplemented

    def reflected(x: Value, y: Value) -> Value:
        return op(y, x) if _is_operand(y) else NotImplemented

    return {f"__{name}__": forward, f"__r{name}__": reflected}


def _promote_and_bind(name: str, prim: Primitive) -> Callable[[Value, Value], Value]:
    """Make a function that promotes two operands and binds `prim`."""
    def equation(x: Value, y: Value) -> Value:
        x, y = promote_operands(name, x, y)
        return bind(prim, x, y)  # not the function of `lax`: promotion has done its conversions already

    return equation


def _is_operand(y: object) -> bool:
    return isinstance(y, _OPERAND_TYPES) or hasattr(y, "aval")


_OPERAND_TYPES = (np.ndarray, float, int, Tracer, np.generic, complex)


def _comparison(name: str, op: Callable[[Value, Value], Value]) -> dict[str, Function]:
    return {f"__{name}__": lambda x, y: op(*promote_operands(name, x, y)) if _is_operand(y) else NotImplemented}


def _true_div(x: Value, y: Value) -> Value:
    if not dtypes.is_inexact(typeof(x).dtype):
        x, y = (convert_element_type(v, dtypes.inexact_dtype_for(typeof(x).dtype)) for v in (x, y))
    return ew.div(x, y)


# --- methods that call NumPy functions --------------------------------------------------------------------------------


def _numpy_method(name: str) -> Function:
    def call(*args: Value, **kwargs: Tree) -> Value:
        return load_numpy_dispatch().call(name, args, kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As `numpy.{name}` of the array."
    return call


# Methods that call the NumPy function of the same name with the array as first argument.
_METHODS = ("all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "conj", "conjugate", "copy",
            "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min", "partition", "prod", "ptp", "ravel", "repeat",
            "round", "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var")
_OPERATOR_FUNCTIONS = {"pow": "power", "floordiv": "floor_divide", "mod": "remainder", "divmod": "divmod",
                       "matmul": "matmul", "rshift": "right_shift"}  # operator -> NumPy function


def _getitem(x: Value, index: Tree) -> Value:
    if isinstance(x, HostArray) and not any(isinstance(p, Tracer) for p in (index if isinstance(index, tuple) else (index,))):
        if isinstance(index, list):
            raise TypeError("an index must be integers, slices, `...`, None or arrays of these; got a list. Make it an "
                            "array first, with numpy.asarray")
        return HostArray.of(np.asarray(x)[index], x.aval)
    return load_numpy_dispatch().getitem(x, index)


def _sizes(args: tuple[Tree, ...]) -> Tree:
    return args[0] if len(args) == 1 else args


def _astype(x: Value, dtype: DTypeLike, copy: bool = False, device: Device = None) -> Value:
    return convert_element_type(x, resolve_requested_dtype(dtype))


def _reshape(x: Value, *sizes: Tree, order: str = "C") -> Value:
    return load_numpy_dispatch().call("reshape", (x, _sizes(sizes), order), {})


def _transpose(x: Value, *axes: Tree) -> Value:
    return load_numpy_dispatch().call("transpose", (x, _sizes(axes) if axes else None), {})


def _flatten(x: Value, order: str = "C") -> Value:
    return load_numpy_dispatch().call("ravel", (x, order), {})


def _compress(x: Value, condition: Value, axis: int | None = None) -> Value:
    return load_numpy_dispatch().call("compress", (condition, x, axis), {})


def _nonzero(x: Value) -> tuple[Value, ...]:
    return np.nonzero(x)


def _view(x: Value, dtype: DTypeLike | None = None) -> Value:
    if dtype is None:
        return x
    new = resolve_requested_dtype(dtype)
    if new.itemsize != typeof(x).dtype.itemsize:
        raise NotImplementedError(f"view of {typeof(x).str_long()} as {new.name}: elements must have one width; use "
                                  "lax.bitcast_convert_type, which adds or removes an axis")
    return _bitcast(x, new)


def _at(x: Value) -> NoReturn:
    from importlib.util import find_spec  # noqa: PLC0415 (only this error needs it)
    library = "import lamina_numpy for x.at[i].set(v), or " if find_spec("lamina_numpy") is not None else ""
    raise AttributeError(f"x.at is not available; {library}use lax.dynamic_update_slice, numpy.where or numpy.concatenate")


def _round(x: Value, ndigits: int | None = None) -> Value:
    out = load_numpy_dispatch().call("round", (x, ndigits or 0), {})
    return convert_element_type(out, int) if ndigits is None else out


def install_operators() -> None:
    """Install the default operators and methods on tracers and concrete arrays."""
    table: AttributeTable = {}
    table |= _binary_methods("truediv", lambda x, y: _true_div(*promote_operands("truediv", x, y)))
    for name, prim in (("add", prims.add_p), ("sub", prims.sub_p), ("mul", prims.mul_p), ("and", prims.and_p),
                       ("or", prims.or_p), ("xor", prims.xor_p), ("lshift", prims.shift_left_p)):
        table |= _binary_methods(name, _promote_and_bind(name, prim))
    for name, function in _OPERATOR_FUNCTIONS.items():
        table |= _binary_methods(name, _numpy_method(function))
    for name, op in (("eq", ew.eq), ("ne", ew.ne), ("lt", ew.lt), ("le", ew.le), ("gt", ew.gt), ("ge", ew.ge)):
        table |= _comparison(name, op)
    table |= {name: _numpy_method(name) for name in _METHODS}
    table |= {
        "__neg__": lambda x: ew.neg(x), "__pos__": lambda x: x, "__abs__": lambda x: ew.abs(x),
        "__invert__": lambda x: ew.bitwise_not(x), "__getitem__": _getitem, "__round__": _round,
        "astype": _astype, "reshape": _reshape, "transpose": _transpose, "flatten": _flatten, "compress": _compress,
        "nonzero": _nonzero, "view": _view, "at": property(_at),
        "T": property(lambda x: shape.transpose(x, tuple(range(x.ndim))[::-1])),
        "mT": property(lambda x: load_numpy_dispatch().call("matrix_transpose", (x,), {})),
        "real": property(lambda x: ew.real(x) if dtypes.is_complex(x.dtype) else x),
        "imag": property(lambda x: ew.imag(x) if dtypes.is_complex(x.dtype) else ew.mul(x, 0))}
    hooks.operators.install(table, table)
