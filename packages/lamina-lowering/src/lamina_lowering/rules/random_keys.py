"""Lowering of key primitives: `lamina_ir.extend.lower_keys` replaces keys by uint32 data before a program is lowered.
"""
from __future__ import annotations

from lamina_ir import prims

from .._emit.rule_tables import lowering_rules

__all__: list[str] = []

for _p in (prims.random_wrap_p, prims.random_unwrap_p):
    lowering_rules.declare_missing(_p, "programs are lowered without keys, see lamina_ir.extend.lower_keys")
