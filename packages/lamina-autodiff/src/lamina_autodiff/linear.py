"""Recording and transposing linear programs.

`LinearTrace` records ops on tangents as (prim, args, params, outs): linear variables by number, everything else as the
value it is. Run forwards the record is a pushforward; walked backwards with the transpose rows it is the pullback.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import prims
from lamina_ir.avals import ShapedArray
from lamina_ir.primitive import Primitive
from lamina_tracing.extend import Trace, Tracer, bind, deeper, now, typeof

from .jvp import run_jvp
from .tables import transpose_rules

__all__ = ["LinearProgram", "LinearTrace", "LinearTracer", "is_linear", "linearize_flat", "record_linear"]

_add_p = prims.add_p


class LinearTracer(Tracer):
    """A variable of a linear program; in transpose rows the placeholder for a linear operand."""

    __slots__ = ("number",)

    def __init__(self, trace: LinearTrace, aval: ShapedArray, number: int) -> None:
        self._trace = trace
        self.aval = aval
        self.number = number


def is_linear(x: Any) -> bool:
    """Whether a transpose row's operand is a linear variable (it has `aval`, `shape`, `dtype`, and no value)."""
    return type(x) is LinearTracer


class LinearTrace(Trace):
    """Records what is done to linear variables."""

    def __init__(self, level: int) -> None:
        self.level = level
        self.rows: list[tuple[Primitive, Sequence[Any], dict[str, Any], Any]] = []
        self.count = 0
        self.process = self._record

    def variable(self, aval: ShapedArray) -> LinearTracer:
        number = self.count
        self.count = number + 1
        return LinearTracer(self, aval, number)

    def _record(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        out = prim.infer(*[a.aval if isinstance(a, Tracer) else typeof(a) for a in args], **params)
        if prim.multiple:
            outs = tuple([self.variable(a) for a in out])
            self.rows.append((prim, args, params, outs))
            return outs
        result = self.variable(out)
        self.rows.append((prim, args, params, result))
        return result


class LinearProgram:
    """A recorded linear map from `ins` to `outs` (None: a zero result; another value: itself zero-mapped)."""

    def __init__(self, trace: LinearTrace, ins: Sequence[LinearTracer], outs: Sequence[Any]) -> None:
        self.rows = trace.rows
        self.count = trace.count
        self.ins = ins
        self.outs = outs

    def needed(self) -> list[Any]:
        """The rows that results depend on, in order."""
        live = bytearray(self.count)
        for o in self.outs:
            if type(o) is LinearTracer:
                live[o.number] = 1
        kept = []
        for row in reversed(self.rows):
            prim, args, _, out = row
            if any(live[o.number] for o in out) if prim.multiple else live[out.number]:
                kept.append(row)
                for a in args:
                    if type(a) is LinearTracer:
                        live[a.number] = 1
        kept.reverse()
        return kept

    def forward(self, tangents: Sequence[Any], replace: Callable[[Any], Any] | None = None) -> list[Any]:
        """Push tangents (one per `ins`) through; None for zero results. `replace` maps the values held."""
        env: list[Any] = [None] * self.count
        for v, t in zip(self.ins, tangents):
            env[v.number] = t
        for prim, args, params, out in self.needed():
            values = [env[a.number] if type(a) is LinearTracer else a if replace is None else replace(a) for a in args]
            result = bind(prim, *values, **params)
            if prim.multiple:
                for o, r in zip(out, result):
                    env[o.number] = r
            else:
                env[out.number] = result
        return [env[o.number] if type(o) is LinearTracer else None for o in self.outs]

    def backward(self, cotangents: Sequence[Any], *, free: bool = False) -> list[Any]:
        """Pull cotangents (one per result, None for zero) back to `ins`; None for zero.

        Args:
          cotangents: one per result.
          free: give up the record while walking it, so that memory goes down as fast as it can.
        """
        cts: list[Any] = [None] * self.count
        ct: Any
        for o, ct in zip(self.outs, cotangents):
            if ct is not None and type(o) is LinearTracer:
                old = cts[o.number]
                cts[o.number] = ct if old is None else bind(_add_p, old, ct)
        rows = self.rows
        at = len(rows)
        rules = transpose_rules
        while at:
            at -= 1
            prim, args, params, out = rows[at]
            if free:
                rows.pop()
            if prim.multiple:
                ct = [cts[o.number] for o in out]
                if all(c is None for c in ct):
                    continue
                for o in out:
                    cts[o.number] = None
            else:
                ct = cts[out.number]
                if ct is None:
                    continue
                cts[out.number] = None
            back = rules[prim](ct, *args, **params)
            if len(args) == 1:
                if back is not None:
                    n = args[0].number
                    old = cts[n]
                    cts[n] = back if old is None else bind(_add_p, old, back)
                continue
            for a, b in zip(args, back):
                if b is not None and type(a) is LinearTracer:
                    n = a.number
                    old = cts[n]
                    cts[n] = b if old is None else bind(_add_p, old, b)
        return [cts[v.number] for v in self.ins]


def linearize_flat(fun: Callable[..., Sequence[Any]], primals: Sequence[Any],
                   active: Sequence[bool]) -> tuple[list[Any], LinearProgram]:
    """Run `fun` once: its results, and the linear program from the active tangents to the results' tangents."""
    trace = LinearTrace(now.depth + 1)
    with deeper(trace):
        ins = [trace.variable(typeof(p).strong()) if a else None for p, a in zip(primals, active)]
        out, dout = run_jvp(fun, primals, ins, trace)
        return out, LinearProgram(trace, [v for v in ins if v is not None], dout)


def record_linear(fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray]) -> LinearProgram:
    """The linear program of a function that is linear in all its arguments."""
    trace = LinearTrace(now.depth + 1)
    with deeper(trace):
        ins = [trace.variable(a) for a in avals]
        return LinearProgram(trace, ins, list(fun(*ins)))
