"""Calls of compiled library kernels (LAPACK on CPUs, cuSOLVER and cuSPARSE on CUDA) that jaxlib registers as targets.

Matrices are passed column-major, vectors as they are; leading axes are batch axes. If a kernel reports failure in
`info`, its results are replaced by NaN.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lamina_ir import MissingRuleError, ShapedArray, dtypes, shaped
from lamina_ir.typing import Params

from .._emit.rule_context import Context
from .._typing import IrValue, KernelType

__all__ = ["I32", "as_matrices", "bool_attr", "call_kernel", "call_lapack", "char_attr", "empty_results",
           "mask_failed", "select_triangle", "slice_leading", "transpose_matrix"]

I32 = np.dtype("int32")
_PREFIX = {np.dtype("float32"): "s", np.dtype("float64"): "d", np.dtype("complex64"): "c", np.dtype("complex128"): "z"}
_TWINS = {"syevd": "heevd", "orgqr": "ungqr", "sytrd": "hetrd"}  # names that differ for complex matrices


def char_attr(c: str) -> str:
    """Return the text of a character attribute."""
    return f"{ord(c)} : ui8"


def bool_attr(on: bool) -> str:
    """Return the text of a boolean attribute."""
    return "true" if on else "false"


def _layout(aval: ShapedArray, columns: bool) -> str:
    n = len(aval.shape)
    order = [n - 2, n - 1, *range(n - 3, -1, -1)] if columns else list(range(n - 1, -1, -1))
    return f"dense<{order}> : tensor<{n}xindex>" if n else "dense<> : tensor<0xindex>"


def call_kernel(ctx: Context, target: str, operands: Sequence[IrValue], ins: Sequence[KernelType],
                outs: Sequence[KernelType], attributes: dict[str, str],
                aliases: tuple[tuple[int, int], ...] = ()) -> tuple[IrValue, ...]:
    """Call a registered kernel.

    Args:
      ctx: the lowering context.
      target: registered name.
      operands: values, of types `ins`: `(aval, is_matrix)` pairs.
      outs: `(aval, is_matrix)` per result.
      attributes: name -> attribute text.
      aliases: (result, operand) pairs that may share memory.
    """
    pairs = ", ".join(f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if len(outs) > 1 else ''}], "
                      f"operand_index = {i}, operand_tuple_indices = []>" for o, i in aliases)
    made = ctx.op("stablehlo.custom_call", operands, *[a for a, _ in outs], call_target_name=target,
                  api_version=ctx.i32(4), has_side_effect=False,
                  backend_config=ctx.attr("{" + ", ".join(f"{k} = {v}" for k, v in attributes.items()) + "}"),
                  operand_layouts=ctx.attr("[" + ", ".join(_layout(a, m) for a, m in ins) + "]"),
                  result_layouts=ctx.attr("[" + ", ".join(_layout(a, m) for a, m in outs) + "]"),
                  output_operand_aliases=ctx.attr(f"[{pairs}]"))
    return made if isinstance(made, tuple) else (made,)


def call_lapack(ctx: Context, name: str, dtype: np.dtype, operands: Sequence[IrValue], ins: Sequence[KernelType],
                outs: Sequence[KernelType], aliases: tuple[tuple[int, int], ...] = ((0, 0),),
                **attributes: str) -> tuple[IrValue, ...]:
    """Call a LAPACK routine by its name without the type letter."""
    if ctx.platform != "cpu":
        raise MissingRuleError(f"lowering of `{ctx.eqn.primitive.name}` for {ctx.platform} is not defined: it needs "
                               "LAPACK, which runs on CPUs; use lamina.device_put or jit(..., backend='cpu')")
    ctx.module.needs.add("lapack")
    full = _TWINS.get(name, name) if dtypes.is_complex(dtype) else name
    return call_kernel(ctx, f"lapack_{_PREFIX[dtype]}{full}_ffi", operands, ins, outs, attributes, aliases)


def as_matrices(*avals: ShapedArray) -> list[KernelType]:
    """Mark avals as matrices, for the `ins` and `outs` of kernels."""
    return [(a, True) for a in avals]


def mask_failed(ctx: Context, values: Sequence[IrValue], avals: Sequence[ShapedArray], info: IrValue,
                info_aval: ShapedArray, failed: str = "NE") -> tuple[IrValue, ...]:
    """Replace `values` by NaN for the matrices whose `info` compares with 0 as `failed` specifies."""
    bad = ctx.compare(info, ctx.const(0, info_aval), failed, info_aval)
    truth = shaped(info_aval.shape, dtypes.BOOL)
    made = []
    for v, aval in zip(values, avals, strict=True):
        where = ctx.op("stablehlo.broadcast_in_dim", (bad,), shaped(aval.shape, dtypes.BOOL),
                       broadcast_dimensions=ctx.i64s(range(len(truth.shape))))
        made.append(ctx.select(where, ctx.const(np.nan, aval), v, aval))
    return tuple(made)


def empty_results(ctx: Context, params: Params) -> list[IrValue]:
    """Return the results of a primitive on empty arrays as constants, computed by its NumPy implementation."""
    prim = ctx.eqn.primitive
    made = prim.numpy(*[np.zeros(a.shape, a.dtype) for a in ctx.avals_in], **params)
    return [ctx.const(m, a) for m, a in zip(made if prim.multiple else (made,), ctx.avals_out, strict=True)]


def select_triangle(ctx: Context, x: IrValue, aval: ShapedArray, lower: bool, fill: float = 0) -> IrValue:
    """Select one triangle of x including the diagonal, with `fill` elsewhere."""
    n = len(aval.shape)
    places = shaped(aval.shape, I32)
    keep = ctx.compare(ctx.iota(places, n - 2), ctx.iota(places, n - 1), "GE" if lower else "LE", places)
    return ctx.select(keep, x, ctx.const(fill, aval), aval)


def slice_leading(ctx: Context, x: IrValue, aval: ShapedArray, shape: tuple[int, ...]) -> IrValue:
    """Slice the leading part of x of this shape."""
    if aval.shape == shape:
        return x
    return ctx.op("stablehlo.slice", (x,), shaped(shape, aval.dtype), start_indices=ctx.i64s([0] * len(shape)),
                  limit_indices=ctx.i64s(shape), strides=ctx.i64s([1] * len(shape)))


def transpose_matrix(ctx: Context, x: IrValue, aval: ShapedArray) -> tuple[IrValue, IrValue]:
    """Emit x^T; return it and its type."""
    n = len(aval.shape)
    out = shaped((*aval.shape[:-2], aval.shape[-1], aval.shape[-2]), aval.dtype)
    return ctx.op("stablehlo.transpose", (x,), out, permutation=ctx.i64s((*range(n - 2), n - 1, n - 2))), out
