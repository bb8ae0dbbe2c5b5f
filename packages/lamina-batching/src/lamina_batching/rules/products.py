"""Batching rule of `dot_general`; no operand is transposed.

If both operands are batched, the batch axes become the first pair of batch dimensions. If one is, its batch axis
becomes a free dimension, and the result has it at the position of that free dimension.
"""
from __future__ import annotations

from functools import lru_cache

from lamina_ir import prims
from lamina_tracing.extend import bind, typeof

from ..tables import batching_rules

__all__: list[str] = []


def _shift_axes(axes, d):
    """Renumber axes after inserting an axis at `d`."""
    return axes if d is None else tuple([a + (a >= d) for a in axes])


@lru_cache(maxsize=1024)
def _plan(numbers, ndims, dims):
    """Return the batched dimension numbers and the batch axis of the result."""
    (lc, rc), (lb, rb) = numbers
    l, r = dims
    lc, lb, rc, rb = _shift_axes(lc, l), _shift_axes(lb, l), _shift_axes(rc, r), _shift_axes(rb, r)
    if l is not None and r is not None:
        return ((lc, rc), ((l, *lb), (r, *rb))), 0
    lhs_free = [a for a in range(ndims[0]) if a not in lc and a not in lb]
    rhs_free = [a for a in range(ndims[1]) if a not in rc and a not in rb]
    at = lhs_free.index(l) if r is None else len(lhs_free) + rhs_free.index(r)
    return ((lc, rc), (lb, rb)), len(lb) + at


def dot_general_batching(axis, args, dims, *, dimension_numbers, precision, preferred_element_type):
    x, y = args
    numbers, out_dim = _plan(dimension_numbers, (len(typeof(x).shape), len(typeof(y).shape)), tuple(dims))
    return bind(prims.dot_general_p, x, y, dimension_numbers=numbers, precision=precision,
                preferred_element_type=preferred_element_type), out_dim


batching_rules.define(prims.dot_general_p, dot_general_batching)
