"""Lowering of `linear_solve`: a call of its solver."""
from __future__ import annotations


from lamina_ir import ClosedJaxpr, prims
from lamina_ir.typing import ParamValue

from .._emit.rule_context import Context
from .._emit.rule_tables import lowering_rules
from .._typing import IrValue

__all__: list[str] = []


def linear_solve_lowering(ctx: Context, *args: IrValue, solve: ClosedJaxpr, **_: ParamValue) -> list[IrValue]:
    return ctx.subcall(solve, args, "solve")


lowering_rules.define(prims.linear_solve_p, linear_solve_lowering)
