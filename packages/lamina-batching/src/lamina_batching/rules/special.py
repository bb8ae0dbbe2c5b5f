"""Batching rules of the incomplete gamma and beta functions: elementwise."""
from __future__ import annotations

from lamina_ir import prims

from ..tables import batching_rules
from .elementwise import make_elementwise_rule

__all__: list[str] = []

for _prim in prims.ALL:
    if _prim.elementwise and _prim.family == "special":
        batching_rules.define(_prim, make_elementwise_rule(_prim))
