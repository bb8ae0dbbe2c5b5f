"""StableHLO of random bits: all twenty rounds written out, so that XLA makes one loop over the elements of them."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims
from lamina_ir.prims.random_bits import THREEFRY_PARITY, THREEFRY_ROTATIONS

from ..tables import lowering_rules

__all__: list[str] = []


def threefry2x32_lowering(ctx: Any, k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    aval = ctx.aval_out

    def op(name: str, a: Any, b: Any) -> Any:
        return ctx.op("stablehlo." + name, (a, b), aval)

    def number(n: int) -> Any:
        return ctx.const(n, aval)

    keys = k0, k1, op("xor", op("xor", k0, k1), number(THREEFRY_PARITY))
    x0, x1 = op("add", x0, keys[0]), op("add", x1, keys[1])
    for group in range(5):
        for r in THREEFRY_ROTATIONS[group % 2]:
            x0 = op("add", x0, x1)
            turned = op("or", op("shift_left", x1, number(r)), op("shift_right_logical", x1, number(32 - r)))
            x1 = op("xor", turned, x0)
        x0 = op("add", x0, keys[(group + 1) % 3])
        x1 = op("add", x1, op("add", keys[(group + 2) % 3], number(group + 1)))
    return x0, x1


lowering_rules.define(prims.threefry2x32_p, threefry2x32_lowering)
