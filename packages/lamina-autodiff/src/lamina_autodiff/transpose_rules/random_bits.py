"""Random bits are integers, so they do not occur in linear programs."""
from __future__ import annotations

from lamina_ir import prims

from .._engine.rule_tables import transpose_rules

__all__: list[str] = []

transpose_rules.declare_missing(prims.threefry2x32_p, "it works on integers, which have no tangents")
