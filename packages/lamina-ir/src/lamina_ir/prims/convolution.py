"""`conv_general_dilated`: convolution of an array with kernels; and `ConvDimensionNumbers`.

For axes in the order batch, feature, spatial, and one spatial axis:
`out[n, o, p] = sum over c, k of lhs[n, c, (p * stride + k * rhs_dilation - low) / lhs_dilation] * rhs[o, c, k]`, over
those k for which the position is an integer and inside `lhs`. Groups split features (or the batch) into parts, each
with its own kernels.
"""
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._types.param_values import register_param_type
from .._core.param_types import KINDS, is_ints
from .._core.primitive import Primitive
from .products import product_dtype
from .windows import _check_lists, dilate_and_pad, window_count
from ..typing import ParamValue, Value

__all__ = ["ConvDimensionNumbers", "conv_general_dilated_p"]


@register_param_type
class ConvDimensionNumbers(NamedTuple):
    """The roles of axes in a convolution.

    Args:
      lhs_spec: axes of the input: batch, feature, then spatial ones.
      rhs_spec: axes of the kernels: output feature, input feature, then spatial ones.
      out_spec: axes of the result: batch, feature, then spatial ones.
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


_CALL = "conv_general_dilated"


@lru_cache(maxsize=4096)
def _conv_infer(lhs: ShapedArray, rhs: ShapedArray, *, batch_group_count: int,
                dimension_numbers: ConvDimensionNumbers, feature_group_count: int, lhs_dilation: tuple[int, ...],
                padding: tuple[tuple[int, int], ...], precision: ParamValue, preferred_element_type: np.dtype | None,
                rhs_dilation: tuple[int, ...], window_strides: tuple[int, ...]) -> ShapedArray:
    got = f"got lhs {lhs.str_long()}, rhs {rhs.str_long()}"

    def fail(problem: str) -> None:
        axes = ", ".join([f"{name} {axes}" for name, axes in dimension_numbers._asdict().items()])
        raise ShapeError(f"{_CALL}: {problem}; {got}, {axes}, feature_group_count {feature_group_count}, "
                         f"batch_group_count {batch_group_count}")

    ndim = len(lhs.shape)
    if ndim != len(rhs.shape) or ndim < 2:
        fail("lhs and rhs need equally many axes, at least two")  # C1
    # C..: the constraint's name in the StableHLO specification of `convolution`.
    for spec in dimension_numbers:
        if sorted(spec) != list(range(ndim)):
            fail("lhs_spec, rhs_spec and out_spec must name every axis once")  # C13, C18, C20
    # C2-C8
    _check_lists(_CALL, ndim - 2, f"the {ndim - 2} spatial axes of lhs {lhs.str_long()}", window_strides=window_strides,
                 padding=padding, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    batch, features, *space = [lhs.shape[a] for a in lhs_spec]
    out_features, in_features, *window = [rhs.shape[a] for a in rhs_spec]
    if feature_group_count < 1 or batch_group_count < 1:
        fail("group counts must be positive")  # C21-C22
    if feature_group_count > 1 and batch_group_count > 1:
        fail("only one of feature_group_count and batch_group_count may be above 1")  # C23
    if batch % batch_group_count:
        fail(f"batch_group_count must divide the batch size {batch} of lhs")  # C10
    if features != in_features * feature_group_count:
        # C11, C14
        fail(f"the {features} features of lhs must be feature_group_count times the {in_features} input features of rhs")
    if out_features % feature_group_count or out_features % batch_group_count:
        fail(f"the group count must divide the {out_features} output features of rhs")  # C15-C16
    if lhs.dtype != rhs.dtype and preferred_element_type is None:
        # StableHLO convolution C27
        raise DTypeError(f"{_CALL}: operands must have one dtype, or preferred_element_type must be given; {got}")
    dtype = lhs.dtype if preferred_element_type is None else preferred_element_type
    if not dtypes.is_number(lhs.dtype) or not dtypes.is_number(rhs.dtype):
        raise DTypeError(f"{_CALL}: expected operands of an integer, float or complex dtype; {got}. Convert them first")
    if dtypes.is_inexact(lhs.dtype) and not dtypes.is_inexact(dtype):
        raise DTypeError(f"{_CALL}: preferred_element_type must be able to hold the products; got {dtype.name} for "
                         f"lhs {lhs.str_long()}")
    counts = map(window_count, space, window, window_strides, padding, lhs_dilation, rhs_dilation)
    sizes = dict(zip(out_spec, (batch // batch_group_count, out_features, *counts), strict=True))
    return shaped(tuple([sizes[a] for a in range(ndim)]), dtype,
                  lhs.weak_type and rhs.weak_type and preferred_element_type is None)


def _conv(x: Value, y: Value, *, batch_group_count: int, dimension_numbers: ConvDimensionNumbers,
          feature_group_count: int, lhs_dilation: tuple[int, ...], padding: tuple[tuple[int, int], ...],
          precision: ParamValue, preferred_element_type: np.dtype | None, rhs_dilation: tuple[int, ...],
          window_strides: tuple[int, ...]) -> Value:
    """Sum over kernel positions the products [group, batch, feature, ...] x [group, out, feature]."""
    out_dtype = x.dtype if preferred_element_type is None else preferred_element_type
    wide = product_dtype(x.dtype, y.dtype, out_dtype)
    x, y = (a.transpose(spec).astype(wide) for a, spec in zip((x, y), dimension_numbers[:2], strict=True))
    space, window = x.shape[2:], y.shape[2:]
    counts = tuple(map(window_count, space, window, window_strides, padding, lhs_dilation, rhs_dilation))
    x = dilate_and_pad(x, 0, ((0, 0), (0, 0), *padding), (1, 1, *lhs_dilation))
    groups = feature_group_count * batch_group_count
    # Both kinds of groups share one axis, since only one count is above 1: x [group, batch, feature, ...], y [group,
    # out, ...].
    x = x.reshape((batch_group_count, x.shape[0] // batch_group_count, feature_group_count,
                   x.shape[1] // feature_group_count, *x.shape[2:]))
    x = np.moveaxis(x, 2, 1).reshape((groups, x.shape[1], x.shape[3], *x.shape[4:]))
    y = y.reshape((groups, y.shape[0] // groups, *y.shape[1:]))
    out = np.zeros((groups, x.shape[1], y.shape[1], *counts), wide)
    for at in np.ndindex(*window):
        # The positions of x under this kernel position: one per window.
        positions = tuple(slice(k * d, k * d + max(c - 1, 0) * s + 1, s) if c else slice(0, 0)
                          for k, d, c, s in zip(at, rhs_dilation, counts, window_strides, strict=True))
        out += np.einsum("gnc...,goc->gno...", x[(slice(None),) * 3 + positions], y[(slice(None),) * 3 + at])
    out = np.moveaxis(out, 0, 1).reshape((x.shape[1], groups * y.shape[1], *counts))
    return out.astype(out_dtype).transpose(np.argsort(dimension_numbers.out_spec))


KINDS["convolution numbers"] = ("a record `ConvDimensionNumbers` of three tuples of ints",
                                lambda v: type(v) is ConvDimensionNumbers and all(map(is_ints, v)))
conv_general_dilated_p = Primitive(
    _CALL, params=("batch_group_count", "dimension_numbers", "feature_group_count", "lhs_dilation", "padding",
                   "precision", "preferred_element_type", "rhs_dilation", "window_strides"),
    family="convolution", infer=_conv_infer, numpy=_conv, bilinear_in=(0, 1), spec="convolution",
    kinds={"dimension_numbers": "convolution numbers", "precision": "precision?"})
