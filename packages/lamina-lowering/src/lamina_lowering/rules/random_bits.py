"""Lowering of random bit generation: the twenty rounds are unrolled, so that XLA makes one loop over the elements."""
from __future__ import annotations


import numpy as np
from lamina_ir import dtypes, prims, shaped
from lamina_ir.prims import THREEFRY_PARITY, THREEFRY_ROTATIONS

from .._emit.rule_tables import lowering_rules
from .._emit.rule_context import Context
from .._typing import IrValue

__all__: list[str] = []


def threefry2x32_lowering(ctx: Context, k0: IrValue, k1: IrValue, x0: IrValue, x1: IrValue) -> tuple[IrValue, IrValue]:
    aval = ctx.aval_out

    def op(name: str, a: IrValue, b: IrValue) -> IrValue:
        return ctx.op("stablehlo." + name, (a, b), aval)

    def number(n: int) -> IrValue:
        return ctx.const(n, aval)

    keys = k0, k1, op("xor", op("xor", k0, k1), number(THREEFRY_PARITY))
    x0, x1 = op("add", x0, keys[0]), op("add", x1, keys[1])
    for group in range(5):
        for r in THREEFRY_ROTATIONS[group % 2]:
            x0 = op("add", x0, x1)
            rotated = op("or", op("shift_left", x1, number(r)), op("shift_right_logical", x1, number(32 - r)))
            x1 = op("xor", rotated, x0)
        x0 = op("add", x0, keys[(group + 1) % 3])
        x1 = op("add", x1, op("add", keys[(group + 2) % 3], number(group + 1)))
    return x0, x1


lowering_rules.define(prims.threefry2x32_p, threefry2x32_lowering)


def rng_bit_generator_lowering(ctx: Context, key: IrValue, *, algorithm: prims.RandomAlgorithm, dtype: np.dtype,
                               shape: tuple[int, ...]) -> IrValue:
    """Emit XLA's generator, whose state is uint64[2]. Bits narrower than 32 are the low bits of 32-bit draws."""
    state, (after, out) = ctx.aval_in, ctx.avals_out
    wide, pairs = shaped((2,), np.dtype("uint64")), shaped((2, 2), state.dtype)
    narrow = state.dtype.itemsize == 4
    if narrow:
        key = ctx.op("stablehlo.bitcast_convert", (ctx.reshape(key, pairs),), wide)
    drawn = out if dtype.itemsize >= 4 else shaped(shape, np.dtype("uint32"))
    name = {0: "DEFAULT", 1: "THREE_FRY", 2: "PHILOX"}[int(algorithm)]
    moved, bits = ctx.op("stablehlo.rng_bit_generator", (key,), wide, drawn,
                         rng_algorithm=ctx.enum("rng_algorithm", name))
    if narrow:
        moved = ctx.reshape(ctx.op("stablehlo.bitcast_convert", (moved,), pairs), after)
    return moved, ctx.convert(bits, drawn, out)


def rng_uniform_lowering(ctx: Context, a: IrValue, b: IrValue, *, shape: tuple[int, ...]) -> IrValue:
    """Emit a uniform draw. XLA aborts the process for integers below 32 bits and floats below 16, so these are drawn
    wider."""
    aval, made = ctx.avals_in[0], ctx.aval_out
    wide = "float32" if dtypes.is_float(aval.dtype) else "uint32" if aval.dtype.name.startswith("u") else "int32"
    if aval.dtype.itemsize < (2 if dtypes.is_float(aval.dtype) else 4):
        scalar, made = (shaped(s, np.dtype(wide)) for s in ((), shape))
        a, b = ctx.convert(a, aval, scalar), ctx.convert(b, aval, scalar)
    sizes = ctx.const(np.array(shape, np.int64), shaped((len(shape),), np.dtype("int64")))
    drawn = ctx.op("stablehlo.rng", (a, b, sizes), made, rng_distribution=ctx.enum("rng_distribution", "UNIFORM"))
    return ctx.convert(drawn, made, ctx.aval_out)


lowering_rules.define(prims.rng_bit_generator_p, rng_bit_generator_lowering)
lowering_rules.define(prims.rng_uniform_p, rng_uniform_lowering)
