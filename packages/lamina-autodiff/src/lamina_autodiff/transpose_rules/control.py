"""Transpose rules of control flow; those of loops and branches are derived by `engine.higher_order`."""
from __future__ import annotations

from lamina_ir import prims

from .._engine.rule_tables import transpose_rules

__all__: list[str] = []

transpose_rules.declare_missing(prims.platform_index_p, "it has no operand")
