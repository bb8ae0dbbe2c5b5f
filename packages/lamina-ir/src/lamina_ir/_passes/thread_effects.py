"""Make effects explicit as data: order tokens, iteration counters for callbacks, and masks for checks.

- `thread_effect_token`: a compiler may reorder calls that do not depend on each other. So a token, an int32 value, is
  an operand and a result of each ordered callback, and the result of one call is the operand of the next. Data
  dependence then keeps the program order on any backend.
- `thread_iteration_counters`: callbacks in loops get the numbers of the current iterations as operands, for their
  errors.
- `mask_checks`: if a batched branch runs for all examples although only some of them took it, checks in it must not
  fail for the others. So each check gets a mask.

All three use the same algorithm. A new value is passed to each nested program that needs it. In a loop it is a new
carry, since an iteration must see the value of the one before. In a call, branch or map it is a new constant operand.
The first two run last, directly before lowering, so no transformation sees their programs.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._types import dtypes
from .. import prims
from .._util.recursion_limit import with_recursion_limit
from .._core.arg_checks import CLOSED_JAXPR, check_args
from .._types.avals import ShapedArray, shaped
from ..errors import MissingRuleError
from .._core.region_signature import CARRY, CONST
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eqn_has_effects, subprograms
from .._core.rewrite import map_subprograms
from .program_facts import collect_facts
from .split_equation import count_iterations
from .._core.region_view import OperandSpec, RegionView, replace_signature

__all__ = ["find_unrepeatable_effect", "has_checks", "has_host_callbacks", "has_only_checks", "has_ordered_effects",
           "mask_checks", "thread_effect_token", "thread_iteration_counters"]

_TOKEN = _INDEX = shaped((), np.dtype("int32"))
_TRUTH = shaped((), np.dtype("bool"))
_HOST = frozenset((prims.pure_callback_p, prims.io_callback_p, prims.debug_callback_p))


@check_args(program=CLOSED_JAXPR)
def has_host_callbacks(program: ClosedJaxpr) -> bool:
    """Return whether a program, or one nested in it, contains a callback of any kind."""
    return collect_facts(program).has_host_callbacks


@check_args(program=CLOSED_JAXPR)
def find_unrepeatable_effect(program: ClosedJaxpr) -> str | None:
    """Find an effect that must happen exactly once per run, in a program or in one nested in it.

    A program with such an effect cannot be rematerialized, and cannot run for masked examples of a batch. Debugging
    reports may be repeated.

    Args:
      program: the program.
    Returns:
      The name of a primitive with such an effect; None if there is none.

    >>> from lamina_ir import parse
    >>> find_unrepeatable_effect(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")) is None
    True
    """
    def find() -> str | None:
        eqns = program.jaxpr.eqns
        own = (e.primitive.name for e in eqns if e.primitive.effectful and not _is_repeatable(e))
        inside = (find_unrepeatable_effect(s) for e in eqns if e.primitive.subprograms for s in subprograms(e))
        return next((name for names in (own, inside) for name in names if name is not None), None)

    return program.memo("happens once", find) if program.jaxpr.effectful else None


def _is_repeatable(e: Eqn) -> bool:
    return (e.primitive.is_check or e.primitive is prims.debug_callback_p
            or (e.primitive is prims.io_callback_p and e.params["callback"].repeats))


def _is_check(e: Eqn) -> bool:
    return e.primitive.is_check or (e.primitive is prims.debug_callback_p and e.params["callback"].checks)


@check_args(program=CLOSED_JAXPR)
def has_checks(program: ClosedJaxpr) -> bool:
    """Return whether a program, or one nested in it, contains a check.

    Args:
      program: the program.

    >>> from lamina_ir import parse
    >>> has_checks(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    False
    """
    def find() -> bool:
        return any(_is_check(e) or any(map(has_checks, subprograms(e))) for e in program.jaxpr.eqns)

    return program.jaxpr.effectful and program.memo("has checks", find)


@check_args(program=CLOSED_JAXPR)
def has_only_checks(program: ClosedJaxpr) -> bool:
    """Return whether a program, and those nested in it, have no effects except checks, which may be repeated.

    Args:
      program: the program.

    >>> from lamina_ir import parse
    >>> has_only_checks(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    True
    """
    def find() -> bool:
        return all(_is_check(e) if e.primitive.effectful else all(map(has_only_checks, subprograms(e)))
                   for e in program.jaxpr.eqns)

    return not program.jaxpr.effectful or program.memo("only checks", find)


@check_args(program=CLOSED_JAXPR)
def has_ordered_effects(program: ClosedJaxpr) -> bool:
    """Return whether a program, or one nested in it, has ordered effects."""
    return collect_facts(program).has_ordered_effects


def _is_ordered(e: Eqn) -> bool:
    if e.primitive.family == "callbacks":
        return bool(e.params.get("ordered"))
    return eqn_has_effects(e) and any(map(has_ordered_effects, subprograms(e)))


@check_args(program=CLOSED_JAXPR)
def thread_effect_token(program: ClosedJaxpr) -> ClosedJaxpr:
    """Thread an order token through all ordered effects: it becomes the last argument and the last result, an int32[].

    Raises:
      MissingRuleError: a primitive holds a program with ordered effects, and a value cannot be threaded through it by
        its region signature.
    """
    return program.memo("threaded", lambda: _thread(program))


def _thread(program: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = program.jaxpr
    start = Var(_TOKEN)
    token: Var = start
    eqns = []
    for e in jaxpr.eqns:
        if _is_ordered(e):
            after = Var(_TOKEN)
            eqns.append(_thread_eqn(e, token, after))
            token = after
        else:
            eqns.append(e)
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, [*jaxpr.invars, start], eqns, [*jaxpr.outvars, token]), program.consts)


def _thread_eqn(e: Eqn, token: Var, after: Var) -> Eqn:
    """Thread the token through one equation: as a carry of a loop, else as a constant.

    In calls with custom rules only the program is threaded. The rules are not: they have been applied by now, or are
    part of derived programs that are threaded themselves.
    """
    signature = e.primitive.region_signature
    if signature is None:
        # The param states that the last operand and result are the token, which is not an argument of the callback.
        return Eqn(e.primitive, [*e.invars, token], [*e.outvars, after], {**e.params, "threaded": True}, e.source)
    group = signature.group(CARRY if signature.loops else CONST)
    # A map gives each member its own token, so a token could order the effects of one member only.
    if group is None or signature.axis_binding:
        why = ("the members of a map have no common order" if signature.axis_binding else
               f"its region signature has no {'carry' if signature.loops else 'constant'} operands")
        raise MissingRuleError(f"ordered effects inside of `{e.primitive.name}` are not supported: {why}; use ordered=False "
                               "(see docs/design/nested-programs.md)")
    # Branches without ordered effects take and return the token too, since all branches have one signature.
    return _add_operands(e, group, [token], [after], thread_effect_token)


def _add_operands(e: Eqn, group: int, given: Sequence[Atom], back: Sequence[Var],
                  change: Callable[[ClosedJaxpr], ClosedJaxpr], aval: ShapedArray = _INDEX) -> Eqn:
    """Add operands `given`, all of type `aval` and of operand group `group`, and results `back` to an equation.

    `change` maps each nested program to one with as many more arguments and results, in last position. The test of a
    loop keeps its single result. The members of a map share the new operands.
    """
    w = RegionView.of(e)
    more = range(len(e.invars), len(e.invars) + len(given))
    # New operands follow the old ones here. `rebuild` moves them to the end of their group, and the arguments of the
    # programs with them.
    programs = [(change(p.program), [*p.ins, *more], range(1 if p.is_test else w.n_results + len(back))) for p in w.regions]
    written = w.rebuild([*w.operands(), *[OperandSpec(group, aval, shared=True)] * len(given)],
                        # Result groups: 0 are the carries of a loop, 1 all other results.
                        [*w.results(), *[OperandSpec(int(not w.region_signature.loops))] * len(back)], programs)
    return written.eqn(e.primitive, [*e.invars, *given], [*e.outvars, *back], e.source)


# --- iteration counters -------------------------------------------------------------------------------------------
Loops = tuple[tuple[str, Any], ...]  # primitive name and line of each loop, outermost first


@check_args(program=CLOSED_JAXPR)
def thread_iteration_counters(program: ClosedJaxpr) -> ClosedJaxpr:
    """Pass iteration counters to the callbacks in loops, so that their errors can name the iteration.

    A callback gets one int32 operand per enclosing loop, after its own operands (`HostFunction.loops`). Each loop that
    contains a callback carries its own counter and those of the enclosing loops. Calls, branches and maps pass them on.
    If the region signature of a primitive does not allow this, callbacks inside get no counters of the loops around it.

    Args:
      program: the program.
    Returns:
      A program with the same arguments and results; `program` itself if no loop contains a callback.
    """
    if not collect_facts(program).has_host_callbacks:
        return program
    with with_recursion_limit():
        return _with_counters(program, ())


def _with_counters(program: ClosedJaxpr, loops: Loops) -> ClosedJaxpr:
    """Return the program with the counters of these loops as last arguments."""
    if not loops and not has_host_callbacks(program):
        return program
    return program.memo(("numbered", loops), lambda: _add_counters(program, loops))


def _add_counters(program: ClosedJaxpr, loops: Loops) -> ClosedJaxpr:
    jaxpr = program.jaxpr
    counters = [Var(_INDEX) for _ in loops]
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        if e.primitive in _HOST:
            eqns.append(_pass_counters(e, counters, loops) if loops else e)
        elif any(map(has_host_callbacks, subprograms(e))):
            eqns += _thread_counters(e, counters, loops)
        else:
            eqns.append(e)
    if not loops and all(e is old for e, old in zip(eqns, jaxpr.eqns)):
        return program
    return replace_signature(program, [*jaxpr.invars, *counters], jaxpr.outvars, eqns)


def _pass_counters(e: Eqn, counters: list[Var], loops: Loops) -> Eqn:
    # A token stays the last operand.
    p, n = e.params, len(e.invars) - bool(e.params.get("threaded"))
    # In a batched callback, all examples run in the same iteration, so the counters have no batch dimension.
    mapped = (*p["mapped"], *[(False,) * len(p["batch"])] * len(counters)) if p["batch"] else ()
    return Eqn(e.primitive, [*e.invars[:n], *counters, *e.invars[n:]], e.outvars,
               {**p, "callback": p["callback"].in_loops(loops), "mapped": mapped}, e.source)


def _thread_counters(e: Eqn, counters: list[Var], loops: Loops) -> list[Eqn]:
    """Pass the counters to the nested programs of an equation: as carries of a loop, with its own counter added, else
    as constants."""
    signature = e.primitive.region_signature
    group = None if signature is None else signature.group(CARRY if signature.loops else CONST)
    if signature is None or group is None or not (counters or signature.loops):
        return [map_subprograms(e, thread_iteration_counters)]
    if not signature.loops:
        return [_add_operands(e, group, counters, [], lambda program: _with_counters(program, loops))]
    inner = (*loops, (e.primitive.name, e.source))
    backwards = bool(signature.reverse and e.params[signature.reverse])
    # A reversed scan starts at the last slice. Counters name slices, so they count down.
    first = Literal(np.int32(e.params[signature.length] - 1 if backwards else 0), _INDEX)
    back = [Var(_INDEX) for _ in (*counters, first)]

    def add_and_count(program: ClosedJaxpr) -> ClosedJaxpr:
        with_counters = _with_counters(program, inner)
        # The test reads the counters, but only the body returns the next ones.
        is_test = signature.test and program is e.params[signature.test]
        return with_counters if is_test else count_iterations(with_counters, len(back), -1 if backwards else 1)

    return [_add_operands(e, group, [*counters, first], back, add_and_count)]


# --- masked checks ----------------------------------------------------------------------------------------------------
@check_args(program=CLOSED_JAXPR)
@with_recursion_limit()
def mask_checks(program: ClosedJaxpr) -> ClosedJaxpr:
    """Add a mask, a bool[], as last argument: if it is false, the checks of the program pass, whatever their
    conditions.

    Args:
      program: the program; checks in nested programs are masked too.
    Raises:
      MissingRuleError: a check is in a primitive through which a value cannot be threaded by its region signature, such
        as a call with a batching rule in Python, or a linear solve.

    >>> from lamina_ir import parse
    >>> mask_checks(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    { lambda ; a:f32[] b:bool[]. let c:f32[] = sin a in (c,) }
    """
    return program.memo("guarded", lambda: _mask_program(program))


def _mask_program(program: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr, active = program.jaxpr, Var(_TRUTH)
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        if _is_check(e):
            ok = e.invars[0]
            # condition = ok or not active: a check passes if its example is masked.
            off, condition = Var(_TRUTH), Var(shaped(ok.aval.shape, _TRUTH.dtype))
            eqns.append(Eqn(prims.not_p, [active], [off], {}))
            if ok.aval.shape:
                off, one = Var(condition.aval), off
                eqns.append(Eqn(prims.broadcast_in_dim_p, [one], [off], {"broadcast_dimensions": (), "shape": ok.aval.shape}))
            eqns += [Eqn(prims.or_p, [ok, off], [condition], {}),
                     Eqn(e.primitive, [condition, *e.invars[1:]], e.outvars, e.params, e.source)]
        elif any(map(has_checks, subprograms(e))):
            eqns += _mask_eqn(e, active)
        else:
            eqns.append(e)
    return replace_signature(program, [*jaxpr.invars, active], jaxpr.outvars, eqns)


def _mask_eqn(e: Eqn, active: Var) -> list[Eqn]:
    if e.primitive in (prims.custom_jvp_call_p, prims.custom_vjp_call_p):
        return [_mask_custom_call(e, active)]
    signature = e.primitive.region_signature
    group = None if signature is None else signature.group(CARRY if signature.loops else CONST)
    # These primitives hold further programs of fixed signature, which would not get the mask.
    if signature is None or group is None or signature.jvp_rule or signature.extra_programs or signature.indivisible:
        raise MissingRuleError(f"checks inside of `{e.primitive.name}` are not supported in a branch or loop with a batched "
                               "condition, because a mask cannot be passed through it. Use lax.map instead of vmap")
    if signature.loops:
        def mask_and_carry(program: ClosedJaxpr) -> ClosedJaxpr:
            made = mask_checks(program)
            # The mask never changes. But constants of a `while` belong to one region, and only a carry reaches both the
            # test and the body.
            if signature.test and program is e.params[signature.test]:
                return made
            return replace_signature(made, made.jaxpr.invars, [*made.jaxpr.outvars, made.jaxpr.invars[-1]])

        return [_add_operands(e, group, [active], [Var(_TRUTH)], mask_and_carry, _TRUTH)]
    return [_add_operands(e, group, [active], [], mask_checks, _TRUTH)]


def _mask_custom_call(e: Eqn, active: Var) -> Eqn:
    """Mask the checks in a call with derivative rules, and those in the programs of its rules.

    The mask becomes the first of the `num_consts` operands, which have no derivative; so it is the first operand of the
    rules' programs too. The backward rule gets the mask from the forward rule as its last residual.
    """
    p = e.params
    more = {"call_jaxpr": _mask_checks_mask_first(p["call_jaxpr"]), "num_consts": p["num_consts"] + 1}
    if e.primitive is prims.custom_jvp_call_p:
        # As a lazy rule: the program of the rule may call the function itself, so eager masking would not end.
        more["jvp"] = prims.Rule(p["jvp"].name, lambda: _mask_checks_mask_first(p["jvp"].program()))
    else:
        # The backward rule takes (residuals, cotangents of the inexact results).
        cotangents = sum([dtypes.is_inexact(a.dtype) for a in p["call_jaxpr"].out_avals])

        def forward() -> ClosedJaxpr:
            made = _mask_checks_mask_first(p["fwd"].program())
            return replace_signature(made, made.jaxpr.invars, [*made.jaxpr.outvars, made.jaxpr.invars[0]])

        def backward() -> ClosedJaxpr:
            # `mask_checks` adds the mask as last argument; move it behind the residuals.
            made = mask_checks(p["bwd"].program())
            *ins, mask = made.jaxpr.invars
            at = len(ins) - cotangents
            return replace_signature(made, [*ins[:at], mask, *ins[at:]], made.jaxpr.outvars)

        more |= {"fwd": prims.Rule(p["fwd"].name, forward), "bwd": prims.Rule(p["bwd"].name, backward)}
    return Eqn(e.primitive, [active, *e.invars], e.outvars, {**p, **more}, e.source)


def _mask_checks_mask_first(program: ClosedJaxpr) -> ClosedJaxpr:
    """Like `mask_checks`, with the mask as first argument."""
    def make() -> ClosedJaxpr:
        made = mask_checks(program)
        *ins, mask = made.jaxpr.invars
        return replace_signature(made, [mask, *ins], made.jaxpr.outvars)

    return program.memo("guarded first", make)
