"""`vmap`: map a function over axes of its arguments by batching each op it does."""
from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from lamina_ir import trees
from lamina_tracing.extend import argument_path, boundary, flat_arguments, function_name, typeof

from .batch import BatchAxis, materialise, run_batched

__all__ = ["axis_specs", "mapped_size", "vmap"]


def axis_specs(call: str, name: str, what: str, spec: Any, tree: Any, wanted: str) -> list[Any]:
    """One entry per leaf of a tree, from a prefix tree of integers and None.

    Args:
      call: what is being done, as "vmap".
      name: the function's name.
      what: the argument's, as "in_axes".
      spec: the prefix tree.
      tree: the structure it is a prefix of.
      wanted: what that is the structure of, as "arguments".
    Returns:
      A list of integers and None.
    Raises:
      TypeError: something in it is neither.
      ValueError: it is no prefix; the message shows both structures.

    >>> axis_specs("vmap", "f", "in_axes", (0, None), trees.tree_structure(((0, 0), 0)), "arguments")
    [0, 0, None]
    """
    def leaf(x: Any) -> bool:
        return x is None

    for x in trees.tree_leaves(spec, is_leaf=leaf):
        if x is not None and (isinstance(x, bool) or not hasattr(x, "__index__")):
            raise TypeError(f"{call} of `{name}`: {what} must be an int, None, or a tree of them; got {x!r} in {spec!r}")
    try:
        found = trees.broadcast_prefix(spec, trees.tree_unflatten(tree, [0] * tree.num_leaves), is_leaf=leaf)
    except ValueError as e:
        raise ValueError(f"{call} of `{name}`: {what} must be a prefix of the tree of {wanted}; got {what} {spec!r} for "
                         f"{wanted} {tree}: {e}") from None
    return [None if x is None else x.__index__() for x in found]


def mapped_size(call: str, name: str, flat: Sequence[Any], axes: list[Any], tree: Any, axis_size: int | None) -> int:
    """The size of the mapped axis.

    Args:
      call: what is being done, as "vmap".
      name: the function's name.
      flat: the flat arguments.
      axes: for each of them the axis that is mapped, or None. Negative ones are counted from the front in place.
      tree: the structure of `(args, kwargs)` that they were.
      axis_size: the size, if the caller said it.
    Returns:
      An integer.
    Raises:
      TypeError: an argument that is mapped is no array.
      ValueError: the arguments disagree, lack the axis, or none is mapped; the message names them.

    >>> import numpy as np
    >>> axes = [-1]
    >>> mapped_size("vmap", "f", [np.zeros((2, 3))], axes, trees.tree_structure(((0,), {})), None), axes
    (3, [1])
    """
    size = axis_size
    agree = True
    for i, (x, axis) in enumerate(zip(flat, axes)):
        if axis is None:  # whatever it is, the function gets it as it came
            continue
        try:
            shape = typeof(x).shape
        except TypeError as e:
            raise TypeError(f"{call} of `{name}`: {argument_path(tree, i)}: {e}. An argument that is no array must not be "
                            "mapped: give None in its place in in_axes") from None
        if not -len(shape) <= axis < len(shape):
            raise _no_such_axis(call, name, argument_path(tree, i), typeof(x), axis)
        if axis < 0:
            axis = axes[i] = axis + len(shape)
        if size is None:
            size = shape[axis]
        elif size != shape[axis]:
            agree = False
    if size is None:
        raise ValueError(f"{call} of `{name}`: at least one in_axes entry must not be None, or axis_size must be given")
    if not agree:
        places: dict[int, list[str]] = {} if axis_size is None else {axis_size: ["axis_size"]}
        for i, (x, axis) in enumerate(zip(flat, axes)):
            if axis is not None:
                aval = typeof(x)
                places.setdefault(aval.shape[axis], []).append(f"{argument_path(tree, i)} {aval.long()} axis {axis}")
        parts = "; ".join(f"{n}: {', '.join(found[:4])}" for n, found in places.items())
        raise ValueError(f"{call} of `{name}`: inconsistent sizes of the mapped axis: {parts}")
    return size


def _no_such_axis(call: str, name: str, where: str, aval: Any, axis: int) -> ValueError:
    if not aval.ndim:
        return ValueError(f"{call} of `{name}`: {where} has rank 0 ({aval.long()}) but in_axes asks to map its axis {axis}; "
                          "use None for arguments that are not mapped")
    return ValueError(f"{call} of `{name}`: in_axes {axis} is out of range for {where}, {aval.long()}")


@boundary
def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: Hashable | None = None,
         axis_size: int | None = None, spmd_axis_name: Hashable | None = None) -> Callable[..., Any]:
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
      TypeError: a mapped argument is no array.

    >>> import numpy as np
    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0)
    Array([0., 2., 4.], dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"vmap: expected a function; got {type(fun).__name__}")
    name = function_name(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not isinstance(in_axes, (tuple, dict)) and in_axes is not None and not hasattr(in_axes, "__index__"):
        raise TypeError(f"vmap of `{name}`: in_axes must be an int, None, or a tuple of them per argument; got {in_axes!r}")

    @boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(f"vmap of `{name}`: in_axes must have one entry per positional argument; got {len(in_axes)} "
                             f"entries {in_axes!r} for {len(args)} arguments")
        # Keyword arguments are mapped over axis 0 whatever in_axes says, hence the pair of specs; one int for everything,
        # which is most calls, needs no walk over the trees.
        flat, tree = flat_arguments("vmap", name, args, kwargs)
        if type(in_axes) is int:
            axes = [in_axes] * len(flat) if not kwargs else axis_specs("vmap", name, "in_axes", (in_axes, 0), tree,
                                                                       "arguments")
        else:
            axes = axis_specs("vmap", name, "in_axes", (in_axes, 0), tree, "arguments")
        size = mapped_size("vmap", name, flat, axes, tree, axis_size)
        out_tree = None

        def run(*xs: Any) -> list[Any]:
            nonlocal out_tree
            a, k = trees.tree_unflatten(tree, xs)
            leaves, out_tree = trees.tree_flatten(fun(*a, **k))
            return leaves

        outs, dims = run_batched(run, BatchAxis(size, axis_name), flat, axes)
        targets = ([out_axes] * len(outs) if type(out_axes) is int
                   else axis_specs("vmap", name, "out_axes", out_axes, out_tree, "results"))
        results = []
        for i, (o, d, to) in enumerate(zip(outs, dims, targets)):
            if to is None:
                if d is not None:
                    raise ValueError(f"vmap of `{name}`: out_axes is None for result {i}, but it depends on the mapped axis")
                results.append(o)
                continue
            try:
                ndim = typeof(o).ndim + (d is None)  # with the batch axis, which an unbatched result has yet to get
            except TypeError as e:
                raise TypeError(f"vmap of `{name}`: the function returned {type(o).__name__} as result {i}: {e}") from None
            if not -ndim <= to < ndim:
                raise ValueError(f"vmap of `{name}`: out_axes {to} is out of range for result {i} with {ndim} axes")
            results.append(materialise(o, d, size, to % ndim))
        return trees.tree_unflatten(out_tree, results)

    return functools.update_wrapper(mapped, fun, updated=())


