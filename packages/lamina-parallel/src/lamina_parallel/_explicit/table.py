"""The table of sharding rules: for each primitive the sharding of its results, or the reason why it has no rule."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina_ir import Primitive, prims
from lamina_ir.extend import RuleTable

from .array_rules import ARRAY_RULES
from .operation import Operation
from .shape_rules import SHAPE_RULES
from .._typing import Entries

__all__ = ["PROGRAM_PRIMITIVES", "sharding_rules"]

RuleFunction = Callable[..., Any]

# Primitives whose nested program is analyzed instead.
PROGRAM_PRIMITIVES = frozenset(
    "cond custom_jvp_call custom_vjp_call custom_vmap_call linear_solve remat scan shard_map sharding_constraint while "
    "xla_call".split())


def _merge_operands(prim: Primitive) -> RuleFunction | None:
    """Return the rule that follows from the facts of an elementwise primitive."""
    return (lambda op: [op.merge()] * len(op.out_avals)) if prim.elementwise else None


sharding_rules = RuleTable("sharding", "lamina_parallel/_explicit", default=_merge_operands)

_MISSING = {
    "xla_pmap": "pmap chooses its devices itself; use shard_map",
    "xmap": "xmap places its axes itself; use shard_map",
    "transposed_call": "its map is known only by its transpose; use auto_axes",
}


def _analyzed(op: Operation) -> list[Entries]:
    """Stand for the rule of a primitive whose nested program is analyzed."""
    raise NotImplementedError(f"{op.primitive.name}: its nested program is analyzed")


for _prim in prims.ALL:
    _rule = ARRAY_RULES.get(_prim.name) or SHAPE_RULES.get(_prim.name)
    if _prim.name in PROGRAM_PRIMITIVES:
        sharding_rules.define(_prim, _analyzed)
    elif _rule is not None:
        sharding_rules.define(_prim, _rule)
    elif _prim.name in _MISSING:
        sharding_rules.declare_missing(_prim, _MISSING[_prim.name])
    elif _prim.family == "collectives":
        sharding_rules.declare_missing(_prim, "collectives run inside maps, where each member has its own block")
