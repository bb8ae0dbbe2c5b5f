"""Forward mode: `JVPTrace` carries a tangent beside each value; `None` is the zero tangent.

The tangents may be values (`jvp`) or the variables of a linear program being recorded (`linearize`, see linear.py).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import Primitive, Source, prims
from lamina_tracing.extend import EVALUATION, Trace, Tracer, bind, deeper, eager_lines, known_value, now, staged_source, typeof

from .rows import PUSHING, Split, instantiate
from .tables import jvp_rules

__all__ = ["JVPTrace", "JVPTracer", "add_tangents", "instantiate", "run_jvp"]

_add_p = prims.add_p


class JVPTracer(Tracer):
    """A value and its (nonzero) tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.aval = primal.aval if isinstance(primal, Tracer) else typeof(primal)
        self.primal = primal
        self.tangent = tangent

    def _number(self) -> Any:
        return known_value(self.primal) if self._trace.alive else None

    def _behind(self) -> Any:
        return self.primal


class JVPTrace(Trace):
    """Applies forward rows. `linear` is the trace that records the linear part, if it is recorded."""

    def __init__(self, level: int, linear: Any = None) -> None:
        self.level = level
        self.linear = linear

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        return call.push(self, args)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Values and tangents (None for zero)."""
        primals: list[Any] = []
        tangents: list[Any] = []
        for a in args:
            own = type(a) is JVPTracer and a._trace is self
            primals.append(a.primal if own else a)
            tangents.append(a.tangent if own else None)
        return primals, tangents

    def join(self, outs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Results with their tangents, as tracers."""
        return [o if t is None else JVPTracer(self, o, t) for o, t in zip(outs, tangents)]

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals: list[Any] = []
        tangents: list[Any] = []
        for a in args:
            if type(a) is JVPTracer and a._trace is self:
                primals.append(a.primal)
                tangents.append(a.tangent)
            else:
                primals.append(a)
                tangents.append(None)
        # A line in force already is that of the op this one is made of; where no one will ask for a line, none is looked up.
        line = now.source
        if type(line) is Source or (now.trace is EVALUATION and not eager_lines and not prim.subprograms):
            row = jvp_rules[prim]
            if type(row) in PUSHING:  # `_pushed`, written out for the commonest ops
                out, tangent = row.push(primals, tangents, params)  # type: ignore[attr-defined]
            else:
                out, tangent = self._pushed(prim, primals, tangents, params)
        else:  # all that the row binds, and what it records, is made of this op
            now.source = staged_source(2, True)
            try:
                out, tangent = self._pushed(prim, primals, tangents, params)
            finally:
                now.source = line
        if prim.multiple:
            return tuple([o if t is None else JVPTracer(self, o, t) for o, t in zip(out, tangent)])
        return out if tangent is None else JVPTracer(self, out, tangent)

    def _pushed(self, prim: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        # The commonest rows by their class first: no packing of params. `linearize` only where the linear part is recorded.
        row = jvp_rules[prim]
        kind = type(row)
        if kind in PUSHING:
            return row.push(primals, tangents, params)  # type: ignore[attr-defined]
        if kind is Split and self.linear is not None:
            return row.linearize(self, primals, tangents, **params)  # type: ignore[attr-defined]
        return row(primals, tangents, **params)


def add_tangents(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else bind(_add_p, a, b)


def run_jvp(fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any],
            linear: Any = None) -> tuple[list[Any], list[Any]]:
    """`fun` on flat primals and tangents (None for zero): flat results and their tangents."""
    trace = JVPTrace(now.depth + 1, linear)
    with deeper(trace):
        # One level above the tangents, whatever they are: what rows do to them is done by the traces further out.
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


