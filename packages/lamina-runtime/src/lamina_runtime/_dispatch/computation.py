"""Implement `xla_computation`: return the HLO of a function before optimization."""
from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from lamina_ir import trees
from lamina_ir.extend import Grid, Placement, Tiles, count_devices, infer_arg_tiles
from lamina_parallel.extend import lower_xmaps
from lamina_tracing import make_jaxpr
from lamina_tracing.extend import JitSpec, Tracer, function_name, wraps
from lamina_ir.typing import Function, Tree
from lamina_ir.trees import PyTreeDef

from .._compile import lowering
from .._backend import backends
from .._typing import XlaComputation

__all__ = ["xla_computation"]

_MAX_UNTUPLED_ARGS = 100


def _is_parts(x: object) -> bool:
    return x is None or (isinstance(x, tuple) and all(isinstance(n, int) or n is None for n in x) and bool(x))


def _shardings(what: str, parts: Tree, tree: PyTreeDef) -> tuple[list[Tiles] | None, int]:
    """Return (tiles of each leaf, number of partitions).

    A leaf of `parts` is None (replicated), or the number of parts of each dimension.
    """
    if parts is None:
        return None, 1
    full = trees.tree_unflatten(tree, [0] * tree.num_leaves)
    try:
        flat = trees.broadcast_prefix(parts, full, is_leaf=_is_parts)
    except ValueError as e:
        raise ValueError(f"xla_computation: {what} must be a prefix of the tree {tree}, with None or a tuple of ints "
                         f"at its leaves; got {parts!r}: {e}") from None
    for p in flat:
        if not _is_parts(p):
            raise TypeError(f"xla_computation: {what} must hold None and tuples of ints; got {p!r}")
    counts = [1 if p is None else math.prod(n or 1 for n in p) for p in flat]
    num_parts = max(counts, default=1)
    tiles: list[Tiles] = []
    for p, count in zip(flat, counts):
        if count == 1:
            tiles.append(Tiles())
        elif count != num_parts:
            raise ValueError(f"xla_computation: {what}: all values that are split must have the same number of parts; "
                             f"got {count} and {num_parts}")
        else:
            tiles.append(Tiles(tuple([n or 1 for n in p])))
    return tiles, num_parts


def xla_computation(fun: Function, static_argnums: int | Sequence[int] = (),
                    axis_env: Sequence[tuple[Hashable, int]] | None = None, in_parts: Tree = None,
                    out_parts: Tree = None, backend: str | None = None, tuple_args: bool | None = False,
                    instantiate_const_outputs: bool | None = None, return_shape: bool = False,
                    donate_argnums: int | Sequence[int] = ()) -> Function:
    """Return a function that builds the XLA computation of `fun` for example arguments.

    Args:
      fun: function of arrays, numbers and trees of them.
      static_argnums: positions of arguments that are plain Python values.
      axis_env: (axis name, size) pairs, outermost first, that collectives in `fun` may use, as inside `pmap`.
      in_parts, out_parts: the number of parts of each dimension of an argument or result: for each leaf None (not
        split) or a tuple of ints, in a prefix of the tree of arguments or results.
      backend: platform to lower for: "cpu", "gpu", "cuda".
      tuple_args: whether the computation takes one tuple; None: if it has more than 100 arguments.
      instantiate_const_outputs: accepted for compatibility; does nothing.
      return_shape: also return the tree of result shapes and dtypes.
      donate_argnums: positions of arguments whose memory may be reused for results.
    Returns:
      A function of the same arguments, or of objects with `shape` and `dtype`. It returns jaxlib's
      XlaComputation: `as_hlo_text()`, `as_serialized_hlo_module_proto()`, `as_hlo_dot_graph()`.

    >>> from lamina_tracing import lax
    >>> c = xla_computation(lambda x: lax.sub(x, lax.psum(x, "i")), axis_env=[("i", 4)])(2)
    >>> "replica_groups={{0,1,2,3}}" in c.as_hlo_text()
    True
    """
    if not callable(fun):
        raise TypeError(f"xla_computation: expected a function; got {type(fun).__name__}")
    name = function_name(fun)
    # `spec` flattens arguments as jit does. `make_jaxpr` accepts any object with a shape and dtype, and binds
    # `axis_env`.
    spec = JitSpec(fun, static_argnums=static_argnums, donate_argnums=donate_argnums, call="xla_computation")
    staged = make_jaxpr(fun, static_argnums, axis_env, return_shape=True)

    def computation(*args: Tree, **kwargs: Tree) -> XlaComputation | tuple[XlaComputation, Tree]:
        _, tree, _ = spec.split(args, kwargs)
        closed, shapes = staged(*args, **kwargs)
        if any(isinstance(c, Tracer) for c in closed.consts):
            raise ValueError(f"xla_computation of `{name}`: the function uses values of an enclosing transformation, "
                             "so it cannot be lowered by itself; pass them as arguments")
        closed = lower_xmaps(closed, tuple(axis_env or ()))
        ins, in_count = _shardings("in_parts", None if in_parts is None else (in_parts, None), tree)
        outs, out_count = _shardings("out_parts", out_parts, trees.tree_structure(shapes))
        platform = backends.lowering_platform(backends.client(backend).local_devices()[0])
        replicas, split = math.prod([n for _, n in axis_env or ()]), max(in_count, out_count)
        partitions = max(split, count_devices(closed))
        axes: tuple[tuple[str, int], ...] = ()
        if split == 1 and partitions > 1:
            grid = Grid.of(closed, partitions)
            ins, axes = list(infer_arg_tiles(closed, grid)), grid.axes()
        place = Placement(tuple(range(replicas * partitions)), replicas, partitions, in_tiles=tuple(ins or ()),
                          out_tiles=tuple(outs or ()), donated=spec.donated(args, kwargs), axes=axes)
        lowered = lowering.lower(closed, name=f"xla_computation_{name}", platform=platform, placement=place,
                        axis_env=tuple(axis_env or ()), inline_limit=None, keep_unused=True, number=False)
        as_tuple = len(closed.in_avals) > _MAX_UNTUPLED_ARGS if tuple_args is None else bool(tuple_args)
        hlo = lowering.xla_computation(lowered, tuple_args=as_tuple, return_tuple=True)
        return (hlo, shapes) if return_shape else hlo

    wraps(fun)(computation)
    computation.__name__ = f"xla_computation({name})"
    return computation
