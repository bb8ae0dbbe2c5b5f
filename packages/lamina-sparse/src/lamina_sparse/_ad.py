"""Derivatives with respect to the stored elements of sparse arrays."""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import lamina_autodiff as autodiff
import lamina_numpy as lnp
from lamina_tracing.extend import wraps
from lamina_ir import trees
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_ir.typing import Function, Tree

from ._types import BCOO, JAXSparse

__all__ = ["grad", "jacfwd", "jacobian", "jacrev", "value_and_grad"]

_ENTRIES = docstring_entries("""
    fun: a function of sparse and dense arrays, and trees of them.
    argnums: position of the argument to differentiate, or a sequence of positions.
    has_aux: whether `fun` returns a pair whose second member is not differentiated.
    kwargs: further arguments of the function of the same name in `lamina_autodiff`.
    jacobian: A function that returns the Jacobian. In a BCOO argument it is a BCOO whose leading batch dimensions are those of
      the result.
    TypeError: `fun` returns a sparse array.
    ValueError: a position is not that of an argument.
    """)


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _strip(tree: Tree) -> Tree:
    """Replace sparse arrays by their stored elements."""
    return trees.tree_map(lambda x: x.data if _is_sparse(x) else x, tree, is_leaf=_is_sparse)


def _restore_data(tree: Tree, leaves: Tree) -> Tree:
    """Return `tree` with the arrays in `leaves`, as the stored elements of sparse arrays."""
    return trees.tree_map(lambda x, new: x.replace_data(new) if _is_sparse(x) else new, tree, leaves, is_leaf=_is_sparse)


def _differentiate(transform: Function, fun: Function, argnums: int | Sequence[int], make: Callable[[Any, Any, Any], Any],
                   **options: Any) -> Function:
    """Apply a transformation to `fun` as a function of the stored elements; `make(call, arguments)` restores sparse arrays."""
    numbers = [operator.index(argnums)] if isinstance(argnums, int) else [operator.index(i) for i in argnums]

    @wraps(fun, functools.WRAPPER_UPDATES)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        if any(not -len(args) <= i < len(args) for i in numbers):
            raise ValueError(f"argnums must be positions of the {len(args)} arguments; got {argnums}")
        places = [i % len(args) for i in numbers]

        def of_data(*data: Tree) -> Any:
            full = list(args)
            for i, leaves in zip(places, data, strict=True):
                full[i] = _restore_data(args[i], leaves)
            return fun(*full, **kwargs)
        out = transform(of_data, argnums=tuple(range(len(places))), **options)(*[_strip(args[i]) for i in places])
        return make(out, [args[i] for i in places], isinstance(argnums, int))
    return differentiated


def _restore_gradients(out: Tree, args: list[Any], is_single: bool) -> Tree:
    grads = tuple([_restore_data(x, g) for x, g in zip(args, out, strict=True)])
    return grads[0] if is_single else grads


@fill_docstring(_ENTRIES)
def value_and_grad(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Function:
    """Return a function that computes `fun` and its gradient.

    Args: {fun, argnums, has_aux, kwargs}
    Returns:
      A function that returns the value and the gradient. The gradient of a sparse argument is a sparse array with the same
      indices: the derivative in each stored element.
    Raises:
      TypeError: the value is not a real scalar.
      ValueError: a position is not that of an argument.

    Source: JAX's function of this name in `jax.experimental.sparse`.

    >>> x = BCOO.fromdense(np.array([0., 3.]))
    >>> value, gradient = value_and_grad(lambda x: (x @ np.array([2., 5.])) ** 2)(x)
    >>> value, gradient.todense()
    (Array(225., dtype=float32), Array([  0., 150.], dtype=float32))
    """
    def make(out: Any, args: list[Any], is_single: bool) -> Any:
        return out[0], _restore_gradients(out[1], args, is_single)
    return _differentiate(autodiff.value_and_grad, fun, argnums, make, has_aux=has_aux, **kwargs)


@fill_docstring(_ENTRIES)
def grad(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Function:
    """Return a function that computes the gradient of `fun`.

    Args: {fun, argnums, has_aux, kwargs}
    Returns:
      A function that returns the gradient. That of a sparse argument is a sparse array with the same indices: the
      derivative in each stored element.
    Raises:
      TypeError: the value is not a real scalar.
      ValueError: a position is not that of an argument.

    Source: JAX's function of this name in `jax.experimental.sparse`.

    >>> x = BCOO.fromdense(np.array([0., 3.]))
    >>> grad(lambda x: (x @ np.array([2., 5.])) ** 2)(x).todense()
    Array([  0., 150.], dtype=float32)
    """
    def make(out: Any, args: list[Any], is_single: bool) -> Any:
        if has_aux:
            return _restore_gradients(out[0], args, is_single), out[1]
        return _restore_gradients(out, args, is_single)
    return _differentiate(autodiff.grad, fun, argnums, make, has_aux=has_aux, **kwargs)


def _restore_jacobian(x: Any, jacobian: Any) -> Any:
    """Return the derivative `[*result, *x.data]` in a sparse argument as a sparse array `[*result, *x]`."""
    if not _is_sparse(x):
        return jacobian
    if not isinstance(x, BCOO):
        raise NotImplementedError(f"the Jacobian in a {type(x).__name__} has no format; use its method to_bcoo() first")
    lead = tuple(jacobian.shape[:jacobian.ndim - x.data.ndim])
    indices = lnp.broadcast_to(x.indices, (*lead, *x.indices.shape))
    return BCOO((jacobian, indices), shape=(*lead, *x.shape), indices_sorted=x.indices_sorted, unique_indices=x.unique_indices)


def _make_jacobian(transform: Function, fun: Function, argnums: int | Sequence[int], has_aux: bool,
                   kwargs: dict[str, Any]) -> Any:
    def dense_fun(*args: Any, **kw: Any) -> Any:
        out = fun(*args, **kw)
        if any(map(_is_sparse, trees.tree_leaves(out[0] if has_aux else out, is_leaf=_is_sparse))):
            raise TypeError("the function of a Jacobian must return dense arrays; got a sparse one. Use todense() of "
                            "it, or its data")
        return out

    def make(out: Any, args: list[Any], is_single: bool) -> Any:
        jacobians, *aux = out if has_aux else (out,)
        structure = trees.tree_structure(tuple(map(_strip, args)))
        # the tree of results has in each leaf the tree of arguments
        outer = trees.tree_map(lambda leaves: _restore(leaves, args, is_single), jacobians,
                               is_leaf=lambda t: isinstance(t, tuple) and trees.tree_structure(t) == structure)
        return (outer, *aux) if has_aux else outer

    def _restore(leaves: Tree, args: list[Any], is_single: bool) -> Any:
        made = tuple([trees.tree_map(_restore_jacobian, x, j, is_leaf=_is_sparse) for x, j in zip(args, leaves, strict=True)])
        return made[0] if is_single else made
    return _differentiate(transform, wraps(fun, functools.WRAPPER_UPDATES)(dense_fun), argnums, make, has_aux=has_aux, **kwargs)


@fill_docstring(_ENTRIES)
def jacrev(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Function:
    """Return a function that computes the Jacobian of `fun` in reverse mode.

    Args: {fun, argnums, has_aux, kwargs}
    Returns: {jacobian}
    Raises: {TypeError, ValueError}

    Source: JAX's function of this name in `jax.experimental.sparse`.

    >>> x = BCOO.fromdense(np.array([0., 3.]))
    >>> jacrev(lambda x: x @ np.array([[2., 1.], [5., 4.]]))(x).todense()
    Array([[0., 5.],
           [0., 4.]], dtype=float32)
    """
    return _make_jacobian(autodiff.jacrev, fun, argnums, has_aux, kwargs)


@fill_docstring(_ENTRIES)
def jacfwd(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Function:
    """Return a function that computes the Jacobian of `fun` in forward mode.

    Args: {fun, argnums, has_aux, kwargs}
    Returns: {jacobian}
    Raises: {TypeError, ValueError}

    Source: JAX's function of this name in `jax.experimental.sparse`.

    >>> x = BCOO.fromdense(np.array([0., 3.]))
    >>> jacfwd(lambda x: x @ np.array([[2., 1.], [5., 4.]]))(x).todense()
    Array([[0., 5.],
           [0., 4.]], dtype=float32)
    """
    return _make_jacobian(autodiff.jacfwd, fun, argnums, has_aux, kwargs)


jacobian = jacrev
