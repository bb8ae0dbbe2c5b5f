"""Lowering of `shard_map`."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims

from .._emit.rule_context import Context
from .._emit.manual_regions import lower_shard_map
from .._emit.rule_tables import lowering_rules

__all__: list[str] = []


def shard_map_lowering(ctx: Context, *args: Any, mesh: Any, auto: Any, call_jaxpr: Any, in_specs: Any, out_specs: Any,
                       name: str = "shard_map", here: Any = (), **_: Any) -> list[Any]:
    if here:
        raise NotImplementedError(f"lower: the xmap of `{name}` spans several processes, each with its part of operands "
                                  "and results; it must be the only equation of its module")
    return lower_shard_map(ctx, args, mesh, auto, call_jaxpr, in_specs, out_specs, name)


lowering_rules.declare_missing(prims.xmap_p, "lamina_parallel.extend.lower_xmaps rewrites it before lowering")
lowering_rules.define(prims.shard_map_p, shard_map_lowering)
