"""`vmap` that binds each primitive once per example. The batching rules are used only for communication between
examples.

The default implementation passes a whole batch to a rule for each primitive. Here a traced value is a list with one
value per example, and a primitive is applied to each of them. This is slow, and as simple as `vmap` can be: a reference
for the rules, and a start for maps that treat examples separately. A collective over the mapped axis has no meaning for
one example; it uses its rule.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_batching import extend
from lamina_batching.extend import BatchAxis, batching_rules, materialise, run_batched, make_vmap
from lamina_batching._default import custom_vmap, sequential_vmap
from lamina_ir import ClosedJaxpr, Eqn, Primitive, prims, subprograms, walk
from lamina_ir.extend import find_axis_names
from lamina_tracing import lax, hooks
from lamina_tracing.extend import (AxisFrame, Trace, Tracer, bind, extend_axis_env, new_trace_level, find_top_trace,
                                   trace_state, typeof)

__all__ = ["__version__", "custom_vmap", "extend", "sequential_vmap", "vmap"]
__contract__ = 1
__version__ = "0.1.0"


class Examples(Tracer):
    """One value per example, all of one type; the function sees a single one."""

    __slots__ = ("each",)

    def __init__(self, trace: LoopTrace, each: list[Any]) -> None:
        self._trace, self.each = trace, each
        aval = typeof(each[0])
        self.aval = aval.with_varying_axes(aval.varying_axes | trace.varying_axes) if trace.varying_axes else aval


class LoopTrace(Trace):
    """Bind each primitive once per example."""

    def __init__(self, level: int, axis: BatchAxis) -> None:
        super().__init__(level)
        self.axis = axis
        self.varying_axes: frozenset[Any] = frozenset() if axis.name is None else frozenset((axis.name,))

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self._needs_batch(prim, params):
            return self._by_rule(prim, args, params)
        outs = [bind(prim, *[self._of(a, i) for a in args], **params) for i in range(self.axis.size)]
        return tuple([Examples(self, list(each)) for each in zip(*outs)]) if prim.multiple else Examples(self, outs)

    def _of(self, a: Any, i: int) -> Any:
        return a.each[i] if type(a) is Examples and a._trace is self else a

    def _needs_batch(self, prim: Primitive, params: dict[str, Any]) -> bool:
        """Return whether examples communicate: in a collective over their axis, or a function with a user-defined
        `vmap`."""
        named = self.axis.name is not None and prim.may_read_axes and self.axis.name in find_axis_names(prim, params)
        return named or prim is prims.custom_vmap_call_p or (bool(prim.subprograms) and any(
            map(has_own_vmap, subprograms(Eqn(prim, [], [], params)))))

    def _by_rule(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        batched = [type(a) is Examples and a._trace is self for a in args]
        batches = [stack(a.each) if on else a for a, on in zip(args, batched)]
        outs, dims = batching_rules[prim](self.axis, batches, [0 if on else None for on in batched], **params)
        if prim.multiple:
            return tuple([o if d is None else Examples(self, unstack(o, d, self.axis.size)) for o, d in zip(outs, dims)])
        return outs if dims is None else Examples(self, unstack(outs, dims, self.axis.size))

    def uses_custom_rules(self, args: Sequence[Any]) -> bool:
        firsts = [self._of(a, 0) for a in args]
        return find_top_trace(firsts).uses_custom_rules(firsts)

    def process_custom_call(self, call: Any, args: Sequence[Any]) -> list[Any]:
        return call.batch(self, args, self.uses_custom_rules(args))


def has_own_vmap(closed: ClosedJaxpr) -> bool:
    """Return whether a program calls a `custom_vmap`; cached with the program."""
    return closed.memo("loop_batching", lambda: any(e.primitive is prims.custom_vmap_call_p for e in walk(closed)))


def unstack(batch: Any, dim: int, size: int) -> list[Any]:
    """Return the examples of a batch."""
    return [lax.index_in_dim(batch, i, dim, False) for i in range(size)]


def stack(each: Sequence[Any]) -> Any:
    """Return examples as a batch along axis 0."""
    return lax.concatenate([lax.expand_dims(x, (0,)) for x in each], 0)


def by_loop(fun: Callable[..., Sequence[Any]], axis: BatchAxis, args: Sequence[Any],
            dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
    """Apply `fun` to each example. An empty batch uses the default strategy, which needs no example to know types."""
    if axis.size == 0:
        return run_batched(fun, axis, args, dims)
    trace = LoopTrace(trace_state.depth + 1, axis)
    ins = [a if d is None else Examples(trace, unstack(materialise(a, d, axis.size, d), d, axis.size))
           for a, d in zip(args, dims)]
    with new_trace_level(trace), extend_axis_env(*([] if axis.name is None else [AxisFrame(axis.name, axis.size, trace)])):
        outs = list(fun(*ins))
    batched = [type(o) is Examples and o._trace is trace for o in outs]
    return [stack(o.each) if on else o for o, on in zip(outs, batched)], [0 if on else None for on in batched]


vmap = make_vmap(by_loop)
hooks.set_basis_map(lambda push, basis: vmap(push)(*basis))
