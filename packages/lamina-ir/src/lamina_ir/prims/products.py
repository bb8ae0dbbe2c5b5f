"""`dot_general`: tensor contraction of two arrays over any axes, with batch axes; and its `Precision`."""
from __future__ import annotations

from enum import Enum
from functools import lru_cache
from math import prod
from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from .. import config
from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._types.param_values import register_param_type
from .._core.param_types import KINDS, is_ints
from .._core.primitive import Primitive
from ._numpy.ufunc_plans import set_plan_hooks
from ..typing import Function, ParamValue, Value

__all__ = ["DotDimensionNumbers", "Precision", "as_precision", "dot_general_p"]

# ((lhs contracting, rhs contracting), (lhs batch, rhs batch))
DotDimensionNumbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


@register_param_type
class Precision(Enum):
    """The precision of products on accelerators: fastest, intermediate, or the full dtype. CPUs always use the last.

    >>> Precision.HIGHEST
    Precision.HIGHEST
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    @override
    def _missing_(cls, value: object) -> Precision | None:  # Precision("high")
        return _PRECISIONS.get(value.lower()) if isinstance(value, str) else None

    @override
    def __repr__(self) -> str:
        return "Precision." + self.name

    @override
    def __str__(self) -> str:
        return self.name


_PRECISIONS: dict[object, Precision | None] = {
    None: None, "default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST}
_PRECISIONS.update({p: p for p in Precision})


def as_precision(spec: ParamValue) -> tuple[Precision, Precision] | None:
    """Convert None, a `Precision`, its name, or a pair of those to the param `precision` of `dot_general`.

    >>> as_precision("high")
    (Precision.HIGH, Precision.HIGH)
    """
    if spec is None:
        return None
    try:
        if isinstance(spec, (tuple, list)) and len(spec) == 2:
            lhs, rhs = (_PRECISIONS[s.lower() if isinstance(s, str) else s] for s in spec)
            return None if lhs is None and rhs is None else (lhs or Precision.DEFAULT, rhs or Precision.DEFAULT)
        one = _PRECISIONS[spec.lower() if isinstance(spec, str) else spec]
        return None if one is None else (one, one)
    except (KeyError, TypeError):
        names = ", ".join(repr(k) for k in _PRECISIONS if isinstance(k, str))
        raise ValueError(f"dot_general: precision must be None, a lax.Precision, one of {names}, or a pair of those; "
                         f"got {spec!r}") from None


def _check_default(spec: ParamValue) -> None:
    try:
        as_precision(spec)
    except ValueError as e:
        raise ValueError(f"config default_matmul_precision: {str(e).removeprefix('dot_general: ')}") from None


config.default_matmul_precision.set_check(_check_default)


def free_axes(ndim: int, contract: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """List the axes that are neither contracted nor batch axes, in order."""
    return tuple([a for a in range(ndim) if a not in contract and a not in batch])


@lru_cache(maxsize=4096)
def _dot_general_infer(lhs: ShapedArray, rhs: ShapedArray, *, dimension_numbers: DotDimensionNumbers,
                       precision: ParamValue, preferred_element_type: np.dtype | None) -> ShapedArray:
    (lc, rc), (lb, rb) = dimension_numbers
    ls, rs = lhs.shape, rhs.shape
    # lc, rc: contracted axes of each operand, pairwise; lb, rb: batch axes. Result axes: batch, free of lhs, free of
    # rhs.
    got = f"got lhs {lhs.str_long()}, rhs {rhs.str_long()}, contracted axes {lc} and {rc}, batch axes {lb} and {rb}"
    if len(lb) != len(rb):
        # StableHLO dot_general C1
        raise ShapeError(f"dot_general: both operands need as many batch axes; {got}")
    if len(lc) != len(rc):
        # StableHLO dot_general C2
        raise ShapeError(f"dot_general: both operands need as many contracted axes; {got}")
    for used, ndim in ((lb + lc, len(ls)), (rb + rc, len(rs))):
        if len(set(used)) != len(used) or any(not 0 <= a < ndim for a in used):
            # StableHLO dot_general C3-C6
            raise ShapeError(f"dot_general: batch and contracted axes must be distinct axes of their operand; {got}")
    for kind, lhs_axes, rhs_axes in (("batch", lb, rb), ("contracted", lc, rc)):
        for a, b in zip(lhs_axes, rhs_axes, strict=True):
            if ls[a] != rs[b]:
                # StableHLO dot_general C9-C10
                raise ShapeError(f"dot_general: {kind} axes must have equal length; got lhs {lhs.str_long()} axis {a} "
                                 f"({ls[a]}), rhs {rhs.str_long()} axis {b} ({rs[b]})")
    if lhs.dtype != rhs.dtype and preferred_element_type is None:
        # StableHLO dot_general C13
        raise DTypeError(f"dot_general: operands must have one dtype, or preferred_element_type must be given; got "
                         f"lhs {lhs.str_long()}, rhs {rhs.str_long()}")
    dtype = lhs.dtype if preferred_element_type is None else preferred_element_type
    if dtypes.is_inexact(lhs.dtype) and not dtypes.is_inexact(dtype):
        raise DTypeError(f"dot_general: preferred_element_type must be able to hold the products; got {dtype.name} for "
                         f"lhs {lhs.str_long()}")
    shape = tuple([ls[a] for a in lb] + [ls[a] for a in free_axes(len(ls), lc, lb)]
                  + [rs[a] for a in free_axes(len(rs), rc, rb)])
    return shaped(shape, dtype, lhs.weak_type and rhs.weak_type and preferred_element_type is None)


@lru_cache(maxsize=1024)
def _as_matrices(dimension_numbers: DotDimensionNumbers, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[Value, ...]:
    """Plan the contraction as a batched matrix product. Return for each operand the transposition and the shape
    afterwards, and then the shape of the result; None for each step that is not needed."""
    (lc, rc), (lb, rb) = dimension_numbers
    lf, rf = free_axes(len(x), lc, lb), free_axes(len(y), rc, rb)
    batch, m, n = [x[a] for a in lb], [x[a] for a in lf], [y[a] for a in rf]
    k = prod([x[a] for a in lc])

    def transpose_and_reshape(shape: tuple[int, ...], order: tuple[int, ...],
                              new: tuple[int, ...]) -> tuple[Value, Value]:
        in_order = order == tuple(range(len(order)))
        return None if in_order else order, None if tuple([shape[a] for a in order]) == new else new

    left, right = (*batch, prod(m), k), (*batch, k, prod(n))
    full = (*batch, *m, *n)
    return (*transpose_and_reshape(x, lb + lf + lc, left), *transpose_and_reshape(y, rb + rc + rf, right),
            None if len(m) == len(n) == 1 else full)


def _dot_general(x: Value, y: Value, *, dimension_numbers: DotDimensionNumbers, precision: ParamValue,
                 preferred_element_type: np.dtype | None) -> Value:
    out = x.dtype if preferred_element_type is None else preferred_element_type
    left, left_shape, right, right_shape, shape = _as_matrices(dimension_numbers, x.shape, y.shape)
    # Avoid copies: BLAS reads transposed matrices in place.
    if left is not None:
        x = x.transpose(left)
    if right is not None:
        y = y.transpose(right)
    if x.dtype is not out or y.dtype is not out or out not in _BLAS_DTYPES:
        wide = product_dtype(x.dtype, y.dtype, out)
        x, y = x.astype(wide, copy=False), y.astype(wide, copy=False)
    if left_shape is not None:
        x = x.reshape(left_shape)
    if right_shape is not None:
        y = y.reshape(right_shape)
    z = np.matmul(x, y).astype(out, copy=False)
    return z if shape is None else z.reshape(shape)


def _prepare(avals: Sequence[ShapedArray], *, dimension_numbers: DotDimensionNumbers, precision: ParamValue,
             preferred_element_type: np.dtype | None) -> Function | None:
    """Return a faster `_dot_general` for arrays of known types, or None if they need conversion or reshaping."""
    x, y = avals
    out = x.dtype if preferred_element_type is None else preferred_element_type
    left, left_shape, right, right_shape, shape = _as_matrices(dimension_numbers, x.shape, y.shape)
    if x.dtype != out or y.dtype != out or out not in _BLAS_DTYPES or left_shape or right_shape or shape is not None:
        return None
    if left is None:
        return np.matmul if right is None else lambda x, y: np.matmul(x, y.transpose(right))
    if right is None:
        return lambda x, y: np.matmul(x.transpose(left), y)
    return lambda x, y: np.matmul(x.transpose(left), y.transpose(right))


set_plan_hooks(_dot_general, _prepare)
_BLAS_DTYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


def product_dtype(x: np.dtype, y: np.dtype, out: np.dtype) -> np.dtype:
    """Return the accumulation dtype of the NumPy evaluation: the result's, and at least float32 for floats."""
    if not dtypes.is_float(out):
        return out
    return np.dtype("float64") if np.dtype("float64") in (x, y, out) else np.dtype("float32")


def _are_dot_numbers(v: ParamValue) -> bool:
    return isinstance(v, tuple) and len(v) == 2 and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(map(is_ints, pair)) for pair in v)


def _is_precision(v: ParamValue) -> bool:
    return v is None or isinstance(v, tuple) and len(v) == 2 and all(type(p) is Precision for p in v)


KINDS["dot numbers"] = ("((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)), four tuples of ints",
                        _are_dot_numbers)
KINDS["precision?"] = ("None, or a pair of enums `Precision`", _is_precision)
dot_general_p = Primitive("dot_general", params=("dimension_numbers", "precision", "preferred_element_type"),
                          family="products", infer=_dot_general_infer, numpy=_dot_general, bilinear_in=(0, 1),
                          kinds={"dimension_numbers": "dot numbers", "precision": "precision?"}, spec="dot_general")
