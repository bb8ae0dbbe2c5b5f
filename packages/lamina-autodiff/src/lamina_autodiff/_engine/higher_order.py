"""Derivatives of higher-order primitives: one rule for calls, branches, loops and maps, built-in or third-party.

The rules read the region signature of the primitive: how its operands and results pass through its subprograms.

JVP: each subprogram f(x) becomes (f(x), f'(x) dx); a tangent is passed in and out like its primal. A carry has a
tangent if any iteration gives it one; this is a fixpoint.

Linearization: each subprogram is split into a known part, x -> (f(x), residuals r), and a linear part,
(r, dx) -> f'(x) dx. `lamina_ir.extend.split_equation` passes the residuals from the first equation to the second.

Transpose: a call becomes a call of the transpose, and a branch is chosen by the same index. For a scan
    c[t+1] = A[t] c[t] + B[t] x[t] + C[t] k,    y[t] = D[t] c[t] + E[t] x[t] + F[t] k
Write c*[T] and v for the cotangents of the last carry and of y, and ' for the transpose. Then the cotangents are
    c*[t] = A[t]' c*[t+1] + D[t]' v[t],    x*[t] = B[t]' c*[t+1] + E[t]' v[t],
    k* = sum over t of C[t]' c*[t+1] + F[t]' v[t]
So cotangents of carries are carries of a reversed scan, and cotangents of scanned operands are its stacked results. The
cotangent of a constant k is accumulated in one more carry.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

from lamina_ir import ClosedJaxpr, dce, dtypes, Eqn, Literal, Primitive, prims, ShapedArray, UnboundedLoopError, Var
from lamina_ir.extend import (
    as_scan, checkpointed_scan, CONST, OperandSpec, propagate_backward, propagate_forward, RegionView,
    replace_signature, split_equation, stack_depth)
from lamina_ir.typing import CacheKey, Function, Params, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, stage, typeof

from .replicated_cotangents import outside_map_context, scale_unreduced
from .dependence import find_active_results, find_needed_args, find_dependent_results, check_no_repeated_effects
from .jvp_trace import instantiate, JVPTrace
from .linearize import is_linear
from .jaxpr_derivatives import jvp_program, linearize_program, pull_back, transpose_program
from .rule_kinds import LinearizeRule, drop_zeros, rule_from_linearity, expand_by_mask
from .rule_tables import jvp_rules, transpose_rules
from .._typing import Cotangents, RebuiltParams, RuleResult, Tangent

__all__ = ["jvp_higher_order", "linearize_higher_order", "make_higher_order_rule", "transpose_higher_order"]

Flags = tuple[bool, ...]
T = TypeVar("T")


def _cached(w: RegionView, what: CacheKey, make: Callable[[], T]) -> T:
    """Return `make()`, cached on the program of the body; the key covers the other subprograms and params."""
    own = w.bodies[0].program
    # The key holds ids of the other programs, so the cached value keeps them alive. The body itself is left out: a
    # program that referred to itself would be a reference cycle.
    others = [p.program for p in w.regions if p.program is not own]
    try:
        key = ("flow", what, w.key())
    except TypeError:  # a param is not hashable: no caching
        return make()

    def make_entry() -> tuple[list[ClosedJaxpr], T]:
        with stack_depth.with_recursion_limit():  # nested subprograms are visited recursively
            return others, make()

    return own.memo_with_settings(key, make_entry)[1]


def _map_context(w: RegionView) -> AbstractContextManager[object]:
    """Return a context with the axes that a map binds in scope, for deriving its body; empty for other primitives."""
    if not w.region_signature.axis_binding:
        return contextlib.nullcontext()
    return outside_map_context(w.region_signature.axes(w.params), w.bodies[0].program)


def _is_constant(w: RegionView, on: Flags) -> bool:
    """Return whether no result can have a tangent: no operand has one, or all results are integers or booleans."""
    return not any(on) or not any(dtypes.is_inexact(v.aval.dtype) for v in w.bodies[0].program.jaxpr.outvars)


def _bind_without_tangents(w: RegionView, primals: Sequence[Value]) -> RuleResult:
    outs = bind(w.prim, *primals, **w.reset_transient_params())
    return outs, [None] * len(outs)


class _Active(NamedTuple):
    ops: Flags  # which operands have a tangent; for carries the fixpoint over the iterations
    moved: list[int]  # operands with a tangent that some body reads
    required: Flags  # results that must have a tangent array, even if it is zero: branches, or carry in and out, must match

    def of(self, ins: Sequence[int]) -> Flags:
        return tuple([self.ops[i] for i in ins])


def _active(w: RegionView, on: Flags) -> _Active:
    # All branches must return the same results, and a loop body must return the carries it takes: there a zero tangent
    # is instantiated.
    ops, required = on, ()
    if w.n_carry or len(w.bodies) > 1:
        ops, outs = propagate_forward(w, on, lambda wire, marks: find_active_results(wire.program, marks))
        required = outs if len(w.bodies) > 1 else outs[:w.n_carry] + (False,) * (w.n_results - w.n_carry)
    read = {i for b in w.bodies for i in b.ins}
    return _Active(ops, [i for i, a in enumerate(ops) if a and i in read], required)


def _tangent_specs(w: RegionView, moved: Sequence[int]) -> list[OperandSpec]:
    return [OperandSpec(w.groups[i], w.inner_aval(i).strip_weak_type(), i) for i in moved]


# --- JVP ----------------------------------------------------------------------------------------------------------
def jvp_higher_order(prim: Primitive, primals: Sequence[Value], tangents: Sequence[Value],
                     params: Params) -> RuleResult:
    """Bind one equation whose subprograms compute values and tangents."""
    w, on = RegionView(prim, params, len(primals)), tuple([t is not None for t in tangents])
    if _is_constant(w, on):
        return _bind_without_tangents(w, primals)

    def make() -> tuple[RebuiltParams, list[int], Flags]:
        # New equation: operands are the n primals, then the tangents of `moved`; results are the m results, then the
        # tangents of `pushed`.
        n, m = len(on), w.n_results
        a = _active(w, on)
        with _map_context(w):
            pushes = [jvp_program(b.program, a.of(b.ins), a.required) for b in w.bodies]
        out_on = pushes[0].active_out
        pushed = [j for j, o in enumerate(out_on) if o]
        at = {i: n + k for k, i in enumerate(a.moved)}
        programs: list[tuple[ClosedJaxpr, Sequence[int], Sequence[int]]] = [
            (b.program, b.ins, [0]) for b in w.regions if b.is_test]  # a loop test reads primals only
        programs += [(p.program, [*b.ins, *[at[i] for i in b.ins if i in at]], range(m + len(pushed)))
                     for p, b in zip(pushes, w.bodies)]
        results = [*w.results(), *[OperandSpec(int(j >= w.n_carry), None, j) for j in pushed]]
        rebuilt = w.rebuild([*w.operands(same=False), *_tangent_specs(w, a.moved)], results, programs)
        if w.region_signature.test:
            # The source line of the loop, for the error if an unbounded loop is transposed.
            new = rebuilt.params[w.region_signature.body]
            new.memo("source", lambda: w.bodies[0].program.memo("source", lambda: None))
        return rebuilt, a.moved, out_on

    rebuilt, moved, out_on = _cached(w, ("jvp", on), make)
    given = [*primals, *[instantiate(tangents[i], primals[i]) for i in moved]]
    outs = rebuilt.reorder_results(bind(prim, *[given[i] for i in rebuilt.operands], **rebuilt.params))
    return outs[:len(out_on)], expand_by_mask(outs[len(out_on):], out_on)


# --- linearization ------------------------------------------------------------------------------------------------
def linearize_higher_order(trace: JVPTrace, prim: Primitive, primals: Sequence[Value], tangents: Sequence[Value],
                           params: Params) -> RuleResult:
    """Bind the known part, which returns residuals, and record the linear part, which reads them."""
    w, on = RegionView(prim, params, len(primals)), tuple([t is not None for t in tangents])
    if _is_constant(w, on):
        return _bind_without_tangents(w, primals)
    if w.region_signature.test:
        check_no_repeated_effects(f"a {prim.name}_loop", *[b.program for b in w.regions])
        # Unbounded: the linear part repeats the whole loop, so this loop has only a JVP.
        if not w.region_signature.max_iters or params[w.region_signature.max_iters] is None:
            return bind(prim, *primals, **w.reset_transient_params()), jvp_higher_order(prim, primals, tangents, params)[1]
    if w.region_signature.loops and not w.can_add_scanned:
        # Rewrite a loop without scanned operands as a scan, so that residuals can be stacked per iteration.
        scan, operands = _cached(w, "stretches", lambda: _as_scan(w, checkpointed_scan if w.region_signature.test else as_scan))
        outs, pushed = linearize_higher_order(trace, prims.scan_p,
                                              [i.val if type(i) is Literal else primals[i] for i in operands],
                                              [None if type(i) is Literal else tangents[i] for i in operands], scan)
        return outs[:w.n_results], pushed[:w.n_results]  # the scan may return an iteration count after them
    ins, calls, one, two, outs, tangent_vars, moved, pushed = _cached(w, ("linearize", on), lambda: _split(w, on))
    # env: values of the variables of the two equations. `one` is bound now; `two` reads tangents (linear variables) and
    # is recorded.
    env = dict(zip(ins, primals))
    for call in calls:
        env.update(zip(call.outvars, eval_jaxpr(call.params["call_jaxpr"], [env[v] for v in call.invars])))
    env.update(zip(one.outvars, bind(prim, *[env[v] for v in one.invars], **one.params)))
    found = [env[v] for v in outs]
    if all(v is None for v in pushed):
        return found, [None] * len(found)
    env.update(zip(tangent_vars, [instantiate(tangents[i], primals[i]) for i in moved]))
    env.update(zip(two.outvars, trace.linear.record(prim, [env[v] for v in two.invars], two.params)))
    return found, [None if v is None else env[v] for v in pushed]


def _as_scan(w: RegionView, loop: Callable[[Eqn], Any] = as_scan) -> tuple[dict[str, Any], list[Any]]:
    """Return the params of the equivalent scan, and its operands: operand numbers of the loop, or literals."""
    ins = [Var(w.inner_aval(i)) for i in range(len(w.groups))]
    e = loop(Eqn(w.prim, ins, [Var(a) for a in w.bodies[0].program.out_avals], w.params))
    return e.params, [v if type(v) is Literal else ins.index(v) for v in e.invars]


def _split(w: RegionView, on: Flags) -> tuple[Any, ...]:
    """Split an equation into its known part and its linear part; return both with their variables."""
    a = _active(w, on)
    with _map_context(w):
        parts = [linearize_program(b.program, a.of(b.ins), a.required) for b in w.bodies]
    out_on = parts[0].active_out
    ins = [Var(w.inner_aval(i)) for i in range(len(on))]
    outs = [Var(v) for v in w.bodies[0].program.out_avals]
    tangent_vars = [Var(w.inner_aval(i).strip_weak_type()) for i in a.moved]
    pushed = [Var(v.aval.strip_weak_type()) if o else None for v, o in zip(outs, out_on)]
    # Inputs of the linear part: one tangent per moved operand, passed like its primal. Outputs: the tangents of
    # results.
    e = Eqn(w.prim, ins, outs, w.params)
    calls, one, two = split_equation(e, [(p.known, p.linear) for p in parts], range(len(ins)), range(len(outs)),
                                     list(zip(a.moved, tangent_vars)),
                                     [(j, v) for j, v in enumerate(pushed) if v is not None], w)
    return ins, calls, one, two, outs, tangent_vars, a.moved, pushed


# --- transpose ----------------------------------------------------------------------------------------------------
def transpose_higher_order(prim: Primitive, cts: Sequence[Value], args: Sequence[Value], params: Params) -> Cotangents:
    """Return the cotangents of the operands; None for operands that are not linear variables, and for zero."""
    w = RegionView(prim, params, len(args))
    given = tuple([is_linear(a) for a in args])
    if w.selector is not None and given[w.selector]:
        raise TypeError(f"linear_transpose: the predicate of a {prim.name} depends on the arguments, so the function is not "
                        "linear")
    if w.region_signature.loops:
        back = _transpose_loop(w, cts, args, given)
    else:
        back = _transpose_call(w, cts, args, given)
    return back[0] if len(args) == 1 else back


def _transpose_call(w: RegionView, cts: Sequence[Value], args: Sequence[Value], linear: Flags) -> list[Tangent]:
    active = tuple([ct is not None for ct in cts])
    operands = [i for i in w.bodies[0].ins if linear[i]]
    known = [i for i, on in enumerate(linear) if not on]
    # The results of a branch also vary over the axes over which the index varies.
    index_axes = frozenset[Any]() if w.selector is None else typeof(args[w.selector]).varying_axes

    def make() -> tuple[RebuiltParams | None, Flags, Sequence[ShapedArray]]:
        # x* = A^T y* by the transpose of each body. All branches must return the same cotangents: if one branch returns
        # a cotangent, the others instantiate it.
        required: Flags = ()
        if len(w.bodies) > 1:
            ops, _ = propagate_backward(w, active, lambda wire, marks: find_needed_args(wire.program, marks), linear)
            required = tuple([bool(ops[i]) for i in operands])
            if not any(required):
                return None, required, ()
        with _map_context(w):
            varying = [index_axes.union(*[a.varying_axes for a in some])
                       for some in zip(*[b.program.out_avals for b in w.bodies], strict=True)]
            # Sums over mapped axes come after a call. In branches they come inside, so that all return the same types.
            unreduced = len(w.bodies) == 1
            backs = [transpose_program(b.program, tuple([linear[i] for i in b.ins]), active, required, tuple(varying),
                                       unreduced) for b in w.bodies]
        out_on = backs[0].active_out
        # Nonzero cotangents are passed as constant operands after the known values.
        at = {i: k for k, i in enumerate(known)}
        specs = [*w.operands(known, same=False), *[OperandSpec(w.region_signature.group(CONST))] * sum(active)]  # type: ignore[arg-type]
        programs = [(p.program, [*[at[i] for i in b.ins if i in at], *range(len(known), len(specs))], range(sum(out_on)))
                    for p, b in zip(backs, w.bodies)]
        return w.rebuild(specs, [OperandSpec(1)] * sum(out_on), programs), out_on, backs[0].program.out_avals

    rebuilt, out_on, avals = _cached(w, ("transpose", linear, active, index_axes), make)
    if rebuilt is None:
        return [None] * len(args)
    values = [*[args[i] for i in known], *drop_zeros(cts)]
    found = rebuilt.reorder_results(bind(w.prim, *[values[i] for i in rebuilt.operands], **rebuilt.params))
    if len(w.bodies) == 1:
        found = scale_unreduced(found, avals, [args[i].aval.varying_axes for i, on in zip(operands, out_on) if on])
    back = dict(zip(operands, expand_by_mask(found, out_on)))
    return [back.get(i) for i in range(len(args))]


def _transpose_loop(w: RegionView, cts: Sequence[Value], args: Sequence[Value], given: Flags) -> list[Tangent]:
    if w.region_signature.test and (not w.region_signature.max_iters or w.params[w.region_signature.max_iters] is None):
        where = w.bodies[0].program.memo("source", lambda: None)
        at = f" at {where}" if where is not None else ""
        raise UnboundedLoopError(
            f"reverse derivative of the {w.prim.name}_loop{at}: the number of iterations is not known before the loop has run, "
            "so the residuals have no fixed size. Bound it with while_loop(..., max_iters=n), use fori_loop with "
            "bounds that are Python integers, or scan; forward derivatives (jvp, jacfwd) work as it is")
    if w.prim is not prims.scan_p:
        params, order = _cached(w, "scan", lambda: _as_scan(w))
        scan = RegionView(prims.scan_p, params, len(order))
        found = _transpose_loop(scan, cts, [args[i] for i in order], tuple([given[i] for i in order]))
        back: list[Tangent] = [None] * len(args)
        for i, ct in zip(order, found):
            back[i] = ct
        return back
    # carry: operand numbers of the carries; n: their number. linear: operands that are linear variables, including
    # carries that any iteration makes linear. active: results with a cotangent (of carries: linear ones only). needed:
    # operands that get a cotangent.
    carry, n = range(len(args))[w.carry], w.n_carry
    with stack_depth.with_recursion_limit():
        linear, _ = propagate_forward(w, given, lambda wire, marks: find_dependent_results(wire.program, marks))
        active = tuple([ct is not None and (j >= n or linear[carry[j]]) for j, ct in enumerate(cts)])
        needed, active = propagate_backward(w, active, lambda wire, marks: find_needed_args(wire.program, marks), linear)
    ins = w.bodies[0].ins
    known = [i for i in ins if not linear[i] and i not in carry]
    values = [args[i] for i in known]
    stacked: list[Value] = []
    known_carries = [i for i in carry if not linear[i]]
    if known_carries:  # carries such as counters that do not depend on linear values: compute them first and stack them
        stacked = _run_known_carries(w, args, known_carries, known)
    # Values that the backward iterations read: constants (`consts`), scanned operands (`slices`), and `known_carries`,
    # by their value at the start of each iteration. Operands that get a cotangent: constants (`const_cts`), carries
    # (`carry_cts`) and scanned operands (`slice_cts`). `ys`: the stacked results that have a cotangent.
    consts = [i for i in known if w.kinds[i] == CONST]
    slices = [i for i in known if w.kinds[i] != CONST]
    const_cts = [i for i in ins if w.kinds[i] == CONST and needed[i]]
    carry_cts = [i for i in carry if needed[i]]
    slice_cts = [i for i in ins if w.kinds[i] != CONST and i not in carry and needed[i]]
    ys = [j for j in range(n, w.n_results) if active[j]]
    key = ("transpose", linear, active, needed)
    body = _cached(w, key, lambda: _backward_body(w, linear, consts, slices, known_carries, const_cts, carry_cts, slice_cts,
                                                  ys))
    start = [instantiate(None, w.inner_aval(i).strip_weak_type()) for i in const_cts]
    start += [instantiate(cts[i - carry[0]], w.inner_aval(i).strip_weak_type()) for i in carry_cts]
    params = {**w.params, "jaxpr": body, "reverse": not w.params["reverse"], "num_consts": len(consts), "num_carry": len(start)}
    by_number = dict(zip(known, values))
    outs = bind(prims.scan_p, *[by_number[i] for i in consts], *start, *[by_number[i] for i in slices], *stacked,
                *[cts[j] for j in ys], **params)
    outs = [*scale_unreduced(outs[:len(const_cts)], body.out_avals, [w.inner_aval(i).varying_axes for i in const_cts]),
            *outs[len(const_cts):]]
    # A carry with a known initial value that becomes linear in an iteration has a cotangent, but no operand to receive
    # it.
    back = [None] * len(args)
    for i, ct in zip((*const_cts, *carry_cts, *slice_cts), outs):
        back[i] = ct if given[i] else None
    return back


def _backward_body(w: RegionView, linear: Flags, consts: Sequence[int], slices: Sequence[int],
                   known_carries: Sequence[int], const_cts: Sequence[int], carry_cts: Sequence[int],
                   slice_cts: Sequence[int], ys: Sequence[int]) -> ClosedJaxpr:
    """Return the body of the reversed scan.

    Its arguments are the constants, the accumulated cotangents of constants, the cotangents of carries, slices of
    scanned operands, slices of the precomputed carries, and slices of the results' cotangents. It returns the
    accumulated cotangents of constants, the cotangents of carries, and the cotangents of slices.
    """
    # One iteration computes c*, x* and k* of the module docstring and adds k* to the accumulated sum. `xs` holds the
    # groups one after another; `parts` is `xs` split by group.
    body = w.bodies[0]
    first = range(len(w.groups))[w.carry].start
    groups = [[w.inner_aval(i) for i in consts], [w.inner_aval(i).strip_weak_type() for i in const_cts],
              [w.inner_aval(i).strip_weak_type() for i in carry_cts], [w.inner_aval(i) for i in slices],
              [w.inner_aval(i) for i in known_carries], [body.program.out_avals[j].strip_weak_type() for j in ys]]

    def run(*xs: Value) -> list[Value]:
        parts, rest = [], iter(xs)
        for group in groups:
            parts.append([next(rest) for _ in group])
        values = dict(zip([*consts, *slices, *known_carries], [*parts[0], *parts[3], *parts[4]]))
        # Keyed by result number: carry operand i is result i - first.
        given: dict[int, Value] = dict(zip([i - first for i in carry_cts], parts[2])) | dict(zip(ys, parts[5]))
        cts = [given.get(j) for j in range(w.n_results)]
        on = [linear[i] for i in body.ins]
        overs = [a.varying_axes for a in body.program.out_avals]
        overs[:w.n_carry] = [w.inner_aval(i).varying_axes for i in range(first, first + w.n_carry)]
        found = pull_back(body.program, on, [values[i] for i in body.ins if not linear[i]], cts,
                          overs, [i in const_cts for i, on in zip(body.ins, on) if on])
        back = dict(zip([i for i in body.ins if linear[i]], found))
        ct = {i: instantiate(back[i], w.inner_aval(i)) for i in [*const_cts, *carry_cts, *slice_cts]}
        return [*[lax.add(t, ct[i]) for t, i in zip(parts[1], const_cts)], *[ct[i] for i in [*carry_cts, *slice_cts]]]

    return stage(run, [a for group in groups for a in group])[0]


def _run_known_carries(w: RegionView, args: Sequence[Value], known_carries: Sequence[int],
                       known: Sequence[int]) -> list[Value]:
    """Run the loop of carries that are independent of linear values; return their stacked values before each iteration."""
    body = w.bodies[0].program
    first = range(len(w.groups))[w.carry].start
    invars = dict(zip(w.bodies[0].ins, body.jaxpr.invars))
    # Results: the next value of each known carry, and its current value (an argument), which the loop stacks. Arguments
    # that this loop does not need come last, so that `dce` can drop them without renumbering the others.
    operands = sorted([*known, *known_carries])
    outvars = [body.jaxpr.outvars[i - first] for i in known_carries] + [invars[i] for i in known_carries]
    rest = body.memo(("ahead of the transpose", tuple(operands), tuple(known_carries)), lambda: dce(
        replace_signature(body, [invars[i] for i in operands] + [v for i, v in invars.items() if i not in operands], outvars),
        instantiate=[True] * len(operands) + [False] * (len(invars) - len(operands)))[0])
    results = [*[OperandSpec(0)] * len(known_carries), *[OperandSpec(1)] * len(known_carries)]
    rebuilt = w.rebuild(w.operands(operands), results, [(rest, range(len(operands)), range(2 * len(known_carries)))])
    outs = rebuilt.reorder_results(bind(w.prim, *[args[operands[k]] for k in rebuilt.operands], **rebuilt.params))
    return outs[len(known_carries):]


# --- default rules ------------------------------------------------------------------------------------------------
def _has_derived_rule(prim: Primitive) -> bool:
    """Return whether the region signature determines the derivatives: no opaque call, custom rule or checkpoint."""
    flow = prim.region_signature
    return flow is not None and not (flow.indivisible or flow.remat_policy or flow.jvp_rule)


def make_higher_order_rule(prim: Primitive) -> LinearizeRule:
    """Return the JVP rule that follows from the region signature of a primitive.

    It is the default rule of primitives whose region signature determines the derivative. A custom rule may delegate to
    it.

    Args:
      prim: the primitive.
    Returns:
      A rule for `jvp_rules`.

    >>> from lamina_autodiff import jvp
    >>> with jvp_rules.override(prims.cond_p, make_higher_order_rule(prims.cond_p)):
    ...     jvp(lambda x: lax.cond(True, lax.sin, lax.cos, x), (0.0,), (1.0,))[1]
    Array(1., dtype=float32, weak_type=True)
    """
    return LinearizeRule(
        lambda primals, tangents, /, **params: jvp_higher_order(prim, primals, tangents, params),
        lambda trace, primals, tangents, /, **params: linearize_higher_order(trace, prim, primals, tangents, params))


def _default_jvp_rule(prim: Primitive) -> Function | None:
    """Return the JVP rule of a primitive without a defined one: from its region signature, else from its linearity."""
    return make_higher_order_rule(prim) if _has_derived_rule(prim) else rule_from_linearity(prim)


def _default_transpose_rule(prim: Primitive) -> Function | None:
    # Maps have a rule in lamina_parallel: which cotangents are summed depends on the axes of operands and results.
    flow = prim.region_signature
    if flow is None or flow.axis_binding or not _has_derived_rule(prim):
        return None
    return lambda cts, /, *args, **params: transpose_higher_order(prim, cts, args, params)


jvp_rules.default = _default_jvp_rule
transpose_rules.default = _default_transpose_rule
