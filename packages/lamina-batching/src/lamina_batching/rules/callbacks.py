"""Batching rules of host callbacks: one call per example, in order, unless the callback accepts batches."""
from __future__ import annotations

from collections.abc import Sequence

from lamina_ir import CallbackRuleError, Primitive, prims, UnnamedAxis
from lamina_ir.typing import ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..batch_trace import BatchAxis, materialise, move_axis
from ..tables import batching_rules
from .._typing import RuleResult

__all__: list[str] = []


def _per_example(prim: Primitive, axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None],
                 batch: tuple[int, ...], mapped: ParamValue, callback: ParamValue, **params: ParamValue) -> RuleResult:
    """Bind the callback with one more batch axis, outside of the existing ones."""
    inner_flags = mapped if batch else [()] * len(args)
    moved = [a if d is None else move_axis(a, d, 0) for a, d in zip(args, dims)]
    flags = tuple((d is not None, *m) for d, m in zip(dims, inner_flags))
    name = None if type(axis.name) is UnnamedAxis else axis.name
    outs = bind(prim, *moved, batch=(axis.size, *batch), mapped=flags, callback=callback.with_batch_axis(name), **params)
    return outs, [0] * len(outs)


def pure_callback_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *, vmap_method: str | None,
                        **params: ParamValue) -> RuleResult:
    if vmap_method in (None, "sequential", "sequential_unrolled"):
        return _per_example(prims.pure_callback_p, axis, args, dims, vmap_method=vmap_method, **params)
    batched = []
    for a, d in zip(args, dims):
        if d is not None or vmap_method == "broadcast_all":
            batched.append(materialise(a, d, axis.size))
        elif vmap_method == "expand_dims":
            batched.append(lax.broadcast_in_dim(a, (1, *typeof(a).shape), tuple(range(1, typeof(a).ndim + 1))))
        else:
            batched.append(a)
    params["result_shapes"] = tuple((axis.size, *s) for s in params["result_shapes"])
    outs = bind(prims.pure_callback_p, *batched, vmap_method=vmap_method, **params)
    return outs, [0] * len(outs)


def io_callback_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *, ordered: bool,
                      callback: ParamValue, **params: ParamValue) -> RuleResult:
    if callback.batched is not None:
        outs = bind(prims.io_callback_p, *args, ordered=ordered, callback=callback.batched(callback, tuple(dims)), **params)
        return outs, [None] * len(outs)
    if ordered:
        raise CallbackRuleError(f"vmap of an ordered `io_callback` is not defined (callback `{callback.name}`): the effects "
                                "of one example would have to come before those of the next. Use ordered=False, or a "
                                "loop (lax.map) over the examples")
    return _per_example(prims.io_callback_p, axis, args, dims, ordered=ordered, callback=callback, **params)


def debug_callback_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None],
                         **params: ParamValue) -> RuleResult:
    return _per_example(prims.debug_callback_p, axis, args, dims, **params)


batching_rules.define(prims.pure_callback_p, pure_callback_batch)
batching_rules.define(prims.io_callback_p, io_callback_batch)
batching_rules.define(prims.debug_callback_p, debug_callback_batch)
