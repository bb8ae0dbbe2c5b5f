"""A trace that binds each primitive once per example, and its tracer."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_batching.extend import BatchAxis, batching_rules
from lamina_ir import ClosedJaxpr, Eqn, Primitive, prims, subprograms, walk
from lamina_ir.extend import find_axis_names
from lamina_tracing import lax
from lamina_tracing.extend import Trace, Tracer, bind, find_top_trace, typeof


class Examples(Tracer):
    """One value per example, all of one type; the function sees a single one."""

    __slots__ = ("each",)

    def __init__(self, trace: LoopTrace, each: list[Any]) -> None:
        aval = typeof(each[0])
        super().__init__(trace, aval.with_varying_axes(aval.varying_axes | trace.varying_axes))
        self.each = each

    def underlying_value(self) -> Any:
        return self.each[0]  # errors describe where it comes from


class LoopTrace(Trace):
    """Bind each primitive once per example."""

    verb = "mapped"  # for errors: what the transformation does to the function

    def __init__(self, level: int, axis: BatchAxis) -> None:
        super().__init__(level)
        self.axis = axis
        self.varying_axes: frozenset[Any] = frozenset() if axis.name is None else frozenset((axis.name,))

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self._needs_batch(prim, params):
            return self._by_rule(prim, args, params)
        outs = [bind(prim, *[self._example(a, i) for a in args], **params) for i in range(self.axis.size)]
        return tuple([Examples(self, list(each)) for each in zip(*outs)]) if prim.multiple else Examples(self, outs)

    def _example(self, a: Any, i: int) -> Any:
        return a.each[i] if self.owns(a) else a

    def _needs_batch(self, prim: Primitive, params: dict[str, Any]) -> bool:
        """Return whether examples communicate: in a collective over their axis, or a function with a user-defined
        `vmap`."""
        named = self.axis.name is not None and prim.may_read_axes and self.axis.name in find_axis_names(prim, params)
        return named or prim is prims.custom_vmap_call_p or (bool(prim.subprograms) and any(
            map(has_own_vmap, subprograms(Eqn(prim, [], [], params)))))

    def _by_rule(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        batched = [self.owns(a) for a in args]
        batches = [stack(a.each) if on else a for a, on in zip(args, batched)]
        outs, dims = batching_rules[prim](self.axis, batches, [0 if on else None for on in batched], **params)
        if prim.multiple:
            return tuple([o if d is None else Examples(self, unstack(o, d, self.axis.size)) for o, d in zip(outs, dims)])
        return outs if dims is None else Examples(self, unstack(outs, dims, self.axis.size))

    def uses_custom_rules(self, args: Sequence[Any]) -> bool:
        firsts = [self._example(a, 0) for a in args]
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
