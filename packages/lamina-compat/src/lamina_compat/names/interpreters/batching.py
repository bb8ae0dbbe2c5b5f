"""`jax.interpreters.batching`: batching rules in JAX's form, as views of `lamina_batching`'s table.

All views have the same entries. A rule in `primitive_batchers` is `rule(operands, dims, **params) -> (result, dim)`. In
`axis_primitive_batchers` it gets (size, name, kind of trace) of the mapped axis first, in `spmd_axis_primitive_batchers` the
mesh axis before these, in `fancy_primitive_batchers` one object with them. A dim is None for a value that is not mapped.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from lamina_batching.extend import (BatchAxis, batch_program, batching_rules, materialise, move_axis, run_batched)
from lamina_batching.extend.transformations import BatchTrace, BatchTracer
from lamina_ir import ClosedJaxpr, Primitive, shaped
from lamina_ir.layers import explain_absent_names
from lamina_ir.typing import Function, Outputs, ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import eval_jaxpr, stage, typeof
from lamina_tracing.linear_util import WrappedFun, wrap_init
from typing_extensions import override

from ..._rule_views import JaxRule, RuleView, bound_function, check_pair, check_sequence, format_value, pick

__all__ = ["AxisData", "AxisSize", "BatchTrace", "BatchTracer", "NotMapped", "ZeroIfMapped",
           "axis_primitive_batchers", "batch", "batch_jaxpr", "batch_jaxpr_axes", "bdim_at_front", "broadcast",
           "broadcast_batcher", "defbroadcasting", "defreducer", "defvectorized", "fancy_primitive_batchers",
           "matchaxis", "moveaxis", "not_mapped", "primitive_batchers", "reducer_batcher",
           "spmd_axis_primitive_batchers", "vectorized_batcher", "vtile", "zero_if_mapped"]

NotMapped = type(None)
not_mapped = None
AxisSize = int
class ZeroIfMapped:
    """The class of `zero_if_mapped`."""


zero_if_mapped = ZeroIfMapped()  # in place of a result's axis in `batch_jaxpr_axes`: 0 if the result is mapped


@dataclasses.dataclass(frozen=True)
class AxisData:
    """The mapped axis, the first argument of rules in `fancy_primitive_batchers`.

    Attributes:
      name: its name, or None.
      size: the number of examples.
      spmd_name: the mesh axis over which it is split; always None.
      explicit_mesh_axis: always None.
    """

    name: Hashable
    size: int
    spmd_name: Hashable = None
    explicit_mesh_axis: Hashable = None


class _BatchRule(JaxRule):
    """A rule of `primitive_batchers`, and the base of the other kinds."""

    __slots__ = ()

    def apply(self, axis: BatchAxis, args: tuple[Value, ...], dims: tuple[int | None, ...], params: dict[str, Any]) -> Any:
        """Call the program's rule."""
        return self.rule(args, dims, **params)

    @override
    def call(self, axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], /,
                 **params: ParamValue) -> tuple[Outputs, Any]:
        params, places = self.arrange(params, args)
        made = self.apply(axis, tuple(pick(args, places, lambda c: c)), tuple(pick(dims, places, lambda c: None)), params)
        out, dim = check_pair(self, made, "result, dim")
        if not self.prim.multiple:
            return out, self._check(out, dim, axis)
        out = tuple(out)
        dim = [dim] * len(out) if dim is None or isinstance(dim, int) else check_sequence(self, dim, len(out), "dims")
        return out, [self._check(o, d, axis) for o, d in zip(out, dim)]

    def _check(self, out: Value, dim: Any, axis: BatchAxis) -> int | None:
        if dim is None:
            return None
        aval = typeof(out)
        if not hasattr(dim, "__index__") or not -aval.ndim <= dim < aval.ndim:
            raise TypeError(f"{self.describe()}: the dim of a result {aval.str_long()} must be an axis of it or None; got "
                            f"{format_value(dim)}")
        if aval.shape[dim] != axis.size:
            raise TypeError(f"{self.describe()}: axis {dim} of a result must have the size of the mapped axis, {axis.size}; "
                            f"got {aval.str_long()}")
        return int(dim) % aval.ndim


class _AxisBatchRule(_BatchRule):
    """A rule of `axis_primitive_batchers`."""

    __slots__ = ()

    @override
    def apply(self, axis: BatchAxis, args: tuple[Value, ...], dims: tuple[int | None, ...], params: dict[str, Any]) -> Any:
        return self.rule(axis.size, axis.name, BatchTrace, args, dims, **params)


class _SpmdBatchRule(_BatchRule):
    """A rule of `spmd_axis_primitive_batchers`."""

    __slots__ = ()

    @override
    def apply(self, axis: BatchAxis, args: tuple[Value, ...], dims: tuple[int | None, ...], params: dict[str, Any]) -> Any:
        return self.rule(None, axis.size, axis.name, BatchTrace, args, dims, **params)


class _FancyBatchRule(_BatchRule):
    """A rule of `fancy_primitive_batchers`."""

    __slots__ = ()

    @override
    def apply(self, axis: BatchAxis, args: tuple[Value, ...], dims: tuple[int | None, ...], params: dict[str, Any]) -> Any:
        return self.rule(AxisData(axis.name, axis.size), args, dims, **params)


def _size(args: Sequence[Value], dims: Sequence[int | None]) -> int:
    return next(typeof(a).shape[d] for a, d in zip(args, dims) if d is not None)


def _read(prim: Primitive, rule: Function) -> Function:
    def batch_rule(args: Sequence[Value], dims: Sequence[int | None], **params: ParamValue) -> tuple[Outputs, Any]:
        return rule(BatchAxis(_size(args, dims)), list(args), list(dims), **params)
    return batch_rule


def _apply(prim: Primitive) -> Function:
    """Return a rule in lamina's form that maps `prim.bind`."""
    def rule(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], /,
             **params: ParamValue) -> tuple[Outputs, Any]:
        out, dim = run_batched(bound_function(prim, params), axis, args, dims)
        return (out, dim) if prim.multiple else (out[0], dim[0])
    return rule


class _BatchView(RuleView):
    """A view of `batching_rules`."""

    def __init__(self, name: str, wrap: type[_BatchRule], read: Function) -> None:
        super().__init__(f"batching.{name}", batching_rules, wrap, read, lambda prim: read(prim, _apply(prim)))


def _read_with_axis(prim: Primitive, rule: Function) -> Function:
    def batch_rule(axis_size: int, axis_name: Hashable, trace_type: object, args: Sequence[Value],
                   dims: Sequence[int | None], **params: ParamValue) -> tuple[Outputs, Any]:
        return rule(BatchAxis(axis_size, axis_name), list(args), list(dims), **params)
    return batch_rule


def _read_with_mesh_axis(prim: Primitive, rule: Function) -> Function:
    inner = _read_with_axis(prim, rule)
    return lambda spmd_axis_name, *args, **params: inner(*args, **params)


def _read_with_data(prim: Primitive, rule: Function) -> Function:
    def batch_rule(axis_data: Any, args: Sequence[Value], dims: Sequence[int | None],
                   **params: ParamValue) -> tuple[Outputs, Any]:
        return rule(BatchAxis(axis_data.size, axis_data.name), list(args), list(dims), **params)
    return batch_rule


primitive_batchers = _BatchView("primitive_batchers", _BatchRule, _read)
axis_primitive_batchers = _BatchView("axis_primitive_batchers", _AxisBatchRule, _read_with_axis)
spmd_axis_primitive_batchers = _BatchView("spmd_axis_primitive_batchers", _SpmdBatchRule, _read_with_mesh_axis)
fancy_primitive_batchers = _BatchView("fancy_primitive_batchers", _FancyBatchRule, _read_with_data)


def moveaxis(x: Value, src: int, dst: int) -> Value:
    """Move an axis; negative numbers count from the end."""
    ndim = typeof(x).ndim
    return move_axis(x, src % ndim, dst % ndim) if ndim else x


def broadcast(x: Value, sz: int, axis: int, mesh_axis: object = None) -> Value:
    """Repeat an array along a new axis of size `sz` at position `axis`."""
    return materialise(x, None, sz, axis % (typeof(x).ndim + 1))


def bdim_at_front(x: Value, bdim: int | None, size: int, mesh_axis: object = None) -> Value:
    """Return a batch with its mapped axis first; an array that is not mapped is repeated."""
    return materialise(x, bdim, size)


def matchaxis(*args: Any, sum_match: bool = False) -> Value:
    """Return a batch with its mapped axis at another position.

    Args:
      *args: (axis name, axis size, position, new position, array), or with an `AxisData` in place of the first two. A
        position is None if the array is not mapped.
      sum_match: whether to sum over the mapped axis if the new position is None.
    """
    size, (src, dst, x) = (args[0].size, args[1:4]) if hasattr(args[0], "size") else (args[1], args[2:5])
    if dst is None and src is not None:
        if not sum_match and args[-1] is not True:
            raise ValueError(f"matchaxis: the mapped axis {src} cannot be dropped; pass sum_match=True to sum over it")
        return lax.reduce_sum(x, (src,))
    return x if src == dst else materialise(x, src, size, dst % (typeof(x).ndim + (src is None)))


def _align(args: Sequence[Value], dims: Sequence[int | None], spread: bool) -> tuple[list[Value], int]:
    """Move all mapped axes to the position of the first one; `spread` repeats the operands that are not mapped."""
    at = next(d for d in dims if d is not None)
    size = _size(args, dims)
    return [x if d is None and not spread else materialise(x, d, size, at) for x, d in zip(args, dims)], at


def _repeat_dim(prim: Primitive, out: Outputs, at: int) -> tuple[Outputs, Any]:
    return out, [at] * len(out) if prim.multiple else at


def vectorized_batcher(prim: Primitive, args: Sequence[Value], dims: Sequence[int | None],
                       **params: ParamValue) -> tuple[Outputs, Any]:
    """Batch a primitive that applies to each element of operands of one shape."""
    operands, at = _align(args, dims, spread=True)
    return _repeat_dim(prim, prim.bind(*operands, **params), at)


def broadcast_batcher(prim: Primitive, args: Sequence[Value], dims: Sequence[int | None],
                      **params: ParamValue) -> tuple[Outputs, Any]:
    """Batch a primitive that applies to each element of operands of one shape or of rank 0."""
    shapes = {typeof(x).shape for x in args if typeof(x).shape}
    if len({d for x, d in zip(args, dims) if typeof(x).shape}) == 1 and len(shapes) == 1:
        return _repeat_dim(prim, prim.bind(*args, **params), next(d for d in dims if d is not None))
    size = _size(args, dims)
    fronts = [x if d is None else materialise(x, d, size) for x, d in zip(args, dims)]
    rank = max(typeof(x).ndim - (d is not None) for x, d in zip(fronts, dims))
    inner = next(s if d is None else s[1:] for s, d in ((typeof(x).shape, d) for x, d in zip(fronts, dims))
                 if len(s) - (d is not None) == rank)
    full = [lax.broadcast_in_dim(x, (size, *inner), _result_axes(typeof(x).ndim, d is not None, rank))
            for x, d in zip(fronts, dims)]
    return _repeat_dim(prim, prim.bind(*full, **params), 0)


def _result_axes(ndim: int, mapped: bool, rank: int) -> tuple[int, ...]:
    """Return the axes of a result (batch, *inner) that an operand's axes become."""
    own = tuple(range(rank - (ndim - mapped) + 1, rank + 1))
    return (0, *own) if mapped else own


def reducer_batcher(prim: Primitive, args: Sequence[Value], dims: Sequence[int | None], axes: Sequence[int],
                    **params: ParamValue) -> tuple[Outputs, Any]:
    """Batch a primitive that reduces its operands over the axes in its param `axes`."""
    operands, at = _align(args, dims, spread=True)
    out = prim.bind(*operands, axes=tuple([a + (a >= at) for a in axes]), **params)
    return _repeat_dim(prim, out, at - sum(a < at for a in axes))


def _define(batcher: Function) -> Callable[[Primitive], None]:
    def define(prim: Primitive) -> None:
        def rule(args: Sequence[Value], dims: Sequence[int | None], **params: ParamValue) -> tuple[Outputs, Any]:
            return batcher(prim, args, dims, **params)
        primitive_batchers[prim] = rule
    define.__doc__ = batcher.__doc__
    return define


defvectorized = _define(vectorized_batcher)
defbroadcasting = _define(broadcast_batcher)
defreducer = _define(reducer_batcher)


def batch(fun: WrappedFun, axis_name: Any, axis_size: Any, in_dims: Any, out_dim_dests: Any = None,
          *args: object, **kwargs: object) -> WrappedFun:
    """Return a wrapped function of flat arguments that maps over axes.

    Args:
      fun: the function of one example.
      axis_name: the name of the mapped axis, or an `AxisData`; then the size is left out.
      axis_size: the number of examples.
      in_dims: the mapped axis of each argument, or None; or a function that returns them.
      out_dim_dests: the mapped axis of each result, or a function that returns them.
      *args, **kwargs: accepted for compatibility; they have no effect.
    """
    if hasattr(axis_name, "size"):
        axis_name, axis_size, in_dims, out_dim_dests = axis_name.name, axis_name.size, axis_size, in_dims

    def mapped(*xs: Value) -> list[Value]:
        dims = in_dims() if callable(in_dims) else in_dims
        outs, found = run_batched(fun.call_wrapped, BatchAxis(axis_size, axis_name), xs,
                                  list(dims) if isinstance(dims, tuple | list) else [dims] * len(xs))
        dests = out_dim_dests() if callable(out_dim_dests) else out_dim_dests
        dests = dests if isinstance(dests, tuple | list) else [dests] * len(outs)
        return [matchaxis(axis_name, axis_size, d, dest, o) for o, d, dest in zip(outs, found, dests)]
    return wrap_init(mapped)


def batch_jaxpr(closed_jaxpr: ClosedJaxpr, axis: Any, in_batched: Sequence[bool], instantiate: bool | Sequence[bool],
                axis_name: Hashable = None, *args: object) -> tuple[ClosedJaxpr, list[bool]]:
    """Return a program that maps over axis 0 of the marked arguments, and which results are mapped.

    Args:
      closed_jaxpr: the program of one example.
      axis: the number of examples, or an `AxisData`.
      in_batched: which arguments are mapped.
      instantiate: which results must be mapped.
      axis_name: the name of the mapped axis.
      *args: accepted for compatibility; they have no effect.
    """
    size, name = (axis.size, axis.name) if hasattr(axis, "size") else (axis, axis_name)
    found = batch_program(closed_jaxpr, BatchAxis(size, name), tuple(in_batched),
                          instantiate if isinstance(instantiate, bool) else tuple(instantiate))
    return found.program, list(found.batched_out)


def batch_jaxpr_axes(closed_jaxpr: ClosedJaxpr, *args: Any) -> tuple[ClosedJaxpr, list[int | None]]:
    """Return a program that maps over given axes of its arguments, and the mapped axes of its results.

    Args:
      closed_jaxpr: the program of one example.
      *args: (axis size, axes of arguments, axes of results, axis name), or with an `AxisData` first and without the name. The
        axis of a result is a number, None, or `zero_if_mapped`.
    """
    first, in_axes, out_axes, *rest = args
    size, name = (first.size, first.name) if hasattr(first, "size") else (first, rest[0] if rest else None)
    found_dims: list[int | None] = []

    def mapped(*xs: Value) -> list[Value]:
        outs, dims = run_batched(lambda *ys: eval_jaxpr(closed_jaxpr, ys), BatchAxis(size, name), xs, list(in_axes))
        wanted = [(None if d is None else 0) if dest is zero_if_mapped else dest for d, dest in zip(dims, out_axes)]
        found_dims[:] = wanted
        return [matchaxis(name, size, d, dest, o) for o, d, dest in zip(outs, dims, wanted)]

    avals = [a if d is None else shaped((*a.shape[:d], size, *a.shape[d:]), a.dtype, a.weak_type)
             for a, d in zip(closed_jaxpr.in_avals, in_axes)]
    return stage(mapped, avals)[0], found_dims


def vtile(*args: object, **kwargs: object) -> WrappedFun:
    """Raise NotImplementedError: lamina has no tiled maps inside of one axis."""
    raise NotImplementedError("vtile: tiles of one axis are not mapped; reshape the axis into two and use vmap")


explain_absent_names(globals())
