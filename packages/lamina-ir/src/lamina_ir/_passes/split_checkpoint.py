"""Split a checkpointed program by its policy: one program returns the saved values, the other takes them as operands.

The policy also applies inside nested programs whose region signature allows it (see docs/design/nested-programs.md).
Values saved in a nested program leave it like the residuals of a split equation: stacked in a loop, in shared slots for
branches.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .._core.arg_checks import CLOSED_JAXPR, FUNCTION, ITEMS, optional, check_args
from .._core.region_signature import CONST, SCANNED
from .._core.primitive import Primitive
from ..prims import control
from ..prims.custom import Offload, to_memory_p
from .._core.jaxpr import ClosedJaxpr, DropVar, Eqn, Jaxpr, Var, eqn_has_effects
from .._core.rewrite import Replacement, map_subprograms, RegionMemo, rewrite
from .split_equation import (as_scan, fill_residual_slots, hoist_invariants, assign_residual_slots,
                             exceeds_residual_budget)
from .._core.region_view import OperandSpec, RegionView
from ..typing import CacheKey, Function

__all__ = ["SplitCheckpoint", "saved_p", "split_checkpoint", "substitute_saved"]

# saved(recomputed value, saved value) = the saved value, with the tangent of the recomputed one. Used only in
# `SplitCheckpoint.recompute`, where derivatives are taken through the recomputation.
saved_p = Primitive("saved", family="custom", infer=lambda computed, saved: computed, numpy=lambda computed, saved: saved)


class SplitCheckpoint(NamedTuple):
    """A checkpointed program split by its policy.

    Attributes:
      forward: operands -> results, saved values.
      again: operands, saved values -> results; a `saved` equation pairs each saved value with its recomputation.
    """

    forward: ClosedJaxpr
    recompute: ClosedJaxpr


@check_args(program=CLOSED_JAXPR, missing=ITEMS)
def substitute_saved(program: ClosedJaxpr, missing: Sequence[bool] = ()) -> ClosedJaxpr:
    """Replace each `saved` equation by its saved value, so that the recomputation of that value becomes dead code.

    Args:
      program: the `recompute` program of `split_checkpoint`, or one derived from it.
      missing: for each operand, whether it is a saved value that is not available, so that it is recomputed after all.
        Default: all are available.
    Returns:
      A program of the same operands and results without `saved` equations. Dead code is still in it.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = cos b in (c,) }")
    >>> again = split_checkpoint(program, lambda prim, *avals, **params: prim.name == "sin").recompute
    >>> [e.primitive.name for e in again.jaxpr.eqns], [e.primitive.name for e in substitute_saved(again).jaxpr.eqns]
    (['sin', 'saved', 'cos'], ['sin', 'cos'])
    """
    seen: dict[CacheKey, tuple[ClosedJaxpr, ClosedJaxpr]] = {}

    def substitute(program: ClosedJaxpr, missing: Sequence[bool]) -> ClosedJaxpr:
        unavailable = {v for v, m in zip(program.jaxpr.invars, missing) if m}
        key = id(program), tuple(missing) if unavailable else ()
        if key not in seen:
            seen[key] = program, rewrite(program, lambda e: change(e, unavailable), nested=False)
        return seen[key][1]

    def change(e: Eqn, unavailable: set[Var]) -> Replacement:
        if e.primitive is saved_p:
            return [], [e.invars[0 if e.invars[1] in unavailable else 1]]
        if unavailable.isdisjoint(e.invars):
            new = map_subprograms(e, substitute_all)
            return None if new is e else [new]
        if e.primitive is to_memory_p:  # a copy of an unavailable value
            unavailable.update(e.outvars)
            return None
        w = RegionView.of(e)
        bodies = [substitute(b.program, [e.invars[i] in unavailable for i in b.ins]) for b in w.bodies]
        one = isinstance(e.params[w.region_signature.body], ClosedJaxpr)
        return [e.replace(params={**e.params, w.region_signature.body: bodies[0] if one else tuple(bodies)})]

    substitute_all = RegionMemo(lambda program: substitute(program, ()))
    return substitute(program, missing)


@check_args(program=CLOSED_JAXPR, policy=optional(FUNCTION))
def split_checkpoint(program: ClosedJaxpr, policy: Function | None) -> SplitCheckpoint:
    """Split a program by a checkpoint policy.

    Args:
      program: the program of the checkpointed function.
      policy: called with a primitive, its operands' types and its params; returns whether its results are saved, or an
        `Offload` to save them in another memory. None saves nothing.
    Returns:
      `(forward, recompute)`: operands -> results and saved values, and operands and saved values -> results.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = cos b in (c,) }")
    >>> split = split_checkpoint(program, lambda prim, *avals, **params: prim.name == "sin")
    >>> len(split.forward.out_avals), len(split.recompute.in_avals)
    (2, 2)
    """
    if policy is None:
        return SplitCheckpoint(program, program)
    return _PolicySplitter(policy).split_program(rewrite(program, _hoist_loop_invariants))


def _hoist_loop_invariants(e: Eqn) -> list[Eqn] | None:
    """Move loop-invariant values of a loop of known length in front of it, so that they are saved once, not stacked."""
    if e.primitive.region_signature is None or not e.primitive.region_signature.length:
        return None
    ahead, e = hoist_invariants(e)
    return [*ahead, e] if ahead else None


class _Pair(NamedTuple):
    """The equations of both programs, and the values saved between them."""

    forward: list[Eqn]
    recomputed: list[Eqn]
    saved_outs: list[Var]  # bound in `forward`
    saved_ins: list[Var]  # the same values, read in `recomputed`


class _PolicySplitter:
    def __init__(self, policy: Function) -> None:
        self.policy = policy
        self.seen: dict[int, tuple[ClosedJaxpr, SplitCheckpoint]] = {}  # each shared program is split once

    def split_program(self, closed: ClosedJaxpr) -> SplitCheckpoint:
        if id(closed) not in self.seen:
            found = self.split_unmemoized(closed)
            _, recompute = found
            count = len(recompute.jaxpr.invars) - len(closed.jaxpr.invars)
            self.seen[id(closed)] = closed, SplitCheckpoint(closed, closed) if exceeds_residual_budget(closed, count) else found
        return self.seen[id(closed)][1]

    def split_unmemoized(self, closed: ClosedJaxpr) -> SplitCheckpoint:
        jaxpr = closed.jaxpr
        total = _Pair([], [], [], [])
        for e in jaxpr.eqns:
            pair = self.split_nested(e) or _Pair([e], [e], [], [])
            total.forward.extend(pair.forward)
            total.recomputed.extend(pair.recomputed)
            total.saved_outs.extend(pair.saved_outs)
            total.saved_ins.extend(pair.saved_ins)
            # Never save a platform index: lowering can resolve it only in the program with the branches it selects.
            if e.primitive is control.platform_index_p:
                continue
            choice = self.policy(e.primitive, *[a.aval for a in e.invars], **e.params)
            if choice:
                self.save_results(choice, total)
        outs = jaxpr.outvars
        return SplitCheckpoint(
            ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, total.forward, [*outs, *total.saved_outs]), closed.consts),
            ClosedJaxpr(Jaxpr(jaxpr.constvars, [*jaxpr.invars, *total.saved_ins], total.recomputed, outs), closed.consts))

    def save_results(self, choice: object, total: _Pair) -> None:
        """Save the results of the last equation."""
        last = total.recomputed[-1]
        outvars = list(last.outvars)
        uses: list[Eqn] = []
        # In `recomputed` the equation binds a new variable, and `saved` binds the variable that later equations read.
        for i, v in enumerate(total.forward[-1].outvars[:len(outvars)]):
            if isinstance(v, DropVar):
                continue
            saved = Var(v.aval)
            total.saved_ins.append(saved)
            if isinstance(choice, Offload):
                offloaded, loaded = Var(v.aval), Var(v.aval)
                total.forward.append(Eqn(to_memory_p, [v], [offloaded], {"memory_kind": choice.dst}))
                uses.append(Eqn(to_memory_p, [saved], [loaded], {"memory_kind": choice.src}))
                v, saved = offloaded, loaded
            total.saved_outs.append(v)
            computed = Var(v.aval)
            uses.append(Eqn(saved_p, [computed, saved], [outvars[i]], {}))
            outvars[i] = computed
        total.recomputed[-1] = Eqn(last.primitive, last.invars, outvars, last.params, last.source)
        total.recomputed.extend(uses)

    def split_nested(self, e: Eqn) -> _Pair | None:
        """Split an equation with nested programs; return None if nothing inside is saved.

        A bounded loop becomes a scan of idle steps. A loop without a bound is not split, since it cannot stack values.
        """
        signature = e.primitive.region_signature
        if signature is None or signature.indivisible or signature.remat_policy or signature.jvp_rule or eqn_has_effects(e):
            return None
        stacking = as_scan(e) if signature.loops and not RegionView.of(e).can_add_scanned else e
        if stacking is None:
            return None
        # A value saved in a body becomes a stacked result of the loop, or a slot that all branches share. In the second
        # equation it is an operand of the same kind.
        w = RegionView.of(stacking)
        count, n = w.n_results, len(stacking.invars)
        halves = [self.split_program(b.program) for b in w.bodies]
        types, places = assign_residual_slots([first.out_avals[count:] for first, _ in halves])
        if not types:
            return None
        group = w.region_signature.group(SCANNED if w.region_signature.loops else CONST)
        outs = range(count + len(types))
        forward, recomputed = [], []
        for (first, second), mine, b in zip(halves, places, w.bodies):
            ends = first.jaxpr.outvars
            forward.append((fill_residual_slots(first, ends[:count], types, mine, ends[count:]), b.ins, outs))
            recomputed.append((second, [*b.ins, *[n + slot for slot in mine]], range(count)))
        saved_outs, saved_ins = [[Var(w.outer_aval(a)) for a in types] for _ in range(2)]
        one = w.rebuild(w.operands(), [*w.results(), *[OperandSpec(1, a) for a in types]], forward)
        two = w.rebuild([*w.operands(), *[OperandSpec(group, a) for a in types]], w.results(), recomputed)  # type: ignore[arg-type]
        return _Pair([one.eqn(stacking.primitive, stacking.invars, [*e.outvars, *saved_outs], e.source)],
                     [two.eqn(stacking.primitive, [*stacking.invars, *saved_ins], e.outvars, e.source)],
                     saved_outs, saved_ins)
