"""`linear_call` and `custom_transpose`: linear functions with user-defined transposes."""
from __future__ import annotations

import functools
from collections.abc import Sequence

from lamina_ir import ClosedJaxpr, prims, ShapedArray, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import CacheKey, Function, Params, Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, function_name, capture_scope, stage, typeof, wraps

from .implicit import _take_all_constants

__all__ = ["closed_linear_call", "custom_transpose", "linear_call"]


def _stage_two_trees(fun: Function, split: int, first: PyTreeDef, second: PyTreeDef,
                     avals: Sequence[ShapedArray]) -> tuple[ClosedJaxpr, list[Value], PyTreeDef]:
    """Stage a function of two trees; return (program, values of enclosing traces for its first arguments, tree)."""
    out_tree: PyTreeDef  # set by `flat`

    def flat(*xs: Value) -> list[Value]:
        nonlocal out_tree
        out = fun(trees.tree_unflatten(first, xs[:split]), trees.tree_unflatten(second, xs[split:]))
        leaves, out_tree = trees.tree_flatten(out)
        return leaves

    closed, outer = stage(flat, avals)
    return closed, outer, out_tree


def _strong(x: Value) -> Value:
    """Return `x` without weak type."""
    aval = typeof(x)
    return lax.convert_element_type(x, aval.dtype) if aval.weak_type else x


def linear_call(fun: Function, fun_transpose: Function, residual_args: Tree, linear_args: Tree) -> Tree:
    """Call `fun(residual_args, linear_args)` with a user-defined transpose in `linear_args`.

    Args:
      fun: function of two trees of arrays, linear in the second. The linearity is not checked.
      fun_transpose: `fun_transpose(residual_args, ct)` returns the transpose applied to `ct`, a tree like the result of
        `fun`, as a tree like `linear_args`. It is not checked to be the transpose.
      residual_args: the other arguments of `fun`; derivatives with respect to them differentiate `fun` itself.
      linear_args: the arguments in which `fun` is linear; float or complex.
    Returns:
      The result of `fun`.
    Raises:
      TypeError: `fun_transpose` returns another tree or other types than those of `linear_args`.

    >>> from lamina_autodiff import linear_transpose
    >>> def scaled(r, x):
    ...     return linear_call(lambda r, x: x / r, lambda r, ct: ct / r, r, x)
    >>> scaled(2.0, 6.0), linear_transpose(lambda x: scaled(2.0, x), 6.0)(1.0)
    (Array(3., dtype=float32), (Array(0.5, dtype=float32, weak_type=True),))
    """
    residuals, residual_tree = trees.tree_flatten(residual_args)
    moved, moved_tree = trees.tree_flatten(linear_args)
    residuals, moved = [_strong(x) for x in residuals], [_strong(x) for x in moved]
    outer, params, out_tree = _stage_call(fun, fun_transpose, residual_tree, moved_tree, [typeof(x) for x in residuals],
                                          [typeof(x) for x in moved])
    return trees.tree_unflatten(out_tree, bind(prims.transposed_call_p, *outer, *residuals, *moved, **params))


def closed_linear_call(fun: Function, fun_transpose: Function) -> Function:
    """Return `linear_call` of functions that close over no arrays, whose programs are staged once per types."""
    staged: dict[CacheKey, tuple[list[Value], Params, PyTreeDef]] = {}

    def call(residual_args: Tree, linear_args: Tree) -> Tree:
        residuals, residual_tree = trees.tree_flatten(residual_args)
        moved, moved_tree = trees.tree_flatten(linear_args)
        residuals, moved = [_strong(x) for x in residuals], [_strong(x) for x in moved]
        given, avals = tuple([typeof(x) for x in residuals]), tuple([typeof(x) for x in moved])
        key = residual_tree, moved_tree, given, avals
        found = staged.get(key)
        if found is None:
            found = staged[key] = _stage_call(fun, fun_transpose, residual_tree, moved_tree, given, avals)
        outer, params, out_tree = found
        return trees.tree_unflatten(out_tree, bind(prims.transposed_call_p, *outer, *residuals, *moved, **params))
    return call


def _stage_call(fun: Function, fun_transpose: Function, residual_tree: PyTreeDef, moved_tree: PyTreeDef,
                given: Sequence[ShapedArray], avals: Sequence[ShapedArray]) -> tuple[list[Value], Params, PyTreeDef]:
    """Stage the functions of a `linear_call`; return (values they close over, parameters, tree of the results)."""
    n = len(given)
    forward = _stage_two_trees(fun, n, residual_tree, moved_tree, [*given, *avals])
    cts = [a.strip_weak_type() for a in forward[0].out_avals]
    back = _stage_two_trees(fun_transpose, n, residual_tree, forward[2], [*given, *cts])
    found = back[0].out_avals
    if back[2] != moved_tree or not all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(found, avals)):
        raise TypeError(f"linear_call: fun_transpose `{function_name(fun_transpose)}` must return the tree and types of "
                        f"linear_args, {moved_tree} of ({', '.join(a.str_long() for a in avals)}); got {back[2]} of "
                        f"({', '.join(a.str_long() for a in found)})")
    # Both programs take the same leading constants: the union of the values they close over.
    every = list({id(x): x for x in (*forward[1], *back[1])}.values())
    program, back_program = _take_all_constants(*forward[:2], every), _take_all_constants(*back[:2], every)
    name, count, scope = function_name(fun), len(every) + n, capture_scope()

    def transposed(*xs: Value) -> Sequence[Value]:  # the transpose is linear too, and its transpose is `fun`
        return bind(prims.transposed_call_p, *xs, num_held=count, transpose_jaxpr=program,
                    forward=prims.Rule(name, lambda: scope(lambda: back_program)))

    transpose, outer = stage(transposed, [*[typeof(x) for x in every], *given, *cts])
    assert not outer
    return every, dict(num_held=count, transpose_jaxpr=transpose, forward=prims.Rule(name, lambda: program)), forward[2]


class custom_transpose:
    """A linear function with a user-defined transpose, set by `def_transpose`.

    Args:
      fun: `fun(residuals, x)`, linear in the tree `x`.

    Pass the types of the results first: `f(out_types, residuals, x)`. Until `def_transpose` is called, the function is
    transposed like any other.

    >>> from lamina_autodiff import linear_transpose
    >>> @custom_transpose
    ... def scaled(r, x):
    ...     return x / r
    >>> @scaled.def_transpose
    ... def scaled_back(r, ct):
    ...     return ct / r
    >>> linear_transpose(lambda x: scaled(1.0, 2.0, x), 6.0)(1.0)
    (Array(0.5, dtype=float32, weak_type=True),)
    """

    def __init__(self, fun: Function) -> None:
        if not callable(fun):
            raise TypeError(f"custom_transpose: expected a function; got {type(fun).__name__}")
        wraps(fun, functools.WRAPPER_UPDATES)(self)
        self.fun = fun
        self.transpose: Function | None = None

    def def_transpose(self, transpose: Function) -> Function:
        """Set the transpose.

        Args:
          transpose: `transpose(residuals, ct)` returns a tree like `x`.
        Returns:
          `transpose`, so that this can be a decorator.
        """
        self.transpose = transpose
        return transpose

    def __call__(self, out_types: Tree, residuals: Tree, x: Tree) -> Tree:
        """Call the function on `residuals` and `x`.

        Args:
          out_types: tree like the result, of arrays, numbers, or objects with shape and dtype.
          residuals: the arguments in which the function need not be linear.
          x: the argument in which it is linear.
        Raises:
          TypeError: the result has another tree or other types than `out_types`.
        """
        out = (self.fun(residuals, x) if self.transpose is None else linear_call(self.fun, self.transpose, residuals, x))
        wanted, tree = trees.tree_flatten(out_types)
        leaves, found = trees.tree_flatten(out)
        types = [(tuple(t.shape), t.dtype) if hasattr(t, "shape") else (typeof(t).shape, typeof(t).dtype) for t in wanted]
        if found != tree or any((typeof(v).shape, typeof(v).dtype) != t for v, t in zip(leaves, types)):
            raise TypeError(f"custom_transpose of `{function_name(self.fun)}`: the result must be {tree} of {types}, as "
                            f"out_types say; got {found} of ({', '.join(typeof(v).str_long() for v in leaves)})")
        return out
