"""Entries that the docstrings of reductions share."""
from __future__ import annotations

from lamina_ir.extend import docstring_entries

__all__ = ["EXTREME", "MEAN", "POSITION", "REDUCTION", "SUM"]

REDUCTION = docstring_entries("""
    a: number or boolean array `[...]`.
    axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
    out: not supported, must be None: arrays never change.
    keepdims: leave the reduced axes in place with length 1.
    where: booleans that broadcast to `a`: which elements to include; None for all.
    TypeError: `a` is neither an array nor a number.
    ShapeError: `axis` names an axis that `a` does not have, or one twice.
    UnboundAxisError: `axis` names a mapped axis that is not bound.
    NotImplementedError: `out` is given.
    """)
SUM = {**REDUCTION, **docstring_entries("""
    dtype: element type to accumulate in, and of the result; None for that of `a`, integers and booleans narrower than
      the default integer widened to it.
    initial: a number to start from.
    promote_integers: whether integers narrower than the default integer are widened.
    """)}
EXTREME = {**REDUCTION, **docstring_entries("""
    a: ordered array `[...]`: integers, floats or booleans; complex numbers are ordered by real, then imaginary part.
    initial: a number that is included; required if there are no elements, and with `where`.
    ValueError: there are no elements along the axes and no `initial`, or `where` is given without `initial`.
    """)}
MEAN = {**REDUCTION, **docstring_entries("""
    dtype: element type of the result; None for that of `a`, float for integers and booleans.
    ddof: subtracted from the number of elements before dividing; may be traced.
    mean: the mean, if it is known, with its axes kept; None computes it.
    correction: the array API's name for `ddof`; give one of them.
    ValueError: both `ddof` and `correction` are given.
    """)}
POSITION = docstring_entries("""
    a: ordered array `[..., n, ...]`.
    axis: the axis of length `n`, or the name of a mapped one; None flattens `a` first.
    out: not supported, must be None: arrays never change.
    keepdims: leave the axis (all axes, for `axis=None`) in place with length 1.
    first: Integer array of the other axes, of the default integer dtype, in `[0, n)`: the first of equal elements, and
      the first NaN if there is one.
    not_nan: Integer array of the other axes, in `[0, n)`; -1 if all elements are NaN.
    ValueError: the axis has no elements.
    TypeError: `a` is neither an array nor a number.
    ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
    UnboundAxisError: `axis` names a mapped axis that is not bound.
    NotImplementedError: `out` is given.
    """)
