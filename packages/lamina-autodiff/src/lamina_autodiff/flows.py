"""Derivatives of equations with programs, along their flow: one row for calls, branches, loops and maps, whoever's they are.

Forward, f(x) becomes (f(x), f'(x) dx) program by program: a tangent goes in and comes out like its primal. A carry has a
tangent if any turn gives it one, which is a fixpoint. Linearized, each program is split into what runs now and its linear
part, f(x) and r -> (dx -> f'(x) dx), and `lamina_ir.stages.divide` lays the residuals r between the two equations.

Transposed, a call is a call of the transpose, and a branch is chosen by the same index. For a scan
    c[t+1] = A[t] c[t] + B[t] x[t] + C[t] k,    y[t] = D[t] c[t] + E[t] x[t] + F[t] k
with cotangents g of the last carry and v of y, the cotangents run back through the loop:
    c*[t] = A[t]' c*[t+1] + D[t]' v[t],  x*[t] = B[t]' c*[t+1] + E[t]' v[t],  k* = sum over t of C[t]' c*[t+1] + F[t]' v[t]
so cotangents of carries are carried, in the other direction, those of slices are stacked, and those of held operands are
summed on the way, as one more carry.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, Eqn, Literal, UnboundedLoopError, Var, dce, dtypes, prims
from lamina_ir.extend import HELD, Slot, Wired, as_scan, backward, divide, forward, in_stretches, stack_depth, with_signature
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, stage, typeof

from .counting import from_outside, still_open
from .dependence import active_results, needs, reaches, refuse_effects_twice
from .jvp import instantiate
from .linear import is_linear
from .programs import jvp_program, linearize_program, pull_back, transpose_program
from .rows import Split, nonzero, row_of_facts, spread
from .tables import jvp_rules, transpose_rules

__all__ = ["flow_jvp", "flow_linearize", "flow_row", "flow_transpose"]

Flags = tuple[bool, ...]


def _remembered(w: Wired, what: Any, make: Callable[[], Any]) -> Any:
    """`make()`, remembered with the body, whatever else its op holds or says."""
    own = w.bodies[0].program
    others = [p.program for p in w.wires if p.program is not own]  # a program that held itself would wait for the collector
    try:
        key = ("flow", what, w.key())
    except TypeError:  # a param that cannot be hashed
        return make()

    def made() -> Any:
        with stack_depth.roomy():  # to look into programs nested in one another
            return others, make()

    return own.derived(key, made)[1]


def _inside(w: Wired) -> Any:
    """The axes that a map binds, in scope, for deriving programs of its body: from outside."""
    return from_outside(w.flow.axes(w.params), w.bodies[0].program) if w.flow.binds else contextlib.nullcontext()


def _still(w: Wired, on: Flags) -> bool:
    """Whether no result can have a tangent: no operand has one, or all results are integers and truth values."""
    return not any(on) or not any(dtypes.is_inexact(v.aval.dtype) for v in w.bodies[0].program.jaxpr.outvars)


def _unmoved(w: Wired, primals: Sequence[Any]) -> Any:
    outs = bind(w.prim, *primals, **w.unspent())
    return outs, [None] * len(outs)


class _Active(NamedTuple):
    ops: Flags  # which operands have a tangent, carries as they are once settled
    moved: list[int]  # those that some body takes
    wanted: Flags  # results that must have one, be it zero, for programs to fit each other

    def of(self, ins: Sequence[int]) -> Flags:
        return tuple([self.ops[i] for i in ins])


def _active(w: Wired, on: Flags) -> _Active:
    # Alternatives must give the same results, and a body must hand on what it takes: there a zero tangent is written out.
    ops, wanted = on, ()
    if w.n_carry or len(w.bodies) > 1:
        ops, outs = forward(w, on, lambda wire, marks: active_results(wire.program, marks))
        wanted = outs if len(w.bodies) > 1 else outs[:w.n_carry] + (False,) * (w.n_results - w.n_carry)
    taken = {i for b in w.bodies for i in b.ins}
    return _Active(ops, [i for i, a in enumerate(ops) if a and i in taken], wanted)


def _tangent_slots(w: Wired, moved: Sequence[int]) -> list[Slot]:
    return [Slot(w.groups[i], w.type_inside(i).strong(), i) for i in moved]


# --- forwards -----------------------------------------------------------------------------------------------------
def flow_jvp(prim: Any, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """One equation whose programs have tangents beside their values."""
    w, on = Wired(prim, params, len(primals)), tuple([t is not None for t in tangents])
    if _still(w, on):
        return _unmoved(w, primals)

    def make() -> Any:
        # Of the new equation: operands are the n primals, then the tangents of `moved`; results the m, then those of `pushed`.
        n, m = len(on), w.n_results
        a = _active(w, on)
        with _inside(w):
            pushes = [jvp_program(b.program, a.of(b.ins), a.wanted) for b in w.bodies]
        out_on = pushes[0].active_out
        pushed = [j for j, o in enumerate(out_on) if o]
        at = {i: n + k for k, i in enumerate(a.moved)}
        programs: list[tuple[ClosedJaxpr, Sequence[int], Sequence[int]]] = [
            (b.program, b.ins, [0]) for b in w.wires if b.decides]  # a test reads values alone
        programs += [(p.program, [*b.ins, *[at[i] for i in b.ins if i in at]], range(m + len(pushed)))
                     for p, b in zip(pushes, w.bodies)]
        results = [*w.results(), *[Slot(int(j >= w.n_carry), None, j) for j in pushed]]
        written = w.write([*w.operands(same=False), *_tangent_slots(w, a.moved)], results, programs)
        if w.flow.test:
            # Where the loop stands, for the error of one that is reversed and has no bound.
            new = written.params[w.flow.body]
            new.memo("source", lambda: w.bodies[0].program.memo("source", lambda: None))
        return written, a.moved, out_on

    written, moved, out_on = _remembered(w, ("jvp", on), make)
    given = [*primals, *[instantiate(tangents[i], primals[i]) for i in moved]]
    outs = written.back(bind(prim, *[given[i] for i in written.operands], **written.params))
    return outs[:len(out_on)], spread(outs[len(out_on):], out_on)


# --- linearized ---------------------------------------------------------------------------------------------------
def flow_linearize(trace: Any, prim: Any, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """Two equations: what runs now and leaves residuals, and the linear part that reads them."""
    w, on = Wired(prim, params, len(primals)), tuple([t is not None for t in tangents])
    if _still(w, on):
        return _unmoved(w, primals)
    if w.flow.test:
        refuse_effects_twice(f"a {prim.name}_loop", *[b.program for b in w.wires])
        if not w.flow.bound or params[w.flow.bound] is None:  # the whole loop over again: it can be pushed, not pulled back
            return bind(prim, *primals, **w.unspent()), flow_jvp(prim, primals, tangents, params)[1]
    if w.flow.loops and not w.stacks:
        scan, takes = _remembered(w, "stretches", lambda: _as_scan(w, in_stretches if w.flow.test else as_scan))
        outs, pushed = flow_linearize(trace, prims.scan_p, [i.val if type(i) is Literal else primals[i] for i in takes],
                                      [None if type(i) is Literal else tangents[i] for i in takes], scan)
        return outs[:w.n_results], pushed[:w.n_results]  # behind them there may be a number of turns
    ins, ahead, one, two, outs, tangent_vars, moved, pushed = _remembered(w, ("linearize", on), lambda: _divided(w, on))
    # env: values of the variables of the two equations. `one` runs now; `two`, on tangents, which are variables, is recorded.
    env = dict(zip(ins, primals))
    for call in ahead:
        env.update(zip(call.outvars, eval_jaxpr(call.params["call_jaxpr"], [env[v] for v in call.invars])))
    env.update(zip(one.outvars, bind(prim, *[env[v] for v in one.invars], **one.params)))
    found = [env[v] for v in outs]
    if all(v is None for v in pushed):
        return found, [None] * len(found)
    env.update(zip(tangent_vars, [instantiate(tangents[i], primals[i]) for i in moved]))
    env.update(zip(two.outvars, trace.linear.write(prim, [env[v] for v in two.invars], two.params)))
    return found, [None if v is None else env[v] for v in pushed]


def _as_scan(w: Wired, loop: Callable[[Eqn], Any] = as_scan) -> tuple[dict[str, Any], list[Any]]:
    """Params of the scan that is this loop, and what it takes: numbers of operands, or literals."""
    ins = [Var(w.type_inside(i)) for i in range(len(w.groups))]
    e = loop(Eqn(w.prim, ins, [Var(a) for a in w.bodies[0].program.out_avals], w.params))
    return e.params, [v if type(v) is Literal else ins.index(v) for v in e.invars]


def _divided(w: Wired, on: Flags) -> tuple[Any, ...]:
    a = _active(w, on)
    with _inside(w):
        parts = [linearize_program(b.program, a.of(b.ins), a.wanted) for b in w.bodies]
    out_on = parts[0].active_out
    ins = [Var(w.type_inside(i)) for i in range(len(on))]
    outs = [Var(v) for v in w.bodies[0].program.out_avals]
    tangent_vars = [Var(w.type_inside(i).strong()) for i in a.moved]
    pushed = [Var(v.aval.strong()) if o else None for v, o in zip(outs, out_on)]
    # Late is one tangent per moved operand, which goes in like its primal; the rest one per result that has a tangent.
    e = Eqn(w.prim, ins, outs, w.params)
    ahead, one, two = divide(e, [(p.known, p.linear) for p in parts], range(len(ins)), range(len(outs)),
                             list(zip(a.moved, tangent_vars)), [(j, v) for j, v in enumerate(pushed) if v is not None], w)
    return ins, ahead, one, two, outs, tangent_vars, a.moved, pushed


# --- transposed ---------------------------------------------------------------------------------------------------
def flow_transpose(prim: Any, cts: Sequence[Any], args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The cotangents of the operands that are linear variables, None for others."""
    w = Wired(prim, params, len(args))
    given = tuple([is_linear(a) for a in args])
    if w.chooser is not None and given[w.chooser]:
        raise TypeError(f"linear_transpose: the predicate of a {prim.name} depends on the arguments, so the function is not "
                        "linear")
    if w.flow.loops:
        back = _loop_transpose(w, cts, args, given)
    else:
        back = _call_transpose(w, cts, args, given)
    return back[0] if len(args) == 1 else back


def _call_transpose(w: Wired, cts: Sequence[Any], args: Sequence[Any], linear: Flags) -> list[Any]:
    active = tuple([ct is not None for ct in cts])
    operands = [i for i in w.bodies[0].ins if linear[i]]
    held = [i for i, on in enumerate(linear) if not on]
    decides = frozenset[Any]() if w.chooser is None else typeof(args[w.chooser]).over  # what it gives differs over that too

    def make() -> Any:
        # x* = A' y*, by the transpose of each body. Branches must agree on what has a cotangent: what one needs, all give.
        wanted: Flags = ()
        if len(w.bodies) > 1:
            ops, _ = backward(w, active, lambda wire, marks: needs(wire.program, marks), linear)
            wanted = tuple([bool(ops[i]) for i in operands])
            if not any(wanted):
                return None, wanted, ()
        with _inside(w):
            overs = [decides.union(*[a.over for a in some])
                     for some in zip(*[b.program.out_avals for b in w.bodies], strict=True)]
            open = len(w.bodies) == 1  # sums over members are made behind a call, but in branches, which give the same
            backs = [transpose_program(b.program, tuple([linear[i] for i in b.ins]), active, wanted, tuple(overs), open)
                     for b in w.bodies]
        out_on = backs[0].active_out
        # The cotangents that there are go in as held operands, behind the values that are known.
        at = {i: k for k, i in enumerate(held)}
        slots = [*w.operands(held, same=False), *[Slot(w.flow.group(HELD))] * sum(active)]  # type: ignore[arg-type]
        programs = [(p.program, [*[at[i] for i in b.ins if i in at], *range(len(held), len(slots))], range(sum(out_on)))
                    for p, b in zip(backs, w.bodies)]
        return w.write(slots, [Slot(1)] * sum(out_on), programs), out_on, backs[0].program.out_avals

    written, out_on, avals = _remembered(w, ("transpose", linear, active, decides), make)
    if written is None:
        return [None] * len(args)
    values = [*[args[i] for i in held], *nonzero(cts)]
    found = written.back(bind(w.prim, *[values[i] for i in written.operands], **written.params))
    if len(w.bodies) == 1:
        found = still_open(found, avals, [args[i].aval.over for i, on in zip(operands, out_on) if on])
    back = dict(zip(operands, spread(found, out_on)))
    return [back.get(i) for i in range(len(args))]


def _loop_transpose(w: Wired, cts: Sequence[Any], args: Sequence[Any], given: Flags) -> list[Any]:
    if w.flow.test and (not w.flow.bound or w.params[w.flow.bound] is None):
        where = w.bodies[0].program.memo("source", lambda: None)
        at = f" at {where}" if where is not None else ""
        raise UnboundedLoopError(
            f"reverse derivative of the {w.prim.name}_loop{at}: the number of iterations is not known before the loop has run, "
            "so there is no telling how much to remember. Bound it with while_loop(..., max_iters=n), use fori_loop with "
            "bounds that are Python integers, or scan; forward derivatives (jvp, jacfwd) work as it is")
    if w.prim is not prims.scan_p:
        params, order = _remembered(w, "scan", lambda: _as_scan(w))
        scan = Wired(prims.scan_p, params, len(order))
        found = _loop_transpose(scan, cts, [args[i] for i in order], tuple([given[i] for i in order]))
        back: list[Any] = [None] * len(args)
        for i, ct in zip(order, found):
            back[i] = ct
        return back
    # carry: the numbers of the carried operands; n: how many. linear: operands that are linear variables, carries too if any
    # turn makes them so. active: results with a cotangent, a carry's only where it is linear. need: operands that get one.
    carry, n = range(len(args))[w.carry], w.n_carry
    with stack_depth.roomy():
        linear, _ = forward(w, given, lambda wire, marks: reaches(wire.program, marks))
        active = tuple([ct is not None and (j >= n or linear[carry[j]]) for j, ct in enumerate(cts)])
        need, active = backward(w, active, lambda wire, marks: needs(wire.program, marks), linear)
    ins = w.bodies[0].ins
    held = [i for i in ins if not linear[i] and i not in carry]
    values = [args[i] for i in held]
    ahead: list[Any] = []
    late = [i for i in carry if not linear[i]]
    if late:  # counters and the like, which do not depend on linear values: their loop runs first, and stacks them
        ahead = _run_ahead(w, args, late, held)
    # Values the backward turns read: `fixed` ones, `slices`, and `late` carries as each turn began with them. Cotangents:
    # `sums` for what is held, `states` for carries, `cuts` for slices; `ys` are the stacked results that have one.
    fixed = [i for i in held if w.kinds[i] == HELD]
    slices = [i for i in held if w.kinds[i] != HELD]
    sums = [i for i in ins if w.kinds[i] == HELD and need[i]]
    states = [i for i in carry if need[i]]
    cuts = [i for i in ins if w.kinds[i] != HELD and i not in carry and need[i]]
    ys = [j for j in range(n, w.n_results) if active[j]]
    key = ("transpose", linear, active, need)
    body = _remembered(w, key, lambda: _backward_body(w, linear, need, active, fixed, slices, late, sums, states, cuts, ys))
    start = [instantiate(None, w.type_inside(i).strong()) for i in sums]
    start += [instantiate(cts[i - carry[0]], w.type_inside(i).strong()) for i in states]
    params = {**w.params, "jaxpr": body, "reverse": not w.params["reverse"], "num_consts": len(fixed), "num_carry": len(start)}
    by_number = dict(zip(held, values))
    outs = bind(prims.scan_p, *[by_number[i] for i in fixed], *start, *[by_number[i] for i in slices], *ahead,
                *[cts[j] for j in ys], **params)
    outs = [*still_open(outs[:len(sums)], body.out_avals, [w.type_inside(i).over for i in sums]), *outs[len(sums):]]
    # A carry that starts from a value and becomes linear on the way has a cotangent that belongs to no one.
    back = [None] * len(args)
    for i, ct in zip((*sums, *states, *cuts), outs):
        back[i] = ct if given[i] else None
    return back


def _backward_body(w: Wired, linear: Flags, need: Sequence[Any], active: Sequence[Any], fixed: Sequence[int],
                   slices: Sequence[int], late: Sequence[int], sums: Sequence[int], states: Sequence[int],
                   cuts: Sequence[int], ys: Sequence[int]) -> ClosedJaxpr:
    """fixed, sums, cotangents of the carry, slices, carries run ahead, cotangents of the slices of the results -> sums,
    cotangents of the carry, cotangents of the slices."""
    # xs come group by group; parts: the same, cut up again. One turn: c*, x*, k* of the formula above, k* onto the sums so
    # far.
    body = w.bodies[0]
    first = range(len(w.groups))[w.carry].start
    groups = [[w.type_inside(i) for i in fixed], [w.type_inside(i).strong() for i in sums],
              [w.type_inside(i).strong() for i in states], [w.type_inside(i) for i in slices],
              [w.type_inside(i) for i in late], [body.program.out_avals[j].strong() for j in ys]]

    def run(*xs: Any) -> list[Any]:
        parts, rest = [], iter(xs)
        for group in groups:
            parts.append([next(rest) for _ in group])
        values = dict(zip([*fixed, *slices, *late], [*parts[0], *parts[3], *parts[4]]))
        # By number of result; operand i of the carry is result i - first.
        given: dict[int, Any] = dict(zip([i - first for i in states], parts[2])) | dict(zip(ys, parts[5]))
        cts = [given.get(j) for j in range(w.n_results)]
        on = [linear[i] for i in body.ins]
        overs = [a.over for a in body.program.out_avals]
        overs[:w.n_carry] = [w.type_inside(i).over for i in range(first, first + w.n_carry)]
        found = pull_back(body.program, on, [values[i] for i in body.ins if not linear[i]], cts,
                          overs, [i in sums for i, on in zip(body.ins, on) if on])
        back = dict(zip([i for i in body.ins if linear[i]], found))
        ct = {i: instantiate(back[i], w.type_inside(i)) for i in [*sums, *states, *cuts]}
        return [*[lax.add(t, ct[i]) for t, i in zip(parts[1], sums)], *[ct[i] for i in [*states, *cuts]]]

    return stage(run, [a for group in groups for a in group])[0]


def _run_ahead(w: Wired, args: Sequence[Any], late: Sequence[int], held: Sequence[int]) -> list[Any]:
    """The loop of the carries that do not depend on linear values: each of them, stacked as it was before each turn."""
    body = w.bodies[0].program
    first = range(len(w.groups))[w.carry].start
    invars = dict(zip(w.bodies[0].ins, body.jaxpr.invars))
    # Results: what each late carry becomes, and what it was (an argument), which the loop stacks. Arguments that are not taken
    # stand last, where `dce` may drop them without moving others.
    takes = sorted([*held, *late])
    outvars = [body.jaxpr.outvars[i - first] for i in late] + [invars[i] for i in late]
    rest = body.memo(("ahead of the transpose", tuple(takes), tuple(late)), lambda: dce(
        with_signature(body, [invars[i] for i in takes] + [v for i, v in invars.items() if i not in takes], outvars),
        instantiate=[True] * len(takes) + [False] * (len(invars) - len(takes)))[0])
    results = [*[Slot(0)] * len(late), *[Slot(1)] * len(late)]
    written = w.write(w.operands(takes), results, [(rest, range(len(takes)), range(2 * len(late)))])
    outs = written.back(bind(w.prim, *[args[takes[k]] for k in written.operands], **written.params))
    return outs[len(late):]


# --- the rows -----------------------------------------------------------------------------------------------------
def _follows(prim: Any) -> bool:
    """Whether the flow of an op tells its derivatives: it is not kept whole, has no rule, and no policy of its own."""
    flow = prim.flow
    return flow is not None and not (flow.whole or flow.again or flow.rule)


def flow_row(prim: Any) -> Split:
    """The forward row that follows from the flow of an op.

    Ops with a flow that tells all have it without being asked; a row of their own may call it where it has nothing to add.

    Args:
      prim: the op.
    Returns:
      A row of `jvp_rules`.

    >>> from lamina_autodiff import jvp
    >>> with jvp_rules.override(prims.cond_p, flow_row(prims.cond_p)):
    ...     jvp(lambda x: lax.cond(True, lax.sin, lax.cos, x), (0.0,), (1.0,))[1]
    Array(1., dtype=float32, weak_type=True)
    """
    return Split(lambda primals, tangents, /, **params: flow_jvp(prim, primals, tangents, params),
                 lambda trace, primals, tangents, /, **params: flow_linearize(trace, prim, primals, tangents, params))


def _forward_row(prim: Any) -> Any:
    """The row of an op without one of its own: by its flow, else by where it is linear."""
    return flow_row(prim) if _follows(prim) else row_of_facts(prim)


def _transpose_row(prim: Any) -> Any:
    if not _follows(prim) or prim.flow.binds:  # a map's shares and sums depend on where its results lie
        return None
    return lambda cts, /, *args, **params: flow_transpose(prim, cts, args, params)


jvp_rules.default = _forward_row
transpose_rules.default = _transpose_row
