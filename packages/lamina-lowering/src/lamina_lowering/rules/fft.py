"""Lowering of `fft`."""
from __future__ import annotations

from lamina_ir import prims
from lamina_ir.prims import FftType

from .._emit.rule_tables import lowering_rules

__all__: list[str] = []


def fft_lowering(ctx, x, *, fft_lengths, fft_type):
    out = ctx.aval_out
    if not ctx.aval_in.size or not out.size:
        return ctx.const(0, out)
    return ctx.op("stablehlo.fft", (x,), out, fft_type=ctx.enum("fft_type", FftType(fft_type).name),
                  fft_length=ctx.i64s(fft_lengths))


lowering_rules.define(prims.fft_p, fft_lowering)
