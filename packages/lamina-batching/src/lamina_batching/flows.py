"""Batches of equations with programs, along their flow: one row for calls, branches, loops and maps, whoever's they are.

An operand that carries the batch takes it into the programs, and a result comes out with it if it depends on one that
does. In a loop that goes round: a carry has the batch if it starts with it, or if any turn gives it one, and the batched
body must hand on what it takes; so the marks are settled first and the body is batched once, for them.

What decides may differ between examples. With an index per example all branches run and results are selected, and examples
that chose another branch neither have a derivative through it nor spoil that of the others (see `_shielded`). With a test
per example the loop goes on while any holds, and examples that are done keep their values.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_ir import (ClosedJaxpr, MissingRuleError, dce, dtypes, guarded, happens_once, has_checks, only_checks,
                       prims, shaped)
from lamina_ir.extend import HELD, STACKED, Slot, Wired, forward
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, bind, bound_axes, eval_jaxpr, stage, typeof

from .batch import BatchAxis, batch_program, materialise, move_to
from .tables import batching_rules

__all__ = ["flow_batch", "flow_row"]

Flags = tuple[bool, ...]


def flow_batch(prim: Any, axis: BatchAxis, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any],
               batch: Callable[..., Any] = batch_program) -> Any:
    """The row of an op with a flow.

    Args:
      prim: the op.
      axis: the batch.
      args: its operands.
      dims: for each where it carries the batch, or None.
      params: its params.
      batch: what makes batched programs of those it holds, as `batch_program` does.
    Returns:
      Its results, and where they carry the batch.

    >>> step = stage(lambda c, x: [lax.add(c, x), c], [shaped((), np.dtype("float32"))] * 2)[0]
    >>> params = dict(jaxpr=step, length=3, num_consts=0, num_carry=1, reverse=False, unroll=1)
    >>> flow_batch(prims.scan_p, BatchAxis(2), [np.float32(0), np.ones((2, 3), np.float32)], [None, 0], params)[1]
    [0, 1]
    """
    w, on = Wired(prim, params, len(args)), tuple([d is not None for d in dims])
    binds, scope = w.flow.binds, contextlib.nullcontext()
    if binds is not None:
        scope = bound_axes(*[AxisFrame(name, size) for name, size in binds.axes(params)])  # type: ignore[assignment]
        if axis.name in binds.names(params):
            axis = axis._replace(name=None)  # an inner axis hides an outer one of its name
    with scope:
        # ops: operands that carry the batch once carries have settled; outs: results that do. The rounds batch the body for
        # marks that may grow still; programs made on the way are remembered, and the last one is the one that is used.
        ops, outs = forward(w, on, lambda wire, marks: batch(wire.program, axis, marks).batched_out)
        if w.chooser is not None and on[w.chooser]:
            return _each_chooses(w, axis, args, dims)
        if w.flow.test:
            truth = batch(w.wires[0].program, axis, tuple([ops[i] for i in w.wires[0].ins]))
            if truth.batched_out[0]:
                if _is_bounded(w) and not only_checks(w.wires[1].program):  # as for branches that report
                    ops = (True,) * len(ops)
                    truth = batch(w.wires[0].program, axis, tuple([ops[i] for i in w.wires[0].ins]))
                return _each_stops(w, axis, args, dims, ops, truth.program)
        # Branches must give the same results, and a body must hand on what it takes: there an unbatched result is repeated.
        wanted: Any = outs if len(w.bodies) > 1 else outs[:w.n_carry] + (False,) * (w.n_results - w.n_carry)
        made = [batch(p.program, axis, tuple([ops[i] for i in p.ins]), False if p.decides else wanted) for p in w.wires]
    n = len(args)
    written = w.write(w.operands(), w.results(), [(b.program, p.ins, [0] if p.decides else range(w.n_results))
                                                  for b, p in zip(made, w.wires)])
    out_on = made[-1].batched_out
    new = written.params
    if binds is not None:
        for p, flags in ((binds.ins, on), (binds.outs, out_on)):
            new[p] = tuple([binds.behind_batch(entry) if b else entry for entry, b in zip(new[p], flags)])
    if w.flow.test:
        new[w.flow.body].memo("source", lambda: w.bodies[0].program.memo("source", lambda: None))
    # The batch is axis 0 of what a turn sees, so axis 1 of what is stacked.
    ins = [_placed(args[i], dims[i], 1 if w.kinds[i] == STACKED else 0, ops[i], axis.size) for i in range(n)]
    found = bind(prim, *ins, **new)
    late = 1 if w.flow.loops else 0  # behind the axis of what is stacked
    return found, [None if not b else 0 if j < w.n_carry else late for j, b in enumerate(out_on)]


def _placed(x: Any, dim: int | None, at: int, wanted: bool, size: int) -> Any:
    return materialise(x, dim, size, at) if wanted else x


# --- an index per example -----------------------------------------------------------------------------------------
def _each_chooses(w: Wired, axis: BatchAxis, args: Sequence[Any], dims: Sequence[int | None]) -> Any:
    branches, ins = [b.program for b in w.bodies], w.bodies[0].ins
    effect = next(filter(None, map(happens_once, branches)), None)
    if effect is not None:
        raise MissingRuleError(f"vmap of a {w.prim.name} whose predicate differs between examples is not defined when a branch "
                               f"calls `{effect}`: it would run all branches for all examples. Use lax.map instead of vmap")
    # What reports shall tell of each example its own values, so there every example has an operand of its own: see _shielded.
    on = tuple([dims[i] is not None for i in ins])
    if any(on) and not all(map(only_checks, branches)):
        on = (True,) * len(ins)
    moved = [_placed(args[i], dims[i], 0, b, axis.size) for i, b in zip(ins, on)]
    index = move_to(args[w.chooser], dims[w.chooser], 0)  # type: ignore[index, arg-type]
    outs = bind(prims.xla_call_p, index, *moved, call_jaxpr=_selection(branches, axis, on),
                **{**prims.xla_call_p.defaults, "name": w.prim.name, "inline": True})
    return outs, [0] * len(outs)


def _selection(branches: Sequence[ClosedJaxpr], axis: BatchAxis, on: Flags) -> ClosedJaxpr:
    """All branches, and per example the results of the one its index says."""
    def make() -> Any:
        # What checks ask for is asked of the examples that chose their branch; the last one takes all other indices.
        checks = [has_checks(b) for b in branches]
        made = [batch_program(guarded(b), axis, (*on, True)) if c else batch_program(b, axis, on)
                for b, c in zip(branches, checks)]
        avals = [shaped((axis.size,), np.dtype("int32")), *made[0].program.in_avals[:len(on)]]

        def run(index: Any, *args: Any) -> list[Any]:
            chosen = [lax.eq(index, np.int32(k)) for k in range(len(branches))]
            asked = list(chosen)
            if checks[-1]:
                asked[-1] = lax.bitwise_or(lax.lt(index, np.int32(0)), lax.ge(index, np.int32(len(branches) - 1)))
            given = [[*_shielded(m.program, mine, args, on), *[ask] * c]
                     for m, mine, ask, c in zip(made, chosen, asked, checks)]
            results = [[materialise(o, 0 if b else None, axis.size) for o, b in zip(eval_jaxpr(m.program, xs), m.batched_out)]
                       for m, xs in zip(made, given)]
            # An index that is none of the others runs the last branch, with and without a batch.
            found = results[-1]
            for k in range(len(results) - 1):
                found = [_select(chosen[k], a, b) for a, b in zip(results[k], found)]
            return found

        return branches, stage(run, avals)[0]

    key = ("selection", axis, on, tuple(map(id, branches)))
    return branches[0].derived(key, make)[1]


def _shielded(program: ClosedJaxpr, chosen: Any, args: Sequence[Any], on: Flags) -> list[Any]:
    """Operands of a batched program whose results are used for the `chosen` examples only, with derivatives cut where
    they are not: the slopes of the other examples may be infinite or NaN, and zero times those is not zero.

    A copy per example of what the examples share would take too much memory. Where there is such an operand, the other
    examples compute what the first chosen one does instead, so that what they add to its derivative is zero.
    """
    # Two ways that an example which chose otherwise would spoil a derivative: its own operand (b: batched), where the slope
    # may be infinite, and an operand that all share (not b), whose derivative sums over all examples, 0 * inf among them.
    used = dce(program)[1]
    inexact = [u and dtypes.is_inexact(a.dtype) for a, u in zip(program.in_avals, used)]
    if not any(inexact) or chosen.shape == (0,):
        return list(args)
    shared = any(f and not b for f, b in zip(inexact, on))
    # Of no chosen example at all it is 0: then the shared operands are cut off altogether, below.
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


def _is_bounded(w: Wired) -> bool:
    """Whether a loop has a bound: without one there is no reverse derivative."""
    return bool(w.flow.bound) and w.params[w.flow.bound] is not None


# --- a test per example -------------------------------------------------------------------------------------------
def _each_stops(w: Wired, axis: BatchAxis, args: Sequence[Any], dims: Sequence[int | None], ops: Flags,
                truth: ClosedJaxpr) -> Any:
    """The loop carries, besides, which examples go on. All carries have the batch by now."""
    test, body = w.wires
    effect = happens_once(test.program) or happens_once(body.program)
    if effect is not None:
        raise MissingRuleError(f"vmap of a {w.prim.name} whose test differs between examples is not defined when a turn calls "
                               f"`{effect}`: turns run for all examples until the last is done. Use lax.map instead of vmap")
    n, m = len(args), w.n_results
    held = [i for i in range(n) if w.kinds[i] == HELD]
    carry = range(n)[w.carry]
    flags = tuple([ops[i] for i in body.ins])
    checks = [has_checks(p.program) for p in w.wires]
    if checks[1]:
        batched = batch_program(guarded(body.program), axis, (*flags, True), True).program
    else:
        batched = batch_program(body.program, axis, flags, True).program
    if checks[0]:  # asked of an example by whose truth value the turn before has begun
        tested = tuple([ops[i] for i in test.ins])
        truth = batch_program(guarded(test.program), axis, (*tested, True), True).program
    bounded = _is_bounded(w)

    def make() -> Any:
        inner = {**dict(zip(test.ins, truth.in_avals)), **dict(zip(body.ins, batched.in_avals))}  # but what guards them

        def step(*xs: Any) -> list[Any]:
            # before: operand -> its value as the turn begins; -1 is which examples go on. Turns run for all; `_select` keeps
            # what is done.
            before = dict(zip([*held, -1, *carry], xs))
            operands = [before[i] for i in body.ins]
            given = _shielded(batched, before[-1], operands, flags) if bounded else operands
            new = eval_jaxpr(batched, [*given, *[before[-1]] * checks[1]])
            after = dict(zip(carry, [_select(before[-1], a, before[i]) for a, i in zip(new, carry)]))
            goes_on = eval_jaxpr(truth, [*[after.get(i, before[i]) for i in test.ins], *[before[-1]] * checks[0]])
            return [*goes_on, *after.values()]

        pred = truth.out_avals[0]
        goes_on = stage(lambda go: [lax.reduce_or(go, (0,))], [pred])[0]
        made = stage(step, [*[inner[i] for i in held], pred, *[inner[i] for i in carry]])[0]
        made.memo("source", lambda: body.program.memo("source", lambda: None))
        # Held operands of test and body become held by the body alone: the new test reads nothing but the truth values (at k).
        group, last = w.flow.group(HELD), w.groups[carry[0]]
        slots = [*[Slot(group, inner[i]) for i in held],  # type: ignore[arg-type]  # what is held has a group
                 Slot(last, pred), *[Slot(last, inner[i]) for i in carry]]
        k = len(held)
        return test.program, w.write(slots, [Slot(0)] * (m + 1), [(goes_on, [k], [0]), (made, range(n + 1), range(m + 1))])

    key = ("each stops", axis, ops, bounded, id(test.program), w.params.get(w.flow.bound), w.groups.count(0), w.prim)
    written = body.program.derived(key, make)[1]
    ins = [_placed(args[i], dims[i], 0, ops[i], axis.size) for i in range(n)]
    # The test of the first turn is made ahead of the loop, those of the others at the end of the turn before.
    first = eval_jaxpr(truth, [*[ins[i] for i in test.ins], *[np.ones(axis.size, np.bool_)] * checks[0]])
    given = [*[ins[i] for i in held], *first, *[ins[i] for i in carry]]
    outs = bind(w.prim, *[given[i] for i in written.operands], **written.params)
    return outs[1:], [0] * m


# --- the rows -----------------------------------------------------------------------------------------------------
def flow_row(prim: Any) -> Callable[..., Any]:
    """The row that follows from the flow of an op.

    Ops with a flow that tells all have it without being asked; a row of their own may call it where it has nothing to add.

    Args:
      prim: the op.
    Returns:
      A row of `batching_rules`.

    >>> from lamina_batching import vmap
    >>> from lamina_batching.extend import batching_rules
    >>> with batching_rules.override(prims.cond_p, flow_row(prims.cond_p)):
    ...     vmap(lambda x: lax.cond(x < 1, lax.neg, lax.abs, x))(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    def row(axis: BatchAxis, args: Any, dims: Any, /, **params: Any) -> Any:
        return flow_batch(prim, axis, args, dims, params)
    return row


def _by_flow(prim: Any) -> Callable[..., Any] | None:
    """The row of an op without one of its own; None where its flow does not tell."""
    flow = prim.flow
    return None if flow is None or flow.whole or flow.again or flow.rule else flow_row(prim)


batching_rules.default = _by_flow
