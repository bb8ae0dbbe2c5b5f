"""Extension API for lowering rules.

`lowering_rules` is the table of common rules, `platform_rules(name)` that of one platform. A rule is
`rule(ctx, /, *operands, **params)`: operands and results are `ir.Value`s, and `params` are those of the equation. The
result is one value, or a sequence of values for primitives with several results. `ctx` is a `Context`:

* types: `ctx.avals_in`, `ctx.aval_in` (the first), `ctx.avals_out`, `ctx.aval_out`; `ctx.platform`; `ctx.eqn`
* operations: `ctx.op("stablehlo.add", (x, y), ctx.aval_out, some_attribute=...)`; attributes may be Python bools, ints
  (i64), strings, sequences of ints or bools (dense arrays), or MLIR attributes: `ctx.i64s(seq)`, `ctx.bools(seq)`,
  `ctx.i32(n)`, `ctx.matrix(rows)` (`dense<...> : tensor<NxMxi64>`), `ctx.enum("comparison_direction", "EQ")`,
  `ctx.precision("HIGHEST", "DEFAULT")`, `ctx.attr("any attribute text")`
* regions: `ctx.op(..., regions=[ctx.region(block_avals, body)])` with `body(ctx, *values) -> value or sequence`;
  `ctx.reducer_region("stablehlo.add", aval)`; `ctx.program_region(closed_jaxpr)`
* constants: `ctx.const(value, aval)`: a scalar value fills the shape; `ctx.iota(aval, dimension)`
* small compositions: `ctx.broadcast(v, aval_in, aval_out, dims)`, `ctx.convert(v, aval_in, aval_out)`,
  `ctx.reshape(v, aval_out)`, `ctx.compare(x, y, "LT", aval_in)`, `ctx.select(p, t, f, aval)`
* nested programs: `ctx.subcall(closed, operands, name)` (a function, emitted once), `ctx.inline(closed, operands)`;
  both return a list of values
* mapped axes: `ctx.axis_env` (their names, sizes and groups), `ctx.collective_attrs(name, groups)`, `ctx.axis_index(name)`

Rules of primitives marked `elementwise` always get operands of the result's shape: rank-0 operands are broadcast first,
and `ctx.avals_in` has the broadcast types. So most of these rules are one line:

    lowering_rules.define(prims.sin_p, lower_to_op("stablehlo.sine"))

`platform_rules("cuda").define(prims.x_p, rule)` adds a rule for one platform. A rule may also be a program: see
`ProgramRule`, and `expand_primitives`, with which runtimes replace such primitives before they place a program.

Rules may also use jaxlib's bindings: within `with ctx.loc, ctx.ip:` their builders insert operations at the right place.
`element_type_name(dtype)` is the name of a dtype in MLIR, `make_ir_context()` a new context with the dialects of programs.
"""
from __future__ import annotations

from lamina_ir.layers import deprecated_getattr

from ._emit.expand_primitives import ProgramRule, expand_primitives
from ._emit.make_rules import compute_in, ffi_lowering
from ._emit.mlir_context import element_type_name
from ._emit.rule_context import Context, identity, lower_to_op
from ._emit.rule_tables import lowering_rules, platform_rules
from ._jaxlib import new_context as make_ir_context

__all__ = ["Context", "ProgramRule", "compute_in", "element_type_name", "expand_primitives", "ffi_lowering",
           "identity", "lower_to_op", "lowering_rules", "make_ir_context", "platform_rules"]

__getattr__ = deprecated_getattr(__name__)
