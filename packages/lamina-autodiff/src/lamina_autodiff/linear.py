"""Recording and transposing linear programs.

`LinearTrace` records ops on tangents as (prim, args, params, outs, line): linear variables by number, everything else as
the value it is, and the user's line of the op whose tangent it is (None for ops that run at once). Run forwards the record
is a pushforward; walked backwards with the transpose rows it is the pullback.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_ir import Primitive, ShapedArray, Source, UnboundAxisError, config, prims
from lamina_ir.extend import axis_names_of, stack_depth, typed_equation
from lamina_tracing.extend import (EVALUATION, Trace, Tracer, bind, deeper, eager_lines, now, staged_source, typeof,
                                   user_source)

from .checks import outside_of_map
from .counting import counted_axes, gathered, named_axes, reach, whole
from .dependence import reached_results
from .jvp import JVPTrace, instantiate, run_jvp
from .linearity import LINEAR, check_program, not_linear, why_not_linear
from .rows import Split
from .tables import jvp_rules, transpose_rules

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
    """Whether a transpose row's operand is a linear variable: it has `aval`, `shape` and `dtype`, and no value.

    Args:
      x: the operand.
    Returns:
      A truth value.

    >>> from lamina_autodiff.extend import transpose_rules
    >>> from lamina_ir import prims
    >>> from lamina_tracing import lax
    >>> def row(ct, x, y):
    ...     print(is_linear(x), is_linear(y))
    ...     return (lax.mul(ct, y), None) if is_linear(x) else (None, lax.mul(x, ct))
    >>> from lamina_autodiff import linear_transpose
    >>> with transpose_rules.override(prims.mul_p, row):
    ...     linear_transpose(lambda x: lax.mul(x, np.float32(3)), np.float32(1))(np.float32(2))
    True False
    (Array(6., dtype=float32),)
    """
    return type(x) is LinearTracer


class LinearTrace(Trace):
    """Records what is done to linear variables."""

    kept = True

    def __init__(self, level: int) -> None:
        self.level = level
        self.rows: list[tuple[Primitive, Sequence[Any], dict[str, Any], Any, Source | None]] = []
        self.counted = counted_axes()
        self.bound = named_axes() if self.counted else self.counted
        self.count = 0

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        return call.run(*args)

    def end(self) -> None:
        super().end()
        self.rows = []  # the program has them; they name variables, which know their trace: a circle

    def variable(self, aval: ShapedArray) -> LinearTracer:
        number = self.count
        self.count = number + 1
        return LinearTracer(self, aval, number)

    def row(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any], avals: Sequence[ShapedArray]) -> Any:
        """Record an op whose result types are known; it has a tuple of results."""
        if self.counted:
            params, avals = self._typed(prim, args, params, avals)
        outs = tuple([self.variable(a) for a in avals])
        self.rows.append((prim, args, params, outs, _line()))
        return outs

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if prim.subprograms:
            split = _split(self, prim, args, params)
            if split is not None:
                return split
        return self.write(prim, args, params)

    def write(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Record an op as it is."""
        if self.counted:
            params, out = self._typed(prim, args, params)
        elif len(args) == 2:  # without a list: a tenth of recording an op
            a, b = args
            out = prim.infer(a.aval if isinstance(a, Tracer) else typeof(a), b.aval if isinstance(b, Tracer) else typeof(b),
                             **params)
        else:
            out = prim.infer(*[a.aval if isinstance(a, Tracer) else typeof(a) for a in args], **params)
        if prim.multiple:
            outs = tuple([self.variable(a) for a in out])
            self.rows.append((prim, args, params, outs, _line()))
            return outs
        number = self.count
        self.count = number + 1
        result = LinearTracer(self, out, number)
        line = now.source
        if type(line) is not Source:
            line = None if now.trace is EVALUATION and not eager_lines else _line()
        self.rows.append((prim, args, params, result, line))
        return result

    def _typed(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any], outs: Any = None) -> Any:
        avals = [a.aval if isinstance(a, Tracer) else typeof(a) for a in args]
        return typed_equation(prim, avals, params, self.bound, outs)


def _line() -> Source | None:
    """The line of the op whose tangent is recorded; None where nobody will want it."""
    line = staged_source(3)
    return line if isinstance(line, Source) else None


def _split(trace: LinearTrace, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """An op with programs that works on values and, beside them, on linear variables, as in the rule of a `custom_jvp`
    which calls `jvp`: linearized where the variables are zero. What they do not reach is computed, the rest, linear in
    them as it is, recorded. None when they reach all results.
    """
    row = jvp_rules[prim] if prim in jvp_rules else None
    linear = tuple([type(a) is LinearTracer for a in args])
    with stack_depth.roomy():  # to look into programs nested in one another
        reached = None if type(row) is not Split else reached_results(prim, params, linear)
    if reached is None or all(reached):
        return None
    zeros = [instantiate(None, a.aval) if on else a for a, on in zip(args, linear)]
    trace.hand_to(trace.write)  # what the row binds on linear variables is linear
    try:
        outs, tangents = row.linearize(  # type: ignore[union-attr]
            JVPTrace(trace.level, trace), zeros, [a if on else None for a, on in zip(args, linear)], **params)
    finally:
        trace.hand_to(None)
    return tuple([instantiate(t, o) if on else o for o, t, on in zip(outs, tangents, reached)])


class CheckedLinearTrace(LinearTrace):
    """Records a function of which it is not known whether it is linear, and says where it is not.

    Args:
      level: as for every trace.
      name: the function's name.
    """

    def __init__(self, level: int, name: str) -> None:
        super().__init__(level)
        self.name = name

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        source = user_source(2)
        operands = [LINEAR if type(a) is LinearTracer else a for a in args]
        if check_program(self.name, prim, operands, params, source) is None:
            why = why_not_linear(prim, operands)
            if why:
                raise not_linear(self.name, prim, [a.aval if isinstance(a, Tracer) else typeof(a) for a in args], source, why)
        return super().process(prim, args, params)


class LinearProgram:
    """A recorded linear map from `ins` to `outs` (None: a zero result; another value: itself zero-mapped).

    `counted`: the mapped axes over which values that do not differ count once; if there are any, `overs` are those over which
    the results differ.
    """

    def __init__(self, rows: list[Any], count: int, ins: Sequence[LinearTracer], outs: Sequence[Any],
                 counted: frozenset[Any] = frozenset(), overs: Sequence[frozenset[Any]] = ()) -> None:
        self.rows, self.count, self.ins, self.outs = rows, count, ins, outs  # the rows name `count` variables
        self.counted, self.overs = counted, overs

    def needed(self) -> list[Any]:
        """The rows that results depend on, in order."""
        live = bytearray(self.count)
        for o in self.outs:
            if type(o) is LinearTracer:
                live[o.number] = 1
        kept = []
        for row in reversed(self.rows):
            prim, args, _, out, _ = row
            if (any(live[o.number] for o in out) or prim.effectful) if prim.multiple else live[out.number]:
                kept.append(row)
                for a in args:
                    if type(a) is LinearTracer:
                        live[a.number] = 1
        kept.reverse()
        return kept

    def forward(self, tangents: Sequence[Any], replace: Callable[[Any], Any] | None = None) -> list[Any]:
        """Push tangents (one per `ins`) through; None for zero results. `replace` maps the values that `rows` hold, which are
        all needed then."""
        env: list[Any] = [None] * self.count
        for v, t in zip(self.ins, tangents):
            env[v.number] = t
        outer = now.source
        try:
            for prim, args, params, out, line in self.needed() if replace is None else self.rows:
                values = [env[a.number] if type(a) is LinearTracer else a if replace is None else replace(a) for a in args]
                now.source = outer if line is None else line
                result = bind(prim, *values, **params) if "pull" not in params else params["pull"].push(values)
                if prim.multiple:
                    for o, r in zip(out, result):
                        env[o.number] = r
                else:
                    env[out.number] = result
        except UnboundAxisError as e:
            _outside(prim, params, e)
            raise
        finally:
            now.source = outer
        return [env[o.number] if type(o) is LinearTracer else None for o in self.outs]

    def backward(self, cotangents: Sequence[Any], *, free: bool = False, open: Sequence[bool] = ()) -> list[Any]:
        """Pull cotangents (one per result, None for zero) back to `ins`; None for zero.

        Args:
          cotangents: one per result.
          free: give up the record while walking it, so that memory goes down as fast as it can.
          open: for each of `ins`, whether its cotangent may differ over further axes, over which it is then to be summed.
        """
        cts: list[Any] = [None] * self.count
        ct: Any
        if now.axes and counted_axes() != self.counted:  # it was recorded in another way
            with config.replicated_counts_once(self.counted or False):
                return self.backward(cotangents, free=free, open=open)
        for k, (o, ct) in enumerate(zip(self.outs, cotangents)):
            if ct is not None and type(o) is LinearTracer:
                old = cts[o.number]
                if self.counted:
                    cts[o.number] = gathered(old, ct, self.overs[k], o.aval.over, self.counted)
                else:
                    cts[o.number] = ct if old is None else bind(_add_p, old, ct)
        outer = now.source
        try:
            self._walk_back(cts, outer, free)
        finally:
            now.source = outer
        if self.counted:
            return [whole(cts[v.number], on) for v, on in zip(self.ins, open or [False] * len(self.ins))]
        return [cts[v.number] for v in self.ins]

    def _walk_back(self, cts: list[Any], outer: Any, free: bool) -> None:
        """Transpose the rows from the last to the first; `cts` holds the cotangent of each variable."""
        # x* = sum of J' y* over the rows that read x. A variable is bound by one row and read by later ones only, so when the
        # walk comes to the row that binds it its cotangent is whole: it is taken, and let go of. Rows without one pass zeros
        # on: nothing.
        rows = self.rows
        at = len(rows)
        rules = transpose_rules
        counted = self.counted
        ct: Any
        last: Any = None
        while at:
            at -= 1
            prim, args, params, out, line = rows[at]
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
            if line is not last:  # the row's op is whose backward part it is
                last = line
                now.source = outer if line is None else line.backward()
            if counted:
                ct = [whole(c) for c in ct] if prim.multiple else whole(ct)
            try:
                back = rules[prim](ct, *args, **params)
            except UnboundAxisError as e:
                _outside(prim, params, e)
                raise
            if counted:
                for a, b, wide in zip(args, (back,) if len(args) == 1 else back, reach(prim, args, params, out)):
                    if b is not None and type(a) is LinearTracer:
                        cts[a.number] = gathered(cts[a.number], b, wide, a.aval.over, counted)
                continue
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


def _outside(prim: Primitive, params: dict[str, Any], error: UnboundAxisError) -> None:
    """Raise a better error where a row stands outside of the map whose axes it names."""
    better = outside_of_map(axis_names_of(prim, params))
    if better is not None:
        raise better from error


def linearize_flat(fun: Callable[..., Sequence[Any]], primals: Sequence[Any],
                   active: Sequence[bool]) -> tuple[list[Any], LinearProgram]:
    """Run `fun` once: its results, and the linear program from the active tangents to the results' tangents."""
    trace = LinearTrace(now.depth + 1)
    with deeper(trace):
        # The tangents are variables of this trace and the values are not, so `run_jvp` computes f(x) and records f'(x) at
        # once.
        ins = [trace.variable(typeof(p).strong()) if a else None for p, a in zip(primals, active)]
        out, dout = run_jvp(fun, primals, ins, trace)
        return out, LinearProgram(trace.rows, trace.count, [v for v in ins if v is not None], dout, trace.counted,
                                  [typeof(o).over for o in out] if trace.counted else ())


def record_linear(fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str | None = None) -> LinearProgram:
    """The linear program of a function that is linear in all its arguments; with its `name`, it is checked to be."""
    trace = LinearTrace(now.depth + 1) if name is None else CheckedLinearTrace(now.depth + 1, name)
    with deeper(trace):
        ins = [trace.variable(a) for a in avals]
        outs = list(fun(*ins))
        for i, o in enumerate(outs):
            if name is not None and not isinstance(o, Tracer) and np.any(np.asarray(o) != 0):
                raise TypeError(f"linear_transpose: `{name}` is not linear: result {i} is a constant that is not zero, "
                                f"{typeof(o).long()}")
        return LinearProgram(trace.rows, trace.count, ins, outs, trace.counted, [typeof(o).over for o in outs])
