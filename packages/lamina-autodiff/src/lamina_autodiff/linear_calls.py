"""`linear_call` and `custom_transpose`: linear functions whose transposes are given, not derived."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, prims, trees
from lamina_tracing import lax
from lamina_tracing.extend import bind, function_name, in_scope, stage, typeof

from .solves import _with_constants

__all__ = ["custom_transpose", "linear_call"]


def _staged(fun: Callable[..., Any], split: int, first: Any, second: Any,
            avals: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any], Any]:
    """(program, values of enclosing traces that lead its arguments, tree of its results) of a function of two trees."""
    out_tree = None

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_tree
        out = fun(trees.tree_unflatten(first, xs[:split]), trees.tree_unflatten(second, xs[split:]))
        leaves, out_tree = trees.tree_flatten(out)
        return leaves

    closed, outer = stage(flat, avals)
    return closed, outer, out_tree


def _strong(x: Any) -> Any:
    aval = typeof(x)
    return lax.convert_element_type(x, aval.dtype) if aval.weak_type else x


def linear_call(fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any) -> Any:
    """`fun(residual_args, linear_args)`, whose transpose in `linear_args` is given.

    Args:
      fun: function of two trees of arrays, linear in the second. It is trusted to be.
      fun_transpose: `fun_transpose(residual_args, ct)`: the transpose applied to a `ct` like the result of `fun`; a tree like
        `linear_args`. It is trusted to be the transpose.
      residual_args: what `fun` depends on besides; derivatives with respect to it go through `fun` itself.
      linear_args: what `fun` is linear in; floats and complex numbers.
    Returns:
      The result of `fun`.
    Raises:
      TypeError: `fun_transpose` gives another tree or other types than those of `linear_args`.

    >>> from lamina_autodiff import linear_transpose
    >>> def scaled(r, x):
    ...     return linear_call(lambda r, x: x / r, lambda r, ct: ct / r, r, x)
    >>> scaled(2.0, 6.0), linear_transpose(lambda x: scaled(2.0, x), 6.0)(1.0)
    (Array(3., dtype=float32), (Array(0.5, dtype=float32, weak_type=True),))
    """
    call = "linear_call"
    held, held_tree = trees.tree_flatten(residual_args)
    moved, moved_tree = trees.tree_flatten(linear_args)
    held, moved = [_strong(x) for x in held], [_strong(x) for x in moved]
    n, avals = len(held), [typeof(x) for x in moved]
    given = [typeof(x) for x in held]
    forward = _staged(fun, n, held_tree, moved_tree, [*given, *avals])
    cts = [a.strong() for a in forward[0].out_avals]
    back = _staged(fun_transpose, n, held_tree, forward[2], [*given, *cts])
    found = back[0].out_avals
    if back[2] != moved_tree or not all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(found, avals)):
        raise TypeError(f"{call}: fun_transpose `{function_name(fun_transpose)}` must give the tree and types of linear_args, "
                        f"{moved_tree} of ({', '.join(a.long() for a in avals)}); got {back[2]} of "
                        f"({', '.join(a.long() for a in found)})")
    # Both programs take the same constants: whatever either of them closes over, once.
    every = list({id(x): x for x in (*forward[1], *back[1])}.values())
    there, here = _with_constants(*forward[:2], every), _with_constants(*back[:2], every)
    name, count, scope = function_name(fun), len(every) + n, in_scope()

    def transposed(*xs: Any) -> Any:  # the transpose is linear too, and its transpose is `fun`
        return bind(prims.transposed_call_p, *xs, num_held=count, transpose_jaxpr=there,
                    forward=prims.Rule(name, lambda: scope(lambda: here)))

    whole, outer = stage(transposed, [*[typeof(x) for x in every], *given, *cts])
    assert not outer
    outs = bind(prims.transposed_call_p, *every, *held, *moved, num_held=count, transpose_jaxpr=whole,
                forward=prims.Rule(name, lambda: there))
    return trees.tree_unflatten(forward[2], outs)


class custom_transpose:
    """A linear function that is told its transpose afterwards.

    Args:
      fun: `fun(residuals, x)`, linear in the tree `x`.

    Call it with the types of its results first, `f(out_types, residuals, x)`. Until `def_transpose` has said what the transpose
    is, the function is transposed as any other.

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

    def __init__(self, fun: Callable[..., Any]) -> None:
        if not callable(fun):
            raise TypeError(f"custom_transpose: expected a function; got {type(fun).__name__}")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.transpose: Callable[..., Any] | None = None

    def def_transpose(self, transpose: Callable[..., Any]) -> Callable[..., Any]:
        """Say what the transpose is.

        Args:
          transpose: `transpose(residuals, ct)`, a tree like `x`.
        Returns:
          `transpose`, so that this can be a decorator.
        """
        self.transpose = transpose
        return transpose

    def __call__(self, out_types: Any, residuals: Any, x: Any) -> Any:
        """The function of `residuals` and `x`.

        Args:
          out_types: tree like the result, of arrays, numbers or what else has shape and dtype.
          residuals: what the function depends on besides.
          x: what it is linear in.
        Raises:
          TypeError: the result has another tree or other types than `out_types`.
        """
        out = (self.fun(residuals, x) if self.transpose is None else linear_call(self.fun, self.transpose, residuals, x))
        wanted, tree = trees.tree_flatten(out_types)
        leaves, found = trees.tree_flatten(out)
        types = [(tuple(t.shape), t.dtype) if hasattr(t, "shape") else (typeof(t).shape, typeof(t).dtype) for t in wanted]
        if found != tree or any((typeof(v).shape, typeof(v).dtype) != t for v, t in zip(leaves, types)):
            raise TypeError(f"custom_transpose of `{function_name(self.fun)}`: the result must be {tree} of {types}, as "
                            f"out_types say; got {found} of ({', '.join(typeof(v).long() for v in leaves)})")
        return out
