"""Partial evaluation: `partial_eval` splits a program into two stages, `fold_constants` computes constant values.

`partial_eval` executes nothing: both stages are programs. `fold_constants` runs the NumPy implementation of equations
that depend on literals and constants only.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from .._types import dtypes
from .._util.recursion_limit import with_recursion_limit
from .._core.arg_checks import CLOSED_JAXPR, FLAGS, INT, ITEMS, check_args
from .._types.avals import ShapedArray
from .split_checkpoint import split_checkpoint, substitute_saved
from .._evaluate.evaluator import evaluate_primitive
from ..prims.control import platform_index_p
from .._core.jaxpr import (Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, eqn_axis_names, eqn_has_effects,
                           subprograms)
from .._core.rewrite import Replacement, dce, dce_equation, dce_region, RegionMemo, rewrite_once
from .._core.custom_rule import Rule
from .split_equation import as_scan, split_equation, hoist_invariants, exceeds_residual_budget
from .._core.region_view import Region, RegionView, propagate_forward
from ..typing import Value

__all__ = ["PartialEval", "fold_constants", "partial_eval"]

_T = TypeVar("_T")


class PartialEval(NamedTuple):
    """The two stages of a program.

    Attributes:
      known: known inputs -> known results, then residuals.
      unknown: residuals, then unknown inputs -> the other results.
      out_known: for each result of the program, whether `known` returns it.
      residuals: the types of the residuals.
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    out_known: list[bool]
    residuals: list[ShapedArray]


@check_args(program=CLOSED_JAXPR, known=ITEMS, instantiate=FLAGS)
@with_recursion_limit()
def partial_eval(program: ClosedJaxpr, known: Sequence[bool], *,
                 instantiate: bool | Sequence[bool] = False) -> PartialEval:
    """Split a program into two stages: the equations that depend on known inputs only, and the rest.

    Equations with nested programs are split along their region signature, unless it is indivisible; see
    docs/how-to/looking-inside.md. Equations without operands are repeated in each stage that needs them. Effects keep
    their order: once one is in the second stage, all later ones are too, and an equation with effects inside is not
    split.

    Args:
      program: the program to split. Its constants count as known.
      known: for each input, whether it is known in the first stage.
      instantiate: results to have from the second stage even if they are known: all, or one flag per result.
    Returns:
      `PartialEval(known, unknown, out_known, residuals)`.
    Raises:
      ValueError: `known` does not have one entry per input.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (c, d) }")
    >>> split = partial_eval(program, [True, False])
    >>> split.known
    { lambda ; a:f32[]. let b:f32[] = sin a in (b, b) }
    >>> split.unknown
    { lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c,) }
    """
    if len(known) != len(program.jaxpr.invars):
        raise ValueError(f"partial_eval: known must have {len(program.jaxpr.invars)} entries, one per input; got {len(known)}")
    wanted = [instantiate] * len(program.jaxpr.outvars) if isinstance(instantiate, bool) else list(instantiate)
    return _two_stages(program, known, wanted)


def _two_stages(program: ClosedJaxpr, known: Sequence[bool], wanted: Sequence[bool]) -> PartialEval:
    jaxpr = program.jaxpr
    # early: variables with a value in the first stage. An equation goes to `first`, to `second`, or a part of it to
    # each.
    early: set[Atom] = {*[v for v, k in zip(jaxpr.invars, known) if k], *jaxpr.constvars}
    first: list[Eqn] = []
    second: list[Eqn] = []
    # duplicated: results of equations without operands, which are cheap (iota, broadcast literals) and computed in each
    # stage. A platform_index must be: lowering resolves it in the program with the branches it selects.
    duplicated: set[Atom] = set()
    effects_wait = False
    for e in jaxpr.eqns:
        flags = [type(a) is Literal or a in early for a in e.invars]
        effectful = eqn_has_effects(e)
        if all(flags) and not (effectful and effects_wait):
            ones, twos = [e], []
            if e.primitive.region_signature is None and not effectful and not any(type(a) is Var for a in e.invars):
                twos = [e]
                duplicated.update(e.outvars)
        elif any(flags) and not effectful and e.primitive.region_signature is not None:
            ones, twos = _split(e, flags)
        else:
            ones, twos = [], [e]
            effects_wait = effects_wait or effectful
        for one in ones:
            first.append(one)
            early.update(one.outvars)
        second += twos
    out_known = [(type(a) is Literal or a in early) and not w for a, w in zip(jaxpr.outvars, wanted, strict=True)]
    late_outs = [a for a, k in zip(jaxpr.outvars, out_known) if not k]
    # Residuals are the values of the first stage that the second one reads; dead code elimination drops unused ones.
    read = dict.fromkeys(a for e in second for a in e.invars if type(a) is not Literal)
    read.update(dict.fromkeys(a for a in late_outs if type(a) is not Literal))
    residuals: list[Var] = [v for v in read if v in early and v not in duplicated]
    late = [v for v, k in zip(jaxpr.invars, known) if not k]
    tail, needed = dce(ClosedJaxpr(Jaxpr([], [*residuals, *late], second, late_outs)),
                       instantiate=[False] * len(residuals) + [True] * len(late))
    residuals = [v for v, n in zip(residuals, needed) if n]
    invars = [v for v, k in zip(jaxpr.invars, known) if k]
    outs = [a for a, k in zip(jaxpr.outvars, out_known) if k]
    head_outs: list[Atom] = [*outs, *residuals]
    head, _ = dce(ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, first, head_outs), program.consts),
                  instantiate=True)
    return PartialEval(head, tail, out_known, [v.aval for v in residuals])


def _halves(program: ClosedJaxpr, known: Sequence[bool], wanted: Sequence[bool] = ()) -> PartialEval:
    """Split a nested program, memoized: each is split once per set of known inputs, however deep the nesting."""
    wanted = tuple(wanted) or (False,) * len(program.jaxpr.outvars)
    return program.memo(("halves", tuple(known), wanted), lambda: _two_stages(program, known, wanted))


# --- equations with programs --------------------------------------------------------------------------------------
def _select(xs: Sequence[_T], flags: Sequence[bool]) -> list[_T]:
    return [x for x, f in zip(xs, flags, strict=True) if f]


def _invert(flags: Sequence[bool]) -> list[bool]:
    return [not f for f in flags]


def _depends_on(region: Region, marks: Sequence[bool]) -> list[bool]:
    """Return which results of a region depend on the marked operands."""
    return _invert(_halves(region.program, _invert(marks)).out_known)


def _known_part(program: ClosedJaxpr, known: Sequence[bool], wanted: Sequence[bool]) -> ClosedJaxpr:
    """Return the program that computes the wanted results, all of them known, from the known operands."""
    head, n = _halves(program, known, _invert(wanted)).known, sum(wanted)
    return dce_region(head, [j < n for j in range(len(head.out_avals))], True)[0]


def _split(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """Split an equation with nested programs into the equations of each stage. Some operands are known, but not all."""
    signature = e.primitive.region_signature
    if signature.indivisible:  # type: ignore[union-attr]
        return [], [e]
    if signature.remat_policy:  # type: ignore[union-attr]
        return _split_checkpoint(e, known)
    if signature.jvp_rule:  # type: ignore[union-attr]
        return _split_with_rule(e, known)
    w = RegionView.of(e)
    if w.selector is not None and not known[w.selector]:
        return [], [e]
    if w.region_signature.test:
        return _split_by_recomputation(e, w, known)
    if w.region_signature.loops and not w.can_add_scanned:  # convert to a scan, which can stack residuals
        by_atom = {id(a): k for a, k in zip(e.invars, known)}  # the scan's operands are in another order
        e = as_scan(e)  # type: ignore[assignment]
        return _split(e, [by_atom[id(a)] for a in e.invars])
    late_ops, late_outs = propagate_forward(w, _invert(known), _depends_on)
    # Fixpoint: a carry is late if it is late in any iteration. A result that is late in one branch is late in all,
    # because all branches return the same results.
    pairs = []
    for b in w.bodies:
        s = _halves(b.program, [not late_ops[i] for i in b.ins], late_outs)
        if exceeds_residual_budget(b.program, len(s.residuals)):
            return _split_by_recomputation(e, w, known)
        pairs.append((s.known, s.unknown))
    if all(late_outs) and not any(known_half.eqns for known_half, _ in pairs):
        return [], [e]
    numbers, results = range(len(e.invars)), range(len(e.outvars))
    hoisted, first, second = split_equation(
        e, pairs, [i for i in numbers if not late_ops[i]], [j for j in results if not late_outs[j]],
        [(i, e.invars[i]) for i in numbers if late_ops[i] and i != w.selector],
        [(j, e.outvars[j]) for j in results if late_outs[j]], w)
    return [*hoisted, first] if first.outvars else hoisted, [second] if second.outvars else []


def _split_by_recomputation(e: Eqn, w: RegionView, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """Split an equation without residuals: the second stage recomputes what it needs from the known operands.

    Used for a loop of unknown length, which cannot stack residuals: known carries are computed in both stages, and if
    the test is unknown, the whole loop is in the second stage. Also used if there would be too many residuals.
    """
    late_outs = propagate_forward(w, _invert(known), _depends_on)[1]
    given = {id(a) for a, k in zip(e.invars, known) if k}
    ones: list[Eqn] = []
    one = dce_equation(e.replace(params=w.reset_transient_params()), _invert(late_outs))
    if not all(late_outs) and all(type(a) is Literal or id(a) in given for a in one.invars):
        ones.append(one)
        if not any(late_outs):
            return ones, []
        e = dce_equation(e.replace(params=w.reset_transient_params()), late_outs)
    ahead, e = hoist_invariants(e, [id(a) in given for a in e.invars])
    return ones + ahead, [dce_equation(e, [type(v) is not DropVar for v in e.outvars])]


def _split_checkpoint(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """Split a checkpointed call. The first call returns the known results, and the known values that the policy saves.
    The second one recomputes everything else it needs from the known operands."""
    signature = e.primitive.region_signature
    body, policy = e.params[signature.body], e.params[signature.remat_policy]  # type: ignore[union-attr]
    # available: which results, and then which saved values (from `count` on), the known operands determine. used: which
    # operands, and then which saved values (from `ins` on), the second call reads.
    count, ins = len(body.out_avals), len(known)
    forward, recompute = split_checkpoint(body, policy)
    available = _halves(forward, known).out_known
    done = available[:count]
    second, used = dce(substitute_saved(recompute, [False] * ins + _invert(available[count:])), _invert(done))
    wanted = [*done, *used[ins:]]
    if not any(wanted):
        return [], [e]
    first = _known_part(forward, known, wanted)
    between = [Var(a) for a in first.out_avals[sum(done):]]
    ones = [Eqn(e.primitive, _select(e.invars, known), [*_select(e.outvars, done), *between],
                {**e.params, signature.body: first}, e.source)]  # type: ignore[union-attr]
    if all(done):
        return ones, []
    params = {**e.params, signature.body: second}  # type: ignore[union-attr]
    if "differentiated" in params:  # the second call repeats the first; CSE in the compiler must not merge them
        params["differentiated"] |= any(u and k for u, k in zip(used, known)) or bool(between)
    return ones, [Eqn(e.primitive, [*_select(e.invars, used[:ins]), *between], _select(e.outvars, _invert(done)), params,
                      e.source)]


def _split_with_rule(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """Split a call with a JVP rule into two calls, each with its part of the rule.

    The call is not split if the rule of a known result reads an unknown operand, or if the rule is not available.
    """
    signature, w = e.primitive.region_signature, RegionView.of(e)
    body, n = e.params[signature.body], w.groups.count(0)  # type: ignore[union-attr]
    done = _halves(body, known).out_known
    if not any(done):
        return [], [e]
    # The rule takes the operands, then the tangents of the inexact ones after the first group of n. A tangent is known
    # if its primal is.
    inexact = [dtypes.is_inexact(a.dtype) for a in body.in_avals[n:]]
    inexact_outs = [dtypes.is_inexact(a.dtype) for a in body.out_avals]
    available = [*known, *_select(known[n:], inexact)]
    given: Rule = e.params[signature.jvp_rule]  # type: ignore[union-attr]
    try:
        rule = given.program()
    except Exception:  # the rule was dropped when printing or saving, or is wrong; using it reports that
        return [], [e]
    if not all(f for f, d in zip(_halves(rule, available).out_known, [*done, *_select(done, inexact_outs)]) if d):
        return [], [e]

    def part(program: ClosedJaxpr, flags: Sequence[bool], ins: Sequence[bool]) -> ClosedJaxpr:
        return dce_region(program, flags, True)[0] if all(ins) else _known_part(program, ins, flags)

    def call(flags: Sequence[bool], ins: Sequence[bool]) -> Eqn:
        both, tangents = [*flags, *_select(flags, inexact_outs)], [*ins, *_select(ins[n:], inexact)]
        ops, outs = [i for i, k in enumerate(ins) if k], [j for j, f in enumerate(flags) if f]
        written = w.rebuild(w.operands(ops), w.results(outs), [(part(body, flags, ins), range(len(ops)), range(len(outs)))])
        written.params[signature.jvp_rule] = Rule(given.name, lambda: part(rule, both, tangents))  # type: ignore[union-attr]
        return written.eqn(e.primitive, _select(e.invars, ins), _select(e.outvars, flags), e.source)

    rest = [not d and not isinstance(v, DropVar) for d, v in zip(done, e.outvars)]
    return [call(done, known)], [call(rest, [True] * len(known))] if any(rest) else []


# --- constants ----------------------------------------------------------------------------------------------------
@check_args(program=CLOSED_JAXPR, limit=INT)
@with_recursion_limit()
def fold_constants(program: ClosedJaxpr, *, limit: int = 1024) -> ClosedJaxpr:
    """Replace equations that depend on literals and constants only by their values.

    Values are computed by the NumPy implementations. Scalars become literals, arrays become constants. Not folded are
    equations with effects, those that refer to mapped axes or to the platform, and those whose evaluation raises.
    Nested programs are folded on their own.

    Args:
      program: the program.
      limit: the most elements of a folded value; larger results are still computed at run time.

    >>> from lamina_ir import parse
    >>> fold_constants(parse("{ lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] 3.0:f32[] c:f32[] = add a b in (c,) }"))
    { lambda ; a:f32[]. let b:f32[] = add a 6.0:f32[] in (b,) }
    """
    def change(program: ClosedJaxpr) -> ClosedJaxpr:
        return _fold(program, limit, inner)

    inner = RegionMemo(change)
    return change(program)


def _fold(program: ClosedJaxpr, limit: int, inner: RegionMemo) -> ClosedJaxpr:
    # values: known variable -> value. folded: the known variables whose equations are removed.
    values: dict[Atom, Value] = dict(zip(program.jaxpr.constvars, program.consts))
    folded: list[Var] = []

    def fold(e: Eqn) -> Replacement:
        found = _value_of(e, values, limit) if all(type(a) is Literal or a in values for a in e.invars) else None
        if found is None:
            return None
        values.update(zip(e.outvars, found))
        folded.extend(e.outvars)
        return [], [v if v.aval.shape else Literal(np.asarray(x)[()], v.aval) for v, x in zip(e.outvars, found)]

    result = rewrite_once(program, fold, inner)
    if not folded:
        return result
    jaxpr, extra = result.jaxpr, [v for v in folded if v.aval.shape]
    return dce(ClosedJaxpr(Jaxpr([*jaxpr.constvars, *extra], jaxpr.invars, jaxpr.eqns, jaxpr.outvars),
                           [*program.consts, *[values[v] for v in extra]]), instantiate=True)[0]


def _depends_on_platform(e: Eqn) -> bool:
    """Return whether the result depends on the platform the program is lowered for."""
    return e.primitive is platform_index_p or any(_depends_on_platform(x) for s in subprograms(e) for x in s.jaxpr.eqns)


def _value_of(e: Eqn, values: dict[Atom, Value], limit: int) -> list[Value] | None:
    if eqn_has_effects(e) or eqn_axis_names(e) or _depends_on_platform(e) or any(v.aval.size > limit for v in e.outvars):
        return None
    args = [np.asarray(a.val, a.aval.dtype) if type(a) is Literal else values[a] for a in e.invars]
    try:
        out = evaluate_primitive(e.primitive, args, e.params)
    except Exception:  # not folded; the error is raised when the program runs
        return None
    return list(out) if e.primitive.multiple else [out]

