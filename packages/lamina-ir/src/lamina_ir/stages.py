"""One equation as two: now and later, with values handed over between.

A program f(x, u) whose x is known first is split as f(x, u) = g(r(x), u). For an equation that runs f in turns, or one of
several, or once for each member of a map, `divide` makes two equations that do the same with the halves, whoever found
them: partial evaluation, a checkpoint's policy, or the linear part of a derivative, f(x + u) ~ f(x) + g(r(x)) u. What
differs is where the residuals r lie in the meantime: what is the same in all turns is computed once, ahead of the loop;
the rest is stacked, one slice per turn; branches share slots, filled with anything where another branch ran.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .errors import ProgramError
from . import dtypes
from ._stack_depth import roomy
from .again import sparing
from .arguments import CLOSED, EQN, INT, Kind, LOOP, TEXT, takes
from .avals import ShapedArray, shaped
from .flow import CARRIED, HELD, STACKED
from .prims import control
from .prims.calls import xla_call_p
from .prims.custom import remat_p
from .prims.elementwise import add_p, and_p, convert_element_type_p, lt_p
from .prims.shape import broadcast_in_dim_p
from .program import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, eqn_effectful, subprograms
from .rewrite import dce
from .wiring import Slot, Wire, Wired, arrange, with_signature

__all__ = ["Divided", "as_scan", "checkpointed", "constant", "counting", "divide", "filled", "hoist", "in_stretches", "slots",
           "too_many"]

_INT = shaped((), np.dtype("int32"))


def _each(words: str, test: Callable[[Any], bool]) -> Kind:
    return Kind(words, lambda v: isinstance(v, (tuple, list)) and all(isinstance(x, (tuple, list)) and test(x) for x in v))


_BOUNDED = Kind("an equation of a loop with a bound", lambda v: LOOP.test(v) and bool(v.primitive.flow.bound)
                and v.params[v.primitive.flow.bound] is not None)
_HOLDER = Kind("an equation that holds programs",
               lambda v: EQN.test(v) and bool(v.primitive.flow and v.primitive.flow.operands))
_NUMBERS = Kind("a list of ints", lambda v: isinstance(v, (tuple, list, range)) and all(isinstance(i, int) for i in v))
_PAIRS = _each("a list of pairs of ClosedJaxprs", lambda p: len(p) == 2 and all(isinstance(q, ClosedJaxpr) for q in p))
_PLACES = _each("a list of pairs of a number and what stands there", lambda p: len(p) == 2 and isinstance(p[0], int))


def constant(value: float, aval: ShapedArray, eqns: list[Eqn]) -> Atom:
    """An atom for an array filled with `value`; its equation, if it needs one, goes to `eqns`."""
    literal = Literal(np.asarray(value, aval.dtype)[()], ShapedArray((), aval.dtype))
    if not aval.shape:
        return literal
    var = Var(aval.strong())
    eqns.append(Eqn(broadcast_in_dim_p, (literal,), (var,), {"shape": aval.shape, "broadcast_dimensions": ()}))
    return var


# --- what a loop computes anew in each turn -----------------------------------------------------------------------
def _constants(program: ClosedJaxpr, args: Sequence[Any]) -> Eqn:
    """What a loop's body computes from what is the same in each turn, as a call before the loop."""
    return Eqn(xla_call_p, args, [Var(a) for a in program.out_avals],
               {"call_jaxpr": program, "name": "loop_constants", **xla_call_p.defaults})


def _ahead(body: ClosedJaxpr, fixed: Sequence[bool],
           wanted: Sequence[Any] | None) -> tuple[ClosedJaxpr, ClosedJaxpr, int] | None:
    """(fixed operands -> invariants, the body that takes these last, how many). An equation is invariant if it has no
    effects and reads nothing that varies; what reads no operand at all is made again in each turn, for next to nothing."""
    jaxpr = body.jaxpr
    # varying: differs between turns. depends: made of fixed operands alone; made: those of them that equations bind. read:
    # what varying equations and results read, which is all that is worth computing ahead. early: equations that may go there.
    varying = {v for v, f in zip(jaxpr.invars, fixed) if not f}
    depends = {v for v, f in zip(jaxpr.invars, fixed) if f}
    made: dict[Any, None] = {}
    read: list[Any] = []
    early: list[Eqn] = []
    for e in jaxpr.eqns:
        if not varying.isdisjoint(e.invars) or eqn_effectful(e):
            varying.update(e.outvars)
            read += e.invars
            continue
        early.append(e)
        if not depends.isdisjoint(e.invars):
            depends.update(e.outvars)
            made.update(dict.fromkeys(e.outvars))
    read += jaxpr.outvars
    values = [v for v in dict.fromkeys(read if wanted is None else wanted) if v in made]
    if not values:
        return None
    given = [v for v, f in zip(jaxpr.invars, fixed) if f]
    before = dce(ClosedJaxpr(Jaxpr(jaxpr.constvars, given, early, values), body.consts), instantiate=True)[0]
    # An equation may give both invariants and what nobody reads outside: it stays, without the former, for `dce` to judge.
    known = set(values)
    eqns = [e if known.isdisjoint(e.outvars) else e.replace(outvars=[DropVar(v.aval) if v in known else v for v in e.outvars])
            for e in jaxpr.eqns if not known.issuperset(e.outvars) or not e.outvars]
    rest = dce(with_signature(body, [*jaxpr.invars, *values], jaxpr.outvars, eqns), instantiate=True)[0]
    return before, rest, len(values)


def hoist(e: Eqn, known: Sequence[bool] | None = None) -> tuple[list[Eqn], Eqn]:
    """A loop, and equations to go ahead of it, for what its body computes from held operands alone (those that are `known`)."""
    w = Wired.of(e)
    group, body = w.flow.group(HELD), w.bodies[0]
    if group is None or not w.flow.loops or eqn_effectful(e):
        return [], e
    fixed = tuple([w.kinds[i] == HELD and (known is None or known[i]) for i in body.ins])
    found = body.program.memo(("ahead", fixed), lambda: _ahead(body.program, fixed, None))
    if found is None:
        return [], e
    before, rest, count = found
    ahead = _constants(before, [e.invars[i] for i, f in zip(body.ins, fixed) if f])
    n = len(e.invars)
    outs = list(range(w.n_results))
    programs = [(p.program, p.ins, outs) for p in w.wires[:-1]] + [(rest, [*body.ins, *range(n, n + count)], outs)]
    written = w.write([*w.operands(), *[Slot(group)] * count], w.results(), programs)
    return [ahead], written.eqn(e.primitive, [*e.invars, *ahead.outvars], e.outvars, e.source)


# --- loops that cannot stack --------------------------------------------------------------------------------------
@takes(e=LOOP)
def as_scan(e: Eqn) -> Eqn | None:
    """A loop of a known or bounded number of turns as a `scan`, which can stack and run backwards.

    A bounded loop is a scan of idle steps: once its test is false the carry stays what it is to the end, since a step that
    changes nothing leaves the test false.

    Args:
      e: an equation of an op whose flow is a loop.
    Returns:
      The equation of a scan with the same results; None where nothing says how many turns there are at most.

    >>> from lamina_ir import parse
    >>> test = "{ lambda ; c:f32[]. let d:bool[] = lt c 9.0:f32[] in (d,) }"
    >>> body = "{ lambda ; e:f32[]. let f:f32[] = mul e 2.0:f32[] in (f,) }"
    >>> loop = f"while[ cond_jaxpr={test} body_jaxpr={body} cond_nconsts=0 body_nconsts=0 max_iters=4 ] a"
    >>> closed = parse("{ lambda ; a:f32[]. let b:f32[] = %s in (b,) }" % loop)
    >>> as_scan(closed.jaxpr.eqns[0]).params["length"]
    4
    """
    if e.primitive is control.scan_p:
        return e
    w = Wired.of(e)
    length = e.params[w.flow.length or w.flow.bound] if w.flow.length or w.flow.bound else None
    if length is None:
        return None
    step = _guarded(w, _of_all(w, w.bodies[0])) if w.flow.test else _of_all(w, w.bodies[0])
    return _scan(w, step, length, e.invars, e.outvars, e.source)


@takes(e=_BOUNDED)
def in_stretches(e: Eqn) -> Eqn:
    """A loop with a bound as a scan of stretches, each a checkpointed scan of idle steps.

    There are about as many stretches as steps in one, the root of the bound, so that its reverse derivative has memory
    for that many carries: those that each stretch begins with, and those in the one that is worked out again. No step is
    worked out more than twice, and stretches behind the end of the loop are skipped.

    Args:
      e: an equation of an op whose flow is a loop with a `test` and a `bound`.
    Returns:
      The equation of a scan with the same results, and behind them the number of turns.

    >>> from lamina_ir import parse
    >>> test = "{ lambda ; c:f32[]. let d:bool[] = lt c 9.0:f32[] in (d,) }"
    >>> body = "{ lambda ; e:f32[]. let f:f32[] = mul e 2.0:f32[] in (f,) }"
    >>> loop = f"while[ cond_jaxpr={test} body_jaxpr={body} cond_nconsts=0 body_nconsts=0 max_iters=10 ] a"
    >>> closed = parse("{ lambda ; a:f32[]. let b:f32[] = %s in (b,) }" % loop)
    >>> in_stretches(closed.jaxpr.eqns[0]).params["length"]  # of four turns each
    3
    """
    w = Wired.of(e)
    limit = e.params[w.flow.bound]
    many = math.isqrt(max(limit - 1, 0)) + 1
    zero, turns = Literal(np.int32(0), _INT), Var(_INT)
    # All programs take the operands, then the turn: `one` makes one, and `more` many.
    body = _of_all(w, w.bodies[0])
    one = _guarded(w, counting(with_signature(body, [*body.jaxpr.invars, Var(_INT)], body.jaxpr.outvars), 1, 1), limit)
    ins, outs = [Var(a) for a in one.in_avals], [Var(a) for a in one.out_avals]
    more = checkpointed(ClosedJaxpr(Jaxpr([], ins, [_scan(w, one, many, ins, outs, e.source)], outs)), w.prim.name)
    return _scan(w, _guarded(w, more, limit), -(-limit // many), [*e.invars, zero], [*e.outvars, turns], e.source)


def counting(body: ClosedJaxpr, k: int, step: int) -> ClosedJaxpr:
    """A body whose last `k` arguments are turns, which hands them on, the last of them counted."""
    jaxpr = body.jaxpr
    *outer, own = jaxpr.invars[-k:]
    after = Var(_INT)
    count = Eqn(add_p, [own, Literal(np.int32(step), _INT)], [after], {})
    return with_signature(body, jaxpr.invars, [*jaxpr.outvars, *outer, after], [*jaxpr.eqns, count])


@takes(body=CLOSED, name=TEXT)
def checkpointed(body: ClosedJaxpr, name: str) -> ClosedJaxpr:
    """The program as one call that keeps its operands alone.

    Args:
      body: the program.
      name: of the call.
    Returns:
      A program with one equation.

    >>> from lamina_ir import parse
    >>> checkpointed(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), "again").jaxpr.eqns[0].primitive.name
    'remat'
    """
    ins, outs = [Var(a) for a in body.in_avals], [Var(a) for a in body.out_avals]
    body = ClosedJaxpr(body.jaxpr, body.consts)  # what is remembered with `body` may hold the call: a circle, without a copy
    params = {"call_jaxpr": body, "differentiated": False, "name": name, "policy": None, "prevent_cse": False}
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(remat_p, ins, outs, params)], outs))


def _of_all(w: Wired, wire: Wire) -> ClosedJaxpr:
    """A program in a loop that takes all operands of the loop."""
    return arrange(wire.program, [wire.ins.index(i) if i in wire.ins else w.type_inside(i) for i in range(len(w.kinds))],
                   range(len(wire.program.jaxpr.outvars)))


def _scan(w: Wired, step: ClosedJaxpr, length: int, invars: Sequence[Any], outvars: Sequence[Any], source: Any) -> Eqn:
    """The scan of a step that takes all operands of a loop, and perhaps a turn, which it carries last."""
    kinds = [*w.kinds, *[CARRIED] * (len(step.jaxpr.invars) - len(w.kinds))]
    order = sorted(range(len(kinds)), key=lambda i: (HELD, CARRIED, STACKED).index(kinds[i]))  # that of a scan's groups
    params = {"jaxpr": arrange(step, order, range(len(step.jaxpr.outvars))), "length": length, "num_consts": kinds.count(HELD),
              "num_carry": kinds.count(CARRIED), "reverse": bool(w.flow.reverse and w.params[w.flow.reverse]), "unroll": 1}
    return Eqn(control.scan_p, [invars[i] for i in order], outvars, params, source)


def _guarded(w: Wired, step: ClosedJaxpr, limit: int | None = None) -> ClosedJaxpr:
    """What `step`, of all operands of a loop, makes of what it carries, or that as it was where the test is false. Behind the
    operands may stand a turn, carried too: then the test is false from turn `limit` on."""
    test, n = w.wires[0], len(w.kinds)

    def make() -> tuple[ClosedJaxpr, ClosedJaxpr]:
        inner = test.program.jaxpr
        own = dict(zip(test.ins, inner.invars))  # the test stands in the step as it is, with its variables
        ins, mine = [own.get(i) or Var(a) for i, a in enumerate(step.in_avals)], [Var(a) for a in step.in_avals]
        truth, eqns, index, outs = inner.outvars[0], list(inner.eqns), Var(_INT), [Var(a) for a in step.out_avals]
        if limit is not None:
            early, both = Var(truth.aval), Var(truth.aval)
            eqns += [Eqn(lt_p, [ins[n], Literal(np.int32(limit), _INT)], [early], {}), Eqn(and_p, [truth, early], [both], {})]
            truth = both
        # The truth of the test is the number of the branch: 0 stays, 1 is a turn.
        stay = ClosedJaxpr(Jaxpr([], mine, [], [*mine[w.carry], *mine[n:]]))
        eqns += [Eqn(convert_element_type_p, [truth], [index], {"new_dtype": _INT.dtype, "weak_type": False}),
                 Eqn(control.cond_p, [index, *ins], outs, {"branches": (stay, step)})]
        return test.program, ClosedJaxpr(Jaxpr(inner.constvars, ins, eqns, outs), test.program.consts)

    return step.memo(("guarded", id(test.program), test.ins, limit), make)[1]  # the key has an `id` alone: the test is kept


# --- two equations ------------------------------------------------------------------------------------------------
def slots(rows: Sequence[Sequence[ShapedArray]]) -> tuple[list[ShapedArray], list[list[int]]]:
    """Types of shared slots for values of which each row needs its own, and the slot of each: a row takes the first slot of
    the type that it has not taken yet, so there are no more of a type than the row that needs most of it has."""
    if len(rows) == 1:
        return [a.strong() for a in rows[0]], [list(range(len(rows[0])))]
    types: list[ShapedArray] = []
    places = []
    of_type: dict[ShapedArray, list[int]] = {}  # the slots of each type
    for row in rows:
        taken, mine = Counter[ShapedArray](), []
        for aval in [a.strong() for a in row]:
            own = of_type.setdefault(aval, [])
            if taken[aval] == len(own):
                own.append(len(types))
                types.append(aval)
            mine.append(own[taken[aval]])
            taken[aval] += 1
        places.append(mine)
    return types, places


def _place(pair: tuple[int, Any]) -> int:
    return pair[0]


def filled(closed: ClosedJaxpr, outvars: Sequence[Any], types: Sequence[ShapedArray], places: Sequence[int],
           values: Sequence[Any]) -> ClosedJaxpr:
    """The program with these results, then the slots: its values in their places, and ones in the others. (A batched branch
    that is not chosen computes with what it finds there, and nothing divides by one.)"""
    if len(values) == len(types):
        return with_signature(closed, closed.jaxpr.invars, [*outvars, *[v for _, v in sorted(zip(places, values), key=_place)]])
    own = dict(zip(places, values))
    eqns = list(closed.jaxpr.eqns)
    more = [own[k] if k in own else constant(dtypes.is_inexact(a.dtype), a, eqns) for k, a in enumerate(types)]
    return with_signature(closed, closed.jaxpr.invars, [*outvars, *more], eqns)


@takes(program=CLOSED, count=INT)
@roomy()
def too_many(program: ClosedJaxpr, count: int) -> bool:
    """Whether a program would leave so many residuals that they are better computed again.

    It holds a program in several places, which holds one in several places, and so on. Then the number of residuals doubles
    with each level, and the number of operands does not. A function that is called often is no such case, only one that is
    nested so, over and over.

    Args:
      program: the program that is split.
      count: how many residuals it would leave.
    Returns:
      A truth value.

    >>> from lamina_ir import parse
    >>> too_many(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), 1000)
    False
    """
    if count <= 256 or program.jaxpr.effectful:  # an effect must not happen once more
        return False
    # places: how often each program stands in others. levels: of a program, how many that stand in several places lie in it,
    # one inside the other.
    places, levels = Counter[int](), dict[int, int]()

    def count_places(p: ClosedJaxpr) -> None:
        for s in [s for e in p.jaxpr.eqns for s in subprograms(e)]:
            places[id(s)] += 1
            if places[id(s)] == 1:
                count_places(s)

    def depth(p: ClosedJaxpr) -> int:
        if id(p) not in levels:
            levels[id(p)] = max([depth(s) + (places[id(s)] > 1) for e in p.jaxpr.eqns for s in subprograms(e)], default=0)
        return levels[id(p)]

    count_places(program)
    return depth(program) > 4


class Divided(NamedTuple):
    """Two equations for one. `one`, and `ahead` before it, bind the results that are done and what `two` reads of them."""

    ahead: list[Eqn]
    one: Eqn
    two: Eqn


@takes(e=_HOLDER, pairs=_PAIRS, early=_NUMBERS, done=_NUMBERS, late=_PLACES, rest=_PLACES)
def divide(e: Eqn, pairs: Sequence[tuple[ClosedJaxpr, ClosedJaxpr]], early: Sequence[int], done: Sequence[int],
           late: Sequence[tuple[int, Any]], rest: Sequence[tuple[int, Var]], w: Wired | None = None) -> Divided:
    """An equation as two, from two programs for each of its own.

    Args:
      e: the equation; a loop must stack (`as_scan`).
      pairs: per body (first, second): the first takes those of its operands that are `early` and gives the results that are
        `done`, then residuals; the second takes the residuals, then what is `late`, and gives the `rest`.
      early, done: numbers of operands and results of the first equation.
      late: for each further operand of the second equation the number of the operand of `e` that it goes in like (a tangent
        goes in like its primal), in order, and what it is.
      rest: for each of its results the number of the result of `e` that it comes out like, and its variable.
      w: `e` laid open, if it is.
    Returns:
      `(ahead, one, two)`: the two equations, and, of a loop with something that does not change from turn to turn, the call
      before it that computes this.
    Raises:
      ProgramError: there are not as many pairs as bodies.

    The residual of `sin(a) * b`, split before the product, is `sin(a)`:

    >>> from lamina_ir import parse
    >>> text = "xla_call[ call_jaxpr={ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) } name=f ]"
    >>> call = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = %s a b in (c,) }" % text).jaxpr.eqns[0]
    >>> first = parse("{ lambda ; a:f32[]. let c:f32[] = sin a in (c,) }")
    >>> second = parse("{ lambda ; c:f32[] b:f32[]. let d:f32[] = mul c b in (d,) }")
    >>> two = divide(call, [(first, second)], [0], [], [(1, call.invars[1])], [(0, call.outvars[0])]).two
    >>> two.outvars == call.outvars, len(two.invars)
    (True, 2)
    """
    w = Wired.of(e) if w is None else w
    if len(pairs) != len(w.bodies):
        raise ProgramError(f"divide: `{e.primitive.name}` has {len(w.bodies)} bodies; got {len(pairs)} pairs for them")
    loops, n, held = w.flow.loops, len(done), w.flow.group(HELD)
    if w.flow.binds is not None and (turns := w.flow.binds.turns(e.params)):
        sizes = {name: size for name, size in w.flow.binds.axes(e.params) if name in turns}
        pairs = [sparing(first, second, n, sizes) for first, second in pairs]
    # place: operand of `e` -> its place in the first equation, which takes `args`, described by `ops`, invariants last.
    firsts = [first for first, _ in pairs]
    place = {i: k for k, i in enumerate(early)}
    ins = [[i for i in b.ins if i in place] for b in w.bodies]
    args = [e.invars[i] for i in early]
    ops = w.operands(early, same=False)
    ahead = []
    if loops and held is not None:
        # Residuals that are the same in all turns would be stacked for nothing.
        found = _ahead(firsts[0], [w.kinds[i] == HELD for i in ins[0]], firsts[0].jaxpr.outvars[n:])
        if found is not None:
            before, firsts[0], count = found
            ahead = [_constants(before, [e.invars[i] for i in ins[0] if w.kinds[i] == HELD])]
            ops += [Slot(held)] * count
            args += ahead[0].outvars
    invariants = range(len(early), len(args))
    # What the second equation reads: the operand that chooses, which goes to both; what it is given as it is, operands,
    # invariants and results of the first; residuals in slots of their own; then what is late. `given` numbers the second kind.
    read: list[Any] = [] if w.chooser is None else [e.invars[w.chooser]]
    operands = [] if w.chooser is None else w.operands([w.chooser])
    given: dict[int, int] = {}
    group: int = w.flow.group(STACKED) if loops else held  # type: ignore[assignment]
    sources: list[list[int | None]] = []  # per program and residual: its number in `given`, or None
    fresh: list[list[Any]] = []  # per program: the other residuals
    for first, own in zip(firsts, ins):
        # at: residuals that somebody holds already: an operand (a carry is another in each turn), an invariant, or a result.
        inner, outs = first.jaxpr.invars, first.jaxpr.outvars
        at: dict[Any, int] = {v: place[i] for v, i in zip(inner, own) if w.kinds[i] != CARRIED}
        at.update(zip(inner[len(own):], invariants))
        if len(pairs) == 1 and not w.flow.binds:  # what is a result too is not handed over twice
            for k, (v, j) in enumerate(zip(outs, done)):
                if j >= w.n_carry and type(e.outvars[j]) is Var and type(v) is Var:
                    at.setdefault(v, len(args) + k)
        numbers = [at.get(v) if type(v) is Var else None for v in outs[n:]]
        for m in numbers:
            if m is not None and m not in given:
                given[m] = len(read)
                read.append(args[m] if m < len(args) else e.outvars[done[m - len(args)]])
                operands.append(ops[m] if m < len(args) else Slot(group))
        sources.append(numbers)
        fresh.append([v for v, k in zip(outs[n:], numbers) if k is None])
    # All other residuals become results of the first equation, stacked in a loop: `types` are those of their slots.
    types, places = slots([[v.aval for v in values] for values in fresh])
    between = [Var(w.type_stacked(a)) for a in types]
    made = [(filled(first, first.jaxpr.outvars[:n], types, mine, values), [*[place[i] for i in own], *invariants],
             range(n + len(types))) for first, values, mine, own in zip(firsts, fresh, places, ins)]
    one = w.write(ops, [*w.results(done), *[Slot(1, a) for a in types]], made)
    at_slots, at_late = len(read), len(read) + len(types)
    operands += [*[Slot(group, a) for a in types], *[Slot(w.groups[i], None, i) for i, _ in late]]
    seconds = []
    for (_, second), numbers, mine, b in zip(pairs, sources, places, w.bodies):
        stored = iter(mine)
        takes = [at_slots + next(stored) if k is None else given[k] for k in numbers]
        takes += [at_late + m for m, (i, _) in enumerate(late) if i in b.ins]
        seconds.append((second, takes, range(len(rest))))
    two = w.write(operands, [Slot(int(j >= w.n_carry), None, j) for j, _ in rest], seconds)
    return Divided(ahead, one.eqn(e.primitive, args, [*[e.outvars[j] for j in done], *between], e.source),
                   two.eqn(e.primitive, [*read, *between, *[a for _, a in late]], [v for _, v in rest], e.source))
