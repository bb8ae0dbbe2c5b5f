"""Emitted values with their types: rules write slices, products and loops of arrays with methods."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lamina_ir import ShapedArray, shaped
from lamina_ir.typing import Function
from lamina_ir.prims import dilated_length

from .rule_context import Context
from .._typing import IrValue

__all__ = ["Array", "concatenate", "invert", "loop", "multiply_index", "split_index", "store"]

_I32 = shaped((), np.dtype("int32"))


class Array:
    """An emitted value `v` and its type `aval`. Methods emit at the current position of the context.

    Args:
      ctx: the lowering context.
      v: the value.
      aval: its type.
    """

    __slots__ = ("aval", "ctx", "v")

    def __init__(self, ctx: Context, v: IrValue, aval: ShapedArray) -> None:
        self.ctx, self.v, self.aval = ctx, v, aval

    @classmethod
    def full(cls, ctx: Context, value: float, shape: Sequence[int], dtype: np.dtype) -> Array:
        """Return a constant array of one value."""
        aval = shaped(tuple(shape), dtype)
        return cls(ctx, ctx.const(value, aval), aval)

    @classmethod
    def positions(cls, ctx: Context, shape: Sequence[int], axis: int) -> Array:
        """Return the int32 positions along an axis."""
        aval = shaped(tuple(shape), _I32.dtype)
        return cls(ctx, ctx.iota(aval, axis), aval)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    def within(self, ctx: Context) -> Array:
        """Return the array for emission in a region, whose context is `ctx`."""
        return Array(ctx, self.v, self.aval)

    def _of(self, v: IrValue, shape: Sequence[int]) -> Array:
        return Array(self.ctx, v, shaped(tuple(shape), self.aval.dtype))

    def _emit(self, name: str, operands: Sequence[IrValue], shape: Sequence[int], **attrs: Any) -> Array:
        return self._of(self.ctx.op(name, operands, shaped(tuple(shape), self.aval.dtype), **attrs), shape)

    def convert(self, dtype: np.dtype) -> Array:
        out = shaped(self.shape, dtype)
        return Array(self.ctx, self.ctx.convert(self.v, self.aval, out), out)

    def reshape(self, shape: Sequence[int]) -> Array:
        return self if tuple(shape) == self.shape else self._of(
            self.ctx.reshape(self.v, shaped(tuple(shape), self.aval.dtype)), shape)

    def transpose(self, order: Sequence[int]) -> Array:
        """Return the array with axis `order[k]` as its axis k."""
        if list(order) == list(range(len(order))):
            return self
        return self._emit("stablehlo.transpose", (self.v,), [self.shape[a] for a in order],
                          permutation=self.ctx.i64s(order))

    def broadcast(self, shape: Sequence[int], dims: Sequence[int]) -> Array:
        """Return the array of this shape whose axis `dims[k]` is axis k, repeated if its length is 1."""
        if tuple(shape) == self.shape:
            return self
        return self._emit("stablehlo.broadcast_in_dim", (self.v,), shape, broadcast_dimensions=self.ctx.i64s(dims))

    def reverse(self, axes: Sequence[int]) -> Array:
        """Return the array with the elements along these axes in reverse order."""
        return self._emit("stablehlo.reverse", (self.v,), self.shape, dimensions=self.ctx.i64s(axes))

    def slice(self, first: Sequence[int], counts: Sequence[int], strides: Sequence[int]) -> Array:
        """Return `counts` elements per axis, from `first` on in steps of `strides`."""
        if tuple(counts) == self.shape:
            return self
        limit = [f + dilated_length(n, s) for f, n, s in zip(first, counts, strides, strict=True)]
        return self._emit("stablehlo.slice", (self.v,), counts, start_indices=self.ctx.i64s(first),
                          limit_indices=self.ctx.i64s(limit), strides=self.ctx.i64s(strides))

    def read(self, ctx: Context, first: Sequence[IrValue | int], counts: Sequence[int]) -> Array:
        """Return `counts` elements per axis; `first` are int32 values or numbers."""
        if tuple(counts) == self.shape:
            return Array(ctx, self.v, self.aval)
        out = shaped(tuple(counts), self.aval.dtype)
        return Array(ctx, ctx.op("stablehlo.dynamic_slice", (self.v, *_indices(ctx, first)), out,
                                 slice_sizes=ctx.i64s(counts)), out)

    def write(self, part: Array, first: Sequence[IrValue | int]) -> Array:
        """Return the array with `part` written from the indices `first` on."""
        return self._emit("stablehlo.dynamic_update_slice", (self.v, part.v, *_indices(self.ctx, first)), self.shape)

    def pad(self, low: Sequence[int], high: Sequence[int], interior: Sequence[int], value: float = 0) -> Array:
        """Return the array padded with a number; negative padding removes elements."""
        if not any((*low, *high, *interior)):
            return self
        return self.pad_with(self.ctx.const(value, shaped((), self.aval.dtype)), low, high, interior)

    def pad_with(self, value: IrValue, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Array:
        """Return the array padded with an emitted scalar.

        An axis without padding is merged with the axis before it: XLA then copies and compiles faster.
        """
        merged: list[list[int]] = []
        for n, *padding in zip(self.shape, low, high, interior, strict=True):
            if merged and not any(padding) and not merged[-1][3]:
                merged[-1][:3] = [n * k for k in merged[-1][:3]]
            else:
                merged.append([n, *padding])
        lengths, *paddings = zip(*merged, strict=True)
        x = self.reshape(lengths)
        x = x._of(self.ctx.pad(x.v, value, x.aval, *paddings), list(map(_padded_length, lengths, *paddings)))
        return x.reshape(list(map(_padded_length, self.shape, low, high, interior)))

    def absolute(self) -> Array:
        return self._emit("stablehlo.abs", (self.v,), self.shape)

    def sum(self, axes: Sequence[int]) -> Array:
        scalar = shaped((), self.aval.dtype)
        return self._emit("stablehlo.reduce", (self.v, self.ctx.const(0, scalar)),
                          [n for a, n in enumerate(self.shape) if a not in axes],
                          regions=[self.ctx.reducer_region("stablehlo.add", scalar)], dimensions=self.ctx.i64s(axes))

    def multiply_transposed(self, other: Array) -> Array:
        """Return the product of the transpose of this matrix and the other."""
        numbers = "#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>"
        return self._emit("stablehlo.dot_general", (self.v, other.v), (self.shape[1], other.shape[1]),
                          dot_dimension_numbers=self.ctx.attr(numbers))

    def where(self, pred: IrValue, other: Array) -> Array:
        """Return this array where `pred` (bools of its shape) is True, else the other."""
        return self._of(self.ctx.select(pred, self.v, other.v, self.aval), self.shape)

    def __add__(self, other: Array) -> Array:
        return self._emit("stablehlo.add", (self.v, other.v), self.shape)

    def __mul__(self, other: Array) -> Array:
        return self._emit("stablehlo.multiply", (self.v, other.v), self.shape)


def _padded_length(length: int, low: int, high: int, interior: int) -> int:
    return dilated_length(length, interior + 1) + low + high


def _indices(ctx: Context, first: Sequence[IrValue | int]) -> list[IrValue]:
    return [ctx.const(f, _I32) if isinstance(f, int) else f for f in first]


def loop(ctx: Context, count: int, start: Sequence[Array], body: Function) -> list[Array]:
    """Emit a loop of `count` passes.

    Args:
      ctx: the lowering context.
      count: number of passes.
      start: the carried arrays before the first pass.
      body: `body(ctx, index, *carried)` returns the carried arrays after a pass; index is an int32 value.
    Returns:
      The carried arrays after the last pass.
    """
    avals = [_I32, *[a.aval for a in start]]

    def test(ctx: Context, i: IrValue, *_: IrValue) -> IrValue:
        return ctx.compare(i, ctx.const(count, _I32), "LT", _I32)

    def step(ctx: Context, i: IrValue, *values: IrValue) -> list[IrValue]:
        after = body(ctx, i, *[Array(ctx, v, a) for v, a in zip(values, avals[1:], strict=True)])
        return [ctx.op("stablehlo.add", (i, ctx.const(1, _I32)), _I32), *[a.v for a in after]]

    made = ctx.op("stablehlo.while", (ctx.const(0, _I32), *[a.v for a in start]), *avals,
                  regions=[ctx.region(avals, test), ctx.region(avals, step)])
    return [Array(ctx, v, a) for v, a in zip(made[1:], avals[1:], strict=True)]


def store(ctx: Context, x: Array, witness: Array) -> Array:
    """Return an array that XLA computes once and stores.

    XLA's CPU compiler copies the computation of an array into all kernels that read it, once per place that they read.
    It removes barriers before that. So the array is carried by a loop that would change it, but never runs. The
    compiler does not know that, because the loop counts from an element of `witness`. Nothing is copied.

    Args:
      ctx: the lowering context.
      x: the array, which is used nowhere else.
      witness: an array that is not empty: an argument of the rule, so that the compiler does not know its elements.
    """
    ones, rank = [1] * len(witness.shape), len(x.shape)
    first = witness.slice([0] * len(ones), ones, ones).reshape(()).convert(_I32.dtype).v
    avals = [_I32, x.aval]

    def step(ctx: Context, i: IrValue, v: IrValue) -> list[IrValue]:
        part = Array.full(ctx, 0, [1] * rank, x.aval.dtype)
        return [ctx.op("stablehlo.add", (i, ctx.const(1, _I32)), _I32), Array(ctx, v, x.aval).write(part, [0] * rank).v]

    made = ctx.op("stablehlo.while", (first, x.v), *avals, regions=[
        ctx.region(avals, lambda ctx, i, _: ctx.compare(i, first, "LT", _I32)), ctx.region(avals, step)])
    return Array(ctx, made[1], x.aval)


def concatenate(arrays: Sequence[Array], axis: int) -> Array:
    """Return the arrays joined along an axis."""
    first = arrays[0]
    if len(arrays) == 1:
        return first
    shape = [sum(a.shape[axis] for a in arrays) if k == axis else n for k, n in enumerate(first.shape)]
    out = shaped(tuple(shape), first.aval.dtype)
    made = first.ctx.op("stablehlo.concatenate", [a.v for a in arrays], out, dimension=axis)
    return Array(first.ctx, made, out)


def invert(order: Sequence[int]) -> list[int]:
    """Return the inverse of a permutation: `order[invert(order)[k]]` is k."""
    return sorted(range(len(order)), key=order.__getitem__)


def multiply_index(ctx: Context, index: IrValue | int, factor: int) -> IrValue | int:
    """Return an int32 index times a number."""
    if isinstance(index, int):
        return index * factor
    return index if factor == 1 else ctx.op("stablehlo.multiply", (index, ctx.const(factor, _I32)), _I32)


def split_index(ctx: Context, index: IrValue, lengths: Sequence[int]) -> list[IrValue | int]:
    """Return the indices, one per axis of these lengths, of the element with an int32 row-major position."""
    made: list[IrValue | int] = []
    for n in reversed(lengths):
        length = ctx.const(n, _I32)
        made.append(ctx.op("stablehlo.remainder", (index, length), _I32) if n > 1 else 0)
        index = ctx.op("stablehlo.divide", (index, length), _I32) if n > 1 else index
    return made[::-1]
