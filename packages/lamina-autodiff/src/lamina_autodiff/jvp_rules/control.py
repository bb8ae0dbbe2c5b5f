"""JVP rules of control flow; those of loops and branches are derived by `engine.higher_order`."""
from __future__ import annotations

from lamina_ir import prims

from .._engine.rule_tables import def_zero_jvp

__all__: list[str] = []

def_zero_jvp(prims.platform_index_p)
