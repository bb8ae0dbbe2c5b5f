"""Batching rule of `linear_solve`: batch its programs; all right-hand sides and results are batched."""
from __future__ import annotations

from collections.abc import Sequence

from lamina_ir import prims
from lamina_ir.typing import ParamValue, Value
from lamina_tracing.extend import bind

from ..batch_trace import BatchAxis, batch_program, materialise
from ..tables import batching_rules
from .._typing import RuleResult

__all__: list[str] = []


def linear_solve_batching(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *, num_consts: int,
                          **params: ParamValue) -> RuleResult:
    on = (*[d is not None for d in dims[:num_consts]], *[True] * (len(args) - num_consts))
    for name in ("matvec", "solve", "transpose_solve"):
        if params[name] is not None:
            params[name] = batch_program(params[name], axis, on, True).program
    moved = [materialise(a, d, axis.size) if b else a for a, d, b in zip(args, dims, on)]
    outs = bind(prims.linear_solve_p, *moved, num_consts=num_consts, **params)
    return outs, [0] * len(outs)


batching_rules.define(prims.linear_solve_p, linear_solve_batching)
