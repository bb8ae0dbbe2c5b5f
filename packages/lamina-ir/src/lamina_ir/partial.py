"""Programs split by what is known early: `partial_eval` into two stages, `fold_constants` into values.

Nothing is executed by `partial_eval`: both halves are programs. `fold_constants` runs the NumPy meaning of equations
that depend on nothing but literals and constants.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import dtypes
from ._stack_depth import roomy
from .arguments import CLOSED, FLAGS, INT, ITEMS, takes
from .avals import ShapedArray
from .checkpointing import keep, resume
from .evaluator import evaluate_primitive
from .prims.control import platform_index_p
from .program import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, eqn_axis_names, eqn_effectful, subprograms
from .rewrite import dce, narrow, narrowed, remember, rewritten
from .rule import Rule
from .stages import as_scan, divide, hoist, too_many
from .wiring import Wire, Wired, forward

__all__ = ["PartialEval", "fold_constants", "partial_eval"]


class PartialEval(NamedTuple):
    """Two stages of one program.

    Attributes:
      known: known inputs -> known results, then residuals.
      unknown: residuals, then unknown inputs -> the other results.
      out_known: for each result of the whole, whether `known` gives it.
      residuals: types of what the first stage hands to the second.
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    out_known: list[bool]
    residuals: list[ShapedArray]


@takes(program=CLOSED, known=ITEMS, instantiate=FLAGS)
@roomy()
def partial_eval(program: ClosedJaxpr, known: Sequence[bool], *,
                 instantiate: bool | Sequence[bool] = False) -> PartialEval:
    """The program in two stages: what the known inputs decide, and the rest.

    Equations that read known values only go to the first stage. Those with programs are split along their flow, unless it
    says that they must stay whole; docs/looking-inside.md says how. What reads nothing at all is made in each stage that
    needs it. Effects keep their order: once one has to wait, all later ones wait, and an equation with effects inside is
    not split.

    Args:
      program: what to split. Its constants count as known.
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
    # early: variables with a value in the first stage. An equation goes to `first`, to `second`, or a part of it to each.
    early: set[Any] = {v for v, k in zip(jaxpr.invars, known) if k} | set(jaxpr.constvars)
    first: list[Eqn] = []
    second: list[Eqn] = []
    again: set[Any] = set()  # made in each stage, for next to nothing; what asks for the platform is answered in each
    effects_wait = False
    for e in jaxpr.eqns:
        flags = [type(a) is Literal or a in early for a in e.invars]
        effectful = eqn_effectful(e)
        if all(flags) and not (effectful and effects_wait):
            ones, twos = [e], []
            if e.primitive.flow is None and not effectful and not any(type(a) is Var for a in e.invars):
                twos = [e]
                again.update(e.outvars)
        elif any(flags) and not effectful and e.primitive.flow is not None:
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
    # Residuals are what the second stage reads of the first; dead code decides which of them it really needs.
    read = dict.fromkeys(a for e in second for a in e.invars if type(a) is not Literal)
    read.update(dict.fromkeys(a for a in late_outs if type(a) is not Literal))
    residuals: list[Any] = [v for v in read if v in early and v not in again]
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
    """`partial_eval` of a nested program, remembered with it: each is split once for each use of it, however it is nested."""
    wanted = tuple(wanted) or (False,) * len(program.jaxpr.outvars)
    return program.memo(("halves", tuple(known), wanted), lambda: _two_stages(program, known, wanted))


# --- equations with programs --------------------------------------------------------------------------------------
def _pick(xs: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [x for x, f in zip(xs, flags, strict=True) if f]


def _not(flags: Sequence[bool]) -> list[bool]:
    return [not f for f in flags]


def _late(wire: Wire, marks: Sequence[bool]) -> list[bool]:
    """Which results of a program have to wait for the marked operands."""
    return _not(_halves(wire.program, _not(marks)).out_known)


def _known_part(program: ClosedJaxpr, known: Sequence[bool], wanted: Sequence[bool]) -> ClosedJaxpr:
    """What gives the wanted results, all of them known, from the known operands."""
    head, n = _halves(program, known, _not(wanted)).known, sum(wanted)
    return narrowed(head, [j < n for j in range(len(head.out_avals))], True)[0]


def _split(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """The equations of each stage. Called when some operands are known, and not all."""
    flow = e.primitive.flow
    if flow.whole:  # type: ignore[union-attr]
        return [], [e]
    if flow.again:  # type: ignore[union-attr]
        return _split_checkpoint(e, known)
    if flow.rule:  # type: ignore[union-attr]
        return _split_with_rule(e, known)
    w = Wired.of(e)
    if w.chooser is not None and not known[w.chooser]:
        return [], [e]
    if w.flow.test:
        return _split_again(e, w, known)
    if w.flow.loops and not w.stacks:  # a scan can stack
        by_atom = {id(a): k for a, k in zip(e.invars, known)}  # a scan takes them in another order
        e = as_scan(e)  # type: ignore[assignment]
        return _split(e, [by_atom[id(a)] for a in e.invars])
    late_ops, late_outs = forward(w, _not(known), _late)
    # A carry is late if any turn makes it late. What is late in one branch is late in all: they give the same results.
    pairs = []
    for b in w.bodies:
        s = _halves(b.program, [not late_ops[i] for i in b.ins], late_outs)
        if too_many(b.program, len(s.residuals)):
            return _split_again(e, w, known)
        pairs.append((s.known, s.unknown))
    if all(late_outs) and not any(first.eqns for first, _ in pairs):
        return [], [e]
    numbers, results = range(len(e.invars)), range(len(e.outvars))
    ahead, one, two = divide(e, pairs, [i for i in numbers if not late_ops[i]], [j for j in results if not late_outs[j]],
                             [(i, e.invars[i]) for i in numbers if late_ops[i] and i != w.chooser],
                             [(j, e.outvars[j]) for j in results if late_outs[j]], w)
    return [*ahead, one] if one.outvars else ahead, [two] if two.outvars else []


def _split_again(e: Eqn, w: Wired, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """Nothing is handed over: the first stage computes the known results, and the second what the others need, from the start.
    So for a loop of an unknown number of turns, where there is nowhere to stack anything: known carries are computed once
    more, and where the test waits for the second stage, so does the loop. And where there is too much to hand over."""
    late_outs = forward(w, _not(known), _late)[1]
    given = {id(a) for a, k in zip(e.invars, known) if k}
    ones: list[Eqn] = []
    one = narrow(e.replace(params=w.unspent()), _not(late_outs))
    if not all(late_outs) and all(type(a) is Literal or id(a) in given for a in one.invars):
        ones.append(one)
        if not any(late_outs):
            return ones, []
        e = narrow(e.replace(params=w.unspent()), late_outs)
    ahead, e = hoist(e, [id(a) in given for a in e.invars])
    return ones + ahead, [narrow(e, [type(v) is not DropVar for v in e.outvars])]


def _split_checkpoint(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """The first call gives the known results, and the known values that the policy keeps. The second computes everything
    else it needs again, from the known operands."""
    flow = e.primitive.flow
    body, policy = e.params[flow.body], e.params[flow.again]  # type: ignore[union-attr]
    # at_hand: which results, and which of the values the policy chose (behind `count`), the known operands decide. used: the
    # operands, and behind `ins` the kept values, that the second call reads.
    count, ins = len(body.out_avals), len(known)
    kept = keep(body, policy)
    at_hand = _halves(kept.forward, known).out_known
    done = at_hand[:count]
    again, used = dce(resume(kept.again, [False] * ins + _not(at_hand[count:])), _not(done))
    wanted = [*done, *used[ins:]]
    if not any(wanted):
        return [], [e]
    first = _known_part(kept.forward, known, wanted)
    between = [Var(a) for a in first.out_avals[sum(done):]]
    ones = [Eqn(e.primitive, _pick(e.invars, known), [*_pick(e.outvars, done), *between],
                {**e.params, flow.body: first}, e.source)]  # type: ignore[union-attr]
    if all(done):
        return ones, []
    params = {**e.params, flow.body: again}  # type: ignore[union-attr]
    if "differentiated" in params:  # the second call repeats the first: compilers must not merge them
        params["differentiated"] |= any(u and k for u, k in zip(used, known)) or bool(between)
    return ones, [Eqn(e.primitive, [*_pick(e.invars, used[:ins]), *between], _pick(e.outvars, _not(done)), params, e.source)]


def _split_with_rule(e: Eqn, known: list[bool]) -> tuple[list[Eqn], list[Eqn]]:
    """Two calls, each with its part of the rule. The call stays whole where the rule of a known result reads an unknown
    operand, and where the rule is not known."""
    flow, w = e.primitive.flow, Wired.of(e)
    body, n = e.params[flow.body], w.groups.count(0)  # type: ignore[union-attr]
    done = _halves(body, known).out_known
    if not any(done):
        return [], [e]
    # The rule takes operands, then tangents of the inexact ones behind the first group (n of them). A tangent is known as
    # early as its primal.
    inexact = [dtypes.is_inexact(a.dtype) for a in body.in_avals[n:]]
    moved = [dtypes.is_inexact(a.dtype) for a in body.out_avals]
    at_hand = [*known, *_pick(known[n:], inexact)]
    given: Rule = e.params[flow.rule]  # type: ignore[union-attr]
    try:
        rule = given.program()
    except Exception:  # dropped when the program was printed or saved, or wrong: it will say so when it is used
        return [], [e]
    if not all(f for f, d in zip(_halves(rule, at_hand).out_known, [*done, *_pick(done, moved)]) if d):
        return [], [e]

    def part(program: ClosedJaxpr, flags: Sequence[bool], ins: Sequence[bool]) -> ClosedJaxpr:
        return narrowed(program, flags, True)[0] if all(ins) else _known_part(program, ins, flags)

    def call(flags: Sequence[bool], ins: Sequence[bool]) -> Eqn:
        both, tangents = [*flags, *_pick(flags, moved)], [*ins, *_pick(ins[n:], inexact)]
        ops, outs = [i for i, k in enumerate(ins) if k], [j for j, f in enumerate(flags) if f]
        written = w.write(w.operands(ops), w.results(outs), [(part(body, flags, ins), range(len(ops)), range(len(outs)))])
        written.params[flow.rule] = Rule(given.name, lambda: part(rule, both, tangents))  # type: ignore[union-attr]
        return written.eqn(e.primitive, _pick(e.invars, ins), _pick(e.outvars, flags), e.source)

    rest = [not d and not isinstance(v, DropVar) for d, v in zip(done, e.outvars)]
    return [call(done, known)], [call(rest, [True] * len(known))] if any(rest) else []


# --- constants ----------------------------------------------------------------------------------------------------
@takes(program=CLOSED, limit=INT)
@roomy()
def fold_constants(program: ClosedJaxpr, *, limit: int = 1024) -> ClosedJaxpr:
    """The program with equations that depend on nothing but literals and constants replaced by their values.

    Values are those of the NumPy meaning. Scalars become literals, arrays constants. Equations with effects, those
    that refer to mapped axes or to the platform, and those whose meaning raises stay; nested programs are folded on their own.

    Args:
      program: where to fold.
      limit: most elements of a value worth keeping; larger results stay computed.

    >>> from lamina_ir import parse
    >>> fold_constants(parse("{ lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] 3.0:f32[] c:f32[] = add a b in (c,) }"))
    { lambda ; a:f32[]. let b:f32[] = add a 6.0:f32[] in (b,) }
    """
    def change(program: ClosedJaxpr) -> ClosedJaxpr:
        return _fold(program, limit, inner)

    inner = remember(change)
    return change(program)


def _fold(program: ClosedJaxpr, limit: int, inner: remember) -> ClosedJaxpr:
    # values: of variables that are known. folded: those that an equation bound, which is gone: scalars become literals, arrays
    # constants.
    values: dict[Any, Any] = dict(zip(program.jaxpr.constvars, program.consts))
    folded: list[Var] = []

    def fold(e: Eqn) -> Any:
        found = _value_of(e, values, limit) if all(type(a) is Literal or a in values for a in e.invars) else None
        if found is None:
            return None
        values.update(zip(e.outvars, found))
        folded.extend(e.outvars)
        return [], [v if v.aval.shape else Literal(np.asarray(x)[()], v.aval) for v, x in zip(e.outvars, found)]

    whole = rewritten(program, fold, inner)
    if not folded:
        return whole
    jaxpr, extra = whole.jaxpr, [v for v in folded if v.aval.shape]
    return dce(ClosedJaxpr(Jaxpr([*jaxpr.constvars, *extra], jaxpr.invars, jaxpr.eqns, jaxpr.outvars),
                           [*program.consts, *[values[v] for v in extra]]), instantiate=True)[0]


def _by_platform(e: Eqn) -> bool:
    """Whether the result depends on the platform the program is lowered for."""
    return e.primitive is platform_index_p or any(_by_platform(x) for s in subprograms(e) for x in s.jaxpr.eqns)


def _value_of(e: Eqn, values: dict[Any, Any], limit: int) -> list[Any] | None:
    if eqn_effectful(e) or eqn_axis_names(e) or _by_platform(e) or any(v.aval.size > limit for v in e.outvars):
        return None
    args = [np.asarray(a.val, a.aval.dtype) if type(a) is Literal else values[a] for a in e.invars]
    try:
        out = evaluate_primitive(e.primitive, args, e.params)
    except Exception:  # it will say so when it runs
        return None
    return list(out) if e.primitive.multiple else [out]

