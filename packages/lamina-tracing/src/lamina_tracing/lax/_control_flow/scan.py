"""`scan` and `map`: loops over the leading axis of arrays."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lamina_ir import config, prims, shaped, ShapedArray, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import CacheKey, Function, Tree, Value

from ..._jit import hooks
from ..._core.signature import function_name
from ..._core.trace import bind
from ..._core.tracer import Tracer, typeof
from ..._diagnostics.tracebacks import api_boundary
from .._util.operands import check_callable
from .loop_bodies import (cast, check_carry, flat_avals, leaf_path, promote_weak_results, stage_with_fixed_carry,
                          stage_body)
from ..shape import broadcast_in_dim, concatenate, index_in_dim, reshape, slice_in_dim

__all__ = ["check_loop", "map", "promote_weak_carry", "scan", "scan_flat"]

Carry = TypeVar("Carry")
Y = TypeVar("Y")


@api_boundary
def scan(f: Callable[[Any, Any], tuple[Carry, Y]], init: Tree, xs: Tree = None, length: int | None = None,
         reverse: bool = False, unroll: int | bool = 1, _split_transpose: bool = False) -> tuple[Carry, Y]:
    """Loop over the leading axis of arrays, carrying a value along and stacking results.

    Args:
      f: `f(carry, x) -> (carry, y)`. The carry keeps its tree and types.
      init: the first carry.
      xs: arrays with a common leading axis, in a tree; `f` gets one slice of each at a time. None: no arrays.
      length: number of iterations; needed when `xs` holds no array.
      reverse: go from the last slice to the first; `y`s are stacked in the order of `xs` in both cases.
      unroll: iterations per pass of the compiled loop; True for all of them.
    Returns:
      (the last carry, `y`s stacked along a new leading axis).
    Raises:
      TypeError: `f` does not return a pair, or its carry differs from the one it takes; both are shown.
      ValueError: leading axes differ, or there is no length.

    >>> import numpy as np
    >>> scan(lambda total, x: (total + x, total), 0., np.arange(4.))
    (Array(6., dtype=float32), Array([0., 0., 1., 3.], dtype=float32))
    """
    check_callable("scan", "f", f)
    flat, tree = trees.tree_flatten(init)
    flat_xs, xs_tree = trees.tree_flatten(xs)
    length = _check_length("scan", flat_xs, xs_tree, length)
    if config.disable_jit.value:
        return _scan_in_python(f, init, flat_xs, xs_tree, length, reverse)
    n = len(flat)

    def run(tracers: Sequence[Value], avals: Sequence[ShapedArray]) -> tuple[Tree, Tree]:
        out = f(trees.tree_unflatten(tree, tracers[:n]), trees.tree_unflatten(xs_tree, tracers[n:]))
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(f"scan: `{function_name(f)}` must return a pair (carry, y); got {_describe_kind(out)}")
        return promote_weak_carry(out[0], tree, avals), out[1]

    carry, ys = scan_flat("scan", f, run, ("scan", tree, xs_tree), flat, tree, flat_xs, length, reverse, unroll)
    return carry, ys


def _describe_kind(x: Value) -> str:
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    return x.aval.str_long() if isinstance(x, Tracer) else type(x).__name__


def promote_weak_carry(carry: Tree, tree: PyTreeDef, avals: Sequence[ShapedArray]) -> Tree:
    leaves, out_tree = trees.tree_flatten(carry)
    if out_tree != tree:
        return carry
    return trees.tree_unflatten(tree, promote_weak_results(leaves, avals))


def _check_length(call: str, flat_xs: Sequence[Value], tree: PyTreeDef, length: int | None) -> int:
    avals = flat_avals(call, "xs", flat_xs, tree)
    if length is not None:
        try:
            length = length.__index__()
        except (AttributeError, TypeError):
            raise TypeError(f"{call}: length must be a known integer; got {length!r:.60}") from None
        if length < 0:
            raise ValueError(f"{call}: length must be at least 0; got {length}")
    for i, a in enumerate(avals):
        if not a.shape:
            raise ValueError(f"{call}: xs{leaf_path(tree, i)} must have a leading axis to go along; got {a.str_long()}")
        if length is None:
            length = a.shape[0]
        if a.shape[0] != length:
            table = ", ".join(f"xs{leaf_path(tree, k)} {b.str_long()}" for k, b in enumerate(avals[:8]))
            raise ValueError(f"{call}: all of xs must have the same leading axis size, and that of `length` if given; "
                             f"expected {length} but got {table}")
    if length is None:
        raise ValueError(f"{call}: xs holds no array, so the number of iterations must be given as length=")
    return length


def scan_flat(call: str, f: Function, run: Callable[[Sequence[Value], Sequence[ShapedArray]], tuple[Tree, Tree]],
              tag: CacheKey, flat: list[Value], tree: PyTreeDef, flat_xs: Sequence[Value], length: int, reverse: bool,
              unroll: int | bool | None) -> tuple[Tree, Tree]:
    n = len(flat)
    first = flat_avals(call, "init", flat, tree)
    slices = []
    for x in flat_xs:
        a = typeof(x)
        # `shaped` makes a type without varying axes; a slice varies as its array does.
        part = shaped(a.shape[1:], a.dtype, a.weak_type).with_varying_axes(a.varying_axes)
        slices.append(a.with_inner(part) if a.is_reference else part)  # type: ignore[attr-defined]
    # avals: the fixed types of the carry (n of them), then of one slice of each of `flat_xs`.
    avals, body = stage_with_fixed_carry(lambda at: stage_body(call, f, lambda ts: run(ts, at[:n]), tag, at, [*flat, *flat_xs]),
                                         first + slices, n)
    closed = body.closed
    out_tree, ys_tree = body.tree.children()
    k = out_tree.num_leaves
    check_loop(call, f, tree, avals[:n], out_tree, closed.out_avals[:k])
    # The body may have promoted the carry, see `stage_with_fixed_carry`.
    flat = [x if a is b else cast(x, a) for x, a, b in zip(flat, avals, first)]
    outs = bind(prims.scan_p, *body.outer, *flat, *flat_xs, jaxpr=closed, length=length, reverse=bool(reverse),
                unroll=_check_unroll(call, unroll, length), num_consts=len(body.outer), num_carry=n)
    return trees.tree_unflatten(out_tree, outs[:n]), trees.tree_unflatten(ys_tree, outs[n:])


def check_loop(call: str, f: Function, tree: PyTreeDef, avals: Sequence[ShapedArray], out_tree: PyTreeDef,
               outs: Sequence[Value]) -> None:
    if call == "fori_loop":  # the leading counter is not an argument of the user
        tree, out_tree, avals, outs = tree.children()[1], out_tree.children()[1], avals[1:], outs[1:]
    check_carry(call, function_name(f), tree, avals, out_tree, outs)


def _check_unroll(call: str, unroll: int | bool | None, length: int) -> int:
    if unroll is True:
        return max(length, 1)
    if unroll is False or unroll is None:
        return 1
    if not hasattr(unroll, "__index__") or unroll < 1:
        raise ValueError(f"{call}: unroll must be a positive integer or a bool; got {unroll!r}")
    # More copies of the body than iterations would never run.
    return min(unroll.__index__(), max(length, 1))


def _take(x: Any, i: int) -> Value:
    """Return slice `i`, of a mutable reference as a view."""
    is_reference = isinstance(x, Tracer) and x.aval.is_reference
    return x.at[i] if is_reference else index_in_dim(x, i, 0, False)


def _scan_in_python(f: Function, carry: Tree, flat_xs: Sequence[Value], xs_tree: PyTreeDef, length: int,
                    reverse: bool) -> tuple[Tree, Tree]:
    rows = []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, trees.tree_unflatten(xs_tree, [_take(x, i) for x in flat_xs]))
        rows.append(y)
    if not rows:
        raise ValueError("scan: with jit disabled a scan of length 0 has no `y` that determines the types of the results")
    if reverse:
        # Stacked results are in the order of the slices, not of the iterations.
        rows.reverse()
    return carry, trees.tree_map(lambda *ys: concatenate([broadcast_in_dim(y, (1, *typeof(y).shape), tuple(
        range(1, 1 + typeof(y).ndim))) for y in ys], 0), *rows)


@api_boundary
def map(f: Callable[[Any], Y], xs: Tree, *, batch_size: int | None = None) -> Y:
    """Apply a function to each slice along the leading axis, one after the other.

    Args:
      f: function of one slice (a tree like `xs`).
      xs: arrays with a common leading axis, in a tree.
      batch_size: the number of slices to process at once, as by `vmap`; default: one.
    Returns:
      The results, stacked along a new leading axis.
    Raises:
      ValueError: leading axes differ, or there is none.

    >>> import numpy as np
    >>> map(lambda x: x * x, np.arange(3.))
    Array([0., 1., 4.], dtype=float32)
    """
    check_callable("map", "f", f)
    flat, tree = trees.tree_flatten(xs)
    length = _check_length("map", flat, tree, None)
    if batch_size is not None:
        if not hasattr(batch_size, "__index__") or batch_size < 1:
            raise ValueError(f"map: batch_size must be a positive integer; got {batch_size!r}")
        return _map_in_batches(f, flat, tree, length, min(batch_size, max(length, 1)))
    if config.disable_jit.value:
        return _scan_in_python(lambda c, x: (c, f(x)), None, flat, tree, length, False)[1]
    return _map_flat(f, f, "map", flat, tree, length)


def _map_flat(f: Function, one: Function, tag: str, flat: Sequence[Value], tree: PyTreeDef, length: int) -> Tree:
    def run(tracers: Sequence[Value], avals: Sequence[ShapedArray]) -> tuple[tuple[()], Tree]:
        return (), one(trees.tree_unflatten(tree, tracers))

    return scan_flat("map", f, run, (tag, tree), [], trees.tree_structure(()), flat, length, False, 1)[1]


def _map_in_batches(f: Function, flat: Sequence[Value], tree: PyTreeDef, length: int, size: int) -> Tree:
    def batch(x: Tree) -> Tree:
        # lamina_batching installs `vmap` there. Without it, one element after the other gives the same values.
        return hooks.basis_map(f, (x,)) if hooks.basis_map is not None else map(f, x)

    count, rest = divmod(length, size)
    parts = []
    # Also for no elements at all: the scan of length 0 determines the types of the results.
    if count or not rest:
        chunks = [reshape(slice_in_dim(x, 0, count * size), (count, size, *typeof(x).shape[1:])) for x in flat]
        made = _map_flat(f, batch, f"map in batches of {size}", chunks, tree, count)
        parts.append(trees.tree_map(lambda y: reshape(y, (count * size, *typeof(y).shape[2:])), made))
    if rest:
        parts.append(batch(trees.tree_unflatten(tree, [slice_in_dim(x, count * size, length) for x in flat])))
    return parts[0] if len(parts) == 1 else trees.tree_map(lambda a, b: concatenate([a, b], 0), *parts)
