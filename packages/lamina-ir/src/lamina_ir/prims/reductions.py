"""Primitives that combine elements along axes: reductions, and cumulative operations with a result per prefix.

Maxima and minima propagate NaN, complex numbers are ordered lexicographically, and among equal maxima or minima the
lowest index counts. All of this is as in NumPy.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod

import numpy as np

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._core.region_signature import RegionSignature
from .._core.primitive import Primitive
from ..typing import Function, ParamValue, Value
from .._core.jaxpr import ClosedJaxpr
from .._typing import RunProgram

__all__ = ["argmax_p", "argmin_p", "cummax_p", "cummin_p", "cumprod_p", "cumsum_p", "highest", "lowest",
           "reduce_and_p", "reduce_max_p", "reduce_min_p", "reduce_or_p", "reduce_p", "reduce_prod_p", "reduce_sum_p",
           "reduce_xor_p"]

_KINDS: dict[str, Callable[[np.dtype], bool]] = {
    "an integer, float or complex dtype": dtypes.is_number,
    "a boolean or integer dtype": lambda d: dtypes.is_bool(d) or dtypes.is_integer(d),
    "any dtype": lambda d: True}
_NUMBER, _BITS, _ANY = _KINDS
_SMALL = frozenset(d for d in map(dtypes.as_dtype, dtypes._EXTRA_FLOATS)) | {np.dtype("float16")}


def _infer(name: str, kind: str) -> Callable[..., ShapedArray]:
    accepts = _KINDS[kind]

    @lru_cache(maxsize=4096)
    def infer(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
        shape = x.shape
        if not accepts(x.dtype):
            raise DTypeError(f"{name}: expected {kind}; got operand {x.str_long()}. Convert it first")
        for a in axes:
            if not 0 <= a < len(shape):
                # StableHLO reduce C4
                raise ShapeError(f"{name}: axis {a} is out of range for operand {x.str_long()}; axes {axes}")
        if len(set(axes)) != len(axes):
            # StableHLO reduce C5
            raise ShapeError(f"{name}: axes {axes} name an axis twice")
        return shaped(tuple([n for a, n in enumerate(shape) if a not in axes]), x.dtype, x.weak_type)
    return infer


def _reduce_by(ufunc: np.ufunc, initial: Callable[[np.dtype], Value] | None = None) -> Function:
    """Return an implementation by `ufunc.reduce` in the operand's dtype; small floats are accumulated in float32."""
    selects = initial is None or ufunc in (np.maximum, np.minimum)  # the result is one of the elements, so it has their dtype

    def implementation(x: Value, *, axes: tuple[int, ...]) -> Value:
        wide = x.astype(np.float32) if x.dtype in _SMALL else x
        start = {} if initial is None else {"initial": initial(x.dtype)}
        out = ufunc.reduce(wide, axis=axes, **start) if selects else ufunc.reduce(wide, axis=axes, dtype=wide.dtype, **start)
        return np.asarray(out).astype(x.dtype, copy=not axes)
    return implementation


def lowest(d: np.dtype) -> Value:
    """Return the smallest value of the dtype, the maximum of an empty array."""
    if dtypes.is_bool(d):
        return False
    if dtypes.is_integer(d):
        return int(dtypes.iinfo(d).min)
    return complex(-np.inf, -np.inf) if dtypes.is_complex(d) else -_top(d)


def highest(d: np.dtype) -> Value:
    """Return the largest value of the dtype, the minimum of an empty array."""
    if dtypes.is_bool(d):
        return True
    if dtypes.is_integer(d):
        return int(dtypes.iinfo(d).max)
    return complex(np.inf, np.inf) if dtypes.is_complex(d) else _top(d)


def _top(d: np.dtype) -> float:
    """Return infinity, or the largest number of an 8-bit float without infinity."""
    return float(dtypes.finfo(d).max) if d.itemsize == 1 and not np.isinf(np.asarray(np.inf).astype(d)) else np.inf


def _reduction(name: str, kind: str, implementation: Function, **facts: ParamValue) -> Primitive:
    return Primitive(name, params=("axes",), family="reductions", infer=_infer(name, kind), numpy=implementation,
                     spec="reduce", **facts)


reduce_sum_p = _reduction("reduce_sum", _NUMBER, _reduce_by(np.add, lambda d: 0), linear_in=(0,))
reduce_prod_p = _reduction("reduce_prod", _NUMBER, _reduce_by(np.multiply, lambda d: 1))
reduce_max_p = _reduction("reduce_max", _ANY, _reduce_by(np.maximum, lowest))
reduce_min_p = _reduction("reduce_min", _ANY, _reduce_by(np.minimum, highest))
reduce_and_p = _reduction("reduce_and", _BITS, _reduce_by(np.bitwise_and))
reduce_or_p = _reduction("reduce_or", _BITS, _reduce_by(np.bitwise_or))
reduce_xor_p = _reduction("reduce_xor", _BITS, _reduce_by(np.bitwise_xor))


# --- argmax, argmin -----------------------------------------------------------------------------------------------
def _arg_infer(name: str) -> Callable[..., ShapedArray]:
    @lru_cache(maxsize=4096)
    def infer(x: ShapedArray, *, axes: tuple[int, ...], index_dtype: np.dtype) -> ShapedArray:
        if len(axes) != 1 or not 0 <= axes[0] < len(x.shape):
            raise ShapeError(f"{name}: expected one axis of operand {x.str_long()}; got axes {axes}")
        if not dtypes.is_integer(index_dtype):
            raise DTypeError(f"{name}: index_dtype must be an integer dtype; got {index_dtype.name}")
        if not x.shape[axes[0]]:
            raise ShapeError(f"{name}: axis {axes[0]} of operand {x.str_long()} must not be empty")
        return shaped(tuple([n for a, n in enumerate(x.shape) if a != axes[0]]), index_dtype)
    return infer


def _arg(pick: Function) -> Function:
    def implementation(x: Value, *, axes: tuple[int, ...], index_dtype: np.dtype) -> Value:
        wide = x.astype(np.float32) if x.dtype in _SMALL else x
        return np.asarray(pick(wide, axis=axes[0])).astype(index_dtype)
    return implementation


argmax_p = Primitive("argmax", params=("axes", "index_dtype"), family="reductions", infer=_arg_infer("argmax"),
                     numpy=_arg(np.argmax), spec="numpy.argmax")
argmin_p = Primitive("argmin", params=("axes", "index_dtype"), family="reductions", infer=_arg_infer("argmin"),
                     numpy=_arg(np.argmin), spec="numpy.argmin")


# --- cumulative operations ----------------------------------------------------------------------------------------
def _cumulation(name: str, ufunc: np.ufunc, kind: str = _NUMBER, **facts: ParamValue) -> Primitive:
    accepts = _KINDS[kind]

    def infer(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        if not accepts(x.dtype):
            raise DTypeError(f"{name}: expected {kind}; got operand {x.str_long()}. Convert it first")
        if not 0 <= axis < len(x.shape):
            raise ShapeError(f"{name}: axis {axis} is out of range for operand {x.str_long()}")
        return x

    def implementation(x: Value, *, axis: int, reverse: bool) -> Value:
        wide = x.astype(np.float32) if x.dtype in _SMALL else x
        if reverse:
            wide = np.flip(wide, axis)
        out = ufunc.accumulate(wide, axis=axis).astype(x.dtype)
        return np.flip(out, axis) if reverse else out

    return Primitive(name, params=("axis", "reverse"), family="reductions", infer=infer, numpy=implementation,
                     spec="reduce_window", **facts)


cumsum_p = _cumulation("cumsum", np.add, linear_in=(0,))
cumprod_p = _cumulation("cumprod", np.multiply)
cummax_p = _cumulation("cummax", np.maximum, _ANY)
cummin_p = _cumulation("cummin", np.minimum, _ANY)


# --- reduction by a program of scalars ----------------------------------------------------------------------------
def _reduce_infer(*avals: ShapedArray, computation: ClosedJaxpr,
                  dimensions: tuple[int, ...]) -> tuple[ShapedArray, ...]:
    n = len(avals) // 2
    operands, inits = avals[:n], avals[n:]
    got = f"got operands {_types(operands)}, initial values {_types(inits)}"
    if not n or len(inits) != n or any(i.shape or i.dtype != x.dtype for x, i in zip(operands, inits, strict=False)):
        # StableHLO reduce C2-C3
        raise ShapeError(f"reduce: expected one scalar initial value per operand, of its dtype; {got}")
    if any(x.shape != operands[0].shape for x in operands):
        # StableHLO reduce C1
        raise ShapeError(f"reduce: operands must have one shape; {got}")
    if [a.dtype for a in computation.out_avals] != [x.dtype for x in operands] \
            or any(a.shape for a in computation.out_avals) or len(computation.in_avals) != 2 * n:
        # StableHLO reduce C6
        raise ShapeError(f"reduce: the computation must take {2 * n} scalars and return {n} of the operands' dtypes; "
                         f"it takes {_types(computation.in_avals)} and returns {_types(computation.out_avals)}")
    shape = operands[0].shape
    for a in dimensions:
        if not 0 <= a < len(shape) or dimensions.count(a) > 1:
            # StableHLO reduce C4-C5
            raise ShapeError(f"reduce: dimensions {dimensions} must be distinct axes of {operands[0].str_long()}")
    remaining = tuple([n for a, n in enumerate(shape) if a not in dimensions])
    return tuple([shaped(remaining, x.dtype) for x in operands])


def _types(avals: Sequence[ShapedArray]) -> str:
    return "(" + ", ".join(a.str_long() for a in avals) + ")"


def _reduce(run: RunProgram, *args: Value, computation: ClosedJaxpr, dimensions: tuple[int, ...]) -> tuple[Value, ...]:
    n = len(args) // 2
    operands, inits = args[:n], args[n:]
    shape = operands[0].shape
    remaining = [a for a in range(len(shape)) if a not in dimensions]
    out_shape = tuple(shape[a] for a in remaining)
    elements = [np.transpose(x, (*remaining, *dimensions)).reshape((*out_shape, prod(shape[a] for a in dimensions)))
                for x in operands]
    outs = [np.full(out_shape, i, x.dtype) for x, i in zip(operands, inits, strict=True)]
    for at in np.ndindex(out_shape):
        state = [np.asarray(i) for i in inits]
        for k in range(elements[0].shape[-1]):
            state = run(computation, [*state, *(np.asarray(r[(*at, k)]) for r in elements)])
        for out, value in zip(outs, state, strict=True):
            out[at] = value
    return tuple(outs)


MONOID = RegionSignature(extra_programs=("computation",), indivisible="its program combines two elements, in unspecified order")
reduce_p = Primitive("reduce", params=("computation", "dimensions"), family="reductions", infer=_reduce_infer,
                     numpy=_reduce, multiple=True, region_signature=MONOID, spec="reduce")
