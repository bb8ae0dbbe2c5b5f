"""`vmap`: map a function over axes of its arguments by batching each op it does."""
from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ParamSpec, TypeVar

from lamina_ir import trees
from lamina_ir.extend import checked_axis_name
from lamina_tracing.extend import MappedAxes, boundary, flat_arguments, function_name, refuse_axis_twice, result_path, typeof

from .batch import BatchAxis, materialise, run_batched

__all__ = ["Strategy", "vmap", "vmap_by"]

P = ParamSpec("P")
R = TypeVar("R")


@boundary
def vmap(fun: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0, axis_name: Hashable | None = None,
         axis_size: int | None = None, spmd_axis_name: Hashable | None = None) -> Callable[P, R]:
    """Vectorizing map: apply `fun` to every example along an axis, as one batched computation.

    Args:
      fun: function of one example: arrays and trees of them.
      in_axes: which axis of each positional argument to map: an int, None (not mapped), or a tree of them that is a prefix of
        the arguments. What is not mapped may be anything, functions and strings too. Keyword arguments are mapped over axis 0.
      out_axes: where the mapped axis goes in each result: likewise a prefix of the results; None for results that do
        not depend on the mapped axis.
      axis_name: a name for the axis, for collectives such as `lax.psum`.
      axis_size: the axis' size, needed when no argument is mapped.
      spmd_axis_name: accepted for compatibility; has no effect here.
    Returns:
      A function of whole batches.
    Raises:
      ValueError: in_axes or out_axes do not fit, or sizes differ; names the arguments.
      TypeError: a mapped argument is no array; `axis_name` is an integer, a boolean or not hashable.

    >>> import numpy as np
    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0)
    Array([0., 2., 4.], dtype=float32)
    """
    return _mapped(run_batched, fun, in_axes, out_axes, axis_name, axis_size)


Strategy = Callable[[Callable[..., Sequence[Any]], BatchAxis, Sequence[Any], Sequence["int | None"]],
                    tuple[Sequence[Any], Sequence["int | None"]]]


def vmap_by(strategy: Strategy) -> Callable[..., Any]:
    """`vmap` with another way to apply a function to a batch; arguments, checks and words are the same.

    Args:
      strategy: `strategy(fun, axis, args, dims)` applies `fun`, a function of flat arguments of one example with a list
        of flat results, to the batches `args`; `dims` says which axis of each is the batch, None for what is no batch,
        which is passed on as it is. It returns flat results and where each carries the batch, None where it does not
        depend on it. While `fun` runs, `axis.name`, if there is one, must be bound
        (`lamina_tracing.extend.bound_axes`).
    Returns:
      A `vmap`.

    >>> import numpy as np
    >>> def one_after_another(fun, axis, args, dims):
    ...     rows = [fun(*[a if d is None else a[i] for a, d in zip(args, dims)]) for i in range(axis.size)]
    ...     return [np.stack(column) for column in zip(*rows)], [0] * len(rows[0])
    >>> vmap_by(one_after_another)(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0)
    array([0., 2., 4.])
    """
    @boundary
    def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: Hashable | None = None,
             axis_size: int | None = None, spmd_axis_name: Hashable | None = None) -> Callable[..., Any]:
        return _mapped(strategy, fun, in_axes, out_axes, axis_name, axis_size)

    return functools.update_wrapper(vmap, _stock)


_stock = vmap


def _mapped(strategy: Strategy, fun: Callable[..., Any], in_axes: Any, out_axes: Any, axis_name: Hashable | None,
            axis_size: int | None) -> Callable[..., Any]:
    if not callable(fun):
        raise TypeError(f"vmap: expected a function; got {type(fun).__name__}")
    name = function_name(fun)
    if axis_name is not None:
        checked_axis_name(f"vmap of `{name}`", axis_name)
    spec = MappedAxes("vmap", fun, in_axes, out_axes, axis_size)
    one_for_all = type(in_axes) is int

    @boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        # Keyword arguments are mapped over axis 0 whatever in_axes says; one int for everything, which is most calls, needs no
        # walk over the trees.
        flat, tree = flat_arguments("vmap", name, args, kwargs)
        if one_for_all and not kwargs:
            axes = [in_axes] * len(flat)
        else:
            spec.check_count(args, kwargs)
            axes = spec.of_arguments(flat, tree)
        size = spec.size(flat, axes, tree)
        if axis_name is not None:
            refuse_axis_twice(f"vmap of `{name}`", axis_name)
        out_tree = None

        def run(*xs: Any) -> list[Any]:
            nonlocal out_tree
            a, k = trees.tree_unflatten(tree, xs)
            leaves, out_tree = trees.tree_flatten(fun(*a, **k))
            return leaves

        outs, dims = strategy(run, BatchAxis(size, axis_name), flat, axes)
        targets = spec.of_results(outs, out_tree)
        results = []
        for i, (o, d, to) in enumerate(zip(outs, dims, targets)):
            if to == d:  # it is there already, which is most results
                results.append(o)
                continue
            if to is None:
                raise ValueError(f"vmap of `{name}`: out_axes is None for {result_path(out_tree, i)}, which depends on the "
                                 "mapped axis: there is a value for each example. Give it an axis in out_axes")
            try:
                aval = typeof(o)
            except TypeError as e:
                raise TypeError(f"vmap of `{name}`: the function returned {type(o).__name__} at {result_path(out_tree, i)}: "
                                f"{e}") from None
            results.append(materialise(o, d, size, spec.place(out_tree, i, aval, to, d)))
        return trees.tree_unflatten(out_tree, results)

    return functools.update_wrapper(mapped, fun, updated=())


