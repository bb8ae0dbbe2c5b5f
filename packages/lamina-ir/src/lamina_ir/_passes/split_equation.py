"""Split one equation with nested programs into two stages, with residuals in between.

Let f(x, u) be a nested program whose x is known first. A caller splits it into halves, f(x, u) = g(r(x), u): the first
half computes the residuals r(x), the second half g. The caller may be partial evaluation, the policy of a checkpoint,
or linearization, where g is linear in u: f(x + u) ~ f(x) + g(r(x)) u. If an equation runs f in a loop, as one of
several branches, or once per member of a map, `split_equation` builds two equations that run the halves in the same
way.

The difficulty is where the residuals are stored between the two equations:

- A call or a map returns them as further results. In a map each member has its own.
- A loop stacks them: one slice per iteration, which the second loop scans over. Residuals that are the same in all
  iterations are not stacked; the equations that compute them are hoisted in front of the loop.
- Branches have different residuals, but must return the same types. So they share slots: each branch stores its
  residuals in slots of the right types and fills the others with ones. The second equation selects the same branch, so
  each branch reads only what it has written.
- A residual that is also an operand or a result of the first equation is not returned again; the second equation reads
  it from there.

Loops that cannot stack are converted first: `as_scan` and `checkpointed_scan` make a bounded `while` loop a scan of
*idle steps*. An idle step is a `cond` on the loop's test; once the test is false, the remaining steps do nothing.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import ProgramError
from .._types import dtypes
from .._util.recursion_limit import with_recursion_limit
from .rematerialize import recompute_cheap_residuals
from .._core.arg_checks import CLOSED_JAXPR, EQN, INT, ArgType, LOOP, TEXT, check_args
from .._types.avals import ShapedArray, shaped
from .._core.region_signature import CARRY, CONST, SCANNED
from ..prims import control
from ..prims.calls import xla_call_p
from ..prims.custom import remat_p
from ..prims.elementwise import add_p, and_p, convert_element_type_p, lt_p
from ..prims.shape import broadcast_in_dim_p
from .._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, eqn_has_effects, subprograms
from .._core.rewrite import dce
from .._core.region_view import OperandSpec, Region, RegionView, reorder_signature, replace_signature
from ..typing import Value
from .._core.source_info import Source

__all__ = ["SplitEquation", "as_scan", "assign_residual_slots", "checkpointed_scan", "count_iterations",
           "emit_constant", "exceeds_residual_budget", "fill_residual_slots", "hoist_invariants", "split_equation",
           "wrap_in_checkpoint"]

_INT = shaped((), np.dtype("int32"))


def _list_of(description: str, test: Callable[[Sequence[object]], bool]) -> ArgType:
    return ArgType(description, lambda v: (isinstance(v, (tuple, list))
                                           and all(isinstance(x, (tuple, list)) and test(x) for x in v)))


def _is_bounded(v: Any) -> bool:
    return (LOOP.test(v) and bool(v.primitive.region_signature.max_iters)
            and v.params[v.primitive.region_signature.max_iters] is not None)


_BOUNDED = ArgType("an equation of a loop with a bound", _is_bounded)
_HOLDER = ArgType("an equation that holds programs",
                  lambda v: EQN.test(v) and bool(v.primitive.region_signature and v.primitive.region_signature.operands))
_NUMBERS = ArgType("a list of ints", lambda v: isinstance(v, (tuple, list, range)) and all(isinstance(i, int) for i in v))
_PAIRS = _list_of("a list of pairs of ClosedJaxprs", lambda p: len(p) == 2 and all(isinstance(q, ClosedJaxpr) for q in p))
_PLACES = _list_of("a list of pairs of an index and a value", lambda p: len(p) == 2 and isinstance(p[0], int))


def emit_constant(value: float, aval: ShapedArray, eqns: list[Eqn]) -> Atom:
    """Return an atom for an array filled with `value`; append the equation that makes it, if needed, to `eqns`."""
    literal = Literal(np.asarray(value, aval.dtype)[()], ShapedArray((), aval.dtype))
    if not aval.shape:
        return literal
    var = Var(aval.strip_weak_type())
    eqns.append(Eqn(broadcast_in_dim_p, (literal,), (var,), {"shape": aval.shape, "broadcast_dimensions": ()}))
    return var


# --- loop invariants ----------------------------------------------------------------------------------------------
def _constants(program: ClosedJaxpr, args: Sequence[Value]) -> Eqn:
    """Return the call, placed before a loop, that computes its invariants."""
    return Eqn(xla_call_p, args, [Var(a) for a in program.out_avals],
               {"call_jaxpr": program, "name": "loop_constants", **xla_call_p.defaults})


def _split_invariants(body: ClosedJaxpr, fixed: Sequence[bool],
                      wanted: Sequence[Atom] | None) -> tuple[ClosedJaxpr, ClosedJaxpr, int] | None:
    """Split the loop-invariant equations off the body of a loop.

    Return (program: fixed operands -> invariants; the body, which takes these as last arguments; their number), or None
    if there are none. An equation is invariant if it has no effects and reads no varying value. Values that depend on
    no operand at all (iota, broadcast literals) stay in the body: they are cheap to compute in each iteration.
    """
    jaxpr = body.jaxpr
    # varying: values that differ between iterations. depends: values that depend on fixed operands alone; made: those
    # of them that equations bind. read: values that varying equations and results read; only these are worth hoisting.
    # early: the equations that can be hoisted.
    varying = {v for v, f in zip(jaxpr.invars, fixed) if not f}
    depends = {v for v, f in zip(jaxpr.invars, fixed) if f}
    made: dict[Atom, None] = {}
    read: list[Atom] = []
    early: list[Eqn] = []
    for e in jaxpr.eqns:
        if not varying.isdisjoint(e.invars) or eqn_has_effects(e):
            varying.update(e.outvars)
            read += e.invars
            continue
        early.append(e)
        if not depends.isdisjoint(e.invars):
            depends.update(e.outvars)
            made.update(dict.fromkeys(e.outvars))
    read += jaxpr.outvars
    values = [v for v in dict.fromkeys(read if wanted is None else wanted)
              if type(v) is not Literal and v in made]
    if not values:
        return None
    given = [v for v, f in zip(jaxpr.invars, fixed) if f]
    before = dce(ClosedJaxpr(Jaxpr(jaxpr.constvars, given, early, values), body.consts), instantiate=True)[0]
    # An equation with several results may bind hoisted values and others. It stays in the body, with the hoisted
    # results dropped; `dce` removes it if the others are unused.
    known = set(values)
    eqns = [e if known.isdisjoint(e.outvars) else e.replace(outvars=[DropVar(v.aval) if v in known else v for v in e.outvars])
            for e in jaxpr.eqns if not known.issuperset(e.outvars) or not e.outvars]
    rest = dce(replace_signature(body, [*jaxpr.invars, *values], jaxpr.outvars, eqns), instantiate=True)[0]
    return before, rest, len(values)


def hoist_invariants(e: Eqn, known: Sequence[bool] | None = None) -> tuple[list[Eqn], Eqn]:
    """Hoist what the body of a loop computes from constant operands alone (those that are `known`).

    Return the equations to put in front of the loop, and the new loop.
    """
    w = RegionView.of(e)
    group, body = w.region_signature.group(CONST), w.bodies[0]
    if group is None or not w.region_signature.loops or eqn_has_effects(e):
        return [], e
    fixed = tuple([w.kinds[i] == CONST and (known is None or known[i]) for i in body.ins])
    found = body.program.memo(("ahead", fixed), lambda: _split_invariants(body.program, fixed, None))
    if found is None:
        return [], e
    before, rest, count = found
    ahead = _constants(before, [e.invars[i] for i, f in zip(body.ins, fixed) if f])
    n = len(e.invars)
    outs = list(range(w.n_results))
    programs = [(p.program, p.ins, outs) for p in w.regions[:-1]] + [(rest, [*body.ins, *range(n, n + count)], outs)]
    written = w.rebuild([*w.operands(), *[OperandSpec(group)] * count], w.results(), programs)
    return [ahead], written.eqn(e.primitive, [*e.invars, *ahead.outvars], e.outvars, e.source)


# --- loops that cannot stack --------------------------------------------------------------------------------------
@check_args(e=LOOP)
def as_scan(e: Eqn) -> Eqn | None:
    """Convert a loop of known or bounded length to a `scan`, which can stack residuals and run in reverse.

    A bounded loop becomes a scan of idle steps: once its test is false, the carry no longer changes, since a step that
    changes nothing leaves the test false.

    Args:
      e: an equation of a primitive whose region signature is a loop.
    Returns:
      The equation of a scan with the same results; None if the loop has no bound.

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
    w = RegionView.of(e)
    length_param = w.region_signature.length or w.region_signature.max_iters
    length = e.params[length_param] if length_param else None
    if length is None:
        return None
    step = _with_all_operands(w, w.bodies[0])
    if w.region_signature.test:
        step = _idle_step(w, step)
    return _scan(w, step, length, e.invars, e.outvars, e.source)


@check_args(e=_BOUNDED)
def checkpointed_scan(e: Eqn) -> Eqn:
    """Convert a bounded loop of length n to a scan of checkpointed scans.

    There are about sqrt(n) segments of sqrt(n) steps; steps after the end of the loop are idle.
    Reverse mode then stores O(sqrt(n)) carries: the first one of each segment, and all of the segment that is being
    recomputed. Each step is computed at most twice. Segments after the end of the loop are skipped.

    Args:
      e: an equation of a primitive whose region signature is a loop with `test` and `max_iters`.
    Returns:
      The equation of a scan with the same results, and then the number of iterations.

    >>> from lamina_ir import parse
    >>> test = "{ lambda ; c:f32[]. let d:bool[] = lt c 9.0:f32[] in (d,) }"
    >>> body = "{ lambda ; e:f32[]. let f:f32[] = mul e 2.0:f32[] in (f,) }"
    >>> loop = f"while[ cond_jaxpr={test} body_jaxpr={body} cond_nconsts=0 body_nconsts=0 max_iters=10 ] a"
    >>> closed = parse("{ lambda ; a:f32[]. let b:f32[] = %s in (b,) }" % loop)
    >>> checkpointed_scan(closed.jaxpr.eqns[0]).params["length"]  # segments of four iterations each
    3
    """
    w = RegionView.of(e)
    limit = e.params[w.region_signature.max_iters]
    per_segment = math.isqrt(max(limit - 1, 0)) + 1  # ceil(sqrt(limit))
    zero, counter = Literal(np.int32(0), _INT), Var(_INT)
    # Both programs take the operands, then an iteration counter. It is needed because `limit` need not be a multiple of
    # the segment length, so the last segment must stop early.
    body = _with_all_operands(w, w.bodies[0])
    body = count_iterations(replace_signature(body, [*body.jaxpr.invars, Var(_INT)], body.jaxpr.outvars), 1, 1)
    step = _idle_step(w, body, limit)
    ins, outs = [Var(a) for a in step.in_avals], [Var(a) for a in step.out_avals]
    segment = ClosedJaxpr(Jaxpr([], ins, [_scan(w, step, per_segment, ins, outs, e.source)], outs))
    segment = _idle_step(w, wrap_in_checkpoint(segment, w.prim.name), limit)
    return _scan(w, segment, -(-limit // per_segment), [*e.invars, zero], [*e.outvars, counter], e.source)


def count_iterations(body: ClosedJaxpr, k: int, step: int) -> ClosedJaxpr:
    """Return a loop body whose last `k` arguments, iteration counters, are carried on; add `step` to the last of
    them."""
    jaxpr = body.jaxpr
    *outer, own = jaxpr.invars[-k:]
    after = Var(_INT)
    count = Eqn(add_p, [own, Literal(np.int32(step), _INT)], [after], {})
    return replace_signature(body, jaxpr.invars, [*jaxpr.outvars, *outer, after], [*jaxpr.eqns, count])


@check_args(body=CLOSED_JAXPR, name=TEXT)
def wrap_in_checkpoint(body: ClosedJaxpr, name: str) -> ClosedJaxpr:
    """Wrap a program in one checkpointed call, which saves only its operands for reverse mode.

    Args:
      body: the program.
      name: the name of the call.
    Returns:
      A program with one equation.

    >>> from lamina_ir import parse
    >>> wrap_in_checkpoint(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), "again").jaxpr.eqns[0].primitive.name
    'remat'
    """
    ins, outs = [Var(a) for a in body.in_avals], [Var(a) for a in body.out_avals]
    # Copy: the result may be memoized with `body`, and then a call that holds `body` itself would be a reference cycle.
    body = ClosedJaxpr(body.jaxpr, body.consts)
    params = {"call_jaxpr": body, "differentiated": False, "name": name, "policy": None, "prevent_cse": False}
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(remat_p, ins, outs, params)], outs))


def _with_all_operands(w: RegionView, region: Region) -> ClosedJaxpr:
    """Return a region of a loop with a signature that takes all operands of the loop; those it does not read are
    unused."""
    ins = [region.ins.index(i) if i in region.ins else w.inner_aval(i) for i in range(len(w.kinds))]
    return reorder_signature(region.program, ins, range(len(region.program.jaxpr.outvars)))


def _scan(w: RegionView, step: ClosedJaxpr, length: int, invars: Sequence[Atom], outvars: Sequence[Var],
          source: Source | None) -> Eqn:
    """Return the scan of a step that takes all operands of a loop, and possibly an iteration counter as last carry."""
    kinds = [*w.kinds, *[CARRY] * (len(step.jaxpr.invars) - len(w.kinds))]
    order = sorted(range(len(kinds)), key=lambda i: (CONST, CARRY, SCANNED).index(kinds[i]))  # operand order of scan
    reverse = bool(w.region_signature.reverse and w.params[w.region_signature.reverse])
    params = {"jaxpr": reorder_signature(step, order, range(len(step.jaxpr.outvars))), "length": length,
              "num_consts": kinds.count(CONST), "num_carry": kinds.count(CARRY), "reverse": reverse, "unroll": 1}
    return Eqn(control.scan_p, [invars[i] for i in order], outvars, params, source)


def _idle_step(w: RegionView, step: ClosedJaxpr, limit: int | None = None) -> ClosedJaxpr:
    """Return the program that runs `step` if the loop's test is true, and otherwise returns the carry unchanged.

    `step` takes all operands of the loop. If `limit` is given, it also takes an iteration counter, carried too, and the
    test is false from iteration `limit` on.
    """
    test, n = w.regions[0], len(w.kinds)

    def make() -> tuple[ClosedJaxpr, ClosedJaxpr]:
        inner = test.program.jaxpr
        own = dict(zip(test.ins, inner.invars))  # the test is inlined with its own variables
        ins, mine = [own.get(i) or Var(a) for i, a in enumerate(step.in_avals)], [Var(a) for a in step.in_avals]
        truth, eqns, index, outs = inner.outvars[0], list(inner.eqns), Var(_INT), [Var(a) for a in step.out_avals]
        if limit is not None:
            early, both = Var(truth.aval), Var(truth.aval)
            eqns += [Eqn(lt_p, [ins[n], Literal(np.int32(limit), _INT)], [early], {}), Eqn(and_p, [truth, early], [both], {})]
            truth = both
        # The test selects the branch: 0 keeps the carry, 1 runs the step.
        stay = ClosedJaxpr(Jaxpr([], mine, [], [*mine[w.carry], *mine[n:]]))
        eqns += [Eqn(convert_element_type_p, [truth], [index], {"new_dtype": _INT.dtype, "weak_type": False}),
                 Eqn(control.cond_p, [index, *ins], outs, {"branches": (stay, step)})]
        return test.program, ClosedJaxpr(Jaxpr(inner.constvars, ins, eqns, outs), test.program.consts)

    # The key contains only the `id` of the test, so the memoized value holds the test itself to keep the id valid.
    return step.memo(("idle step", id(test.program), test.ins, limit), make)[1]


# --- the two equations --------------------------------------------------------------------------------------------
def assign_residual_slots(residuals: Sequence[Sequence[ShapedArray]]) -> tuple[list[ShapedArray], list[list[int]]]:
    """Assign the residuals of several branches to shared slots.

    A residual gets the first slot of its type that its branch does not use yet. So there are as many slots of a type as
    the branch that needs most of them has residuals of that type.

    Args:
      residuals: for each branch the types of its residuals.
    Returns:
      (types of the slots, for each branch the slot of each residual).
    """
    if len(residuals) == 1:
        return [a.strip_weak_type() for a in residuals[0]], [list(range(len(residuals[0])))]
    types: list[ShapedArray] = []
    places = []
    of_type: dict[ShapedArray, list[int]] = {}  # type -> its slots
    for of_branch in residuals:
        taken, mine = Counter[ShapedArray](), []
        for aval in [a.strip_weak_type() for a in of_branch]:
            own = of_type.setdefault(aval, [])
            if taken[aval] == len(own):
                own.append(len(types))
                types.append(aval)
            mine.append(own[taken[aval]])
            taken[aval] += 1
        places.append(mine)
    return types, places


def fill_residual_slots(closed: ClosedJaxpr, outvars: Sequence[Atom], types: Sequence[ShapedArray],
                        places: Sequence[int], values: Sequence[Value]) -> ClosedJaxpr:
    """Return the program with results `outvars`, then all slots: `values` at `places`, and ones in unused slots.

    Unused slots contain ones rather than zeros, because under `vmap` all branches run, and a branch that was not
    selected computes with the contents of its slots; it may divide by them.
    """
    own = dict(zip(places, values))
    if len(own) == len(types):
        return replace_signature(closed, closed.jaxpr.invars, [*outvars, *[own[k] for k in range(len(types))]])
    eqns = list(closed.jaxpr.eqns)
    more = [own[k] if k in own else emit_constant(dtypes.is_inexact(a.dtype), a, eqns) for k, a in enumerate(types)]
    return replace_signature(closed, closed.jaxpr.invars, [*outvars, *more], eqns)


@check_args(program=CLOSED_JAXPR, count=INT)
@with_recursion_limit()
def exceeds_residual_budget(program: ClosedJaxpr, count: int) -> bool:
    """Return whether a program would have so many residuals that recomputing them is better.

    This happens if a program is called from several equations, and itself calls a program from several equations, and
    so on. The number of residuals at least doubles with each level, while the number of operands does not grow. A
    function that is merely called often is not such a case.

    Args:
      program: the program to be split.
      count: the number of its residuals.
    Returns:
      A bool.

    >>> from lamina_ir import parse
    >>> exceeds_residual_budget(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), 1000)
    False
    """
    if count <= 256 or program.jaxpr.effectful:  # an effect must not be repeated
        return False
    # uses: how many equations hold each program. levels: the nesting depth inside a program, counting only programs
    # with several uses.
    uses, levels = Counter[int](), dict[int, int]()

    def count_uses(p: ClosedJaxpr) -> None:
        for s in [s for e in p.jaxpr.eqns for s in subprograms(e)]:
            uses[id(s)] += 1
            if uses[id(s)] == 1:
                count_uses(s)

    def depth(p: ClosedJaxpr) -> int:
        if id(p) not in levels:
            levels[id(p)] = max([depth(s) + (uses[id(s)] > 1) for e in p.jaxpr.eqns for s in subprograms(e)], default=0)
        return levels[id(p)]

    count_uses(program)
    return depth(program) > 4


class SplitEquation(NamedTuple):
    """The two equations that replace one. `hoisted` and `first` bind the known results and the residuals; `second`
    reads the residuals and binds the other results."""

    hoisted: list[Eqn]
    first: Eqn
    second: Eqn


@check_args(e=_HOLDER, pairs=_PAIRS, early=_NUMBERS, done=_NUMBERS, late=_PLACES, rest=_PLACES)
def split_equation(e: Eqn, pairs: Sequence[tuple[ClosedJaxpr, ClosedJaxpr]], early: Sequence[int], done: Sequence[int],
                   late: Sequence[tuple[int, Atom]], rest: Sequence[tuple[int, Var]],
                   w: RegionView | None = None) -> SplitEquation:
    """Split an equation into two, given the two halves of each of its bodies.

    Args:
      e: the equation; a loop must be able to stack (`as_scan`).
      pairs: per body (first, second). `first` takes the body's operands that are `early` and returns the results that
        are `done`, then residuals. `second` takes the residuals, then the operands that are `late`, and returns the
        `rest`.
      early, done: the indices of the operands and results of the first equation.
      late: for each further operand of the second equation, in order: the index of the operand of `e` that it
        corresponds to (a tangent corresponds to its primal), and the atom.
      rest: for each result of the second equation: the index of the corresponding result of `e`, and the variable.
      w: the view of `e`, if the caller has it.
    Returns:
      `(hoisted, first, second)`: the two equations, and for a loop with invariant residuals the call before it that
      computes these.
    Raises:
      ProgramError: there are not as many pairs as bodies.

    The residual of `sin(a) * b`, split before the product, is `sin(a)`:

    >>> from lamina_ir import parse
    >>> text = "xla_call[ call_jaxpr={ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) } name=f ]"
    >>> call = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = %s a b in (c,) }" % text).jaxpr.eqns[0]
    >>> first = parse("{ lambda ; a:f32[]. let c:f32[] = sin a in (c,) }")
    >>> second = parse("{ lambda ; c:f32[] b:f32[]. let d:f32[] = mul c b in (d,) }")
    >>> two = split_equation(call, [(first, second)], [0], [], [(1, call.invars[1])], [(0, call.outvars[0])]).second
    >>> two.outvars == call.outvars, len(two.invars)
    (True, 2)
    """
    w = RegionView.of(e) if w is None else w
    if len(pairs) != len(w.bodies):
        raise ProgramError(f"split_equation: pairs must have one pair for each of the {len(w.bodies)} bodies of "
                           f"`{e.primitive.name}`; got {len(pairs)}")
    n = len(done)
    # Along serial axes the residuals of all positions are stored at once, so recompute the cheap ones.
    if w.region_signature.axis_binding is not None and (serial := w.region_signature.axis_binding.serial_axes(e.params)):
        sizes = {name: size for name, size in w.region_signature.axis_binding.axes(e.params) if name in serial}
        pairs = [recompute_cheap_residuals(first, second, n, sizes) for first, second in pairs]
    inputs = _first_inputs(e, w, [first for first, _ in pairs], early, n)
    found = _find_existing_values(e, w, inputs, done)
    # All other residuals become results of the first equation, in slots of the given types; a loop stacks them.
    types, places = assign_residual_slots([[v.aval for v in values] for values in found.fresh])
    between = [Var(w.outer_aval(a)) for a in types]
    bodies = [(fill_residual_slots(first, first.jaxpr.outvars[:n], types, slots, values),
               [*[inputs.place[i] for i in own], *inputs.invariants], range(n + len(types)))
              for first, values, slots, own in zip(inputs.firsts, found.fresh, places, inputs.own)]
    one = w.rebuild(inputs.specs, [*w.results(done), *[OperandSpec(1, a) for a in types]], bodies)
    # Each second half reads existing values, then its slots, then its late operands.
    at_slots, at_late = len(found.atoms), len(found.atoms) + len(types)
    specs = [*found.specs, *[OperandSpec(found.group, a) for a in types], *[OperandSpec(w.groups[i], None, i) for i, _ in late]]
    seconds = []
    for (_, second), sources, slots, b in zip(pairs, found.sources, places, w.bodies):
        own_slots = iter(slots)
        operands = [at_slots + next(own_slots) if m is None else found.position[m] for m in sources]
        operands += [at_late + m for m, (i, _) in enumerate(late) if i in b.ins]
        seconds.append((second, operands, range(len(rest))))
    two = w.rebuild(specs, [OperandSpec(int(j >= w.n_carry), None, j) for j, _ in rest], seconds)
    return SplitEquation(
        inputs.hoisted, one.eqn(e.primitive, inputs.args, [*[e.outvars[j] for j in done], *between], e.source),
        two.eqn(e.primitive, [*found.atoms, *between, *[a for _, a in late]], [v for _, v in rest], e.source))


class _FirstInputs(NamedTuple):
    """The operands of the first equation, and the first halves that take them.

    Attributes:
      firsts: the first half of each body; residuals that are the same in all iterations are arguments of it.
      args: the operands, the invariant residuals last.
      specs: what each operand is.
      place: index of an operand of the whole equation -> its position in `args`.
      own: per body, the operands of the whole equation that its first half takes.
      invariants: the positions of the invariant residuals in `args`.
      hoisted: the call that computes these, in a list; empty without any.
    """

    firsts: list[ClosedJaxpr]
    args: list[Atom]
    specs: list[OperandSpec]
    place: dict[int, int]
    own: list[list[int]]
    invariants: range
    hoisted: list[Eqn]


def _first_inputs(e: Eqn, w: RegionView, firsts: list[ClosedJaxpr], early: Sequence[int], n: int) -> _FirstInputs:
    """Return the operands of the first equation. `n` is the number of its results that are no residuals."""
    place = {i: k for k, i in enumerate(early)}
    own = [[i for i in b.ins if i in place] for b in w.bodies]
    args = [e.invars[i] for i in early]
    specs = w.operands(early, same=False)
    hoisted: list[Eqn] = []
    const_group = w.region_signature.group(CONST)
    if w.region_signature.loops and const_group is not None:
        # Hoist residuals that are the same in all iterations, instead of stacking them.
        is_const = [w.kinds[i] == CONST for i in own[0]]
        found = _split_invariants(firsts[0], is_const, firsts[0].jaxpr.outvars[n:])
        if found is not None:
            before, first, count = found
            firsts = [first, *firsts[1:]]
            hoisted = [_constants(before, [e.invars[i] for i, const in zip(own[0], is_const) if const])]
            specs += [OperandSpec(const_group)] * count
            args += hoisted[0].outvars
    return _FirstInputs(firsts, args, specs, place, own, range(len(early), len(args)), hoisted)


class _ExistingValues(NamedTuple):
    """The residuals that the second equation can read from values which exist anyway.

    Those are operands, invariants and results of the first equation. A value has a number: its index in the operands of
    the first equation followed by its results.

    Attributes:
      atoms: what the second equation reads first: the selector of branches, then existing values.
      specs: what each of them is as an operand.
      group: the operand group of residuals.
      position: number of an existing value -> its index in `atoms`.
      sources: per body and residual, the number of the existing value; None for others.
      fresh: per body, the other residuals.
    """

    atoms: list[Atom]
    specs: list[OperandSpec]
    group: int
    position: dict[int, int]
    sources: list[list[int | None]]
    fresh: list[list[Atom]]


def _find_existing_values(e: Eqn, w: RegionView, inputs: _FirstInputs, done: Sequence[int]) -> _ExistingValues:
    """Find the residuals of the first halves that exist outside of the bodies."""
    atoms: list[Atom] = [] if w.selector is None else [e.invars[w.selector]]
    specs = [] if w.selector is None else w.operands([w.selector])
    group: int = w.region_signature.group(SCANNED if w.region_signature.loops else CONST)  # type: ignore[assignment]
    position: dict[int, int] = {}
    sources: list[list[int | None]] = []
    fresh: list[list[Atom]] = []
    count, n = len(inputs.args), len(done)
    for first, own in zip(inputs.firsts, inputs.own):
        # number: variable of the body -> number of its value outside. A carry has none: it changes in each iteration.
        inner, outs = first.jaxpr.invars, first.jaxpr.outvars
        number: dict[Atom, int] = {v: inputs.place[i] for v, i in zip(inner, own) if w.kinds[i] != CARRY}
        number.update(zip(inner[len(own):], inputs.invariants))
        # A residual that is also a result is not returned twice. In a loop this holds for stacked results only, and in
        # a map never, since its results have the types of all members together.
        if len(inputs.firsts) == 1 and not w.region_signature.axis_binding:
            for k, (v, j) in enumerate(zip(outs, done)):
                if j >= w.n_carry and type(e.outvars[j]) is Var and type(v) is Var:
                    number.setdefault(v, count + k)
        numbers = [number.get(v) if type(v) is Var else None for v in outs[n:]]
        for m in numbers:
            if m is not None and m not in position:
                position[m] = len(atoms)
                atoms.append(inputs.args[m] if m < count else e.outvars[done[m - count]])
                specs.append(inputs.specs[m] if m < count else OperandSpec(group))
        sources.append(numbers)
        fresh.append([v for v, m in zip(outs[n:], numbers) if m is None])
    return _ExistingValues(atoms, specs, group, position, sources, fresh)
