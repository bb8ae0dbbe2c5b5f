"""Batching rules of calls with custom rules: the call and the programs of its rules are batched."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from lamina_ir import ClosedJaxpr, dtypes, MissingRuleError, prims, shaped, ShapedArray, ShapeError
from lamina_ir.typing import ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, is_counted_once, eval_jaxpr, capture_scope, stage, typeof

from ..batch_trace import BatchAxis, batch_program, materialise, move_axis
from ..higher_order import make_higher_order_rule
from ..tables import batching_rules
from ..unbatched_results import find_unbatched_jvp_results, find_unbatched_vjp_results
from .._typing import RuleResult

__all__: list[str] = []


def _move_to_front(args: Sequence[Value], dims: Sequence[int | None]) -> list[Value]:
    return [a if d is None else move_axis(a, d, 0) for a, d in zip(args, dims)]


def _select_inexact(avals: Sequence[ShapedArray], flags: Sequence[bool]) -> tuple[bool, ...]:
    return tuple(f for a, f in zip(avals, flags) if dtypes.is_inexact(a.dtype))


def _batch_all_results(closed: ClosedJaxpr, axis: BatchAxis, flags: Sequence[bool]) -> ClosedJaxpr:
    """Return the batched program with all results batched."""
    return batch_program(closed, axis, tuple(flags), True).program


def _drop_shared_batch(axis: BatchAxis, outs: Sequence[Value], avals: Sequence[ShapedArray],
                       unbatched: Sequence[bool]) -> RuleResult:
    """Return results that are all batched, and their batch axes; of an `unbatched` result, its first example.

    If replicated values count once over the axis, a result with a replicated type is reduced in the same way: the type
    determines the derivative, so it must not change.
    """
    shared = list(unbatched)
    if axis.name is not None and is_counted_once(axis.name):
        shared = [s or axis.name not in a.varying_axes for s, a in zip(shared, avals)]
    outs = [lax.index_in_dim(o, 0, 0, keepdims=False) if s else o for o, s in zip(outs, shared)]
    return outs, [None if s else 0 for s in shared]


def custom_jvp_call_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *,
                          call_jaxpr: ClosedJaxpr, jvp: prims.Rule, num_consts: int,
                          **params: ParamValue) -> RuleResult:
    flags = tuple(d is not None for d in dims)

    def make() -> tuple[ClosedJaxpr, prims.Rule, Sequence[bool]]:
        scope = capture_scope()
        # The rule takes the operands, then the tangents of the inexact ones; a tangent is batched as its primal.
        tangent_flags = _select_inexact(call_jaxpr.in_avals[num_consts:], flags[num_consts:])

        def batch(rule: prims.Rule, active: tuple[bool, ...] | None) -> ClosedJaxpr:
            given = tangent_flags if active is None else compress(tangent_flags, active)
            return scope(lambda: _batch_all_results(rule.program(), axis, (*flags, *given)))

        rule = jvp.derive(batch)
        return (_batch_all_results(call_jaxpr, axis, flags), rule,
                find_unbatched_jvp_results(call_jaxpr, jvp, num_consts, flags))

    program, rule, unbatched = call_jaxpr.memo_with_settings(("vmap of custom_jvp", jvp, axis, flags), make)
    outs = bind(prims.custom_jvp_call_p, *_move_to_front(args, dims), call_jaxpr=program, jvp=rule, num_consts=num_consts,
                **params)
    return _drop_shared_batch(axis, outs, call_jaxpr.out_avals, unbatched)


def custom_vjp_call_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *,
                          call_jaxpr: ClosedJaxpr, bwd: prims.Rule, fwd: prims.Rule, num_consts: int,
                          **params: ParamValue) -> RuleResult:
    """Batch the call and its rules; the cotangent of an operand that all examples share is summed over the examples."""
    flags = tuple(d is not None for d in dims)

    def backward(rule: prims.Rule) -> ClosedJaxpr:
        program = rule.program()
        # All results of the batched forward rule are batched, including residuals; so are the cotangents.
        batched = _batch_all_results(program, axis, (True,) * len(program.in_avals))
        # The transpose of sharing a value with all examples is a sum over them.
        shared = [not f for f in _select_inexact(call_jaxpr.in_avals[num_consts:], flags[num_consts:])]

        def run(*xs: Value) -> list[Value]:
            return [lax.reduce_sum(b, (0,)) if one else b for b, one in zip(eval_jaxpr(batched, xs), shared)]
        return stage(run, batched.in_avals)[0] if any(shared) else batched

    def make() -> tuple[ClosedJaxpr, prims.Rule, prims.Rule, Sequence[bool]]:
        scope = capture_scope()
        return (_batch_all_results(call_jaxpr, axis, flags),
                fwd.derive(lambda rule, active: scope(lambda: _batch_all_results(rule.program(), axis, flags))),
                bwd.derive(lambda rule, active: scope(lambda: backward(rule))),
                find_unbatched_vjp_results(call_jaxpr, fwd, bwd, num_consts, flags))

    program, forward, back, unbatched = call_jaxpr.memo_with_settings(("vmap of custom_vjp", bwd, fwd, axis, flags), make)
    outs = bind(prims.custom_vjp_call_p, *_move_to_front(args, dims), call_jaxpr=program, bwd=back, fwd=forward,
                num_consts=num_consts, **params)
    return _drop_shared_batch(axis, outs, call_jaxpr.out_avals, unbatched)


def transposed_call_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *, forward: prims.Rule,
                          num_held: int, transpose_jaxpr: ClosedJaxpr) -> RuleResult:
    # Only residuals may be unbatched. The linear operands and results are batched all, so that the forward program and
    # its transpose keep matching signatures.
    residual_flags = tuple(d is not None for d in dims[:num_held])
    n = len(transpose_jaxpr.in_avals) - num_held
    scope = capture_scope()
    program = _batch_all_results(transpose_jaxpr, axis, (*residual_flags, *[True] * n))

    def batch(rule: prims.Rule, active: tuple[bool, ...] | None) -> ClosedJaxpr:
        count = len(transpose_jaxpr.out_avals) if active is None else sum(active)
        return scope(lambda: _batch_all_results(rule.program(), axis, (*residual_flags, *[True] * count)))

    rule = forward.derive(batch)
    given = [materialise(a, d, axis.size) for a, d in zip(args[num_held:], dims[num_held:])]
    outs = bind(prims.transposed_call_p, *_move_to_front(args[:num_held], dims), *given, forward=rule, num_held=num_held,
                transpose_jaxpr=program)
    return outs, [0] * len(outs)


def custom_vmap_call_batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *,
                           call_jaxpr: ClosedJaxpr, name: str, num_consts: int, rule: Any) -> RuleResult:
    if any(d is not None for d in dims[:num_consts]):
        raise TypeError(f"custom_vmap of `{name}`: it closes over a value that is being mapped, which its rule cannot batch; "
                        f"pass the value to `{name}` as an argument")
    if rule.call is None:
        raise MissingRuleError(f"vmap of `{name}`: its batching rule is a Python function, which program text and saved "
                               "programs do not contain. Make the program again from its function")
    flags = [d is not None for d in dims[num_consts:]]
    # The user's rule sees the batch axis at position 0 of every batched argument.
    outs, batched = rule.call(axis.size, flags, _move_to_front(args, dims)[num_consts:])
    for i, (o, b, a) in enumerate(zip(outs, batched, call_jaxpr.out_avals)):
        shape = (axis.size, *a.shape) if b else a.shape
        got = typeof(o)
        if got.shape != shape or got.dtype != a.dtype:
            raise ShapeError(f"custom_vmap of `{name}`: its rule must return result {i} as "
                             f"{shaped(shape, a.dtype).str_long()}, {'batched at axis 0' if b else 'not batched'}; got "
                             f"{got.str_long()}")
    return outs, [0 if b else None for b in batched]


batching_rules.define(prims.custom_jvp_call_p, custom_jvp_call_batch)
batching_rules.define(prims.custom_vjp_call_p, custom_vjp_call_batch)
batching_rules.define(prims.custom_vmap_call_p, custom_vmap_call_batch)
batching_rules.define(prims.transposed_call_p, transposed_call_batch)
batching_rules.define(prims.remat_p, make_higher_order_rule(prims.remat_p))
for _identity in (prims.name_p, prims.to_memory_p):
    batching_rules.define(_identity, lambda axis, args, dims, prim=_identity, **params: (
        bind(prim, args[0], **params), dims[0]))
batching_rules.define(prims.optimization_barrier_p, lambda axis, args, dims: (
    bind(prims.optimization_barrier_p, *args), dims))


def sharding_constraint_batching(axis, args, dims, *, sharding, unspecified_dims):
    """Insert the batch axis with one tile, as an unspecified dimension that the compiler may shard."""
    d = dims[0]
    if sharding.startswith("{devices=["):
        tiles, rest = sharding[len("{devices=["):].split("]", 1)
        counts = tiles.split(",")
        sharding = "{devices=[" + ",".join([*counts[:d], "1", *counts[d:]]) + "]" + rest
    free = tuple(sorted([d, *[a + (a >= d) for a in unspecified_dims]]))
    return bind(prims.sharding_constraint_p, args[0], sharding=sharding, unspecified_dims=free), d


batching_rules.define(prims.sharding_constraint_p, sharding_constraint_batching)
