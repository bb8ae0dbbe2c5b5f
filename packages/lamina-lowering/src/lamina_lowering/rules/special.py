"""Lowering of incomplete gamma and beta functions: formulas over emitted operations, with loops as one `while` for all
elements.

Elements that have converged keep their state while the loop continues for others.
"""
from __future__ import annotations

import numpy as np

from lamina_ir import dtypes, prims, shaped
from lamina_ir.prims import incomplete_beta, incomplete_gamma

from ..extend import compute_in
from .._emit.rule_tables import lowering_rules
from .._numerics.emitted_numbers import Number, Numbers

__all__: list[str] = []

_BOOL = shaped((), dtypes.BOOL)


class _LoopingNumbers(Numbers):
    """The arithmetic `m` of `lamina_ir.prims.special`, on emitted values of one type."""

    def lgamma(self, x):
        return self.op("chlo.lgamma", x)

    def digamma(self, x):
        return self.op("chlo.digamma", x)

    def loop(self, step, fixed, state):
        # The loop continues while any element has not converged; converged ones (not `on`) keep their state.
        ctx, f = self.ctx, len(fixed)
        types = [self.aval] * (f + len(state)) + [self.flags]

        def going(ctx, *values):
            # A scalar is its own test.
            if not self.aval.shape:
                return values[-1]
            return ctx.op("stablehlo.reduce", (values[-1], ctx.const(False, _BOOL)), _BOOL,
                          regions=[ctx.reducer_region("stablehlo.or", _BOOL)],
                          dimensions=ctx.i64s(range(len(self.aval.shape))))

        def body(ctx, *values):
            *numbers, on = values
            numbers = [Number(self, v) for v in numbers]
            new, more = step(tuple(numbers[:f]), tuple(numbers[f:]))
            # Without this select a converged element would go on changing, and might overflow to inf or NaN, while
            # others still run.
            kept = [self.where(on, n, s).v for n, s in zip(new, numbers[f:], strict=True)]
            return [*values[:f], *kept, self.both(on, more)]

        start = [x.v for x in (*fixed, *state)] + [ctx.const(True, self.flags)]
        made = ctx.op("stablehlo.while", start, *types, regions=[ctx.region(types, going), ctx.region(types, body)])
        return tuple(Number(self, v) for v in made[f:-1])


def _lowering(formula):
    def rule(ctx, *xs, aval):
        m = _LoopingNumbers(ctx, aval)
        return formula(m, *(Number(m, x) for x in xs)).v
    narrow = compute_in(np.dtype("float32"), rule)

    def lower(ctx, *xs):
        return narrow(ctx, *xs) if ctx.aval_out.dtype.itemsize < 4 else rule(ctx, *xs, aval=ctx.aval_out)
    return lower


for _prim, _mode in ((prims.igamma_p, "lower"), (prims.igammac_p, "upper"), (prims.igamma_grad_a_p, "derivative"),
                     (prims.random_gamma_grad_p, "sample")):
    lowering_rules.define(_prim, _lowering(lambda m, a, x, mode=_mode: incomplete_gamma(m, a, x, mode)))
lowering_rules.define(prims.regularized_incomplete_beta_p, _lowering(incomplete_beta))
