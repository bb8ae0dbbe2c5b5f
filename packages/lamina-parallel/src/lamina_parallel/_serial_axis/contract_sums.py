"""Rewrite sums of batched products as contractions.

A program may sum, over an axis, a product that has a batch dimension along it. The cotangent of a shared weight is an
example: the sum, over the positions, of the outer product of a vector and a vector. As a single contraction over the
axis it stores no product for each position and runs several times as fast.
"""
from __future__ import annotations

from collections import Counter

from lamina_ir import Atom, ClosedJaxpr, dce, Eqn, Jaxpr, Literal, prims, shaped, ShapedArray, Var

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
    # sum_b (sum_k l[b, k, i] r[b, k, j]) = sum_(b, k) l[b, k, i] r[b, k, j]: the summed batch dimensions become
    # contracted ones.
    kinds = (prims.dot_general_p, prims.transpose_p)
    producers: dict[Atom, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars if e.primitive in kinds}
    uses: Counter[Atom] = Counter([a for e in jaxpr.eqns for a in e.invars if a in producers])
    uses.update([a for a in jaxpr.outvars if type(a) is not Literal])
    eqns: list[Eqn] = []
    changed = False
    for e in jaxpr.eqns:
        is_candidate = e.primitive is prims.reduce_sum_p and e.invars[0] in producers
        replacement = _contract(e, producers, uses) if is_candidate else None
        changed = changed or replacement is not None
        eqns += replacement or [e]
    # The old products have no reader now. `instantiate` keeps all operands and results.
    return dce(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), closed.consts),
               instantiate=True)[0] if changed else closed


def _contract(e: Eqn, producers: dict[Atom, Eqn], uses: Counter[Atom]) -> list[Eqn] | None:
    """Return the equations that replace a sum of a product, or None if the sum does not match.

    Between the two there may be transposes that nothing else reads.
    """
    x, axes, orders = e.invars[0], e.params["axes"], []
    # Dimension i of a transpose is dimension order[i] of its operand.
    while x in producers and uses[x] == 1 and producers[x].primitive is prims.transpose_p:
        order = producers[x].params["permutation"]
        axes = tuple([order[i] for i in axes])
        orders.append(order)
        x = producers[x].invars[0]
    # A product that something else reads is computed anyway; a contraction would repeat its work.
    if x not in producers or uses[x] != 1:
        return None
    dot = producers[x]
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


def _like(aval: ShapedArray, shape: list[int]) -> ShapedArray:
    return shaped(tuple(shape), aval.dtype, aval.weak_type).with_varying_axes(aval.varying_axes)
