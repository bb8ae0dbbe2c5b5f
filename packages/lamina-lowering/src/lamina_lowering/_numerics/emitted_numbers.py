"""Arithmetic operators on emitted values, for rules that are formulas over real numbers."""
from __future__ import annotations


from lamina_ir import ShapedArray, dtypes, shaped

from .._typing import IrValue
from .._emit.rule_context import Context

__all__ = ["Number", "Numbers"]


class Number:
    """An emitted value with arithmetic operators."""

    __slots__ = ("m", "v")

    def __init__(self, m: Numbers, v: IrValue) -> None:
        self.m, self.v = m, v

    def __add__(self, other: IrValue) -> Number:
        return self.m.op("stablehlo.add", self, other)

    def __sub__(self, other: IrValue) -> Number:
        return self.m.op("stablehlo.subtract", self, other)

    def __rsub__(self, other: IrValue) -> Number:
        return self.m.op("stablehlo.subtract", other, self)

    def __mul__(self, other: IrValue) -> Number:
        return self.m.op("stablehlo.multiply", self, other)

    def __truediv__(self, other: IrValue) -> Number:
        return self.m.op("stablehlo.divide", self, other)

    def __rtruediv__(self, other: IrValue) -> Number:
        return self.m.op("stablehlo.divide", other, self)

    def __neg__(self) -> Number:
        return self.m.op("stablehlo.negate", self)

    __radd__, __rmul__ = __add__, __mul__


class Numbers:
    """Arithmetic on emitted values of one real type; Python numbers are constants of that type.

    Args:
      ctx: the lowering context.
      aval: the type.
    """

    def __init__(self, ctx: Context, aval: ShapedArray) -> None:
        info = dtypes.finfo(aval.dtype)
        self.ctx, self.aval, self.flags = ctx, aval, shaped(aval.shape, dtypes.BOOL)
        self.eps, self.top = float(info.eps), float(info.max)

    def value(self, x: IrValue) -> IrValue:
        return x.v if x.__class__ is Number else self.ctx.const(float(x), self.aval)

    def op(self, name: str, *xs: IrValue) -> Number:
        return Number(self, self.ctx.op(name, [self.value(x) for x in xs], self.aval))

    def full(self, value: float) -> Number:
        return Number(self, self.value(value))

    def log(self, x: IrValue) -> Number:
        return self.op("stablehlo.log", x)

    def log1p(self, x: IrValue) -> Number:
        return self.op("stablehlo.log_plus_one", x)

    def exp(self, x: IrValue) -> Number:
        return self.op("stablehlo.exponential", x)

    def abs(self, x: IrValue) -> Number:
        return self.op("stablehlo.abs", x)

    def eq(self, x: IrValue, y: IrValue) -> IrValue:
        return self.ctx.compare(self.value(x), self.value(y), "EQ", self.aval)

    def lt(self, x: IrValue, y: IrValue) -> IrValue:
        return self.ctx.compare(self.value(x), self.value(y), "LT", self.aval)

    def le(self, x: IrValue, y: IrValue) -> IrValue:
        return self.ctx.compare(self.value(x), self.value(y), "LE", self.aval)

    def isnan(self, x: IrValue) -> IrValue:
        return self.ctx.compare(self.value(x), self.value(x), "NE", self.aval)

    def either(self, p: IrValue, q: IrValue) -> IrValue:
        return self.ctx.op("stablehlo.or", (p, q), self.flags)

    def both(self, p: IrValue, q: IrValue) -> IrValue:
        return self.ctx.op("stablehlo.and", (p, q), self.flags)

    def inverse(self, p: IrValue) -> IrValue:
        return self.ctx.op("stablehlo.not", (p,), self.flags)

    def where(self, p: IrValue, x: IrValue, y: IrValue) -> Number:
        return Number(self, self.ctx.select(p, self.value(x), self.value(y), self.aval))
