"""Primitives that move or broadcast elements without computing with them. All are linear in their array operands."""
from __future__ import annotations

from functools import lru_cache
from collections.abc import Sequence

import numpy as np

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._core.primitive import Primitive
from ._numpy.ufunc_plans import set_plan_hooks
from ..typing import Value

__all__ = ["broadcast_in_dim_p", "concatenate_p", "expand_dims_p", "iota_p", "pad_p", "reshape_p", "rev_p", "slice_p",
           "squeeze_p", "transpose_p"]


def _size(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def _check_axes(call: str, axes: tuple[int, ...], ndim: int) -> None:
    """Raise ShapeError unless the axes are distinct and in [0, ndim)."""
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{call}: axes {axes} name an axis twice")
    for a in axes:
        if not 0 <= a < ndim:
            raise ShapeError(f"{call}: axis {a} is out of range; expected 0 <= axis < {ndim}")


# --- broadcast_in_dim: operand axis i becomes result axis broadcast_dimensions[i] --------------------------------
@lru_cache(maxsize=4096)
def _broadcast_in_dim_infer(x: ShapedArray, *, broadcast_dimensions: tuple[int, ...],
                            shape: tuple[int, ...]) -> ShapedArray:
    if len(broadcast_dimensions) != len(x.shape):
        # StableHLO broadcast_in_dim C2
        raise ShapeError(f"broadcast_in_dim: broadcast_dimensions must name one result axis per operand axis; got "
                         f"{broadcast_dimensions} for operand {x.str_long()}")
    _check_axes("broadcast_in_dim", broadcast_dimensions, len(shape))  # StableHLO broadcast_in_dim C3-C4
    if list(broadcast_dimensions) != sorted(broadcast_dimensions):
        raise ShapeError(f"broadcast_in_dim: broadcast_dimensions must increase; got {broadcast_dimensions}. "
                         "Transpose the operand first")
    for n, at in zip(x.shape, broadcast_dimensions, strict=True):
        if n != 1 and n != shape[at]:
            # StableHLO broadcast_in_dim C5
            raise ShapeError(f"broadcast_in_dim: operand {x.str_long()} cannot become shape {shape} with axes at "
                             f"{broadcast_dimensions}; an axis must have length 1 or that of its result axis")
    if any(d < 0 for d in shape):
        raise ShapeError(f"broadcast_in_dim: lengths must not be negative; got shape {shape}")
    return shaped(shape, x.dtype, x.weak_type)


def _broadcast_in_dim(x: Value, *, broadcast_dimensions: tuple[int, ...], shape: tuple[int, ...]) -> Value:
    out = np.empty(shape, x.dtype)
    out[...] = x.reshape(_align_axes(x.shape, broadcast_dimensions, shape)) if x.shape else x
    return out


def _align_axes(old: tuple[int, ...], dimensions: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the operand's shape with its axes at `dimensions` of the result, and length 1 along the others."""
    at = [1] * len(shape)
    for n, d in zip(old, dimensions, strict=True):
        at[d] = n
    return tuple(at)


def _unexpanded_shape(avals: Sequence[ShapedArray], *, broadcast_dimensions: tuple[int, ...],
                      shape: tuple[int, ...]) -> tuple[int, ...]:
    return _align_axes(avals[0].shape, broadcast_dimensions, shape)


set_plan_hooks(_broadcast_in_dim, unexpanded_shape=_unexpanded_shape)
broadcast_in_dim_p = Primitive("broadcast_in_dim", params=("broadcast_dimensions", "shape"), family="shape",
                               infer=_broadcast_in_dim_infer, numpy=_broadcast_in_dim, linear_in=(0,),
                               spec="broadcast_in_dim")


# --- reshape: elements in row-major order, after permuting axes by `dimensions` when given ------------------------
@lru_cache(maxsize=4096)
def _reshape_infer(x: ShapedArray, *, dimensions: tuple[int, ...] | None, new_sizes: tuple[int, ...]) -> ShapedArray:
    if any(d < 0 for d in new_sizes) or _size(new_sizes) != _size(x.shape):
        # StableHLO reshape C2
        raise ShapeError(f"reshape: the result must have as many elements as the operand; got {x.str_long()} "
                         f"({_size(x.shape)} elements) and new_sizes {new_sizes}")
    if dimensions is not None and sorted(dimensions) != list(range(len(x.shape))):
        raise ShapeError(f"reshape: dimensions must be None or a permutation of the axes of {x.str_long()}; "
                         f"got {dimensions}")
    return shaped(new_sizes, x.dtype, x.weak_type)


def _reshape(x: Value, *, dimensions: tuple[int, ...] | None, new_sizes: tuple[int, ...]) -> Value:
    return (x if dimensions is None else x.transpose(dimensions)).reshape(new_sizes)


reshape_p = Primitive("reshape", params=("dimensions", "new_sizes"), family="shape", infer=_reshape_infer,
                      numpy=_reshape, linear_in=(0,), spec="reshape")


# --- transpose, squeeze, expand_dims ------------------------------------------------------------------------------
@lru_cache(maxsize=4096)
def _transpose_infer(x: ShapedArray, *, permutation: tuple[int, ...]) -> ShapedArray:
    shape = x.shape
    if sorted(permutation) != list(range(len(shape))):
        # StableHLO transpose C2
        raise ShapeError(f"transpose: permutation must hold each axis of {x.str_long()} once; got {permutation}")
    return shaped(tuple([shape[a] for a in permutation]), x.dtype, x.weak_type)


transpose_p = Primitive("transpose", params=("permutation",), family="shape", infer=_transpose_infer,
                        numpy=lambda x, *, permutation: x.transpose(permutation), linear_in=(0,), spec="transpose")


@lru_cache(maxsize=4096)
def _squeeze_infer(x: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    shape = x.shape
    _check_axes(f"squeeze of {x.str_long()}", dimensions, len(shape))
    for a in dimensions:
        if shape[a] != 1:
            raise ShapeError(f"squeeze: only axes of length 1 can be dropped; axis {a} of {x.str_long()} has length "
                             f"{shape[a]}")
    return shaped(tuple([n for a, n in enumerate(shape) if a not in dimensions]), x.dtype, x.weak_type)


squeeze_p = Primitive("squeeze", params=("dimensions",), family="shape", infer=_squeeze_infer,
                      numpy=lambda x, *, dimensions: x.squeeze(dimensions), linear_in=(0,), spec="reshape")


@lru_cache(maxsize=4096)
def _expand_dims_infer(x: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    ndim = len(x.shape) + len(dimensions)
    _check_axes(f"expand_dims of {x.str_long()}", dimensions, ndim)  # axes of the result
    sizes = iter(x.shape)
    return shaped(tuple([1 if a in dimensions else next(sizes) for a in range(ndim)]), x.dtype, x.weak_type)


expand_dims_p = Primitive("expand_dims", params=("dimensions",), family="shape", infer=_expand_dims_infer,
                          numpy=lambda x, *, dimensions: np.expand_dims(x, dimensions), linear_in=(0,), spec="reshape")


# --- concatenate, pad, slice, rev ---------------------------------------------------------------------------------
def _concatenate_infer(*xs: ShapedArray, dimension: int) -> ShapedArray:
    if not xs:
        # StableHLO concatenate C3
        raise ShapeError("concatenate: expected at least one operand; got none")
    first = xs[0]
    shape, dtype = first.shape, first.dtype
    if not 0 <= dimension < len(shape):
        # StableHLO concatenate C4
        raise ShapeError(f"concatenate: dimension {dimension} is out of range for operands like {first.str_long()}")
    head, tail, total, weak = shape[:dimension], shape[dimension + 1:], 0, True
    for x in xs:
        s = x.shape
        if x.dtype != dtype:
            # StableHLO concatenate C1
            raise DTypeError(f"concatenate: operands must have one dtype; got {first.str_long()} and {x.str_long()}. Convert "
                             "with lax.convert_element_type")
        if len(s) != len(shape) or s[:dimension] != head or s[dimension + 1:] != tail:
            # StableHLO concatenate C2
            raise ShapeError(f"concatenate: operands must agree on every axis but {dimension}; got {first.str_long()} and "
                             f"{x.str_long()}")
        total += s[dimension]
        weak = weak and x.weak_type
    return shaped((*head, total, *tail), dtype, weak)


concatenate_p = Primitive("concatenate", params=("dimension",), family="shape", infer=_concatenate_infer,
                          numpy=lambda *xs, dimension: np.concatenate(xs, dimension), spec="concatenate")


@lru_cache(maxsize=4096)
def _pad_infer(x: ShapedArray, value: ShapedArray, *, padding_config: tuple[tuple[int, int, int], ...]) -> ShapedArray:
    if value.shape or value.dtype != x.dtype:
        # StableHLO pad C1
        raise (ShapeError if value.shape else DTypeError)(
            f"pad: the padding value must be a scalar of the operand's dtype; got operand {x.str_long()} and value "
            f"{value.str_long()}")
    if len(padding_config) != len(x.shape):
        # StableHLO pad C2
        raise ShapeError(f"pad: padding_config must hold (low, high, interior) for each axis of {x.str_long()}; got "
                         f"{padding_config}")
    shape = []
    for n, (lo, hi, inner) in zip(x.shape, padding_config, strict=True):
        length = lo + hi + n + (inner * (n - 1) if n else 0)
        if inner < 0 or length < 0:
            # StableHLO pad C3-C4
            raise ShapeError(f"pad: interior padding must not be negative and no axis may get a negative length; got "
                             f"{padding_config} for operand {x.str_long()}")
        shape.append(length)
    return shaped(tuple(shape), x.dtype, x.weak_type and value.weak_type)


def _pad(x: Value, value: Value, *, padding_config: tuple[tuple[int, int, int], ...]) -> Value:
    for axis, (lo, hi, inner) in enumerate(padding_config):
        n = x.shape[axis]
        dilated = n + (inner * (n - 1) if n else 0)
        out = np.full((*x.shape[:axis], max(lo, 0) + dilated + max(hi, 0), *x.shape[axis + 1:]), value, x.dtype)
        at: list[slice] = [slice(None)] * x.ndim
        at[axis] = slice(max(lo, 0), max(lo, 0) + dilated, inner + 1)
        out[tuple(at)] = x
        # negative padding crops
        at[axis] = slice(max(-lo, 0), out.shape[axis] - max(-hi, 0))
        x = out[tuple(at)]
    return x


pad_p = Primitive("pad", params=("padding_config",), family="shape", infer=_pad_infer, numpy=_pad, linear_in=(0, 1),
                  spec="pad")


@lru_cache(maxsize=4096)
def _slice_infer(x: ShapedArray, *, limit_indices: tuple[int, ...], start_indices: tuple[int, ...],
                 strides: tuple[int, ...] | None) -> ShapedArray:
    shape = x.shape
    steps = (1,) * len(shape) if strides is None else strides
    if not len(shape) == len(limit_indices) == len(start_indices) == len(steps):
        # StableHLO slice C2
        raise ShapeError(f"slice: start_indices, limit_indices and strides need one entry per axis of {x.str_long()}; got "
                         f"{start_indices}, {limit_indices}, {strides}")
    out = []
    for n, start, limit, step in zip(shape, start_indices, limit_indices, steps, strict=True):
        if not (0 <= start <= limit <= n and step > 0):
            # StableHLO slice C3-C4
            raise ShapeError(f"slice: expected 0 <= start <= limit <= length and stride > 0 on every axis of "
                             f"{x.str_long()}; got start_indices {start_indices}, limit_indices {limit_indices}, strides "
                             f"{strides}")
        out.append(-((start - limit) // step))
    return shaped(tuple(out), x.dtype, x.weak_type)


def _slice(x: Value, *, limit_indices: tuple[int, ...], start_indices: tuple[int, ...],
           strides: tuple[int, ...] | None) -> Value:
    return x[tuple(map(slice, start_indices, limit_indices, strides or (1,) * x.ndim))]


slice_p = Primitive("slice", params=("limit_indices", "start_indices", "strides"), family="shape", infer=_slice_infer,
                    numpy=_slice, linear_in=(0,), spec="slice")


def _rev_infer(x: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    _check_axes(f"rev of {x.str_long()}", dimensions, len(x.shape))  # StableHLO reverse C2-C3
    return x


rev_p = Primitive("rev", params=("dimensions",), family="shape", infer=_rev_infer,
                  numpy=lambda x, *, dimensions: np.flip(x, dimensions), linear_in=(0,), spec="reverse")


# --- iota: the index along one axis -------------------------------------------------------------------------------
@lru_cache(maxsize=4096)
def _iota_infer(*, dimension: int, dtype: np.dtype, shape: tuple[int, ...]) -> ShapedArray:
    if not 0 <= dimension < len(shape):
        # StableHLO iota C1
        raise ShapeError(f"iota: dimension {dimension} is out of range for shape {shape}")
    if any(n < 0 for n in shape):
        raise ShapeError(f"iota: sizes must not be negative; got shape {shape}")
    if not dtypes.is_number(dtype):
        # StableHLO iota O1
        raise DTypeError(f"iota: expected an integer, float or complex dtype; got {dtype.name}")
    return shaped(shape, dtype)


def _iota(*, dimension: int, dtype: np.dtype, shape: tuple[int, ...]) -> Value:
    at = [1] * len(shape)
    at[dimension] = shape[dimension]
    return np.array(np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(at), shape))


iota_p = Primitive("iota", params=("dimension", "dtype", "shape"), family="shape", infer=_iota_infer, numpy=_iota,
                   spec="iota")
