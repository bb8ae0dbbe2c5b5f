"""Lowering of `shard_map`."""
from __future__ import annotations

from collections.abc import Sequence

from lamina_ir import ClosedJaxpr, prims
from lamina_ir.typing import AxisName, Device, MapEntry, ParamValue

from .._emit.rule_context import Context
from .._emit.manual_regions import lower_shard_map
from .._emit.rule_tables import lowering_rules
from .._typing import IrValue

__all__: list[str] = []


def shard_map_lowering(ctx: Context, *args: IrValue,
                       mesh: tuple[tuple[AxisName, ...], tuple[int, ...], tuple[Device, ...]], auto: Sequence[AxisName],
                       call_jaxpr: ClosedJaxpr, in_specs: Sequence[MapEntry], out_specs: Sequence[MapEntry],
                       name: str = "shard_map", here: tuple[int, ...] | None = (), **_: ParamValue) -> list[IrValue]:
    if here:
        raise NotImplementedError(f"lower: the xmap of `{name}` spans several processes, each with its part of operands "
                                  "and results; it must be the only equation of its module")
    return lower_shard_map(ctx, args, mesh, auto, call_jaxpr, in_specs, out_specs, name)


lowering_rules.declare_missing(prims.xmap_p, "lamina_parallel.extend.lower_xmaps rewrites it before lowering")
lowering_rules.define(prims.shard_map_p, shard_map_lowering)
