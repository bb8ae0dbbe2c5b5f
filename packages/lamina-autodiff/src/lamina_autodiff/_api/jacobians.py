"""`jacfwd`, `jacrev`, `hessian`: push or pull all basis vectors at once through the `basis_map` hook."""
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec

import numpy as np
from lamina_ir import dtypes, shaped, ShapedArray, trees
from lamina_ir.typing import Function, Tree, Value
from lamina_tracing import lax, hooks
from lamina_tracing.extend import EVALUATION, Tracer, api_boundary, trace_state, typeof, wraps

from .._engine.arg_checks import (match_weak_type, check_function, check_input, check_output_dtype, resolve_argnums,
                                  get_leaf_avals)
from .forward import jvp
from .reverse import vjp

__all__ = ["hessian", "jacfwd", "jacrev"]

P = ParamSpec("P")


def _map_basis(push: Function, basis: Sequence[Value]) -> list[Value]:
    """Apply `push` to each basis vector (flat arrays with the vectors along axis 0); stack the results on axis 0."""
    if trace_state.trace is EVALUATION:  # lamina arrays: a transfer guard would reject NumPy arrays
        basis = [hooks.evaluator.array(b, shaped(b.shape, b.dtype)) for b in basis]
    basis_map = hooks.find_basis_map()
    if basis_map is not None:
        return basis_map(push, basis)
    # Without lamina_batching there is no vmap: loop over the basis.
    results = [push(*[b[i] for b in basis]) for i in range(len(basis[0]))]
    return [lax.concatenate([lax.expand_dims(r[j], (0,)) for r in results], 0) for j in range(len(results[0]))]


def _basis(avals: Sequence[ShapedArray]) -> list[np.ndarray]:
    """Return the standard basis of a list of arrays: per array its columns of the identity, shape `(total, *shape)`."""
    total = sum(a.size for a in avals)
    found, start = [], 0
    for a in avals:
        block = np.zeros((total, a.size), a.dtype)
        block[start:start + a.size] = np.eye(a.size, dtype=a.dtype)
        found.append(block.reshape(total, *a.shape))
        start += a.size
    return found


def _restrict(fun: Function, nums: Sequence[int], args: Sequence[Tree], kwargs: Mapping[str, Tree]) -> Function:
    """Return `fun` as a function of the arguments `nums` only."""
    def chosen(*xs: Tree) -> Tree:
        full = list(args)
        for n, x in zip(nums, xs):
            full[n] = x
        return fun(*full, **kwargs)

    return wraps(fun)(chosen)


def _jacobian_shape(outer: ShapedArray, inner: ShapedArray) -> tuple[int, ...]:
    return outer.shape + inner.shape


def _split(stacked: Value, avals: Sequence[ShapedArray], axis: int, shape: Callable[[ShapedArray], tuple[int, ...]],
           weak: bool) -> list[Value]:
    """Split an axis into one part per aval and reshape each part; with `weak`, give it the weak type of its aval."""
    parts, start = [], 0
    for a in avals:
        part = lax.slice_in_dim(stacked, start, start + a.size, 1, axis) if len(avals) > 1 else stacked
        part = lax.reshape(part, shape(a))
        parts.append(match_weak_type(part, a) if weak else part)
        start += a.size
    return parts


def jacfwd(fun: Callable[P, Tree], argnums: int | Sequence[int] = 0, has_aux: bool = False,
           holomorphic: bool = False) -> Callable[P, Tree]:
    """Make a function that returns the Jacobian of `fun`, computed by columns in forward mode: cheap for few inputs.

    Args:
      fun: function of arrays and trees of them.
      argnums: which positional argument(s) to differentiate.
      has_aux: whether `fun` returns (output, auxiliary data).
      holomorphic: whether `fun` is a holomorphic function of complex inputs.
    Returns:
      A function that returns, at each leaf of the output's tree, the tree of the argument, with arrays of shape
      `output.shape + input.shape`.
    Raises:
      TypeError: an input is not real (or not complex, when holomorphic).

    >>> jacfwd(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    check_function("jacfwd", fun)
    @api_boundary
    def jacobian(*args: Tree, **kwargs: Tree) -> Tree:
        nums = resolve_argnums("jacfwd", fun, argnums, args)
        flat, tree = trees.tree_flatten([args[n] for n in nums])
        avals = get_leaf_avals("jacfwd", fun, flat, tree)
        for a in avals:
            check_input("jacfwd", fun, a, holomorphic, False)
        chosen = _restrict(fun, nums, args, kwargs)
        info: list[Any] = []

        def push(*tangents: Value) -> list[Value]:
            point = trees.tree_unflatten(tree, flat)
            out = jvp(chosen, tuple(point), tuple(trees.tree_unflatten(tree, tangents)), has_aux=has_aux)
            leaves, out_tree = trees.tree_flatten(out[1])
            values = trees.tree_leaves(out[0])
            aux, aux_tree = trees.tree_flatten(out[2]) if has_aux else ([], None)
            info[:] = [out_tree, len(leaves), aux_tree, [typeof(v) for v in values], aux]
            return leaves + [a for a in aux if isinstance(a, Tracer)]

        # columns[..][k] is J e_k, where k counts the elements of all inputs. So axis k is moved last and split by
        # input. The primal results, trees and known auxiliary data (`info`) do not depend on k.
        columns = _map_basis(push, _basis(avals))
        out_tree, n, aux_tree, out_avals, aux = info
        if holomorphic:
            for a in out_avals:
                check_output_dtype("jacfwd", fun, a, True)
        result = []
        for column, o in zip(columns[:n], out_avals):
            last = lax.transpose(column, (*range(1, o.ndim + 1), 0))
            parts = _split(last, avals, o.ndim, functools.partial(_jacobian_shape, o), o.weak_type)
            arguments = trees.tree_unflatten(tree, parts)
            result.append(arguments if isinstance(argnums, (tuple, list, range)) else arguments[0])
        found = trees.tree_unflatten(out_tree, [tuple(r) if isinstance(argnums, (tuple, list, range)) else r for r in result])
        if has_aux:
            traced = iter(columns[n:])  # mapped too, with equal entries: take the first
            return found, trees.tree_unflatten(aux_tree, [next(traced)[0] if isinstance(a, Tracer) else a for a in aux])
        return found

    return wraps(fun)(jacobian)


def jacrev(fun: Callable[P, Tree], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
           allow_int: bool = False) -> Callable[P, Tree]:
    """Make a function that returns the Jacobian of `fun`, computed by rows in reverse mode: cheap for few outputs.

    Args: as for `jacfwd`; `allow_int` allows integer inputs, whose part has dtype `float0`.
    Returns: as for `jacfwd`.

    >>> jacrev(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    check_function("jacrev", fun)
    return jacrev_impl(vjp, fun, argnums, has_aux, holomorphic, allow_int)


def jacrev_impl(vjp: Function, fun: Function, argnums: Tree, has_aux: bool, holomorphic: bool,
                allow_int: bool) -> Function:
    """Implement `jacrev` with a given `vjp`."""
    @api_boundary
    def jacobian(*args: Tree, **kwargs: Tree) -> Tree:
        nums = resolve_argnums("jacrev", fun, argnums, args)
        point = [args[n] for n in nums]
        flat, tree = trees.tree_flatten(point)
        avals = get_leaf_avals("jacrev", fun, flat, tree)
        for a in avals:
            check_input("jacrev", fun, a, holomorphic, allow_int)
        out = vjp(_restrict(fun, nums, args, kwargs), *point, has_aux=has_aux)
        values, out_tree = trees.tree_flatten(out[0])
        out_avals = [typeof(v) for v in values]
        for a in out_avals:
            check_output_dtype("jacrev", fun, a, holomorphic)

        def pull(*cts: Value) -> list[Value]:
            back = trees.tree_leaves(list(out[1](trees.tree_unflatten(out_tree, cts))))
            return [b for b, a in zip(back, avals) if dtypes.is_inexact(a.dtype)]

        # rows[..][k] is e_k^T J, where k counts the elements of all outputs. Axis k is split by output.
        rows = iter(_map_basis(pull, _basis(out_avals)))
        per_input = []  # for each input leaf, its part for each output leaf
        for a in avals:
            if dtypes.is_inexact(a.dtype):
                per_input.append(_split(next(rows), out_avals, 0, functools.partial(_jacobian_shape, inner=a), a.weak_type))
            else:
                per_input.append([np.zeros(o.shape + a.shape, dtypes.float0) for o in out_avals])
        result = []
        for i in range(len(out_avals)):
            arguments = trees.tree_unflatten(tree, [parts[i] for parts in per_input])
            result.append(tuple(arguments) if isinstance(argnums, (tuple, list, range)) else arguments[0])
        found = trees.tree_unflatten(out_tree, result)
        return (found, out[2]) if has_aux else found

    return wraps(fun)(jacobian)


def hessian(fun: Callable[P, Tree], argnums: int | Sequence[int] = 0, has_aux: bool = False,
            holomorphic: bool = False) -> Callable[P, Tree]:
    """Make a function that returns the Hessian of `fun`, computed forward over reverse.

    Args: as for `jacfwd`.
    Returns:
      A function that returns, at each leaf of the output's tree, the product of the argument's tree with itself.

    >>> hessian(lambda x: x * x * x)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    check_function("hessian", fun)
    return jacfwd(jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic), argnums, has_aux=has_aux,
                  holomorphic=holomorphic)
