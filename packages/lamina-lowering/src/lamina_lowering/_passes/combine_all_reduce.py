"""Combine independent sums over the same axes into one equation.

In a data-parallel step that averages its gradients one by one, the replicas synchronize once per array. On XLA's CPU
backend a synchronization costs far more than the sum. So each sum is delayed until every remaining equation depends on
a delayed sum.
"""
from __future__ import annotations

from collections.abc import Sequence

from lamina_ir import Atom, Eqn, eqn_has_effects, prims

__all__ = ["combine_psums"]

_MAX_ROUNDS = 64  # longest chain of sums that depend on sums; the rest of a longer chain is left as it is


def combine_psums(eqns: Sequence[Eqn]) -> list[Eqn]:
    """Reorder equations so that independent `psum`s become one. Each round of sums takes linear time."""
    if sum(e.primitive is prims.psum_p for e in eqns) < 2 or any(eqn_has_effects(e) for e in eqns):
        return list(eqns)
    # Each round emits the equations that depend on no delayed sum, then the delayed sums that can be combined. All
    # other equations go to the next round.
    ready: list[Eqn] = []
    rest: Sequence[Eqn] = eqns
    for _ in range(_MAX_ROUNDS):
        pending: set[Atom] = set()  # results of delayed sums and of equations that depend on them
        sums: list[Eqn] = []
        later: list[Eqn] = []
        for e in rest:
            is_sum = e.primitive is prims.psum_p
            if pending.isdisjoint(e.invars) and not is_sum:
                ready.append(e)
                continue
            can_combine = is_sum and pending.isdisjoint(e.invars) and (not sums or e.params == sums[0].params)
            (sums if can_combine else later).append(e)
            pending.update(e.outvars)
        if not sums:
            return ready
        ready.append(_combine(sums))
        rest = later
    return [*ready, *rest]


def _combine(sums: Sequence[Eqn]) -> Eqn:
    if len(sums) == 1:
        return sums[0]
    return sums[0].replace(invars=[v for e in sums for v in e.invars], outvars=[v for e in sums for v in e.outvars])
