"""Sums over the same axes that do not wait for one another, as one equation.

A data-parallel step that averages its gradients one by one has the replicas meet once per array; on XLA's CPU backend a
meeting costs far more than the sum. So each sum is put off until nothing else is left that does not wait for it.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import Eqn, eqn_effectful, prims

__all__ = ["together"]

_MOST_ROUNDS = 64  # of sums that wait for sums; a longer chain is left as it is


def together(eqns: Sequence[Eqn]) -> list[Eqn]:
    """The same equations in another order, with independent `psum`s joined. Time is linear for each round of sums."""
    if sum(e.primitive is prims.psum_p for e in eqns) < 2 or any(eqn_effectful(e) for e in eqns):
        return list(eqns)
    # Each round runs all that depends on no sum put off in it, then the sums that may be one, and leaves the rest to the next.
    ready: list[Eqn] = []
    rest: Sequence[Eqn] = eqns
    for _ in range(_MOST_ROUNDS):
        pending: set[Any] = set()  # results of the sums put off, and of all that waits for them
        sums: list[Eqn] = []
        later: list[Eqn] = []
        for e in rest:
            a_sum = e.primitive is prims.psum_p
            if pending.isdisjoint(e.invars) and not a_sum:
                ready.append(e)
                continue
            joins = a_sum and pending.isdisjoint(e.invars) and (not sums or e.params == sums[0].params)
            (sums if joins else later).append(e)
            pending.update(e.outvars)
        if not sums:
            return ready
        ready.append(_joined(sums))
        rest = later
    return [*ready, *rest]


def _joined(sums: Sequence[Eqn]) -> Eqn:
    if len(sums) == 1:
        return sums[0]
    return sums[0].replace(invars=[v for e in sums for v in e.invars], outvars=[v for e in sums for v in e.outvars])
