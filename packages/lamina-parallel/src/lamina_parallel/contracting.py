"""Sums over an axis along which a product of arrays has a result for each position, as products that sum over it.

Where positions share an operand, its cotangent is the sum of theirs: of a weight, one product of a row and a column for each
position. As one product over all of them it takes no memory for each, and runs several times as fast.
"""
from __future__ import annotations

from collections import Counter
from typing import Any

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, dce, prims, shaped

__all__ = ["contracted"]


def contracted(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program in which sums of products over axes that these carry along are products that sum over them.

    Args:
      closed: the program; those nested in it stay.
    Returns:
      A program; itself where there is nothing to do.

    >>> from lamina_ir import parse
    >>> dot = "dot_general[dimension_numbers=(((), ()), ((0,), (0,))) precision=None preferred_element_type=None] a b"
    >>> contracted(parse("{ lambda ; a:f32[8,2] b:f32[8,3]. let c:f32[8,2,3] = %s d:f32[2,3] = reduce_sum[axes=(0,)] c "
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
        found = _joined(e, made, uses) if e.primitive is prims.reduce_sum_p and e.invars[0] in made else None
        changed = changed or found is not None
        eqns += found or [e]
    return dce(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), closed.consts),
               instantiate=True)[0] if changed else closed


def _joined(e: Eqn, made: dict[Any, Eqn], uses: Counter[Any]) -> list[Eqn] | None:
    """The equations for a sum of a product, perhaps with transposes between the two that nothing else reads."""
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
    (ours, theirs), (left, right) = dot.params["dimension_numbers"]
    if not axes or max(axes) >= len(left):
        return None
    kept = [i for i in range(len(left)) if i not in axes]
    numbers = ((*ours, *[left[i] for i in axes]), (*theirs, *[right[i] for i in axes]))
    params = {**dot.params, "dimension_numbers": (numbers, (tuple([left[i] for i in kept]), tuple([right[i] for i in kept])))}
    # The product, then the transposes of what is left of it.
    aval, gone = e.outvars[0].aval, frozenset(axes)
    left_over = [n for i, n in enumerate(x.aval.shape) if i not in gone]
    total = Var(_like(aval, left_over))
    eqns = [dot.replace(outvars=[total], params=params)]
    for order in reversed(orders):
        at = {old: new for new, old in enumerate([i for i in range(len(order)) if i not in gone])}
        turned, gone = tuple([at[i] for i in order if i in at]), frozenset([k for k, i in enumerate(order) if i in gone])
        left_over = [left_over[i] for i in turned]
        before, total = total, Var(_like(aval, left_over))
        eqns.append(e.replace(primitive=prims.transpose_p, invars=[before], outvars=[total], params={"permutation": turned}))
    return [*eqns[:-1], eqns[-1].replace(outvars=e.outvars)]


def _like(aval: Any, shape: list[int]) -> Any:
    return shaped(tuple(shape), aval.dtype, aval.weak_type).differing(aval.over)
