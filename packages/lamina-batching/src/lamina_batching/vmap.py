"""`vmap`: map a function over axes of its arguments by batching each of its primitives."""
from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import ParamSpec, TypeVar

import numpy as np
from lamina_ir import trees
from lamina_ir.extend import check_axis_name
from lamina_tracing.extend import (MappedAxes, api_boundary, flatten_args, function_name, check_axis_name_unbound,
                                   result_path, stack_object_arrays, typeof, wraps)
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Tree, Value

from ._typing import BatchDims
from .batch_trace import BatchAxis, materialise, run_batched

__all__ = ["ApplyBatched", "make_vmap", "vmap"]

P = ParamSpec("P")
R = TypeVar("R")


@api_boundary
def vmap(fun: Callable[P, R], in_axes: Tree = 0, out_axes: Tree = 0, axis_name: Hashable | None = None,
         axis_size: int | None = None, spmd_axis_name: Hashable | None = None) -> Callable[P, R]:
    """Vectorize a function: apply `fun` to all examples along an axis in one batched computation.

    Args:
      fun: function of one example: arrays and trees of them.
      in_axes: which axis of each positional argument to map: an int, None (not mapped), or a tree of them that is a
        prefix of the arguments. Unmapped arguments may be any object, such as functions and strings. Keyword arguments
        are mapped over axis 0.
      out_axes: position of the mapped axis in each result: likewise a prefix of the results; None for results that do
        not depend on the mapped axis.
      axis_name: a name for the axis, for collectives such as `lax.psum`.
      axis_size: the axis' size, needed when no argument is mapped.
      spmd_axis_name: accepted for compatibility; has no effect here.
    Returns:
      A function of batches.
    Raises:
      ValueError: in_axes or out_axes do not match, or sizes differ; the message names the arguments.
      TypeError: a mapped argument is not an array; `axis_name` is an integer, a boolean or not hashable.

    >>> import numpy as np
    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0)
    Array([0., 2., 4.], dtype=float32)
    """
    return _make_mapped(run_batched, fun, in_axes, out_axes, axis_name, axis_size)


ApplyBatched = Callable[[Callable[..., Sequence[Value]], BatchAxis, Sequence[Value], BatchDims],
                        tuple[Sequence[Value], BatchDims]]


def make_vmap(apply: ApplyBatched) -> Function:
    """Make a `vmap` from another way to apply a function to a batch; arguments, checks and error messages are the same.

    Args:
      apply: `apply(fun, axis, args, dims)` applies `fun`, a per-example function of flat arguments that returns a list
        of flat results, to the batches `args`. `dims` holds the batch axis of each argument, or None; unbatched
        arguments are passed unchanged. It returns flat results and the batch axis of each, or None. If `axis.name` is
        not None, it must be bound while `fun` runs (`lamina_tracing.extend.extend_axis_env`).
    Returns:
      A `vmap`.

    >>> import numpy as np
    >>> def apply_in_loop(fun, axis, args, dims):
    ...     results = [fun(*[a if d is None else a[i] for a, d in zip(args, dims)]) for i in range(axis.size)]
    ...     return [np.stack(outs) for outs in zip(*results)], [0] * len(results[0])
    >>> make_vmap(apply_in_loop)(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0)
    array([0., 2., 4.])
    """
    @api_boundary
    def vmap(fun: Function, in_axes: Tree = 0, out_axes: Tree = 0, axis_name: Hashable | None = None,
             axis_size: int | None = None, spmd_axis_name: Hashable | None = None) -> Function:
        return _make_mapped(apply, fun, in_axes, out_axes, axis_name, axis_size)

    return functools.update_wrapper(vmap, _default_vmap)


_default_vmap = vmap


def _make_mapped(apply: ApplyBatched, fun: Function, in_axes: Tree, out_axes: Tree, axis_name: Hashable | None,
                 axis_size: int | None) -> Function:
    if not callable(fun):
        raise TypeError(f"vmap: expected a function; got {type(fun).__name__}")
    name = function_name(fun)
    if axis_name is not None:
        check_axis_name(f"vmap of `{name}`", axis_name)
    spec = MappedAxes("vmap", fun, in_axes, out_axes, axis_size)
    is_single_axis = type(in_axes) is int

    @api_boundary
    def mapped(*args: Tree, **kwargs: Tree) -> Tree:
        # Keyword arguments are always mapped over axis 0. With a single int and no keywords (the common case), no tree
        # is walked.
        flat, tree = flatten_args("vmap", name, args, kwargs)
        if is_single_axis and not kwargs:
            axes = [in_axes] * len(flat)
        else:
            spec.check_count(args, kwargs)
            axes = spec.resolve_in_axes(flat, tree)
        size = spec.size(flat, axes, tree)
        if axis_name is not None:
            check_axis_name_unbound(f"vmap of `{name}`", axis_name)
        out_tree: PyTreeDef  # set by `run`

        def run(*xs: Value) -> list[Value]:
            nonlocal out_tree
            a, k = trees.tree_unflatten(tree, xs)
            leaves, out_tree = trees.tree_flatten(fun(*a, **k))
            return stack_object_arrays(leaves) if np.ndarray in map(type, leaves) else leaves

        run.function_info = "vmap", fun, tree, ()  # type: ignore[attr-defined]
        outs, dims = apply(run, BatchAxis(size, axis_name), flat, axes)
        targets = spec.resolve_out_axes(outs, out_tree)
        results = []
        for i, (o, d, to) in enumerate(zip(outs, dims, targets)):
            if to == d:  # already in place, the common case
                results.append(o)
                continue
            # Here the result is batched; an unbatched one (`d` None) with `to` None has been handled.
            if to is None:
                raise ValueError(f"vmap of `{name}`: out_axes is None for {result_path(out_tree, i)}, which depends on the "
                                 "mapped axis: it has one value per example. Give it an axis in out_axes")
            try:
                aval = typeof(o)
            except TypeError as e:
                raise TypeError(f"vmap of `{name}`: the function returned {type(o).__name__} at {result_path(out_tree, i)}: "
                                f"{e}") from None
            results.append(materialise(o, d, size, spec.normalize_out_axis(out_tree, i, aval, to, d)))
        return trees.tree_unflatten(out_tree, results)

    return wraps(fun)(mapped)


