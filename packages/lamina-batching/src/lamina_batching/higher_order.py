"""Batching of higher-order primitives: one rule for calls, branches, loops and maps, built-in or third-party.

The rule reads the region signature of the primitive. A result is batched if it depends on a batched operand. A loop
carry is batched if its initial value is, or if any iteration makes it so. The fixpoint is computed first; then the body
is batched for it.

Indices and loop tests may be batched too. With an index per example, all branches run and results are selected per
example; `_mask_unchosen` keeps the other examples out of derivatives. With a test per example, the loop runs while any
test holds, and finished examples keep their values.
"""
from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import (
    ClosedJaxpr, dce, dtypes, find_unrepeatable_effect, has_checks, has_only_checks, mask_checks, MissingRuleError,
    Primitive, prims, shaped)
from lamina_ir.extend import CONST, SCANNED, OperandSpec, RegionView, propagate_forward
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, bind, extend_axis_env, eval_jaxpr, stage, typeof
from lamina_ir.typing import Function, ParamValue, Params, Value

from .batch_trace import BatchAxis, batch_program, materialise, move_axis
from .tables import batching_rules
from ._typing import RuleResult

__all__ = ["batch_higher_order", "make_higher_order_rule"]

Flags = tuple[bool, ...]


def batch_higher_order(prim: Primitive, axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None],
                       params: Params, batch: Function = batch_program) -> RuleResult:
    """Batch an equation of a primitive with a region signature.

    Args:
      prim: the primitive.
      axis: the batch axis.
      args: the operands.
      dims: the batch axis of each operand, or None.
      params: the params.
      batch: function that batches subprograms, with the signature of `batch_program`.
    Returns:
      (results, batch axis of each or None).

    >>> step = stage(lambda c, x: [lax.add(c, x), c], [shaped((), np.dtype("float32"))] * 2)[0]
    >>> params = dict(jaxpr=step, length=3, num_consts=0, num_carry=1, reverse=False, unroll=1)
    >>> batch_higher_order(prims.scan_p, BatchAxis(2), [np.float32(0), np.ones((2, 3), np.float32)], [None, 0], params)[1]
    [0, 1]
    """
    w, on = RegionView(prim, params, len(args)), tuple([d is not None for d in dims])
    binds, scope = w.region_signature.axis_binding, contextlib.nullcontext()
    if binds is not None:
        scope = extend_axis_env(*[AxisFrame(name, size) for name, size in binds.axes(params)])  # type: ignore[assignment]
        if axis.name in binds.names(params):
            axis = axis._replace(name=None)  # an inner axis shadows an outer one of the same name
    with scope:
        # ops: batched operands, for carries the fixpoint; outs: batched results. Each fixpoint step batches the body
        # for its current flags; these programs are cached, and the last one is used.
        ops, outs = propagate_forward(w, on, lambda wire, marks: batch(wire.program, axis, marks).batched_out)
        if w.selector is not None and on[w.selector]:
            return _batch_branches(w, axis, args, dims)
        if w.region_signature.test:
            test = batch(w.regions[0].program, axis, tuple([ops[i] for i in w.regions[0].ins]))
            if test.batched_out[0]:
                if _is_bounded(w) and not has_only_checks(w.regions[1].program):  # batch all operands, as in `_batch_branches`
                    ops = (True,) * len(ops)
                    test = batch(w.regions[0].program, axis, tuple([ops[i] for i in w.regions[0].ins]))
                return _batch_loop(w, axis, args, dims, ops, test.program)
        # All branches must return the same results, and a loop body must return the carries it takes: there an
        # unbatched result is repeated.
        required: Flags = outs if len(w.bodies) > 1 else outs[:w.n_carry] + (False,) * (w.n_results - w.n_carry)
        made = [batch(p.program, axis, tuple([ops[i] for i in p.ins]), False if p.is_test else required) for p in w.regions]
    n = len(args)
    rebuilt = w.rebuild(w.operands(), w.results(), [(b.program, p.ins, [0] if p.is_test else range(w.n_results))
                                                    for b, p in zip(made, w.regions)])
    out_on = made[-1].batched_out
    new = rebuilt.params
    if binds is not None:
        for p, flags in ((binds.ins, on), (binds.outs, out_on)):
            new[p] = tuple([binds.add_batch_dim(entry) if b else entry for entry, b in zip(new[p], flags)])
    if w.region_signature.test:
        new[w.region_signature.body].memo("source", lambda: w.bodies[0].program.memo("source", lambda: None))
    # An iteration has the batch at axis 0, so scanned operands and stacked results have it at axis 1.
    ins = [_materialise_if(args[i], dims[i], 1 if w.kinds[i] == SCANNED else 0, ops[i], axis.size) for i in range(n)]
    found = bind(prim, *ins, **new)
    stacked_dim = 1 if w.region_signature.loops else 0
    return found, [None if not b else 0 if j < w.n_carry else stacked_dim for j, b in enumerate(out_on)]


def _materialise_if(x: Value, dim: int | None, at: int, is_batched: bool, size: int) -> Value:
    return materialise(x, dim, size, at) if is_batched else x


# --- an index per example -----------------------------------------------------------------------------------------
def _batch_branches(w: RegionView, axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None]) -> RuleResult:
    """Batch a branch whose index is batched: run all branches and select per example."""
    branches, ins = [b.program for b in w.bodies], w.bodies[0].ins
    effect = next(filter(None, map(find_unrepeatable_effect, branches)), None)
    if effect is not None:
        raise MissingRuleError(f"vmap of a {w.prim.name} whose predicate differs between examples is not defined when a branch "
                               f"calls `{effect}`: it would run all branches for all examples. Use lax.map instead of vmap")
    # Effects other than checks, such as printing, must see the operands of their own example. `_mask_unchosen` may
    # replace shared operands, so all operands are batched then.
    on = tuple([dims[i] is not None for i in ins])
    if any(on) and not all(map(has_only_checks, branches)):
        on = (True,) * len(ins)
    moved = [_materialise_if(args[i], dims[i], 0, b, axis.size) for i, b in zip(ins, on)]
    index = move_axis(args[w.selector], dims[w.selector], 0)  # type: ignore[index, arg-type]
    outs = bind(prims.xla_call_p, index, *moved, call_jaxpr=_selection(branches, axis, on),
                **{**prims.xla_call_p.defaults, "name": w.prim.name, "inline": True})
    return outs, [0] * len(outs)


def _selection(branches: Sequence[ClosedJaxpr], axis: BatchAxis, on: Flags) -> ClosedJaxpr:
    """Return a program that runs all branches and selects per example the results of the branch of its index."""
    def make() -> tuple[Sequence[ClosedJaxpr], ClosedJaxpr]:
        # Checks in a branch apply to the examples that chose it. An out-of-range index selects the last branch.
        checks = [has_checks(b) for b in branches]
        made = [batch_program(mask_checks(b), axis, (*on, True)) if c else batch_program(b, axis, on)
                for b, c in zip(branches, checks)]
        avals = [shaped((axis.size,), np.dtype("int32")), *made[0].program.in_avals[:len(on)]]

        def run(index: Value, *args: Value) -> list[Value]:
            chosen = [lax.eq(index, np.int32(k)) for k in range(len(branches))]
            guards = list(chosen)
            if checks[-1]:
                guards[-1] = lax.bitwise_or(lax.lt(index, np.int32(0)), lax.ge(index, np.int32(len(branches) - 1)))
            given = [[*_mask_unchosen(m.program, is_chosen, args, on), *[guard] * c]
                     for m, is_chosen, guard, c in zip(made, chosen, guards, checks)]
            results = [[materialise(o, 0 if b else None, axis.size) for o, b in zip(eval_jaxpr(m.program, xs), m.batched_out)]
                       for m, xs in zip(made, given)]
            # An out-of-range index runs the last branch, as without a batch.
            found = results[-1]
            for k in range(len(results) - 1):
                found = [_select(chosen[k], a, b) for a, b in zip(results[k], found)]
            return found

        return branches, stage(run, avals)[0]

    key = ("selection", axis, on, tuple(map(id, branches)))
    return branches[0].memo_with_settings(key, make)[1]


def _mask_unchosen(program: ClosedJaxpr, chosen: Value, args: Sequence[Value], on: Flags) -> list[Value]:
    """Return the operands of a batched program of which only the results of the `chosen` examples are used.

    The derivative is cut for the other examples: theirs may be infinite or NaN, and zero times that is NaN, not zero.

    Shared operands are not copied per example, which would take too much memory. If there is one, the other examples
    get the operands of the first chosen example instead, so that they add zero to the derivative of the shared operand.
    """
    # An unchosen example can contaminate two derivatives with NaN: that of its own operand (b: batched), and that of a
    # shared operand (not b), which sums over all examples, including 0 * inf.
    used = dce(program)[1]
    inexact = [u and dtypes.is_inexact(a.dtype) for a, u in zip(program.in_avals, used)]
    if not any(inexact) or chosen.shape == (0,):
        return list(args)
    shared = any(f and not b for f, b in zip(inexact, on))
    # If no example is chosen, `first` is 0; then the derivative of shared operands is cut below.
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


def _select(pred: Value, on_true: Value, on_false: Value) -> Value:
    """Select whole examples by one bool each."""
    shape = typeof(on_true).shape
    return lax.select(lax.broadcast_in_dim(pred, shape, (0,)) if len(shape) > 1 else pred, on_true, on_false)


def _is_bounded(w: RegionView) -> bool:
    """Return whether a loop has an iteration bound. Without one it has no reverse-mode derivative to protect."""
    return bool(w.region_signature.max_iters) and w.params[w.region_signature.max_iters] is not None


# --- a test per example -------------------------------------------------------------------------------------------
def _batch_loop(w: RegionView, axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], ops: Flags,
                test_program: ClosedJaxpr) -> RuleResult:
    """Batch a loop whose test is batched: all carries are batched, and one more carry holds the active flags."""
    test, body = w.regions
    effect = find_unrepeatable_effect(test.program) or find_unrepeatable_effect(body.program)
    if effect is not None:
        raise MissingRuleError(f"vmap of a {w.prim.name} whose test differs between examples is not defined when an iteration "
                               f"calls `{effect}`: iterations run for all examples until the last is done. Use lax.map "
                               "instead of vmap")
    n, m = len(args), w.n_results
    consts = [i for i in range(n) if w.kinds[i] == CONST]
    carry = range(n)[w.carry]
    flags = tuple([ops[i] for i in body.ins])
    checks = [has_checks(p.program) for p in w.regions]
    if checks[1]:
        batched = batch_program(mask_checks(body.program), axis, (*flags, True), True).program
    else:
        batched = batch_program(body.program, axis, flags, True).program
    if checks[0]:  # checks in the test apply to examples that were active in the iteration before
        tested = tuple([ops[i] for i in test.ins])
        test_program = batch_program(mask_checks(test.program), axis, (*tested, True), True).program
    bounded = _is_bounded(w)

    def make() -> Any:
        inner = {**dict(zip(test.ins, test_program.in_avals)), **dict(zip(body.ins, batched.in_avals))}  # without guards

        def step(*xs: Value) -> list[Value]:
            # before: operand number -> its value at the start of the iteration; -1: which examples are active. The
            # iteration runs for all examples; `_select` keeps the values of finished ones.
            before = dict(zip([*consts, -1, *carry], xs))
            operands = [before[i] for i in body.ins]
            given = _mask_unchosen(batched, before[-1], operands, flags) if bounded else operands
            new = eval_jaxpr(batched, [*given, *[before[-1]] * checks[1]])
            after = dict(zip(carry, [_select(before[-1], a, before[i]) for a, i in zip(new, carry)]))
            still_active = eval_jaxpr(test_program, [*[after.get(i, before[i]) for i in test.ins], *[before[-1]] * checks[0]])
            return [*still_active, *after.values()]

        pred = test_program.out_avals[0]
        any_active = stage(lambda go: [lax.reduce_or(go, (0,))], [pred])[0]
        made = stage(step, [*[inner[i] for i in consts], pred, *[inner[i] for i in carry]])[0]
        made.memo("source", lambda: body.program.memo("source", lambda: None))
        # The constants of test and body become constants of the body: the new test reads only the active flags (operand
        # k).
        group, last = w.region_signature.group(CONST), w.groups[carry[0]]
        specs = [*[OperandSpec(group, inner[i]) for i in consts],  # type: ignore[arg-type]  # constants have a group
                 OperandSpec(last, pred), *[OperandSpec(last, inner[i]) for i in carry]]
        k = len(consts)
        return test.program, w.rebuild(specs, [OperandSpec(0)] * (m + 1),
                                       [(any_active, [k], [0]), (made, range(n + 1), range(m + 1))])

    key = ("each stops", axis, ops, bounded, id(test.program), w.params.get(w.region_signature.max_iters),
           w.groups.count(0), w.prim)
    rebuilt = body.program.memo_with_settings(key, make)[1]
    ins = [_materialise_if(args[i], dims[i], 0, ops[i], axis.size) for i in range(n)]
    # The first test runs before the loop; each later test runs at the end of the iteration before.
    first = eval_jaxpr(test_program, [*[ins[i] for i in test.ins], *[np.ones(axis.size, np.bool_)] * checks[0]])
    given = [*[ins[i] for i in consts], *first, *[ins[i] for i in carry]]
    outs = bind(w.prim, *[given[i] for i in rebuilt.operands], **rebuilt.params)
    return outs[1:], [0] * m


# --- default rules ------------------------------------------------------------------------------------------------
def make_higher_order_rule(prim: Primitive) -> Function:
    """Return the batching rule that follows from the region signature of a primitive.

    It is the default rule of primitives whose region signature determines batching. A custom rule may delegate to it.

    Args:
      prim: the primitive.
    Returns:
      A rule for `batching_rules`.

    >>> from lamina_batching import vmap
    >>> from lamina_batching.extend import batching_rules
    >>> with batching_rules.override(prims.cond_p, make_higher_order_rule(prims.cond_p)):
    ...     vmap(lambda x: lax.cond(x < 1, lax.neg, lax.abs, x))(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    def rule(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], /, **params: ParamValue) -> RuleResult:
        return batch_higher_order(prim, axis, args, dims, params)
    return rule


def _default_rule(prim: Primitive) -> Function | None:
    """Return the rule of a primitive without a defined one; None if its region signature does not determine it."""
    flow = prim.region_signature
    return None if flow is None or flow.indivisible or flow.remat_policy or flow.jvp_rule else make_higher_order_rule(prim)


batching_rules.default = _default_rule
