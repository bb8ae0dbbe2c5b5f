'''The door for people who write lowering rows, and for nobody else.

`lowering_rules` is the table of rows, `platform_rules(name)` that of one platform's. A row is
`rule(ctx, /, *operands, **params)`: operands and results are `ir.Value`s, `params` those of the equation, and the result is
one value, or a sequence of values for ops with several results. `ctx` is a `Context`:

* types: `ctx.avals_in`, `ctx.aval_in` (the first), `ctx.avals_out`, `ctx.aval_out`; `ctx.platform`; `ctx.eqn`
* operations: `ctx.op("stablehlo.add", (x, y), ctx.aval_out, some_attribute=...)`; attributes may be Python bools, ints
  (i64), strings, sequences of ints or bools (dense arrays), or ready ones: `ctx.i64s(seq)`, `ctx.bools(seq)`,
  `ctx.i32(n)`, `ctx.matrix(rows)` (`dense<...> : tensor<NxMxi64>`), `ctx.enum("comparison_direction", "EQ")`,
  `ctx.precision("HIGHEST", "DEFAULT")`, `ctx.attr("any attribute text")`
* regions: `ctx.op(..., regions=[ctx.region(block_avals, body)])` with `body(ctx, *values) -> value or sequence`;
  `ctx.reducer_region("stablehlo.add", aval)`; `ctx.program_region(closed_jaxpr)`
* constants: `ctx.const(value, aval)`: a scalar value fills the shape; `ctx.iota(aval, dimension)`
* small compositions: `ctx.broadcast(v, aval_in, aval_out, dims)`, `ctx.convert(v, aval_in, aval_out)`,
  `ctx.reshape(v, aval_out)`, `ctx.compare(x, y, "LT", aval_in)`, `ctx.select(p, t, f, aval)`
* nested programs: `ctx.subcall(closed, operands, name)` (a function, emitted once), `ctx.inline(closed, operands)`;
  both give a list of values
* mapped axes: `ctx.axis_env` (their names, sizes and groups), `ctx.collective_attrs(name, groups)`, `ctx.axis_index(name)`

Rows of ops marked `elementwise` always get operands of the result's shape: the core broadcasts rank-0 operands first,
and `ctx.avals_in` shows the broadcast types. So most of them are one line:

    lowering_rules.define(prims.sin_p, direct("stablehlo.sine"))

`platform_rules("cuda").define(prims.x_p, rule)` adds a row for one platform.
'''
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina_ir import shaped

from .context import Context
from .tables import lowering_rules, platform_rules

__all__ = ["Context", "direct", "identity", "lowering_rules", "platform_rules", "through"]


def direct(name: str, **attrs: Any) -> Callable[..., Any]:
    """A row that is one operation on the operands, with the result's type; the equation's params are not read.

    Args:
      name: operation, as `stablehlo.sine`.
      **attrs: attributes as `ctx.op` takes them; text that starts with `#` is parsed as an attribute.
    Returns:
      A row of `lowering_rules`.

    >>> from lamina_ir import parse, prims
    >>> from lamina_lowering import lower
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> with lowering_rules.override(prims.tanh_p, direct("stablehlo.sine")):
    ...     "stablehlo.sine" in lower(program).as_text()
    True
    """
    if attrs:
        def rule(ctx: Context, /, *xs: Any, **params: Any) -> Any:
            made = {k: ctx.attr(v) if isinstance(v, str) and v[:1] == "#" else v for k, v in attrs.items()}
            return ctx.op(name, xs, ctx.eqn.outvars[0].aval, **made)
    else:
        def rule(ctx: Context, /, *xs: Any, **params: Any) -> Any:
            return ctx.create(name, [ctx.types[ctx.eqn.outvars[0].aval]], xs, None, None, 0, ctx.loc, ctx.ip).result
    return rule


def identity(ctx: Context, x: Any, /, *rest: Any, **params: Any) -> Any:
    """A row for ops that give their first operand.

    Args:
      ctx: the context.
      x: the operand.
      *rest: the others.
      **params: those of the equation.
    Returns:
      `x`.

    >>> from lamina_ir import parse, prims
    >>> from lamina_lowering import lower
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> with lowering_rules.override(prims.tanh_p, identity):
    ...     "tanh" in lower(program).as_text()
    False
    """
    return x


def through(dtype: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    """A row computed in another dtype: operands are converted to it, the result back.

    Args:
      dtype: a dtype in which the operation is supported, as float32 for ops CPUs lack in bfloat16.
      rule: `rule(ctx, *values, aval=...)` emitting on values of type `aval` (the result's shape in `dtype`).
    Returns:
      A row of `lowering_rules`.

    >>> from lamina_ir import parse, prims
    >>> from lamina_lowering import lower
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> row = through("float64", lambda ctx, x, *, aval: ctx.op("stablehlo.sine", (x,), aval))
    >>> with lowering_rules.override(prims.tanh_p, row):
    ...     "tensor<3xf64>" in lower(program).as_text()
    True
    """
    def wide(ctx: Context, /, *xs: Any, **params: Any) -> Any:
        out = ctx.aval_out
        aval = shaped(out.shape, dtype)
        made = rule(ctx, *(ctx.convert(x, a, shaped(a.shape, dtype)) for x, a in zip(xs, ctx.avals_in, strict=True)),
                    aval=aval, **params)
        return ctx.convert(made, aval, out)
    return wide
