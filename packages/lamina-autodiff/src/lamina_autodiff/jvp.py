"""Forward mode: `JVPTrace` carries a tangent beside each value; `None` is the zero tangent.

The tangents may be values (`jvp`) or the variables of a linear program being recorded (`linearize`, see linear.py).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import prims
from lamina_ir.avals import ShapedArray
from lamina_ir.primitive import Primitive
from lamina_ir.program import Source
from lamina_tracing import lax
from lamina_tracing.extend import (EVALUATION, Trace, Tracer, bind, deeper, eager_lines, now, scalar, staged_source,
                                   typeof)

from .tables import jvp_rules, linearize_rules, slopes

__all__ = ["JVPTrace", "JVPTracer", "add_tangents", "instantiate", "push", "run_jvp"]

_add_p, _sub_p, _mul_p, _neg_p = prims.add_p, prims.sub_p, prims.mul_p, prims.neg_p


class JVPTracer(Tracer):
    """A value and its (nonzero) tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.aval = primal.aval if isinstance(primal, Tracer) else typeof(primal)
        self.primal = primal
        self.tangent = tangent


class JVPTrace(Trace):
    """Applies forward rows. `linear` is the trace that records the linear part, if it is recorded."""

    def __init__(self, level: int, linear: Any = None) -> None:
        self.level = level
        self.linear = linear
        self.process = self._push

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

    def _push(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals: list[Any] = []
        tangents: list[Any] = []
        for a in args:
            if type(a) is JVPTracer and a._trace is self:
                primals.append(a.primal)
                tangents.append(a.tangent)
            else:
                primals.append(a)
                tangents.append(None)
        line = now.source
        if type(line) is Source or (now.trace is EVALUATION and not eager_lines and not prim.subprograms):
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
        if self.linear is not None:
            rule = linearize_rules.get(prim)
            if rule is not None:
                return rule(self, primals, tangents, **params)
        return push(prim, primals, tangents, params)


def push(prim: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> tuple[Any, Any]:
    """One op forward: its result and the result's tangent."""
    fs = slopes.get(prim)
    if fs is not None:
        ans = bind(prim, *primals, **params)
        if len(fs) == 1:
            t = tangents[0]
            if t is None or fs[0] is None:
                return ans, None
            return ans, bind(_mul_p, t, fs[0](primals[0], ans, **params))
        total = None
        for t, f in zip(tangents, fs):
            if t is not None and f is not None:
                term = bind(_mul_p, t, f(*primals, ans, **params))
                total = term if total is None else bind(_add_p, total, term)
        return ans, total if total is None else _widen(total, ans)
    if prim not in jvp_rules:
        if prim.linear_in:
            return _push_linear(prim, primals, tangents, params)
        if prim.bilinear_in:
            return _push_bilinear(prim, primals, tangents, params)
    return jvp_rules[prim](primals, tangents, **params)


def _widen(t: Any, ans: Any) -> Any:
    """A rank-0 operand's tangent, broadcast to the result it contributes to."""
    shape = typeof(ans).shape
    return t if typeof(t).shape == shape else lax.broadcast_in_dim(t, shape, ())


def instantiate(t: Any, primal: Any) -> Any:
    """The tangent as an array: zeros for None, of the type of `primal` (a value or a type)."""
    if t is not None:
        return t
    aval = primal if type(primal) is ShapedArray else typeof(primal)
    zero = scalar(0, aval.dtype)
    return lax.broadcast_in_dim(zero, aval.shape, ()) if aval.shape else zero


def add_tangents(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else bind(_add_p, a, b)


def _push_linear(prim: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> tuple[Any, Any]:
    ans = bind(prim, *primals, **params)
    if len(primals) == 1:
        return ans, None if tangents[0] is None else bind(prim, tangents[0], **params)
    linear = prim.linear_in
    if all(tangents[i] is None for i in linear):
        return ans, ([None] * len(ans) if prim.multiple else None)
    if prim is _add_p or prim is _sub_p:
        a, b = tangents
        if b is None:
            return ans, _widen(a, ans)
        if a is None:
            return ans, _widen(b if prim is _add_p else bind(_neg_p, b), ans)
    args = []
    for i, (x, t) in enumerate(zip(primals, tangents)):
        if i not in linear:
            args.append(x)
        elif t is None and prim.elementwise:
            args.append(scalar(0, typeof(x).dtype))  # rank 0 broadcasts
        else:
            args.append(instantiate(t, x))
    out = bind(prim, *args, **params)
    return ans, (list(out) if prim.multiple else _widen(out, ans) if prim.elementwise else out)


def _push_bilinear(prim: Primitive, primals: list[Any], tangents: list[Any],
                   params: dict[str, Any]) -> tuple[Any, Any]:
    ans = bind(prim, *primals, **params)
    total = None
    for i in prim.bilinear_in:
        if tangents[i] is not None:
            args = list(primals)
            args[i] = tangents[i]
            term = bind(prim, *args, **params)
            total = term if total is None else bind(_add_p, total, term)
    return ans, total


def run_jvp(fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any],
            linear: Any = None) -> tuple[list[Any], list[Any]]:
    """`fun` on flat primals and tangents (None for zero): flat results and their tangents."""
    trace = JVPTrace(now.depth + 1, linear)
    with deeper(trace):
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


