"""Transpose rule of `dot_general`: the product of the cotangent with the other operand, by `dot_general`."""
from __future__ import annotations

from functools import lru_cache
from typing import Any

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from .._engine.linearize import is_linear
from .._engine.rule_tables import transpose_rules

__all__: list[str] = []


def _sort_by(values, keys):
    """Return the values in the order of their keys."""
    return tuple([v for _, v in sorted(zip(keys, values, strict=True))])


def _find_sorting_permutation(axes):
    """Return the permutation that sorts the axes; None if they are sorted."""
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return None if order == tuple(range(len(axes))) else order


@lru_cache(maxsize=1024)
def _transpose_plans(numbers, lhs_ndim, rhs_ndim) -> tuple[Any, Any]:
    """Return for each operand (dimension numbers of the product that gives its cotangent, permutation of the result).

    The result of `lhs . rhs` has axes (batch, lhs free, rhs free). `ct . rhs` over the rhs free axes leaves (batch, lhs
    free, contracted as ordered in rhs); `lhs . ct` over the lhs free axes leaves (batch, contracted as ordered in lhs,
    rhs free).
    """
    (lc, rc), (lb, rb) = numbers
    lf = tuple([a for a in range(lhs_ndim) if a not in lc and a not in lb])
    rf = tuple([a for a in range(rhs_ndim) if a not in rc and a not in rb])
    # The cotangent has the axes (batch, free of lhs, free of rhs). Contract it with the other operand over that one's
    # free axes. What remains is (batch, own free, contracted axes in the order of the other operand).
    batch = tuple(range(len(lb)))
    ct_lf = tuple(range(len(lb), len(lb) + len(lf)))
    ct_rf = tuple(range(len(lb) + len(lf), len(lb) + len(lf) + len(rf)))
    for_lhs = ((ct_rf, rf), (batch, rb)), _find_sorting_permutation(lb + lf + _sort_by(lc, rc))
    for_rhs = ((lf, ct_lf), (lb, batch)), _find_sorting_permutation(rb + _sort_by(rc, lc) + rf)
    return for_lhs, for_rhs


def dot_general_transpose(ct, x, y, *, dimension_numbers, precision, preferred_element_type):
    lhs, rhs = typeof(x), typeof(y)
    for_lhs, for_rhs = _transpose_plans(dimension_numbers, len(lhs.shape), len(rhs.shape))
    if is_linear(x):
        return _multiply(ct, _cast(y, ct), for_lhs[0], for_lhs[1], precision, lhs.dtype), None
    return None, _multiply(_cast(x, ct), ct, for_rhs[0], for_rhs[1], precision, rhs.dtype)


def _cast(x, ct):
    """Cast x to the dtype of the cotangent; they differ if preferred_element_type was given."""
    dtype = typeof(ct).dtype
    return x if typeof(x).dtype == dtype else lax.convert_element_type(x, dtype)


def _multiply(a, b, numbers, order, precision, dtype):
    out = bind(prims.dot_general_p, a, b, dimension_numbers=numbers, precision=precision, preferred_element_type=None)
    if order is not None:
        out = lax.transpose(out, order)
    return out if typeof(out).dtype == dtype else lax.convert_element_type(out, dtype)


transpose_rules.define(prims.dot_general_p, dot_general_transpose)
