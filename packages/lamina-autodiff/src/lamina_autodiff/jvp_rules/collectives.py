"""Collectives and `xla_pmap`: their rows come with lamina_parallel."""
from __future__ import annotations

from lamina_ir import prims

from ..tables import jvp_rules

__all__: list[str] = []

for _prim in (*(p for p in prims.ALL if p.family == "collectives"), prims.xla_pmap_p):
    if not _prim.linear_in:
        jvp_rules.hole(_prim, "its row comes with lamina_parallel; import that too")
