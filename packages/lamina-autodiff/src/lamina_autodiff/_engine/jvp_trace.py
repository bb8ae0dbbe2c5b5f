"""Forward mode: `JVPTrace` carries a tangent with each value; `None` is the zero tangent.

The tangents are values (`jvp`) or variables of a linear program that is being recorded (`linearize`, see
`engine.linearize`).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from typing_extensions import override
from lamina_ir import Primitive, Source, prims, trees
from lamina_ir.typing import Params, Value
from lamina_tracing.extend import (
    argument_name, bind, CustomCall, eager_source_requests, EVALUATION, get_concrete_value, get_equation_source,
    new_trace_level, Trace, trace_state, Tracer, typeof)

from .rule_kinds import PUSH_RULE_TYPES, LinearizeRule, instantiate
from .rule_tables import jvp_rules
from .._typing import LinearRecorder, Outputs, RuleResult, Tangent

__all__ = ["JVPTrace", "JVPTracer", "add_tangents", "instantiate", "run_jvp"]

_add_p = prims.add_p


class JVPTracer(Tracer):
    """A value and its (nonzero) tangent.

    Args:
      trace: its trace.
      primal: the value.
      tangent: the tangent.
      made_by: the primitive that made it, for errors; None if unknown.

    >>> run_jvp(lambda x: print(type(x).__name__, x.primal, x.tangent) or [x], [2.0], [1.0])
    JVPTracer 2.0 1.0
    ([2.0], [1.0])
    """

    __slots__ = ("primal", "tangent", "made_by")

    def __init__(self, trace: Trace, primal: Value, tangent: Value, made_by: Primitive | None = None) -> None:
        self._trace = trace
        self.aval = primal.aval if isinstance(primal, Tracer) else typeof(primal)
        self.primal = primal
        self.tangent = tangent
        self.made_by = made_by

    @override
    def concrete_value(self) -> Value:
        return get_concrete_value(self.primal)

    @override
    def underlying_value(self) -> Value:
        return self.primal


class JVPTrace(Trace):
    """Apply JVP rules.

    Args:
      level: the depth in the nest of transformations.
      linear: the `LinearTrace` that records the linear part, or None.

    >>> run_jvp(lambda x: print(type(x._trace).__name__) or [x], [2.0], [1.0])
    JVPTrace
    ([2.0], [1.0])
    """

    verb = "differentiated"
    tangents: Sequence[Tangent] = ()  # those of the arguments

    def __init__(self, level: int, linear: LinearRecorder = None) -> None:
        self.level = level
        self.linear = linear

    @property
    @override
    def transformed_arguments(self) -> list[int]:  # type: ignore[override]
        return [i for i, t in enumerate(self.tangents) if t is not None]

    @override
    def find_arguments(self, tracer: Tracer) -> list[int]:
        return [i for i, t in enumerate(self.tangents) if isinstance(tracer, JVPTracer) and t is tracer.tangent]

    def argument_name(self, i: int) -> str:
        """Return the name of flat argument `i` of the differentiated function, for errors."""
        if self.function_info is None:
            return str(i)
        _, fun, tree, positions = self.function_info  # the tree holds the arguments at these positions
        if tree is None:
            return str(i)
        path = trees.tree_flatten_with_path(trees.tree_unflatten(tree, list(range(len(self.tangents)))))[0][i][0]
        at = list(positions)[path[0].idx] if positions else path[0].idx
        return argument_name(fun, at) + trees.keystr(path[1:])

    @override
    def process_custom_call(self, call: CustomCall, args: Sequence[Value]) -> list[Value]:
        return call.push(self, args)

    def split(self, args: Sequence[Value]) -> tuple[list[Value], list[Tangent]]:
        """Return (primals, tangents), with None for zero tangents."""
        primals: list[Value] = []
        tangents: list[Tangent] = []
        for a in args:
            own = type(a) is JVPTracer and a._trace is self
            primals.append(a.primal if own else a)
            tangents.append(a.tangent if own else None)
        return primals, tangents

    def join(self, outs: Sequence[Value], tangents: Sequence[Tangent]) -> list[Value]:
        """Wrap each result that has a tangent in a tracer."""
        return [o if t is None else JVPTracer(self, o, t) for o, t in zip(outs, tangents)]

    @override
    def process(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        primals: list[Value] = []
        tangents: list[Tangent] = []
        for a in args:
            if type(a) is JVPTracer and a._trace is self:
                primals.append(a.primal)
                tangents.append(a.tangent)
            else:
                primals.append(a)
                tangents.append(None)
        # If a source line is set already, this primitive is part of a rule, and the line is the user's. On concrete
        # values no equation is recorded, so the stack is not walked for a line.
        line = trace_state.source
        if type(line) is Source or (trace_state.trace is EVALUATION and not eager_source_requests and not prim.subprograms):
            rule = jvp_rules[prim]
            if type(rule) in PUSH_RULE_TYPES:  # `_apply_rule` inlined: saves a call for the commonest primitives
                out, tangent = rule.push(primals, tangents, params)  # type: ignore[attr-defined]
            else:
                out, tangent = self._apply_rule(prim, primals, tangents, params)
        else:  # everything that the rule binds or records gets the line of this primitive
            trace_state.source = get_equation_source(2, True)
            try:
                out, tangent = self._apply_rule(prim, primals, tangents, params)
            finally:
                trace_state.source = line
        if prim.multiple:
            return tuple([o if t is None else JVPTracer(self, o, t, prim) for o, t in zip(out, tangent)])
        return out if tangent is None else JVPTracer(self, out, tangent, prim)

    def _apply_rule(self, prim: Primitive, primals: list[Value], tangents: list[Tangent], params: Params) -> RuleResult:
        # Common kinds first: `push` takes params as a dict. `linearize` applies only if the linear part is recorded.
        rule = jvp_rules[prim]
        kind = type(rule)
        if kind in PUSH_RULE_TYPES:
            return rule.push(primals, tangents, params)  # type: ignore[attr-defined]
        if kind is LinearizeRule and self.linear is not None:
            return rule.linearize(self, primals, tangents, **params)  # type: ignore[attr-defined]
        return rule(primals, tangents, **params)


def add_tangents(a: Tangent, b: Tangent) -> Tangent:
    """Add two tangents; None is zero."""
    return b if a is None else a if b is None else bind(_add_p, a, b)


def run_jvp(fun: Callable[..., Sequence[Value]], primals: Sequence[Value], tangents: Sequence[Tangent],
            linear: LinearRecorder = None) -> tuple[list[Value], list[Tangent]]:
    """Run a function on flat primals and tangents.

    Args:
      fun: function of flat arguments that returns a sequence of flat results.
      primals: its arguments.
      tangents: their tangents; None for zero.
      linear: the trace that records the linear part, or None.
    Returns:
      (results, their tangents, or None for zero).

    >>> from lamina_tracing import lax
    >>> run_jvp(lambda x, y: [lax.mul(x, y), y], [2.0, 3.0], [1.0, None])
    ([Array(6., dtype=float32, weak_type=True), 3.0], [Array(3., dtype=float32, weak_type=True), None])
    """
    trace = JVPTrace(trace_state.depth + 1, linear)
    trace.tangents, trace.function_info = tangents, getattr(fun, "function_info", None)
    with new_trace_level(trace):
        # The new trace is one level above the tangents, so operations of the rules on tangents go to the outer traces.
        ins = [p if t is None else JVPTracer(trace, p, t) for p, t in zip(primals, tangents)]
        outs = fun(*ins)
        out, dout = [], []
        for o in outs:
            if type(o) is JVPTracer and o._trace is trace:
                out.append(o.primal)
                dout.append(o.tangent)
            else:
                out.append(o)
                dout.append(None)
    return out, dout


