"""Lowering of calls with custom rules, as calls of their functions, and of checkpoints, whose recomputation is
isolated."""
from __future__ import annotations


import numpy as np

from lamina_ir import ClosedJaxpr, prims, shaped
from lamina_ir.extend import Tiles
from lamina_ir.typing import ParamValue
from lamina_ir.prims import Rule

from .._emit.rule_context import Context
from .._emit.rule_tables import lowering_rules, platform_rules
from .calls import xla_call_lowering
from .._typing import IrValue

__all__: list[str] = []

_F32 = shaped((), np.dtype("float32"))
# bytes recomputed by all checkpoints of a module, below which a branch costs more than it saves
MIN_RECOMPUTED_BYTES = 1 << 16
_NO_SHAPE = shaped((0,), np.dtype("int64"))


def _call(ctx: Context, *args: IrValue, call_jaxpr: ClosedJaxpr, name: str = "call", **_: ParamValue) -> list[IrValue]:
    return xla_call_lowering(ctx, *args, call_jaxpr=call_jaxpr, name=name)


def sharding_constraint_lowering(ctx: Context, x: IrValue, *, sharding: str,
                                 unspecified_dims: tuple[int, ...]) -> IrValue:
    """Emit a sharding constraint; nothing if nothing is partitioned, or inside of a map that takes all devices."""
    build = ctx.module
    if build.partitions == 1 or sharding.startswith("{keep:"):  # of a program that is not over `Explicit` axes
        return x
    # The text numbers devices by id; the module numbers partitions.
    here = build.partitions if build.mesh is None else build.mesh.grid.devices
    tiles = Tiles.parse(sharding).renumber(build.partition_order or range(here))
    if build.mesh is not None:
        if not getattr(ctx.axis_env, "free", None):
            return x
        return ctx.op("sdy.sharding_constraint", (x,), ctx.aval_out, attributes={
            "sharding": build.mesh.sharding(tiles, ctx.aval_out.ndim, unspecified_dims)})
    attrs = {"mhlo.sharding": tiles.text(), "call_target_name": "Sharding"}
    if unspecified_dims:
        attrs["backend_config"] = f"unspecified_dims=[{','.join(map(str, unspecified_dims))}]"
    return ctx.op("stablehlo.custom_call", (x,), ctx.aval_out, attributes=attrs)


def optimization_barrier_lowering(ctx: Context, *args: IrValue) -> IrValue:
    made = ctx.op("stablehlo.optimization_barrier", args, *ctx.avals_out)
    return made if len(args) != 1 else (made,)


def remat_lowering(ctx: Context, *args: IrValue, call_jaxpr: ClosedJaxpr, differentiated: bool, prevent_cse: bool,
                   **_: ParamValue) -> IrValue:
    """Emit a checkpoint; a recomputation goes behind an optimization barrier.

    The barrier makes it depend on all operands, including cotangents, and prevents XLA from merging it with the first
    computation.
    """
    if differentiated and prevent_cse and args:
        made = ctx.op("stablehlo.optimization_barrier", args, *ctx.avals_in)
        args = made if len(args) != 1 else (made,)
    return ctx.body(call_jaxpr, args)


def remat_lowering_cpu(ctx: Context, *args: IrValue, call_jaxpr: ClosedJaxpr, differentiated: bool, prevent_cse: bool,
                       **_: ParamValue) -> IrValue:
    """Emit a checkpoint for CPUs; a recomputation goes into a branch that is always taken, which the compiler cannot
    know.

    XLA's CPU compiler removes barriers before it merges equal computations. A branch costs some microseconds, and no
    kernel extends across it. So it is not used in a module whose checkpoints save next to nothing.
    """
    jaxpr = call_jaxpr.jaxpr
    if not (differentiated and prevent_cse and args) or jaxpr.axis_names or jaxpr.effectful \
            or ctx.module.recomputed_bytes() < MIN_RECOMPUTED_BYTES:
        return remat_lowering(ctx, *args, call_jaxpr=call_jaxpr, differentiated=differentiated, prevent_cse=prevent_cse)
    low, high, two = ctx.const(0, _F32), ctx.const(1, _F32), ctx.const(2, _F32)
    # A number in [0, 1) is below 2. The compiler does not derive the range of a random number, so it keeps the
    # branch.
    draw = ctx.op("stablehlo.rng", (low, high, ctx.const(np.zeros(0, np.int64), _NO_SHAPE)), _F32,
                  rng_distribution=ctx.enum("rng_distribution", "UNIFORM"))
    avals = ctx.avals_out
    # Computations inside of a branch are not merged with those outside.
    recomputation = ctx.region((), lambda c: c.body(call_jaxpr, args))
    fallback = ctx.region((), lambda c: [c.const(0, a) for a in avals])
    made = ctx.op("stablehlo.if", (ctx.compare(draw, two, "LT", _F32),), *avals, regions=[recomputation, fallback])
    return made if len(avals) != 1 else (made,)


def to_memory_lowering(ctx: Context, x: IrValue, *, memory_kind: str) -> IrValue:
    """Emit an annotation; the compiler moves the value."""
    where = ctx.session.parsed[f'{{_xla_buffer_placement = "{memory_kind}"}}']
    return ctx.op("stablehlo.custom_call", (x,), ctx.aval_out, call_target_name="annotate_device_placement",
                  has_side_effect=True, attributes={"mhlo.frontend_attributes": where})


def transposed_call_lowering(ctx: Context, *args: IrValue, forward: Rule, **_: ParamValue) -> IrValue:
    # two uses: this program is not in the use counts, so it may have others
    return ctx.body(forward.program(), args, times=2)


lowering_rules.define(prims.custom_jvp_call_p, _call)
lowering_rules.define(prims.custom_vjp_call_p, _call)
lowering_rules.define(prims.custom_vmap_call_p, _call)
lowering_rules.define(prims.remat_p, remat_lowering)
platform_rules("cpu").define(prims.remat_p, remat_lowering_cpu)
lowering_rules.define(prims.transposed_call_p, transposed_call_lowering)
lowering_rules.define(prims.name_p, lambda ctx, x, *, name: x)
lowering_rules.define(prims.to_memory_p, to_memory_lowering)
platform_rules("cpu").define(prims.to_memory_p, lambda ctx, x, *, memory_kind: x)  # CPUs have one memory
lowering_rules.define(prims.optimization_barrier_p, optimization_barrier_lowering)
lowering_rules.define(prims.sharding_constraint_p, sharding_constraint_lowering)
