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

__all__: list[str] = []

_BOOL = shaped((), dtypes.BOOL)


class _Number:
    """An emitted value with arithmetic operators."""

    __slots__ = ("m", "v")

    def __init__(self, m, v):
        self.m, self.v = m, v

    def __add__(self, other):
        return self.m.op("stablehlo.add", self, other)

    def __sub__(self, other):
        return self.m.op("stablehlo.subtract", self, other)

    def __rsub__(self, other):
        return self.m.op("stablehlo.subtract", other, self)

    def __mul__(self, other):
        return self.m.op("stablehlo.multiply", self, other)

    def __truediv__(self, other):
        return self.m.op("stablehlo.divide", self, other)

    def __rtruediv__(self, other):
        return self.m.op("stablehlo.divide", other, self)

    def __neg__(self):
        return self.m.op("stablehlo.negate", self)

    __radd__, __rmul__ = __add__, __mul__


class _Numbers:
    """The arithmetic `m` of `lamina_ir.prims.special`, on emitted values of one type."""

    def __init__(self, ctx, aval):
        info = dtypes.finfo(aval.dtype)
        self.ctx, self.aval, self.flags = ctx, aval, shaped(aval.shape, dtypes.BOOL)
        self.eps, self.top = float(info.eps), float(info.max)

    def value(self, x):
        return x.v if x.__class__ is _Number else self.ctx.const(float(x), self.aval)

    def op(self, name, *xs):
        return _Number(self, self.ctx.op(name, [self.value(x) for x in xs], self.aval))

    def full(self, value):
        return _Number(self, self.value(value))

    def lt(self, x, y):
        return self.ctx.compare(self.value(x), self.value(y), "LT", self.aval)

    def le(self, x, y):
        return self.ctx.compare(self.value(x), self.value(y), "LE", self.aval)

    def isnan(self, x):
        return self.ctx.compare(x.v, x.v, "NE", self.aval)

    def either(self, p, q):
        return self.ctx.op("stablehlo.or", (p, q), self.flags)

    def both(self, p, q):
        return self.ctx.op("stablehlo.and", (p, q), self.flags)

    def where(self, p, x, y):
        return _Number(self, self.ctx.select(p, self.value(x), self.value(y), self.aval))

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
            numbers = [_Number(self, v) for v in numbers]
            new, more = step(tuple(numbers[:f]), tuple(numbers[f:]))
            # Without this select a converged element would go on changing, and might overflow to inf or NaN, while
            # others still run.
            kept = [self.where(on, n, s).v for n, s in zip(new, numbers[f:], strict=True)]
            return [*values[:f], *kept, self.both(on, more)]

        start = [x.v for x in (*fixed, *state)] + [ctx.const(True, self.flags)]
        made = ctx.op("stablehlo.while", start, *types, regions=[ctx.region(types, going), ctx.region(types, body)])
        return tuple(_Number(self, v) for v in made[f:-1])


def _unary(name):
    return lambda self, x: self.op(name, x)


for _name, _op in (("log", "stablehlo.log"), ("log1p", "stablehlo.log_plus_one"), ("exp", "stablehlo.exponential"),
                   ("abs", "stablehlo.abs"), ("lgamma", "chlo.lgamma"), ("digamma", "chlo.digamma")):
    setattr(_Numbers, _name, _unary(_op))


def _lowering(formula):
    def rule(ctx, *xs, aval):
        m = _Numbers(ctx, aval)
        return formula(m, *(_Number(m, x) for x in xs)).v
    narrow = compute_in(np.dtype("float32"), rule)

    def lower(ctx, *xs):
        return narrow(ctx, *xs) if ctx.aval_out.dtype.itemsize < 4 else rule(ctx, *xs, aval=ctx.aval_out)
    return lower


for _prim, _mode in ((prims.igamma_p, "lower"), (prims.igammac_p, "upper"), (prims.igamma_grad_a_p, "derivative"),
                     (prims.random_gamma_grad_p, "sample")):
    lowering_rules.define(_prim, _lowering(lambda m, a, x, mode=_mode: incomplete_gamma(m, a, x, mode)))
lowering_rules.define(prims.regularized_incomplete_beta_p, _lowering(incomplete_beta))
