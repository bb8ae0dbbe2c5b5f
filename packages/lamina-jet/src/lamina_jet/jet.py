"""`jet`: the derivatives of a function along a curve."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lamina_ir import dtypes, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import api_boundary, function_name, stage_sharing_outer, typeof

from . import _rules  # noqa: F401  defines the rules
from ._programs import propagate
from ._series import Series, constant, scale_term

__all__ = ["jet"]


@api_boundary
def jet(fun: Function, primals: Sequence[Tree], series: Sequence[Sequence[Tree]],
        factorial_scaled: bool = True) -> tuple[Tree, Tree]:
    """Differentiate a function n times along a curve, in Taylor mode.

    For a curve x(t), computes y(t) = fun(x(t)) and its derivatives at t = 0. The cost grows with the square of n; that of n
    nested `jvp` grows exponentially.

    Args:
      fun: function of arrays and trees of them, with array results.
      primals: x(0): one value per argument.
      series: per argument, the n derivatives x'(0), ..., x^(n)(0): a sequence of n values like the primal.
      factorial_scaled: whether derivatives are given and returned. If false, the coefficients of t**1, ..., t**n are: the
        k-th derivative divided by k!.
    Returns:
      (y(0), derivatives): a tree like the output, with a list of the n derivatives at each leaf.
    Raises:
      TypeError: `fun` is not callable; `primals` or `series` is not a sequence; a term has another structure than its
        primal.
      ValueError: numbers of arguments or of terms differ; a term has another shape than its primal; there are no terms.

    Source: Griewank and Walther, Evaluating Derivatives (2nd ed., 2008), chapter 13.

    >>> from lamina_tracing import lax
    >>> y, (y1, y2, y3) = jet(lax.sin, (0.0,), ((1.0, 0.0, 0.0),))
    >>> float(y), float(y1), float(y2), float(y3)
    (0.0, 1.0, 0.0, -1.0)
    """
    args, order, tree = _check_args(fun, primals, series)
    if factorial_scaled:
        args = [[scale_term(c, 1 / math.factorial(k)) for k, c in enumerate(x)] for x in args]
    out_tree: Any = None

    def run(*flat: Value) -> list[Value]:
        nonlocal out_tree
        leaves, out_tree = trees.tree_flatten(fun(*trees.tree_unflatten(tree, flat)))
        for x in leaves:
            typeof(x)
        return leaves

    outer: list[Value] = []
    closed, _ = stage_sharing_outer(outer, run, [typeof(x[0]) for x in args])
    found = propagate(closed, order, [*[constant(x, order) for x in outer], *args])
    terms = [[_term(x, k, math.factorial(k) if factorial_scaled else 1) for k in range(1, order + 1)] for x in found]
    return trees.tree_unflatten(out_tree, [x[0] for x in found]), trees.tree_unflatten(out_tree, terms)


def _check_args(fun: Function, primals: Sequence[Tree],
                series: Sequence[Sequence[Tree]]) -> tuple[list[Series], int, PyTreeDef]:
    """Return the series of the flat arguments, the order, and the tree of the arguments."""
    if not callable(fun):
        raise TypeError(f"jet: fun must be callable; got {type(fun).__name__}")
    for name, given in (("primals", primals), ("series", series)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(f"jet of `{function_name(fun)}`: {name} must be a tuple with one entry per argument; got "
                            f"{type(given).__name__}")
    where = f"jet of `{function_name(fun)}`"
    if len(primals) != len(series):
        raise ValueError(f"{where}: series must have one entry per argument; got {len(primals)} primals and {len(series)} "
                         "series")
    for i, terms in enumerate(series):
        if not isinstance(terms, (tuple, list)):
            raise TypeError(f"{where}: series[{i}] must be a tuple of the derivatives of argument {i}; got "
                            f"{type(terms).__name__}")
    counts = sorted({len(terms) for terms in series})
    if len(counts) != 1 or counts == [0]:
        raise ValueError(f"{where}: all arguments must have the same number of terms, at least one; got "
                         f"{[len(terms) for terms in series]}")
    flat, tree = trees.tree_flatten(tuple(primals))
    columns = []
    for k in range(counts[0]):
        leaves, structure = trees.tree_flatten(tuple([terms[k] for terms in series]))
        if structure != tree:
            raise TypeError(f"{where}: the terms series[...][{k}] must have the structure of the primals, {tree}; got "
                            f"{structure}")
        columns.append(leaves)
    return [[x, *_check_terms(where, i, x, terms)] for i, (x, terms) in enumerate(zip(flat, zip(*columns)))], counts[0], tree


def _check_terms(where: str, i: int, x: Value, terms: Sequence[Value]) -> list[Value]:
    """Return the coefficients of an argument, with its dtype; None for an integer, which is constant."""
    aval = typeof(x)
    found: list[Value] = []
    for k, term in enumerate(terms, 1):
        got = typeof(term)
        if got.shape != aval.shape:
            raise ValueError(f"{where}: derivative {k} of argument {i} must have the shape of the primal, {aval.shape}; got "
                             f"{got.shape}")
        if not dtypes.is_inexact(aval.dtype):
            found.append(None)
        elif dtypes.is_complex(got.dtype) and not dtypes.is_complex(aval.dtype):
            raise TypeError(f"{where}: derivative {k} of argument {i} is complex, the primal is {aval.str_long()}")
        else:
            found.append(lax.convert_element_type(term, aval.dtype))
    return found


def _term(x: Series, k: int, factor: int) -> Value:
    """Return a derivative of a result, with zeros for None."""
    return lax.full_like(x[0], 0) if x[k] is None else scale_term(x[k], factor)
