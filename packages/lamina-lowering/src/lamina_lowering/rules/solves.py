"""Lowering of `linear_solve`: a call of its solver."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims

from .._emit.rule_context import Context
from .._emit.rule_tables import lowering_rules

__all__: list[str] = []


def linear_solve_lowering(ctx: Context, *args: Any, solve: Any, **_: Any) -> list[Any]:
    return ctx.subcall(solve, args, "solve")


lowering_rules.define(prims.linear_solve_p, linear_solve_lowering)
