"""`dot_general`: tensor contraction of two arrays over any axes, with batch axes; its `Precision` and its algorithms."""
from __future__ import annotations

from enum import Enum
from functools import lru_cache
from math import prod
from collections.abc import Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np
from typing_extensions import override

from .. import config
from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._types.param_values import register_param_type
from .._core.param_types import KINDS, is_ints
from .._core.primitive import Primitive
from ._numpy import special
from ._numpy.ufunc_plans import set_plan_hooks, without_warnings
from ..typing import Function, ParamValue, Value

__all__ = ["DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers", "Precision", "as_dot_precision", "as_precision",
           "dot_general_p"]

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


class DotAlgorithm(NamedTuple):
    """How a product of matrices is computed.

    Attributes:
      lhs_precision_type, rhs_precision_type: dtypes to which the operands are rounded; "tf32" for 10 bits of mantissa.
      accumulation_type: dtype of the sums.
      lhs_component_count, rhs_component_count: into how many parts an operand is split; 1 for those that are known.
      num_primitive_operations: how many products of parts are added.
      allow_imprecise_accumulation: whether some sums may be less precise.
    """

    lhs_precision_type: ParamValue
    rhs_precision_type: ParamValue
    accumulation_type: ParamValue
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


_ANY_F8 = "any 8-bit float"  # not "f8", which is NumPy's name of float64
_BF16, _F16, _F32, _F64 = (np.dtype(d) for d in (ml_dtypes.bfloat16, np.float16, np.float32, np.float64))


@register_param_type
class DotAlgorithmPreset(Enum):
    """The algorithms for products of matrices that some platform has, named by the dtypes of the operands and of the sums.

    `X3`, `X6` and `X9` add so many products of parts, which keep more digits than the dtype of the operands. "ANY" stands for
    any 8-bit float, or for any dtype of the sums.

    >>> DotAlgorithmPreset.BF16_BF16_F32.accumulation_type.name
    'float32'
    """

    DEFAULT = None
    ANY_F8_ANY_F8_F32 = DotAlgorithm(_ANY_F8, _ANY_F8, _F32)
    ANY_F8_ANY_F8_F32_FAST_ACCUM = DotAlgorithm(_ANY_F8, _ANY_F8, _F32, allow_imprecise_accumulation=True)
    ANY_F8_ANY_F8_ANY = DotAlgorithm(_ANY_F8, _ANY_F8, None)
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = DotAlgorithm(_ANY_F8, _ANY_F8, None, allow_imprecise_accumulation=True)
    F16_F16_F16 = DotAlgorithm(_F16, _F16, _F16)
    F16_F16_F32 = DotAlgorithm(_F16, _F16, _F32)
    BF16_BF16_BF16 = DotAlgorithm(_BF16, _BF16, _BF16)
    BF16_BF16_F32 = DotAlgorithm(_BF16, _BF16, _F32)
    BF16_BF16_F32_X3 = DotAlgorithm(_BF16, _BF16, _F32, num_primitive_operations=3)
    BF16_BF16_F32_X6 = DotAlgorithm(_BF16, _BF16, _F32, num_primitive_operations=6)
    BF16_BF16_F32_X9 = DotAlgorithm(_BF16, _BF16, _F32, num_primitive_operations=9)
    TF32_TF32_F32 = DotAlgorithm("tf32", "tf32", _F32)
    TF32_TF32_F32_X3 = DotAlgorithm("tf32", "tf32", _F32, num_primitive_operations=3)
    F32_F32_F32 = DotAlgorithm(_F32, _F32, _F32)
    F64_F64_F64 = DotAlgorithm(_F64, _F64, _F64)

    @override
    def __repr__(self) -> str:
        return "DotAlgorithmPreset." + self.name

    @override
    def __str__(self) -> str:
        return self.name

    @property
    def lhs_precision_type(self) -> ParamValue:
        """The dtype to which operands are rounded, "tf32" or "any 8-bit float"; that of the right operand is the same."""
        return self.value and self.value.lhs_precision_type

    @property
    def accumulation_type(self) -> ParamValue:
        """The dtype of the sums; None for that of the result."""
        return self.value and self.value.accumulation_type


def as_dot_precision(spec: ParamValue) -> tuple[Precision, Precision] | DotAlgorithmPreset | None:
    """Convert what `as_precision` takes, a `DotAlgorithmPreset`, its name, or a `DotAlgorithm` to the param `precision`.

    >>> as_dot_precision("F32_F32_F32")
    DotAlgorithmPreset.F32_F32_F32
    """
    if isinstance(spec, DotAlgorithm):
        spec = _find_preset(spec)
    elif isinstance(spec, str) and spec.lower() not in _PRECISIONS and spec in DotAlgorithmPreset.__members__:
        spec = DotAlgorithmPreset[spec]
    if isinstance(spec, DotAlgorithmPreset):
        return None if spec is DotAlgorithmPreset.DEFAULT else spec
    try:
        return as_precision(spec)
    except ValueError as e:
        raise ValueError(str(e).replace("a lax.Precision,", "a lax.Precision, a lax.DotAlgorithmPreset,")) from None


def _find_preset(algorithm: DotAlgorithm) -> DotAlgorithmPreset:
    kinds = [t if t is None or isinstance(t, str) and t == "tf32" else np.dtype(t) for t in algorithm[:3]]
    lhs, rhs, sums = kinds
    wanted = algorithm._replace(lhs_precision_type=lhs, rhs_precision_type=rhs, accumulation_type=sums)
    if all(isinstance(t, np.dtype) and t.name.startswith("float8") for t in kinds[:2]):
        wanted = wanted._replace(lhs_precision_type=_ANY_F8, rhs_precision_type=_ANY_F8)
    for preset in DotAlgorithmPreset:
        if preset.value == wanted:
            return preset
    raise ValueError(f"dot_general: precision must be one of the algorithms of lax.DotAlgorithmPreset; got {algorithm!r}")


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
        raise ShapeError(f"dot_general: both operands must have the same number of batch axes; {got}")
    if len(lc) != len(rc):
        # StableHLO dot_general C2
        raise ShapeError(f"dot_general: both operands must have the same number of contracted axes; {got}")
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
    if isinstance(precision, DotAlgorithmPreset):
        _check_algorithm(precision, lhs, rhs)
    shape = tuple([ls[a] for a in lb] + [ls[a] for a in free_axes(len(ls), lc, lb)]
                  + [rs[a] for a in free_axes(len(rs), rc, rb)])
    return shaped(shape, dtype, lhs.weak_type and rhs.weak_type and preferred_element_type is None)


def _check_algorithm(algorithm: DotAlgorithmPreset, lhs: ShapedArray, rhs: ShapedArray) -> None:
    narrow = algorithm.lhs_precision_type == _ANY_F8
    for x in (lhs, rhs):
        if not dtypes.is_float(x.dtype) or narrow and x.dtype.itemsize != 1:
            raise DTypeError(f"dot_general: precision {algorithm.name} needs operands of {'an 8-bit' if narrow else 'a'} float "
                             f"dtype; got {x.str_long()}")


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


_matmul = without_warnings(np.matmul)  # with some processors BLAS warns of infinity times 0


def _dot_general(x: Value, y: Value, *, dimension_numbers: DotDimensionNumbers, precision: ParamValue,
                 preferred_element_type: np.dtype | None) -> Value:
    out = x.dtype if preferred_element_type is None else preferred_element_type
    if isinstance(precision, DotAlgorithmPreset):
        kind, sums = precision.lhs_precision_type, out if precision.accumulation_type is None else precision.accumulation_type
        count = precision.value.num_primitive_operations
        x, y = (_round_operand(v, kind if count == 1 else _F32) for v in (x, y))
        z = _dot_general(x, y, dimension_numbers=dimension_numbers, precision=None, preferred_element_type=sums)
        return z.astype(out, copy=False)
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
    z = _matmul(x, y).astype(out, copy=False)
    return z if shape is None else z.reshape(shape)


def _round_operand(x: Value, kind: ParamValue) -> Value:
    if kind == "tf32":
        return special.reduce_precision(x.astype(_F32), exponent_bits=8, mantissa_bits=10)
    return x if kind == _ANY_F8 else x.astype(kind)


def _prepare(avals: Sequence[ShapedArray], *, dimension_numbers: DotDimensionNumbers, precision: ParamValue,
             preferred_element_type: np.dtype | None) -> Function | None:
    """Return a faster `_dot_general` for arrays of known types, or None if they need conversion or reshaping."""
    if isinstance(precision, DotAlgorithmPreset):
        return None
    x, y = avals
    out = x.dtype if preferred_element_type is None else preferred_element_type
    left, left_shape, right, right_shape, shape = _as_matrices(dimension_numbers, x.shape, y.shape)
    if x.dtype != out or y.dtype != out or out not in _BLAS_DTYPES or left_shape or right_shape or shape is not None:
        return None
    if left is None:
        return _matmul if right is None else lambda x, y: _matmul(x, y.transpose(right))
    if right is None:
        return lambda x, y: _matmul(x.transpose(left), y)
    return lambda x, y: _matmul(x.transpose(left), y.transpose(right))


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
KINDS["dot precision?"] = ("None, or a pair of enums `Precision`, or an enum `DotAlgorithmPreset`",
                           lambda v: _is_precision(v) or type(v) is DotAlgorithmPreset)
dot_general_p = Primitive("dot_general", params=("dimension_numbers", "precision", "preferred_element_type"),
                          family="products", infer=_dot_general_infer, numpy=_dot_general, bilinear_in=(0, 1),
                          kinds={"dimension_numbers": "dot numbers", "precision": "dot precision?"}, spec="dot_general")
