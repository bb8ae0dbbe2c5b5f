"""`checkpoint` (rematerialization): save the arguments of a call and recompute its residuals in the backward pass."""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar, overload

from typing_extensions import override
from lamina_ir import ClosedJaxpr, config, dtypes, Eqn, Primitive, prims, rewrite, ShapedArray, trees, walk
from lamina_ir import dce as _dce
from lamina_ir.extend import has_keys, split_checkpoint, substitute_saved, saved_p, stack_depth
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, ParamValue, Params, StaticValue, Tree, Value
from lamina_tracing.extend import (
    bind, call_custom, CustomCall, eval_jaxpr, EVALUATION, find_top_trace, function_name, JitSpec, make_rule_source,
    results_to_arrays, stack_object_arrays, stage, trace_state, Tracer, typeof, wraps)

from .._custom.rule_checks import refuse_closures
from .._engine.dependence import check_no_repeated_effects
from .._engine.custom_vjp_pullback import pullback_p
from .._engine.jvp_trace import instantiate, JVPTrace, run_jvp
from .._engine.linearize import LinearTracer, linearize_flat
from .._engine.rule_kinds import drop_zeros, expand_by_mask
from .._engine.rule_tables import jvp_rules
from .._typing import Policy, RuleResult, Tangent

__all__ = ["RecomputedProgram", "call_program", "checkpoint", "checkpoint_name", "recompute_program"]

P = ParamSpec("P")
R = TypeVar("R")


class _Eager(threading.local):
    """Nesting depth of the checkpointed functions that run on concrete arrays in this thread."""

    level = 0


_eager = _Eager()


def call_program(prim: Primitive, closed: ClosedJaxpr, args: Sequence[Value], **params: ParamValue) -> Sequence[Value]:
    """Call a program: as one equation if something is traced, else primitive by primitive, so that nothing is compiled.

    A program with a platform index runs as a jitted call: lowering then compiles only the branch of the platform.
    """
    if trace_state.trace is EVALUATION and not any(isinstance(a, Tracer) for a in args):
        eager = closed.memo("here", lambda: _eager_program(closed))
        if eager is not None:
            return tuple(eval_jaxpr(eager, args))
        prim, params = prims.xla_call_p, {**prims.xla_call_p.defaults, "name": params["name"]}
    return bind(prim, *args, call_jaxpr=closed, **params)


def _eager_program(closed: ClosedJaxpr) -> ClosedJaxpr | None:
    """Return the program for eager evaluation, without memory transfers; None if it has a platform index."""
    used = {e.primitive for e in walk(closed)}
    if prims.platform_index_p in used:
        return None
    # Eager evaluation keeps nothing for later, so moving values to another memory would only cost time.
    if prims.to_memory_p not in used:
        return closed
    return rewrite(closed, lambda e: ([], e.invars) if e.primitive is prims.to_memory_p else None)


class RecomputedProgram(NamedTuple):
    """A program split for rematerialization.

    Attributes:
      known: operands -> (results, saved values).
      linear: those of (saved values, operands, active tangents) marked in `used` -> tangents of the results marked in
        `active_out`. It recomputes the values that were not saved.
      saved: number of saved values.
    """

    known: ClosedJaxpr
    linear: ClosedJaxpr
    saved: int
    used: tuple[bool, ...]
    active_out: tuple[bool, ...]


def recompute_program(closed: ClosedJaxpr, active: tuple[bool, ...], what: str,
                      policy: Policy | None = None) -> RecomputedProgram:
    """Split a program for rematerialization, saving the values that `policy` selects; errors name it as `what`."""
    check_no_repeated_effects(what, closed)
    return closed.memo_with_settings(("recompute", active, policy), lambda: _mark_key_reuse(_split(closed, active, policy)))


def _mark_key_reuse(made: RecomputedProgram) -> RecomputedProgram:
    """Mark random draws of the recomputation as intended key reuse, for the key-reuse check."""
    if not has_keys(made.linear):
        return made
    # The recomputation draws the same numbers again, which is intended.
    return made._replace(linear=rewrite(made.linear, lambda e: [Eqn(
        e.primitive, e.invars, e.outvars, {"use": "again"}, e.source)] if e.primitive is prims.random_unwrap_p else None))


def _split(closed: ClosedJaxpr, active: tuple[bool, ...], policy: Policy | None) -> RecomputedProgram:
    kept = split_checkpoint(closed, policy)
    avals, count = closed.in_avals, len(closed.out_avals)
    saved = kept.recompute.in_avals[len(avals):]
    n = len(saved)
    flags: list[bool] = []

    def run(*xs: Value) -> list[Value]:
        values, primals, tangents = xs[:n], xs[n:n + len(active)], xs[n + len(active):]
        # `kept.recompute` pairs each saved value with its recomputation (primitive `saved`): values come from the saved
        # one, tangents go through the recomputed one. `substitute_saved` then drops the pairs and uses the saved values
        # only, and dead code elimination removes the recomputation of the saved values.
        _, program = linearize_flat(lambda *args: eval_jaxpr(kept.recompute, [*args, *values]), primals, active)
        flags[:] = [type(o) is LinearTracer for o in program.outs]
        return [t for t, on in zip(program.forward(tangents), flags) if on]

    program, outer = stage(run, [*saved, *avals, *[a.strip_weak_type() for a, on in zip(avals, active) if on]])
    assert not outer
    linear, used = _dce(program if policy is None else substitute_saved(program))
    # Values that the policy selects but no derivative reads are not saved.
    known = closed if policy is None else _dce(kept.forward, [True] * count + used[:n], instantiate=True)[0]
    return RecomputedProgram(known, linear, sum(used[:n]), (*[True] * sum(used[:n]), *used[n:]), tuple(flags))


def _saved_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> RuleResult:
    """Return the saved value, and the tangent of the recomputed one."""
    return primals[1], tangents[0]


jvp_rules.define(saved_p, _saved_jvp)


@overload
def checkpoint(fun: Callable[P, R], concrete: bool = False, prevent_cse: bool = True,
               policy: Callable[..., bool] | None = None,
               static_argnums: int | Sequence[int] = ()) -> Callable[P, R]: ...


@overload
def checkpoint(fun: None = None, concrete: bool = False, prevent_cse: bool = True,
               policy: Callable[..., bool] | None = None,
               static_argnums: int | Sequence[int] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def checkpoint(fun: Function | None = None, concrete: bool = False, prevent_cse: bool = True,
               policy: Callable[..., bool] | None = None, static_argnums: int | Sequence[int] = ()) -> Function:
    """Make a function that is rematerialized: its backward pass recomputes intermediate values instead of saving them.

    Args:
      fun: function of arrays and trees of them. If omitted, `checkpoint` returns a decorator with these options.
      concrete: allow Python control flow on known values: outside `jit` the function runs on concrete values, and runs
        again in the backward pass.
      prevent_cse: prevent the compiler from merging the recomputation with the first computation, which would keep the
        residuals in memory. Not needed in the body of a loop.
      policy: which values to save: one of `checkpoint_policies`, or a function of a primitive, its operand types and
        its params.
      static_argnums: positions of arguments that are Python values; a call with an unhashable one is traced anew.
    Returns:
      A function of the same arguments and results.

    >>> from lamina_autodiff import grad
    >>> from lamina_tracing import lax
    >>> grad(checkpoint(lambda x: lax.sin(lax.sin(x))))(2.0)
    Array(-0.25563914, dtype=float32, weak_type=True)
    """
    options: dict[str, Any] = dict(concrete=concrete, prevent_cse=prevent_cse, policy=policy,
                                   static_argnums=static_argnums)
    if fun is None:
        return functools.partial(checkpoint, **options)
    if policy is not None and not callable(policy):
        raise TypeError(f"checkpoint of `{function_name(fun)}`: policy must be a function such as "
                        f"checkpoint_policies.dots_saveable; got {policy!r}")
    spec = JitSpec(fun, static_argnums=static_argnums, call="checkpoint")
    params = dict(differentiated=False, name=spec.name, policy=policy, prevent_cse=bool(prevent_cse))

    # The arguments become arrays, which a traced call would get too.
    def run_eagerly(args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        flat, tree, static = spec.split(args, kwargs)
        args, kwargs = trees.tree_unflatten(tree, results_to_arrays(flat))
        if static:
            args, kwargs = spec.statics.join(args, kwargs, static)
        level = _eager.level = _eager.level + 1
        holder = object()
        try:
            if level > stack_depth.USUAL_LEVELS:
                stack_depth.raise_limit(level, holder)
            return results_to_arrays(fun(*args, **kwargs))
        finally:
            _eager.level = level - 1
            if level > stack_depth.USUAL_LEVELS:
                stack_depth.restore_limit(holder)

    def checkpointed(*args: Tree, **kwargs: Tree) -> Tree:
        # A static argument that is not hashable cannot be part of a cache key. Bind it instead; the new function is
        # traced at every call.
        if spec.statics.nums and (odd := [i for i in spec.statics.nums if i < len(args) and not _hashable(args[i])]):
            rest = [x for i, x in enumerate(args) if i not in odd]
            nums = [n - sum(i < n for i in odd) for n in spec.statics.nums.difference(odd)]
            return checkpoint(_bind_args(fun, args, odd), **{**options, "static_argnums": nums})(*rest, **kwargs)
        if trace_state.trace is EVALUATION and not trace_state.depth or config.disable_jit.value:
            return run_eagerly(args, kwargs)
        flat, tree, static = spec.split(args, kwargs)
        # With concrete=True the function runs on concrete values; the staged call below would have none.
        if concrete and trace_state.trace is EVALUATION:
            call = _Concrete(spec, tree, static, params)
            outs = call_custom(call, flat)
            return trees.tree_unflatten(call.out_tree, outs)
        staged = spec.trace(flat, tree, static)
        operands = [*staged.outer, *flat]
        # No trace differentiates here: without the equation, the surrounding transformation sees the primitives.
        if not find_top_trace(operands).uses_custom_rules(operands):
            return run_eagerly(args, kwargs)
        return trees.tree_unflatten(staged.out_tree, bind(prims.remat_p, *operands, call_jaxpr=staged.closed, **params))

    return wraps(fun)(checkpointed)


def _hashable(x: object) -> bool:
    try:
        hash(x)
    except TypeError:
        return isinstance(x, Tracer)  # a tracer gets the error for traced static arguments
    return True


def _bind_args(fun: Function, args: Sequence[Tree], at: Sequence[int]) -> Function:
    """Return `fun` with the arguments at positions `at` fixed to those in `args`."""
    @wraps(fun)
    def partial(*rest: Tree, **kwargs: Tree) -> Tree:
        left = iter(rest)
        return fun(*[x if i in at else next(left) for i, x in enumerate(args)], **kwargs)
    # The parameters differ, so the signature of `fun` must not be shown.
    del partial.__wrapped__  # type: ignore[attr-defined]
    return partial


class _Concrete(CustomCall):
    """A call of a checkpointed function with concrete=True: Python control flow may read known values."""

    out_tree: PyTreeDef  # set when the function is run or staged

    def __init__(self, spec: JitSpec, tree: PyTreeDef, static: StaticValue, params: Params) -> None:
        self.spec, self.tree, self.static, self.params = spec, tree, static, params

    @override
    def run(self, *flat: Value) -> list[Value]:
        args, kwargs = trees.tree_unflatten(self.tree, flat)
        if self.static:
            args, kwargs = self.spec.statics.join(args, kwargs, self.static)
        outs, self.out_tree = trees.tree_flatten(self.spec.fun(*args, **kwargs))
        return stack_object_arrays(outs)

    @override
    def as_equation(self, avals: Sequence[ShapedArray]) -> tuple[Primitive, list[Value], Params]:
        staged = self.spec.trace_avals(avals, self.tree, self.static)
        self.out_tree = staged.out_tree
        return prims.remat_p, staged.outer, dict(call_jaxpr=staged.closed, **self.params)

    @override
    def push(self, trace: JVPTrace, args: Sequence[Value]) -> list[Value]:
        primals, tangents = trace.split(args)
        active = [t is not None for t in tangents]
        # Forward mode stores nothing, so there is nothing to rematerialize.
        if trace.linear is None:
            outs, found = run_jvp(self.run, primals, tangents)
            return trace.join(outs, found)
        outs = self.run(*primals)
        refuse_closures("checkpoint (concrete=True)", self.spec.name, trace, outs)
        pull = _Rerun(self, primals, active, outs)
        found = trace.linear.record_typed(pullback_p, (*pull.operands, *drop_zeros(tangents)), {"pull": pull}, pull.out_avals)
        return trace.join(outs, expand_by_mask(found, pull.out_active))


class _Rerun:
    """The `pull` of a `pullback` equation that runs the function again."""

    def __init__(self, call: _Concrete, primals: Sequence[Value], active: Sequence[bool],
                 outs: Sequence[Value]) -> None:
        self.call, self.active, self.operands = call, active, list(primals)
        avals = [typeof(o).strip_weak_type() for o in outs]
        self.out_active = [dtypes.is_inexact(a.dtype) for a in avals]
        self.out_avals = [a for a, on in zip(avals, self.out_active) if on]

    def pull_back(self, primals: Sequence[Value], cts: Sequence[Value]) -> list[Tangent]:
        """Return the cotangents of the active arguments."""
        n = len(primals)
        given = [instantiate(ct, a) for ct, a in zip(cts, self.out_avals)]
        if any(isinstance(x, Tracer) for x in (*primals, *given)):
            # The barrier makes the second run depend on the cotangents. Otherwise the compiler could merge it with the
            # first run and keep all residuals.
            both = bind(prims.optimization_barrier_p, *primals, *given)
            primals, given = both[:n], list(both[n:])
        line, trace_state.source = trace_state.source, make_rule_source()
        try:
            # The second run: its residuals live only until `backward` has used them.
            _, program = linearize_flat(self.call.run, primals, self.active)
        finally:
            trace_state.source = line
        return program.backward(expand_by_mask(given, self.out_active), free=True)

    def push(self, args: Sequence[Value]) -> list[Value]:
        """Return the tangents of the inexact results."""
        n = len(self.operands)
        line, trace_state.source = trace_state.source, make_rule_source()
        try:
            outs, found = run_jvp(self.call.run, args[:n], expand_by_mask(args[n:], self.active))
        finally:
            trace_state.source = line
        return [instantiate(t, o) for o, t, on in zip(outs, found, self.out_active) if on]


def checkpoint_name(x: Tree, name: str) -> Tree:
    """Name a value, for checkpoint policies such as `save_only_these_names`.

    Args:
      x: array or tree of arrays.
      name: any text.
    Returns:
      `x`, unchanged.

    >>> checkpoint_name(2.0, "activations")
    Array(2., dtype=float32, weak_type=True)
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name: name must be a string; got {name!r}")
    return trees.tree_map(lambda leaf: bind(prims.name_p, leaf, name=name), x)
