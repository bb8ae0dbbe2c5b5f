"""Maps of several axes."""
from __future__ import annotations

from lamina_ir import prims

from ..tables import lowering_rules

__all__: list[str] = []

lowering_rules.hole(prims.xmap_p, "it is written in other ops before it is lowered, by lamina_parallel.placement")
lowering_rules.hole(prims.shard_map_p, "its region over a mesh is not written yet")
