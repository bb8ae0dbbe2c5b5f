"""Batching row of `dot_general`: no operand is moved.

Both batched: their batch axes become the first pair of batch axes. One batched: its batch axis becomes one of its free
axes, and is found again where free axes go in the result.
"""
from __future__ import annotations

from functools import lru_cache

from lamina_ir import prims
from lamina_tracing.extend import bind, typeof

from ..tables import batching_rules

__all__: list[str] = []


def _past(axes, d):
    """Axis numbers after an axis was put in at `d`."""
    return axes if d is None else tuple([a + (a >= d) for a in axes])


@lru_cache(maxsize=1024)
def _plan(numbers, ndims, dims):
    """The batched dimension numbers, and where the batch axis is in the result."""
    # Both: one more batch axis, in front. One: one more free axis of that operand, wherever that comes in the result.
    (lc, rc), (lb, rb) = numbers
    l, r = dims
    lc, lb, rc, rb = _past(lc, l), _past(lb, l), _past(rc, r), _past(rb, r)
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
