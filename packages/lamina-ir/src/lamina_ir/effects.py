"""Order of effects as data: a number is handed from each ordered callback to the next, through all nested programs.

A compiler may reorder calls that do not depend on each other. `thread_order` makes each ordered call an operand of the
next, so that any backend keeps them in the order of the text with nothing but data dependence. It is the last step
before lowering: no transformation sees threaded programs. So is `number_turns`, which tells callbacks in loops in which turn
they are called. `guarded` is used where all examples of a batch run what only some of them asked for: checks there hold
for the others.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dtypes, prims
from ._stack_depth import roomy
from .arguments import CLOSED, takes
from .avals import ShapedArray, shaped
from .errors import MissingRuleError
from .flow import CARRIED, HELD
from .program import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eqn_effectful, subprograms
from .rewrite import map_subprograms
from .stages import counting
from .wiring import Slot, Wired, with_signature

__all__ = ["calls_host", "guarded", "happens_once", "has_checks", "has_ordered_effects", "number_turns",
           "only_checks", "thread_order"]

_TOKEN = _INDEX = shaped((), np.dtype("int32"))
_TRUTH = shaped((), np.dtype("bool"))
_HOST = frozenset((prims.pure_callback_p, prims.io_callback_p, prims.debug_callback_p))


@takes(program=CLOSED)
def calls_host(program: ClosedJaxpr) -> bool:
    """Whether a callback of any kind is in a program or in one nested in it."""
    return program.memo("calls host", lambda: any(e.primitive in _HOST or any(map(calls_host, subprograms(e)))
                                                  for e in program.jaxpr.eqns))


@takes(program=CLOSED)
def happens_once(program: ClosedJaxpr) -> str | None:
    """Whether a program, or one nested in it, has an effect that must happen exactly once per run, so that it cannot be run
    again, or for examples of a batch that have no part in it. A report for debugging may be repeated.

    Args:
      program: what to look at.
    Returns:
      The name of an op with such an effect; None if there is none.

    >>> from lamina_ir import parse
    >>> happens_once(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")) is None
    True
    """
    def find() -> str | None:
        eqns = program.jaxpr.eqns
        own = (e.primitive.name for e in eqns if e.primitive.effectful and not _reports(e))
        inside = (happens_once(s) for e in eqns if e.primitive.subprograms for s in subprograms(e))
        return next((name for names in (own, inside) for name in names if name is not None), None)

    return program.memo("happens once", find) if program.jaxpr.effectful else None


def _reports(e: Eqn) -> bool:
    return e.primitive is prims.debug_callback_p or (e.primitive is prims.io_callback_p and e.params["callback"].repeats)


def _is_check(e: Eqn) -> bool:
    return e.primitive is prims.debug_callback_p and e.params["callback"].checks


@takes(program=CLOSED)
def has_checks(program: ClosedJaxpr) -> bool:
    """Whether a check is in a program or in one nested in it.

    Args:
      program: what to look at.

    >>> from lamina_ir import parse
    >>> has_checks(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    False
    """
    def find() -> bool:
        return any(_is_check(e) or any(map(has_checks, subprograms(e))) for e in program.jaxpr.eqns)

    return program.jaxpr.effectful and program.memo("has checks", find)


@takes(program=CLOSED)
def only_checks(program: ClosedJaxpr) -> bool:
    """Whether a program, and those nested in it, have no effects but checks, which may be repeated without harm.

    Args:
      program: what to look at.

    >>> from lamina_ir import parse
    >>> only_checks(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    True
    """
    def find() -> bool:
        return all(_is_check(e) if e.primitive.effectful else all(map(only_checks, subprograms(e)))
                   for e in program.jaxpr.eqns)

    return not program.jaxpr.effectful or program.memo("only checks", find)


@takes(program=CLOSED)
def has_ordered_effects(program: ClosedJaxpr) -> bool:
    """Whether a program, or one nested in it, has effects whose order counts."""
    return program.memo("ordered effects", lambda: program.jaxpr.effectful and any(map(_ordered, program.jaxpr.eqns)))


def _ordered(e: Eqn) -> bool:
    if e.primitive.family == "callbacks":
        return bool(e.params.get("ordered"))
    return eqn_effectful(e) and any(map(has_ordered_effects, subprograms(e)))


@takes(program=CLOSED)
def thread_order(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with one more int32 argument and result, last, that every ordered effect passes on.

    Raises:
      MissingRuleError: an op holds a program with ordered effects, and its flow does not say how a value is handed through.
    """
    return program.memo("threaded", lambda: _thread(program))


def _thread(program: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = program.jaxpr
    start = Var(_TOKEN)
    token: Any = start
    eqns = []
    for e in jaxpr.eqns:
        if _ordered(e):
            after = Var(_TOKEN)
            eqns.append(_widened(e, token, after))
            token = after
        else:
            eqns.append(e)
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, [*jaxpr.invars, start], eqns, [*jaxpr.outvars, token]), program.consts)


def _widened(e: Eqn, token: Any, after: Var) -> Eqn:
    """The equation with the token through it: through a loop with what it carries, else with what it holds. Calls with
    rules are widened too, their rules not: those have been used by now, or stand in derived programs of their own."""
    flow = e.primitive.flow
    if flow is None:
        return Eqn(e.primitive, [*e.invars, token], [*e.outvars, after], {**e.params, "threaded": True}, e.source)
    group = flow.group(CARRIED if flow.loops else HELD)
    if group is None or flow.binds:
        why = ("each member of a map has its own order" if flow.binds else
               f"its flow has no operands that are {'carried' if flow.loops else 'held'}")
        raise MissingRuleError(f"ordered effects inside of `{e.primitive.name}` are not defined: {why}; use ordered=False "
                               "(see docs/nested-programs.md)")
    return _handed(e, group, [token], [after], thread_order)


def _handed(e: Eqn, group: int, given: Sequence[Any], back: Sequence[Var], change: Callable[[ClosedJaxpr], ClosedJaxpr],
            aval: ShapedArray = _INDEX) -> Eqn:
    """The equation with further operands of this type, of this group (of a map: all members have them), and results. `change`
    makes programs with as many more arguments, last, and results; a test has one result all the same."""
    w = Wired.of(e)
    more = range(len(e.invars), len(e.invars) + len(given))
    programs = [(change(p.program), [*p.ins, *more], range(1 if p.decides else w.n_results + len(back))) for p in w.wires]
    written = w.write([*w.operands(), *[Slot(group, aval, shared=True)] * len(given)],
                      [*w.results(), *[Slot(int(not w.flow.loops))] * len(back)], programs)
    return written.eqn(e.primitive, [*e.invars, *given], [*e.outvars, *back], e.source)


# --- turns --------------------------------------------------------------------------------------------------------
Loops = tuple[tuple[str, Any], ...]  # op and line, of the outermost first


@takes(program=CLOSED)
@roomy()
def number_turns(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with its loops counted for the callbacks in them, so that their errors say which turn they are of.

    A callback in loops gets one int32 more for each, behind its operands (`HostFunction.loops`). Each loop with a callback in
    it carries the number of its turn and those of the loops around it. Calls, branches and maps hand them on; where an op's
    flow does not say how, the loops around it go unsaid.

    Args:
      program: the program.
    Returns:
      A program of the same arguments and results; the same one if no callback stands in a loop.
    """
    return _numbered(program, ())


def _numbered(program: ClosedJaxpr, loops: Loops) -> ClosedJaxpr:
    """The program with the turns of these loops as arguments, last."""
    if not loops and not calls_host(program):
        return program
    return program.memo(("numbered", loops), lambda: _number(program, loops))


def _number(program: ClosedJaxpr, loops: Loops) -> ClosedJaxpr:
    jaxpr = program.jaxpr
    turns = [Var(_INDEX) for _ in loops]
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        if e.primitive in _HOST:
            eqns.append(_told(e, turns, loops) if loops else e)
        elif any(map(calls_host, subprograms(e))):
            eqns += _entered(e, turns, loops)
        else:
            eqns.append(e)
    if not loops and all(e is old for e, old in zip(eqns, jaxpr.eqns)):
        return program
    return with_signature(program, [*jaxpr.invars, *turns], jaxpr.outvars, eqns)


def _told(e: Eqn, turns: list[Var], loops: Loops) -> Eqn:
    p, n = e.params, len(e.invars) - bool(e.params.get("threaded"))
    mapped = (*p["mapped"], *[(False,) * len(p["batch"])] * len(turns)) if p["batch"] else ()
    return Eqn(e.primitive, [*e.invars[:n], *turns, *e.invars[n:]], e.outvars,
               {**p, "callback": p["callback"].inside(loops), "mapped": mapped}, e.source)


def _entered(e: Eqn, turns: list[Var], loops: Loops) -> list[Eqn]:
    """The equation, whose programs hold callbacks, with the turns handed to these: through a loop with what it carries, and
    the number of its own turn with them, else with what it holds."""
    flow = e.primitive.flow
    group = None if flow is None else flow.group(CARRIED if flow.loops else HELD)
    if flow is None or group is None or not (turns or flow.loops):
        return [map_subprograms(e, number_turns)]
    if not flow.loops:
        return [_handed(e, group, turns, [], lambda program: _numbered(program, loops))]
    inner = (*loops, (e.primitive.name, e.source))
    backwards = bool(flow.reverse and e.params[flow.reverse])
    first = Literal(np.int32(e.params[flow.length] - 1 if backwards else 0), _INDEX)
    back = [Var(_INDEX) for _ in (*turns, first)]

    def counted(program: ClosedJaxpr) -> ClosedJaxpr:
        numbered = _numbered(program, inner)
        decides = flow.test and program is e.params[flow.test]
        return numbered if decides else counting(numbered, len(back), -1 if backwards else 1)

    return [_handed(e, group, [*turns, first], back, counted)]


# --- checks -----------------------------------------------------------------------------------------------------------
@takes(program=CLOSED)
@roomy()
def guarded(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with one more argument, a truth value, last: where that is false its checks hold, whatever they ask for.

    Args:
      program: whose checks, in the programs nested in it too, are meant.
    Raises:
      MissingRuleError: one stands in an op whose flow does not say how a value is handed through, as in a call whose batch is
        a function's, or in a solve.

    >>> from lamina_ir import parse
    >>> guarded(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    { lambda ; a:f32[] b:bool[]. let c:f32[] = sin a in (c,) }
    """
    return program.memo("guarded", lambda: _guard(program))


def _guard(program: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr, active = program.jaxpr, Var(_TRUTH)
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        if _is_check(e):
            ok = e.invars[0]
            off, held = Var(_TRUTH), Var(shaped(ok.aval.shape, _TRUTH.dtype))
            eqns.append(Eqn(prims.not_p, [active], [off], {}))
            if ok.aval.shape:
                off, one = Var(held.aval), off
                eqns.append(Eqn(prims.broadcast_in_dim_p, [one], [off], {"broadcast_dimensions": (), "shape": ok.aval.shape}))
            eqns += [Eqn(prims.or_p, [ok, off], [held], {}), Eqn(e.primitive, [held, *e.invars[1:]], e.outvars, e.params,
                                                                 e.source)]
        elif any(map(has_checks, subprograms(e))):
            eqns += _guarded_eqn(e, active)
        else:
            eqns.append(e)
    return with_signature(program, [*jaxpr.invars, active], jaxpr.outvars, eqns)


def _guarded_eqn(e: Eqn, active: Var) -> list[Eqn]:
    if e.primitive in (prims.custom_jvp_call_p, prims.custom_vjp_call_p):
        return [_guarded_call(e, active)]
    flow = e.primitive.flow
    group = None if flow is None else flow.group(CARRIED if flow.loops else HELD)
    if flow is None or group is None or flow.rule or flow.beside or flow.whole:
        raise MissingRuleError(f"checks inside of `{e.primitive.name}` are not defined in a branch or loop about which each "
                               "example of a batch decides: it has rules of its own. Use lax.map instead of vmap")
    if flow.loops:
        def carries(program: ClosedJaxpr) -> ClosedJaxpr:
            made = guarded(program)
            if flow.test and program is e.params[flow.test]:
                return made
            return with_signature(made, made.jaxpr.invars, [*made.jaxpr.outvars, made.jaxpr.invars[-1]])

        return [_handed(e, group, [active], [Var(_TRUTH)], carries, _TRUTH)]
    return [_handed(e, group, [active], [], guarded, _TRUTH)]


def _guarded_call(e: Eqn, active: Var) -> Eqn:
    """A call with rules for its derivative. The truth value is the first of the operands without one, in the rules' programs
    too; the backward rule has it from the forward rule, as the last of what that keeps."""
    p = e.params
    more = {"call_jaxpr": _led(p["call_jaxpr"]), "num_consts": p["num_consts"] + 1}
    if e.primitive is prims.custom_jvp_call_p:
        more["jvp"] = prims.Rule(p["jvp"].name, lambda: _led(p["jvp"].program()))
    else:
        cotangents = sum([dtypes.is_inexact(a.dtype) for a in p["call_jaxpr"].out_avals])

        def forward() -> ClosedJaxpr:
            made = _led(p["fwd"].program())
            return with_signature(made, made.jaxpr.invars, [*made.jaxpr.outvars, made.jaxpr.invars[0]])

        def backward() -> ClosedJaxpr:
            made = guarded(p["bwd"].program())
            *ins, held = made.jaxpr.invars
            at = len(ins) - cotangents
            return with_signature(made, [*ins[:at], held, *ins[at:]], made.jaxpr.outvars)

        more |= {"fwd": prims.Rule(p["fwd"].name, forward), "bwd": prims.Rule(p["bwd"].name, backward)}
    return Eqn(e.primitive, [active, *e.invars], e.outvars, {**p, **more}, e.source)


def _led(program: ClosedJaxpr) -> ClosedJaxpr:
    """`guarded`, with the truth value first."""
    def make() -> ClosedJaxpr:
        made = guarded(program)
        *ins, held = made.jaxpr.invars
        return with_signature(made, [held, *ins], made.jaxpr.outvars)

    return program.memo("guarded first", make)
