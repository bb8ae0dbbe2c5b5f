"""Lowering of control flow.

`scan` is a loop that reads slices from arrays and writes slices into arrays. Values that do not change in a loop are
used in its region from outside.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lamina_ir import ClosedJaxpr, Eqn, Primitive, ShapedArray, Var, dtypes, prims, shaped
from lamina_ir.extend import RegionView, as_scan
from lamina_ir.typing import Function, ParamValue

from .._emit.rule_context import Context
from .._emit.rule_tables import lowering_rules
from .._typing import IrValue, OpResults

__all__: list[str] = []

_I32 = shaped((), np.dtype("int32"))
_BOOL = shaped((), dtypes.BOOL)


def _as_list(made: OpResults) -> list[IrValue]:
    return list(made) if isinstance(made, tuple) else [made]


def _constant_value(index: IrValue) -> int | None:
    """Return the value of an index that is a constant of the module; None for others."""
    made = index.owner
    if getattr(made, "name", None) != "stablehlo.constant":
        return None
    return int(np.asarray(made.attributes["value"]).reshape(()))


def cond_lowering(ctx: Context, index: IrValue, *args: IrValue, branches: tuple[ClosedJaxpr, ...]) -> list[IrValue]:
    if len(branches) == 1:
        return ctx.body(branches[0], args)
    chosen = _constant_value(index)
    if chosen is not None:  # as with platform_index; the other branches may have no lowering on this platform
        return ctx.body(branches[chosen if 0 <= chosen < len(branches) else -1], args)
    regions = [ctx.region((), lambda ctx, b=branch: ctx.body(b, args)) for branch in branches]
    return _as_list(ctx.op("stablehlo.case", (index,), *ctx.avals_out, regions=regions))


def _while(ctx: Context, start: Sequence[IrValue], avals: Sequence[ShapedArray], test: Function,
           step: Function) -> list[IrValue]:
    return _as_list(ctx.op("stablehlo.while", start, *avals, regions=[ctx.region(avals, test), ctx.region(avals, step)]))


def while_lowering(ctx: Context, *args: IrValue, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int,
                   body_nconsts: int, max_iters: int | None = None) -> list[IrValue]:
    n = cond_nconsts + body_nconsts
    cond_consts, body_consts, carry = args[:cond_nconsts], args[cond_nconsts:n], args[n:]
    avals = ctx.avals_out
    if max_iters is None:
        return _while(ctx, carry, avals, lambda ctx, *c: ctx.body(cond_jaxpr, (*cond_consts, *c)),
                      lambda ctx, *c: ctx.body(body_jaxpr, (*body_consts, *c)))

    def test(ctx: Context, i: IrValue, *c: IrValue) -> IrValue:
        more = ctx.compare(i, ctx.const(max_iters, _I32), "LT", _I32)
        return ctx.op("stablehlo.and", (more, *ctx.body(cond_jaxpr, (*cond_consts, *c))), _BOOL)

    def step(ctx: Context, i: IrValue, *c: IrValue) -> IrValue:
        return [_plus(ctx, i, 1), *ctx.body(body_jaxpr, (*body_consts, *c))]

    return _while(ctx, (ctx.const(0, _I32), *carry), (_I32, *avals), test, step)[1:]


def _plus(ctx: Context, i: IrValue, n: int) -> IrValue:
    return ctx.op("stablehlo.add", (i, ctx.const(n, _I32)), _I32) if n else i


def _read(ctx: Context, x: IrValue, aval: ShapedArray, i: IrValue, zero: IrValue) -> IrValue:
    sizes = (1, *aval.shape)
    starts = (i, *[zero] * aval.ndim)
    piece = ctx.op("stablehlo.dynamic_slice", (x, *starts), shaped(sizes, aval.dtype), slice_sizes=ctx.i64s(sizes))
    return ctx.reshape(piece, aval)


def _write(ctx: Context, whole: IrValue, y: IrValue, aval: ShapedArray, out: ShapedArray, i: IrValue,
           zero: IrValue) -> IrValue:
    row = ctx.reshape(y, shaped((1, *aval.shape), aval.dtype))
    return ctx.op("stablehlo.dynamic_update_slice", (whole, row, i, *[zero] * aval.ndim), out)


def scan_lowering(ctx: Context, *args: IrValue, jaxpr: ClosedJaxpr, length: int, num_consts: int, num_carry: int,
                  reverse: bool, unroll: int) -> list[IrValue]:
    """Emit a loop of `length // unroll` passes, followed by the remaining iterations."""
    # The state of the loop: index of the pass's first iteration, carry, and the stacked results so far.
    n = num_consts + num_carry
    consts, carry, xs = args[:num_consts], args[num_consts:n], args[n:]
    x_avals, y_avals = jaxpr.in_avals[n:], jaxpr.out_avals[num_carry:]
    outs = ctx.avals_out
    wholes = outs[num_carry:]
    # Every row of a stack is written before it is read, so its initial value has no effect.
    state = [*carry, *[ctx.const(ctx.module.initial_value(a), a) for a in wholes]]

    def emit_iterations(ctx: Context, first: IrValue, count: int, state: Sequence[IrValue]) -> list[IrValue]:
        """Emit `count` iterations from index `first`."""
        zero = ctx.const(0, _I32)
        # now: the carry before iteration first + k. at: the index of its slice, from the end if reversed.
        now, ys = list(state[:num_carry]), list(state[num_carry:])
        for k in range(count):
            at = _plus(ctx, first, k)
            if reverse:
                at = ctx.op("stablehlo.subtract", (ctx.const(length - 1, _I32), at), _I32)
            made = ctx.body(jaxpr, [*consts, *now, *[_read(ctx, x, a, at, zero) for x, a in zip(xs, x_avals)]],
                            times=copies)
            now = made[:num_carry]
            ys = [_write(ctx, w, y, a, out, at, zero)
                  for w, y, a, out in zip(ys, made[num_carry:], y_avals, wholes)]
        return [*now, *ys]

    passes, rest = divmod(length, unroll)
    # A single pass needs no loop: its iterations and the remaining ones are unrolled.
    if passes == 1:
        passes, rest = 0, length
    # At so many places the body is emitted. From two on it becomes a function, which all of them call.
    copies = (unroll if passes else 0) + rest
    if passes:
        def test(ctx: Context, i: IrValue, *_: IrValue) -> IrValue:
            return ctx.compare(i, ctx.const(passes * unroll, _I32), "LT", _I32)

        def step(ctx: Context, i: IrValue, *state: IrValue) -> IrValue:
            made = emit_iterations(ctx, i, unroll, state)
            return [_plus(ctx, i, unroll), *made]

        state = _while(ctx, (ctx.const(0, _I32), *state), (_I32, *outs), test, step)[1:]
    return emit_iterations(ctx, ctx.const(passes * unroll, _I32), rest, state) if rest else list(state)


lowering_rules.define(prims.platform_index_p, lambda ctx, *, platforms, has_default: ctx.const(
    prims.platform_number(ctx.platform, platforms, has_default), _I32))
lowering_rules.define(prims.cond_p, cond_lowering)
lowering_rules.define(prims.while_p, while_lowering)
lowering_rules.define(prims.scan_p, scan_lowering)


# --- third-party primitives with region signatures ----------------------------------------------------------------
def _make_default_rule(op: Primitive) -> Function | None:
    """Return the rule of a primitive with nested programs and no rule of its own, from its region signature.

    A call becomes its body, a branch a `cond`, and a loop of known length a `scan`. None if the signature does not
    suffice.
    """
    flow = op.region_signature
    if flow is None or not flow.operands or flow.axis_binding or flow.test:
        return None

    def loop(ctx: Context, /, *args: IrValue, **params: ParamValue) -> list[IrValue]:
        ins = [Var(a) for a in ctx.avals_in]
        scan = as_scan(Eqn(op, ins, [Var(a) for a in ctx.avals_out], params))
        # the operands of the scan are in another order
        at = {id(v): x for v, x in zip(ins, args)}
        return lowering_rules[prims.scan_p](ctx, *[at[id(v)] for v in scan.invars], **scan.params)  # type: ignore[union-attr]

    def once(ctx: Context, /, *args: IrValue, **params: ParamValue) -> list[IrValue]:
        w = RegionView(op, params, len(args))
        taken = [args[i] for i in w.bodies[0].ins]
        if w.selector is None:
            return ctx.body(w.bodies[0].program, taken)
        branches = tuple([b.program for b in w.bodies])
        return lowering_rules[prims.cond_p](ctx, args[w.selector], *taken, branches=branches)

    return loop if flow.loops else once


lowering_rules.default = _make_default_rule
