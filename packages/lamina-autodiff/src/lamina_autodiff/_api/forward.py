"""`jvp` and `linearize`: forward-mode derivatives."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np
from lamina_ir import dtypes, ShapedArray, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Tree, Value
from lamina_tracing.extend import Tracer, api_boundary, function_name, stack_object_arrays, typeof

from .._engine.arg_checks import match_weak_type, check_function, get_leaf_avals, check_tangents, zeros_of
from .._engine.linear_function import LinearFunction
from .._engine.jvp_trace import run_jvp
from .._engine.linearize import LinearProgram, linearize_flat
from .._typing import Tangent

__all__ = ["jvp", "linearize"]

R = TypeVar("R")
X = TypeVar("X")
Aux = TypeVar("Aux")


def _as_args(call: str, what: str, value: object) -> tuple[Tree, ...]:
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{call}: {what} must be a tuple or list with one entry per argument; got {type(value).__name__}. "
                        f"Write ({what[:-1]},) for one argument")
    return tuple(value)


def _flat_function(fun: Function, tree: PyTreeDef, has_aux: bool, call: str, source: Function | None = None,
                   positions: Sequence[int] = ()) -> tuple[Function, list[Any]]:
    """Return `fun` on flat arguments, and a list that its call sets to [output tree, aux tree, number of outputs].

    For errors: `source` is the user's function if `fun` calls it, and `positions` those of its arguments in `tree`.
    """
    info: list[Any] = []

    def flat(*xs: Value) -> list[Value]:
        out = fun(*trees.tree_unflatten(tree, xs))
        aux = None
        if has_aux:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(f"{call}: with has_aux=True `{function_name(fun)}` must return a pair (output, auxiliary); "
                                f"got {out.aval.str_long() if isinstance(out, Tracer) else type(out).__name__}")
            out, aux = out
        leaves, out_tree = trees.tree_flatten(out)
        aux_leaves, aux_tree = trees.tree_flatten(aux)
        info[:] = [out_tree, aux_tree, len(leaves)]
        if np.ndarray in map(type, leaves):
            stack_object_arrays(leaves)
        for x in leaves:
            if isinstance(x, Tracer) and x.aval.is_reference:
                raise TypeError(f"{call} of `{function_name(source or fun)}`: the function returned a mutable reference "
                                f"{x.aval.str_long()}, which has no derivative. Return its value, ref[...]")
        return leaves + aux_leaves if aux_leaves else leaves

    flat.function_info = call, source or fun, tree, positions  # type: ignore[attr-defined]
    return flat, info


def _tangents_of(avals: Sequence[ShapedArray], dout: Sequence[Tangent]) -> list[Value]:
    """Return the tangents of all outputs as arrays, with the weak types of `avals`."""
    return [zeros_of(a) if t is None else match_weak_type(t, a) if a.weak_type else t for a, t in zip(avals, dout)]


@overload
def jvp(fun: Callable[..., R], primals: Sequence[Tree], tangents: Sequence[Tree],
        has_aux: Literal[False] = False) -> tuple[R, R]: ...


@overload
def jvp(fun: Callable[..., tuple[X, Aux]], primals: Sequence[Tree], tangents: Sequence[Tree],
        has_aux: Literal[True]) -> tuple[X, X, Aux]: ...


@overload
def jvp(fun: Function, primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: bool) -> Any: ...


@api_boundary
def jvp(fun: Function, primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: bool = False) -> Any:
    """Compute a Jacobian-vector product: the value of `fun` and its directional derivative.

    Args:
      fun: function of arrays and trees of them.
      primals: tuple or list with one entry per argument: the point.
      tangents: the direction; same trees, shapes and dtypes as `primals` (dtype `float0` for integers).
      has_aux: whether `fun` returns (output, auxiliary data).
    Returns:
      (output, tangent of the output), and the auxiliary data if `has_aux`.
    Raises:
      TypeError, ValueError: `tangents` do not match `primals`; the message names the argument.

    >>> from lamina_tracing import lax
    >>> jvp(lambda x: x * x, (3.0,), (1.0,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_function("jvp", fun)
    primals, tangents = _as_args("jvp", "primals", primals), _as_args("jvp", "tangents", tangents)
    flat, tree = trees.tree_flatten(primals)
    flat_t, tree_t = trees.tree_flatten(tangents)
    if tree != tree_t:
        raise TypeError(f"jvp: primals and tangents must have the same tree; got {tree} and {tree_t}")
    get_leaf_avals("jvp", fun, flat, tree)
    active = check_tangents("jvp", flat, flat_t, lambda i: f"argument leaf {i}")
    run, info = _flat_function(fun, tree, has_aux, "jvp")
    out, dout = run_jvp(run, flat, active)
    out_tree, aux_tree, n = info
    value = trees.tree_unflatten(out_tree, out[:n])
    tangent = trees.tree_unflatten(out_tree, _tangents_of([typeof(o) for o in out[:n]], dout))
    return (value, tangent, trees.tree_unflatten(aux_tree, out[n:])) if has_aux else (value, tangent)


@dataclasses.dataclass(eq=False)
class _Push:
    """Apply the linear program of a `linearize` to tangents: check them and restore trees."""

    tree: PyTreeDef
    avals: Sequence[ShapedArray]
    active: Sequence[bool]
    out_tree: PyTreeDef
    out_avals: Sequence[ShapedArray]

    def __call__(self, program: LinearProgram, *tangents: Tree) -> Tree:
        flat_t, tree_t = trees.tree_flatten(tangents)
        if tree_t != self.tree:
            raise TypeError(f"linearize: the tangents must have the tree of the primals, {self.tree}; got {tree_t}")
        found = check_tangents("linearize", self.avals, flat_t, lambda i: f"argument leaf {i}")
        dout = program.forward([t for t, on in zip(found, self.active) if on])
        return trees.tree_unflatten(self.out_tree, _tangents_of(self.out_avals, dout))


@overload
def linearize(fun: Callable[..., R], *primals: Tree, has_aux: Literal[False] = False) -> tuple[R, Callable[..., R]]: ...


@overload
def linearize(fun: Callable[..., tuple[X, Aux]], *primals: Tree,
              has_aux: Literal[True]) -> tuple[X, Callable[..., X], Aux]: ...


@overload
def linearize(fun: Function, *primals: Tree, has_aux: bool) -> Any: ...


@api_boundary
def linearize(fun: Function, *primals: Tree, has_aux: bool = False) -> Any:
    """Compute the value of `fun` at a point and its linearization there.

    Args:
      fun: function of arrays and trees of them.
      primals: the point.
      has_aux: whether `fun` returns (output, auxiliary data).
    Returns:
      (output, `f_jvp`), and the auxiliary data if `has_aux`; `f_jvp(*tangents)` returns the tangent of the
      output without running `fun` again. `f_jvp` is a pytree of its residuals, so `jit` can return and take it.

    >>> y, f_jvp = linearize(lambda x: x * x, 3.0)
    >>> f_jvp(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    check_function("linearize", fun)
    flat, tree = trees.tree_flatten(primals)
    avals = get_leaf_avals("linearize", fun, flat, tree)
    active = [dtypes.is_inexact(a.dtype) for a in avals]
    run, info = _flat_function(fun, tree, has_aux, "linearize")
    out, program = linearize_flat(run, flat, active)
    out_tree, aux_tree, n = info
    program.outs = program.outs[:n]
    out_avals = [typeof(o) for o in out[:n]]

    f_jvp = LinearFunction(f"linearization of {function_name(fun)}", program, _Push(tree, avals, active, out_tree, out_avals))
    value = trees.tree_unflatten(out_tree, out[:n])
    return (value, f_jvp, trees.tree_unflatten(aux_tree, out[n:])) if has_aux else (value, f_jvp)
