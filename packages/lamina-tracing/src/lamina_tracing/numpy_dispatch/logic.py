"""Comparisons up to a tolerance, and questions that have one truth value for an answer."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes

from .. import lax
from .._core.tracer import typeof
from .elementwise import isnan
from ._registry import as_array, broadcast, common, inexact, row, rows, shape_of

__all__: list[str] = []


@row("isclose")
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    x, y = broadcast(*map(inexact, common(a, b)))
    near = rows["less_equal"](lax.abs(lax.sub(x, y)), rows["add"](rows["multiply"](lax.abs(y), rtol), atol))
    out = rows["logical_or"](rows["logical_and"](near, rows["isfinite"](y)), lax.eq(x, y))
    return rows["logical_or"](out, rows["logical_and"](isnan(x), isnan(y))) if equal_nan else out


@row("allclose")
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    return rows["all"](isclose(a, b, rtol, atol, equal_nan))


@row("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    x, y = common(a1, a2)
    if shape_of(x) != shape_of(y):
        return False
    same = rows["equal"](x, y)
    return rows["all"](rows["logical_or"](same, rows["logical_and"](isnan(x), isnan(y))) if equal_nan else same)


@row("array_equiv")
def array_equiv(a1: Any, a2: Any) -> Any:
    x, y = common(a1, a2)
    try:
        x, y = broadcast(x, y)
    except ValueError:
        return False
    return rows["all"](rows["equal"](x, y))


@row("isin")
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    x, tests = common(element, rows["ravel"](test_elements))
    found = rows["any"](rows["equal"](lax.expand_dims(x, (len(shape_of(x)),)), tests), -1)
    return rows["logical_not"](found) if invert else found


@row("in1d")  # until NumPy 2.3
def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    return isin(rows["ravel"](ar1), ar2, assume_unique, invert)


@row("iscomplex")
def iscomplex(x: Any) -> Any:
    x = as_array(x)
    return rows["not_equal"](rows["imag"](x), 0) if dtypes.is_complex(typeof(x).dtype) else np.zeros(shape_of(x), bool)[()]


@row("isreal")
def isreal(x: Any) -> Any:
    x = as_array(x)
    return rows["equal"](rows["imag"](x), 0) if dtypes.is_complex(typeof(x).dtype) else np.ones(shape_of(x), bool)[()]
