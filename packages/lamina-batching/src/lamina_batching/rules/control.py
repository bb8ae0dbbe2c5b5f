"""Batching rules of control flow; those of loops and branches are derived by `higher_order`."""
from __future__ import annotations

from lamina_ir import prims

from ..tables import batching_rules

__all__: list[str] = []

batching_rules.declare_missing(prims.platform_index_p, "it has no operands, so nothing about it is ever batched")
