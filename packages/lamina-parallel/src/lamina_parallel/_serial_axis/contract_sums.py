"""Rewrite sums of batched products as contractions.

A program may sum, over an axis, a product that has a batch dimension along it. The cotangent of a shared weight is an
example: the sum, over the positions, of the outer product of a vector and a vector. As a single contraction over the
axis it stores no product for each position and runs several times as fast.
"""
from __future__ import annotations

from collections import Counter
from typing import Any

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, dce, prims, shaped

__all__ = ["contract_sums"]


def contract_sums(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Replace each sum over batch dimensions of a `dot_general` by a `dot_general` that contracts them.

    Args:
      closed: the program; nested programs are left unchanged.
    Returns:
      The new program; `closed` itself if nothing changes.

    >>> from lamina_ir import parse
    >>> dot = "dot_general[dimension_numbers=(((), ()), ((0,), (0,))) precision=None preferred_element_type=None] a b"
    >>> contract_sums(parse("{ lambda ; a:f32[8,2] b:f32[8,3]. let c:f32[8,2,3] = %s d:f32[2,3] = reduce_sum[axes=(0,)] c "
    ...                  "in (d,) }" % dot)).eqns[0].params["dimension_numbers"]
    (((0,), (0,)), ((), ()))
    """
    jaxpr = closed.jaxpr
    kinds = (prims.dot_general_p, prims.transpose_p)
    made: dict[Any, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars if e.primitive in kinds}
    uses: Counter[Any] = Counter([a for e in jaxpr.eqns for a in e.invars if a in made])
    uses.update([a for a in jaxpr.outvars if type(a) is not Literal])
    eqns: list[Eqn] = []
    changed = False
    for e in jaxpr.eqns:
        found = _contract(e, made, uses) if e.primitive is prims.reduce_sum_p and e.invars[0] in made else None
        changed = changed or found is not None
        eqns += found or [e]
    return dce(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), closed.consts),
               instantiate=True)[0] if changed else closed


def _contract(e: Eqn, made: dict[Any, Eqn], uses: Counter[Any]) -> list[Eqn] | None:
    """Return the equations that replace a sum of a product, or None if the sum does not match.

    Between the two there may be transposes that nothing else reads.
    """
    x, axes, orders = e.invars[0], e.params["axes"], []
    while x in made and uses[x] == 1 and made[x].primitive is prims.transpose_p:
        order = made[x].params["permutation"]
        axes = tuple([order[i] for i in axes])
        orders.append(order)
        x = made[x].invars[0]
    if x not in made or uses[x] != 1:
        return None
    dot = made[x]
    if dot.primitive is not prims.dot_general_p:
        return None
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dot.params["dimension_numbers"]
    # dot_general puts the batch dimensions first, so the summed axes must be among these.
    if not axes or max(axes) >= len(lhs_batch):
        return None
    batch_left = [i for i in range(len(lhs_batch)) if i not in axes]
    numbers = ((*lhs_contract, *[lhs_batch[i] for i in axes]), (*rhs_contract, *[rhs_batch[i] for i in axes]))
    batch = tuple([lhs_batch[i] for i in batch_left]), tuple([rhs_batch[i] for i in batch_left])
    params = {**dot.params, "dimension_numbers": (numbers, batch)}
    # Emit the contraction, then the transposes restricted to the dimensions that remain.
    aval, summed = e.outvars[0].aval, frozenset(axes)
    shape = [n for i, n in enumerate(x.aval.shape) if i not in summed]
    total = Var(_like(aval, shape))
    eqns = [dot.replace(outvars=[total], params=params)]
    for order in reversed(orders):
        at = {old: new for new, old in enumerate([i for i in range(len(order)) if i not in summed])}
        permutation = tuple([at[i] for i in order if i in at])
        summed = frozenset([k for k, i in enumerate(order) if i in summed])
        shape = [shape[i] for i in permutation]
        before, total = total, Var(_like(aval, shape))
        eqns.append(e.replace(primitive=prims.transpose_p, invars=[before], outvars=[total],
                              params={"permutation": permutation}))
    return [*eqns[:-1], eqns[-1].replace(outvars=e.outvars)]


def _like(aval: Any, shape: list[int]) -> Any:
    return shaped(tuple(shape), aval.dtype, aval.weak_type).with_varying_axes(aval.varying_axes)
