"""Rewrite sums of batched scatters into zeros as one scatter-add.

The positions of an axis may share an array of which each reads a part. Then the cotangent of each is an array of zeros
with that part filled in. Summing these takes `n` times the memory of the array. One scatter-add into a single array of
zeros takes only the memory of the parts. This occurs for table lookups, and for sorted or gathered arrays of which each
position reads one element.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from lamina_ir import Atom, ClosedJaxpr, dce, Eqn, Jaxpr, Literal, prims, shaped, Var
from lamina_ir.prims import ScatterDimensionNumbers

__all__ = ["scatter_sums"]


def scatter_sums(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Replace each sum over a batch dimension of a scatter into zeros by a scatter that adds.

    Args:
      closed: the program; nested programs are left unchanged.
    Returns:
      The new program; `closed` itself if nothing changes.

    >>> from lamina_ir import parse
    >>> numbers = "ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(1,), "
    >>> numbers += "scatter_dims_to_operand_dims=(1,), operand_batching_dims=(0,), scatter_indices_batching_dims=(0,))"
    >>> scatter = f"scatter[dimension_numbers={numbers} indices_are_sorted=False mode=1 unique_indices=True]"
    >>> program = parse("{ lambda ; a:i32[8,1] b:f32[8]. let c:f32[8,9] = broadcast_in_dim[broadcast_dimensions=() "
    ...                 "shape=(8, 9)] 0.0:f32[] d:f32[8,9] = %s c a b e:f32[9] = reduce_sum[axes=(0,)] d in (e,) }" % scatter)
    >>> [e.primitive.name for e in scatter_sums(program).eqns]
    ['broadcast_in_dim', 'scatter_add']
    """
    jaxpr = closed.jaxpr
    if not any(e.primitive is prims.reduce_sum_p for e in jaxpr.eqns):
        return closed
    # sum_b scatter(0, indices[b], updates[b]) = scatter_add(0, (indices[b]) of all b, (updates[b]) of all b).
    producers: dict[Atom, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars}
    uses: Counter[Atom] = Counter([a for e in jaxpr.eqns for a in e.invars if type(a) is not Literal])
    uses.update([a for a in jaxpr.outvars if type(a) is not Literal])
    eqns: list[Eqn] = []
    changed = False
    for e in jaxpr.eqns:
        is_candidate = e.primitive is prims.reduce_sum_p and e.params["axes"] == (0,)
        replacement = _scatter_add(e, producers, uses) if is_candidate else None
        changed = changed or replacement is not None
        eqns += replacement or [e]
    return dce(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), closed.consts),
               instantiate=True)[0] if changed else closed


def _scatter_add(e: Eqn, producers: Mapping[Atom, Eqn], uses: Mapping[Atom, int]) -> list[Eqn] | None:
    """Return the equations that replace a sum over a batch dimension of a scatter, or None if the sum does not match.
    """
    x = e.invars[0]
    scatter = producers.get(x) if type(x) is not Literal and uses[x] == 1 else None
    if scatter is None or scatter.primitive not in (prims.scatter_p, prims.scatter_add_p):
        return None
    params = scatter.params
    numbers = params["dimension_numbers"]
    # A scatter that overwrites zeros equals one that adds to them if no element is written twice.
    if scatter.primitive is prims.scatter_p and not params["unique_indices"] or 0 not in numbers.operand_batching_dims:
        return None
    if not _is_zero(scatter.invars[0], producers):
        return None
    aval = e.outvars[0].aval
    kind = shaped((), aval.dtype)
    zeros = Var(shaped(aval.shape, aval.dtype))
    # The sum removes dimension 0 of the operand, so the numbers of all its other dimensions fall by one.
    filled = Eqn(prims.broadcast_in_dim_p, [Literal(aval.dtype.type(0), kind)], [zeros],
                 {"shape": aval.shape, "broadcast_dimensions": ()}, e.source)
    batches = [(d - 1, i) for d, i in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims) if d]
    into = ScatterDimensionNumbers(
        numbers.update_window_dims, tuple([d - 1 for d in numbers.inserted_window_dims]),
        tuple([d - 1 for d in numbers.scatter_dims_to_operand_dims]), tuple([d for d, _ in batches]),
        tuple([i for _, i in batches]))
    # Indices of one position are unique or sorted; those of all positions together are not: two may write the same
    # element.
    return [filled, Eqn(prims.scatter_add_p, [zeros, *scatter.invars[1:]], e.outvars,
                        {**params, "dimension_numbers": into, "unique_indices": False, "indices_are_sorted": False}, e.source)]


def _is_zero(a: Atom, producers: Mapping[Atom, Eqn]) -> bool:
    """Return whether an operand is known to contain only zeros."""
    while type(a) is not Literal:
        e = producers.get(a)
        if e is None or e.primitive is not prims.broadcast_in_dim_p:
            return False
        a = e.invars[0]
    return not a.val
