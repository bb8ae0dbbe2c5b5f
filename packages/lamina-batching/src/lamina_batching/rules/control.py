"""Control flow over batches.

`cond`: with one index for the batch one branch runs; with an index per example all run and results are selected, and
examples that chose another branch neither have a derivative through it nor spoil that of the others (see `_shielded`).
`while`: with a condition per example the loop goes on while any holds; examples that are done keep their values.
`scan`: the body over batches, with the batch behind the scanned axis.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import MissingRuleError, dce, dtypes, prims
from lamina_ir.avals import shaped
from lamina_ir.program import ClosedJaxpr
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, stage, typeof

from ..batch import BatchAxis, batch_program, materialise, move_to
from ..tables import batching_rules

__all__: list[str] = []

Flags = tuple[bool, ...]


def _front(args: Sequence[Any], dims: Sequence[int | None], wanted: Sequence[bool], size: int) -> list[Any]:
    """Operands with the batch, where it is wanted, at axis 0."""
    return [materialise(a, d, size) if w else a for a, d, w in zip(args, dims, wanted)]


def _on(dims: Sequence[int | None]) -> Flags:
    return tuple([d is not None for d in dims])


# --- cond ---------------------------------------------------------------------------------------------------------
def cond_batch(axis: BatchAxis, args: Any, dims: Any, *, branches: Any) -> Any:
    on = _on(dims[1:])
    made = [batch_program(b, axis, on) for b in branches]
    out = tuple([any(flags) for flags in zip(*[m.batched_out for m in made])])
    moved = _front(args[1:], dims[1:], on, axis.size)
    if dims[0] is None:
        same = tuple([batch_program(b, axis, on, out).program for b in branches])
        return bind(prims.cond_p, args[0], *moved, branches=same), [0 if o else None for o in out]
    if any(b.jaxpr.effectful for b in branches):
        raise MissingRuleError("vmap of a cond whose predicate differs between examples is not defined when a branch "
                               "has effects: it would run all branches for all examples. Use lax.map instead of vmap")
    chosen = _selection(branches, [m.program for m in made], out, axis, on)
    return bind(prims.xla_call_p, args[0], *moved, call_jaxpr=chosen, name="cond", donated_invars=(), inline=True,
                device=None, backend=None), [0] * len(out)


def _selection(branches: Sequence[ClosedJaxpr], programs: Sequence[ClosedJaxpr], out: Flags, axis: BatchAxis,
               on: Flags) -> ClosedJaxpr:
    """All branches, and per example the results of the one its index says."""
    def run(index: Any, *args: Any) -> list[Any]:
        chosen = [lax.eq(index, np.int32(k)) for k in range(len(branches))]
        results = [[materialise(o, 0 if b else None, axis.size) for o, b in zip(
            eval_jaxpr(p, _shielded(p, mine, args, on)), batch_program(source, axis, on).batched_out)]
            for p, source, mine in zip(programs, branches, chosen)]
        found = results[-1]
        for k in range(len(results) - 1):
            found = [_select(chosen[k], a, b) for a, b in zip(results[k], found)]
        return found

    key = ("selection", axis, on, tuple(map(id, branches)))
    avals = [shaped((axis.size,), np.dtype("int32")), *programs[0].in_avals]
    return branches[0].derived(key, lambda: (branches, stage(run, avals)[0]))[1]


def _shielded(program: ClosedJaxpr, chosen: Any, args: Sequence[Any], on: Flags) -> list[Any]:
    """Operands of a batched program whose results are used for the `chosen` examples only, with derivatives cut where
    they are not: the slopes of the other examples may be infinite or NaN, and zero times those is not zero.

    A copy per example of what the examples share would take too much memory. Where there is such an operand, the other
    examples compute what the first chosen one does instead, so that what they add to its derivative is zero.
    """
    used = dce(program)[1]
    inexact = [u and dtypes.is_inexact(a.dtype) for a, u in zip(program.in_avals, used)]
    if not any(inexact) or chosen.shape == (0,):
        return list(args)
    shared = any(f and not b for f, b in zip(inexact, on))
    first = lax.argmax(chosen, 0, np.int32) if shared else None
    found = []
    for x, u, f, b in zip(args, used, inexact, on):
        if not u or not (f or (b and shared)):
            found.append(x)
        elif b:
            other = x if first is None else lax.broadcast_in_dim(
                lax.dynamic_index_in_dim(x, first, 0, False), x.shape, tuple(range(1, len(x.shape))))
            found.append(_select(chosen, x, lax.stop_gradient(other)))
        else:
            found.append(lax.select(lax.reduce_or(chosen, (0,)), x, lax.stop_gradient(x)))
    return found


def _select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Whole examples, by one truth value each."""
    shape = typeof(on_true).shape
    return lax.select(lax.broadcast_in_dim(pred, shape, (0,)) if len(shape) > 1 else pred, on_true, on_false)


# --- loops --------------------------------------------------------------------------------------------------------
def _settle(body: ClosedJaxpr, axis: BatchAxis, before: Flags, carry: Flags, after: Flags = ()) -> Flags:
    """Which carries are batched, once that has gone round."""
    while True:
        out = batch_program(body, axis, before + carry + after).batched_out
        new = tuple([a or b for a, b in zip(carry, out)])
        if new == carry:
            return carry
        carry = new


def scan_batch(axis: BatchAxis, args: Any, dims: Any, *, jaxpr: Any, num_consts: int, num_carry: int,
               **params: Any) -> Any:
    n, size, on = num_consts + num_carry, axis.size, _on(dims)
    carry = _settle(jaxpr, axis, on[:num_consts], on[num_consts:n], on[n:])
    flags = on[:num_consts] + carry + on[n:]
    free = (False,) * (len(jaxpr.jaxpr.outvars) - num_carry)
    made = batch_program(jaxpr, axis, flags, carry + free)
    xs = [x if d is None else move_to(x, d, 1) for x, d in zip(args[n:], dims[n:])]
    outs = bind(prims.scan_p, *_front(args[:n], dims, flags, size), *xs, jaxpr=made.program, num_consts=num_consts,
                num_carry=num_carry, **params)
    return outs, [(0 if i < num_carry else 1) if b else None for i, b in enumerate(made.batched_out)]


def while_batch(axis: BatchAxis, args: Any, dims: Any, *, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int,
                body_nconsts: int, max_iters: int | None) -> Any:
    n, size, on = cond_nconsts + body_nconsts, axis.size, _on(dims)
    consts, body_on = on[:cond_nconsts], on[cond_nconsts:n]
    carry = _settle(body_jaxpr, axis, body_on, on[n:])
    truth = batch_program(cond_jaxpr, axis, consts + carry)
    if truth.batched_out[0]:
        carry = (True,) * len(carry)
        truth = batch_program(cond_jaxpr, axis, consts + carry)
    body = batch_program(body_jaxpr, axis, body_on + carry, carry).program
    body.memo("source", lambda: body_jaxpr.memo("source", lambda: None))
    ins = _front(args, dims, consts + body_on + carry, size)
    params = {"cond_nconsts": cond_nconsts, "body_nconsts": body_nconsts, "max_iters": max_iters}
    if not truth.batched_out[0]:
        outs = bind(prims.while_p, *ins, cond_jaxpr=truth.program, body_jaxpr=body, **params)
        return outs, [0 if c else None for c in carry]
    shield = None if max_iters is None else body_on + carry  # without a bound there is no reverse derivative
    key = ("each stops", axis, consts, body_on, shield, id(cond_jaxpr))
    made = body_jaxpr.derived(key, lambda: (cond_jaxpr, _each(truth.program, body, cond_nconsts, body_nconsts, shield)))
    goes_on, step = made[1]
    first = eval_jaxpr(truth.program, [*ins[:cond_nconsts], *ins[n:]])
    params.update(cond_nconsts=0, body_nconsts=n)
    return bind(prims.while_p, *ins[:n], *first, *ins[n:], cond_jaxpr=goes_on, body_jaxpr=step,
                **params)[1:], [0] * len(carry)


def _each(truth: ClosedJaxpr, body: ClosedJaxpr, cond_nconsts: int, body_nconsts: int,
          shield: Flags | None) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """(whether any example goes on, one step of those that do): programs whose carry begins with who goes on. `shield`
    says which operands of the body are batched, where its derivative must not see those that are done."""
    n = cond_nconsts + body_nconsts
    pred, state = truth.out_avals[0], truth.in_avals[cond_nconsts:]

    def step(*args: Any) -> list[Any]:
        operands = [*args[cond_nconsts:n], *args[n + 1:]]
        new = eval_jaxpr(body, operands if shield is None else _shielded(body, args[n], operands, shield))
        kept = [_select(args[n], a, b) for a, b in zip(new, args[n + 1:])]
        return [*eval_jaxpr(truth, [*args[:cond_nconsts], *kept]), *kept]

    consts = [*truth.in_avals[:cond_nconsts], *body.in_avals[:body_nconsts]]
    made = stage(step, [*consts, pred, *state])[0]
    made.memo("source", lambda: body.memo("source", lambda: None))
    return stage(lambda go, *_: [lax.reduce_or(go, (0,))], [pred, *state])[0], made


batching_rules.define(prims.cond_p, cond_batch)
batching_rules.define(prims.scan_p, scan_batch)
batching_rules.define(prims.while_p, while_batch)
batching_rules.hole(prims.platform_index_p, "it has no operands, so nothing about it is ever batched")
