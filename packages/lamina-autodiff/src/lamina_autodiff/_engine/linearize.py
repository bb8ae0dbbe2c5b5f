"""Record and transpose linear programs.

`LinearTrace` records each operation on tangents as an equation (prim, args, params, outs, line). Linear variables are
numbered `LinearTracer`s; other operands are stored as values. `line` is the user's line of the primitive whose tangent
is computed (None if it runs on concrete values). Evaluating the equations in order gives the pushforward. Walking them
backwards with the transpose rules gives the pullback.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from typing_extensions import override
from lamina_ir import Primitive, ShapedArray, Source, UnboundAxisError, config, prims
from lamina_ir.extend import find_axis_names, stack_depth, infer_equation_types
from lamina_ir.typing import AxisName, Params, Value
from lamina_tracing.extend import (
    bind, CustomCall, eager_source_requests, EVALUATION, find_user_source, get_equation_source, new_trace_level,
    Trace, trace_state, Tracer, typeof)

from .arg_checks import unbound_axes_error
from .replicated_cotangents import (get_count_once_axes, accumulate_cotangent, get_named_axes, find_unreduced_axes,
                                    reduce_cotangent)
from .dependence import find_dependent_eqn_results
from .jvp_trace import JVPTrace, instantiate, run_jvp
from .check_linear import LINEAR, check_regions_linear, not_linear_error, explain_nonlinearity
from .rule_kinds import LinearizeRule
from .rule_tables import jvp_rules, transpose_rules
from .._typing import EquationSource, LinearEqn, Outputs, Tangent

__all__ = ["LinearProgram", "LinearTrace", "LinearTracer", "is_linear", "linearize_flat", "record_linear"]

_add_p = prims.add_p


class LinearTracer(Tracer):
    """A variable of a linear program; transpose rules get it as the placeholder of a linear operand."""

    __slots__ = ("number",)

    def __init__(self, trace: LinearTrace, aval: ShapedArray, number: int) -> None:
        self._trace = trace
        self.aval = aval
        self.number = number


def is_linear(x: Value) -> bool:
    """Return whether an operand of a transpose rule is a linear variable.

    A linear variable has `aval`, `shape` and `dtype`, but no value.

    Args:
      x: the operand.
    Returns:
      A bool.

    >>> from lamina_autodiff.extend import transpose_rules
    >>> from lamina_ir import prims
    >>> from lamina_tracing import lax
    >>> def rule(ct, x, y):
    ...     print(is_linear(x), is_linear(y))
    ...     return (lax.mul(ct, y), None) if is_linear(x) else (None, lax.mul(x, ct))
    >>> from lamina_autodiff import linear_transpose
    >>> with transpose_rules.override(prims.mul_p, rule):
    ...     linear_transpose(lambda x: lax.mul(x, np.float32(3)), np.float32(1))(np.float32(2))
    True False
    (Array(6., dtype=float32),)
    """
    return type(x) is LinearTracer


class LinearTrace(Trace):
    """Record the operations on linear variables as equations."""

    outlives_transformation = True

    def __init__(self, level: int) -> None:
        self.level = level
        self.eqns: list[LinearEqn] = []
        self.count_once = get_count_once_axes()  # axes over which a replicated value counts once
        # Needed only to infer varying axes, which matter only if a replicated value counts once.
        self.bound_axes = get_named_axes() if self.count_once else self.count_once
        self.count = 0

    @override
    def process_custom_call(self, call: CustomCall, args: Sequence[Value]) -> list[Value]:
        return call.run(*args)

    @override
    def end(self) -> None:
        super().end()
        self.eqns = []  # the LinearProgram holds them; equations -> variables -> trace -> equations would be a reference cycle

    def variable(self, aval: ShapedArray) -> LinearTracer:
        number = self.count
        self.count = number + 1
        return LinearTracer(self, aval, number)

    def record_typed(self, prim: Primitive, args: Sequence[Value], params: Params,
                     avals: Sequence[ShapedArray]) -> tuple[LinearTracer, ...]:
        """Record an equation with known result types; return a tuple of results."""
        if self.count_once:
            params, avals = self._infer_types(prim, args, params, avals)
        outs = tuple([self.variable(a) for a in avals])
        self.eqns.append((prim, args, params, outs, _user_line()))
        return outs

    @override
    def process(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        if prim.subprograms:
            results = _record_linear_part(self, prim, args, params)
            if results is not None:
                return results
        return self.record(prim, args, params)

    def record(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        """Record an equation."""
        if self.count_once:
            params, out = self._infer_types(prim, args, params)
        elif len(args) == 2:  # unrolled: building the list costs a tenth of recording an equation
            a, b = args
            out = prim.infer(a.aval if isinstance(a, Tracer) else typeof(a), b.aval if isinstance(b, Tracer) else typeof(b),
                             **params)
        else:
            out = prim.infer(*[a.aval if isinstance(a, Tracer) else typeof(a) for a in args], **params)
        if prim.multiple:
            outs = tuple([self.variable(a) for a in out])
            self.eqns.append((prim, args, params, outs, _user_line()))
            return outs
        number = self.count
        self.count = number + 1
        result = LinearTracer(self, out, number)
        line = trace_state.source
        # `_user_line`, inlined for its two commonest cases: this runs for every tangent of an eager `grad`.
        if type(line) is not Source:
            line = None if trace_state.trace is EVALUATION and not eager_source_requests else _user_line()
        self.eqns.append((prim, args, params, result, line))
        return result

    def _infer_types(self, prim: Primitive, args: Sequence[Value], params: Params,
               outs: Outputs = None) -> tuple[Params, Outputs]:
        avals = [a.aval if isinstance(a, Tracer) else typeof(a) for a in args]
        return infer_equation_types(prim, avals, params, self.bound_axes, outs)


def _user_line() -> Source | None:
    """Return the user's line of the primitive whose tangent is recorded; None if the line is not needed."""
    line = get_equation_source(3)
    return line if isinstance(line, Source) else None


def _record_linear_part(trace: LinearTrace, prim: Primitive, args: Sequence[Value],
                        params: Params) -> tuple[Value, ...] | None:
    """Compute the results of a primitive with subprograms that do not depend on linear variables; record the others.

    Such a mix occurs if the rule of a `custom_jvp` calls `jvp` itself: one call then computes primals and tangents.
    The call is linearized at zero linear variables: it is linear in them, so its linearization is the linear part
    itself. Returns None if all results depend on linear variables.
    """
    rule = jvp_rules[prim] if prim in jvp_rules else None
    linear = tuple([type(a) is LinearTracer for a in args])
    with stack_depth.with_recursion_limit():  # nested subprograms are visited recursively
        reached = None if type(rule) is not LinearizeRule else find_dependent_eqn_results(prim, params, linear)
    if reached is None or all(reached):
        return None
    # The rule computes f(x) and its tangent. For a linear f the tangent is f itself at the linear variables, and the
    # part that does not depend on them is f at zero.
    zeros = [instantiate(None, a.aval) if on else a for a, on in zip(args, linear)]
    trace.set_handler(trace.record)  # what the rule binds on linear variables is linear: record it without another split
    try:
        outs, tangents = rule.linearize(  # type: ignore[union-attr]
            JVPTrace(trace.level, trace), zeros, [a if on else None for a, on in zip(args, linear)], **params)
    finally:
        trace.set_handler(None)
    return tuple([instantiate(t, o) if on else o for o, t, on in zip(outs, tangents, reached)])


class CheckedLinearTrace(LinearTrace):
    """Record a function and raise an error at its first nonlinear operation.

    Args:
      level: level of the trace.
      name: the function's name, for error messages.
    """

    def __init__(self, level: int, name: str) -> None:
        super().__init__(level)
        self.name = name

    @override
    def process(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        source = find_user_source(2)
        operands = [LINEAR if type(a) is LinearTracer else a for a in args]
        if check_regions_linear(self.name, prim, operands, params, source) is None:
            why = explain_nonlinearity(prim, operands)
            if why:
                raise not_linear_error(self.name, prim, [a.aval if isinstance(a, Tracer) else typeof(a) for a in args],
                                       source, why)
        return super().process(prim, args, params)


class LinearProgram:
    """A recorded linear map from `ins` to `outs`. An output that is None, or not a linear variable, has a zero tangent.

    `count_once`: the mapped axes over which a replicated value counts once (see `engine.replicated_cotangents`). If
    there are any, `out_axes` holds for each output the axes over which the primal result varies.
    """

    def __init__(self, eqns: list[LinearEqn], count: int, ins: Sequence[LinearTracer], outs: Sequence[Tangent],
                 count_once: frozenset[AxisName] = frozenset(), out_axes: Sequence[frozenset[AxisName]] = ()) -> None:
        self.eqns, self.count, self.ins, self.outs = eqns, count, ins, outs  # the equations use `count` variables
        self.count_once, self.out_axes = count_once, out_axes

    def live_eqns(self) -> list[LinearEqn]:
        """Return the equations that results depend on, and effectful ones, in order."""
        # Indexed by number: tracers raise on hashing, and lists by number are faster than dicts.
        live = bytearray(self.count)
        for o in self.outs:
            if type(o) is LinearTracer:
                live[o.number] = 1
        found = []
        for eqn in reversed(self.eqns):
            prim, args, _, out, _ = eqn
            if (any(live[o.number] for o in out) or prim.effectful) if prim.multiple else live[out.number]:
                found.append(eqn)
                for a in args:
                    if type(a) is LinearTracer:
                        live[a.number] = 1
        found.reverse()
        return found

    def forward(self, tangents: Sequence[Tangent], replace: Callable[[Value], Value] | None = None) -> list[Tangent]:
        """Push tangents (one per `ins`) forward; return None for zero results.

        `replace` maps the non-linear operands stored in the equations. If it is given, the equations are known to be
        live.
        """
        env: list[Tangent] = [None] * self.count
        for v, t in zip(self.ins, tangents):
            env[v.number] = t
        outer = trace_state.source
        try:
            for prim, args, params, out, line in self.live_eqns() if replace is None else self.eqns:
                values = [env[a.number] if type(a) is LinearTracer else a if replace is None else replace(a) for a in args]
                trace_state.source = outer if line is None else line
                result = bind(prim, *values, **params) if "pull" not in params else params["pull"].push(values)
                if prim.multiple:
                    for o, r in zip(out, result):
                        env[o.number] = r
                else:
                    env[out.number] = result
        except UnboundAxisError as e:
            _raise_unbound_axis(prim, params, e)
            raise
        finally:
            trace_state.source = outer
        return [env[o.number] if type(o) is LinearTracer else None for o in self.outs]

    def backward(self, cotangents: Sequence[Tangent], *, free: bool = False,
                 allow_unreduced: Sequence[bool] = ()) -> list[Tangent]:
        """Pull cotangents (one per result, None for zero) back to `ins`; return None for zero.

        Args:
          cotangents: one per result.
          free: drop each equation once it is transposed, so that residuals are freed early. The program cannot be used
            again.
          allow_unreduced: for each of `ins`, whether its cotangent may still vary over further axes. The caller then
            sums over them.
        """
        cts: list[Tangent] = [None] * self.count
        ct: Tangent
        if trace_state.axes and get_count_once_axes() != self.count_once:  # recorded under another setting: use that one
            with config.replicated_counts_once(self.count_once or False):
                return self.backward(cotangents, free=free, allow_unreduced=allow_unreduced)
        for k, (o, ct) in enumerate(zip(self.outs, cotangents)):
            if ct is not None and type(o) is LinearTracer:
                old = cts[o.number]
                if self.count_once:
                    cts[o.number] = accumulate_cotangent(old, ct, self.out_axes[k], o.aval.varying_axes, self.count_once)
                else:
                    cts[o.number] = ct if old is None else bind(_add_p, old, ct)
        outer = trace_state.source
        try:
            self._walk_back(cts, outer, free)
        finally:
            trace_state.source = outer
        if self.count_once:
            return [reduce_cotangent(cts[v.number], on) for v, on in zip(self.ins, allow_unreduced or [False] * len(self.ins))]
        return [cts[v.number] for v in self.ins]

    def _walk_back(self, cts: list[Tangent], outer: EquationSource, free: bool) -> None:
        """Transpose the equations from the last to the first; `cts` holds the cotangent of each variable."""
        # The cotangent of x is the sum of J^T y* over the equations y = J x that read x. One equation binds a variable
        # and only later ones read it. So at the binding equation the cotangent is complete: it is consumed and its
        # memory freed. An equation without a cotangent is skipped: it would contribute zeros.
        eqns = self.eqns
        at = len(eqns)
        rules = transpose_rules
        count_once = self.count_once
        ct: Outputs
        last: Source | None = None
        while at:
            at -= 1
            prim, args, params, out, line = eqns[at]
            # The equation holds the residuals, so dropping it frees them as soon as its transpose has run.
            if free:
                eqns.pop()
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
            if line is not last:  # the bound transposes get the line of the primitive whose backward part they are
                last = line
                trace_state.source = outer if line is None else line.backward()
            if count_once:
                # All uses have contributed, so the sum over members is due now, once for all of them.
                ct = [reduce_cotangent(c) for c in ct] if prim.multiple else reduce_cotangent(ct)
            try:
                back = rules[prim](ct, *args, **params)
            except UnboundAxisError as e:
                _raise_unbound_axis(prim, params, e)
                raise
            if count_once:
                for a, b, wide in zip(args, (back,) if len(args) == 1 else back, find_unreduced_axes(prim, args, params, out)):
                    if b is not None and type(a) is LinearTracer:
                        cts[a.number] = accumulate_cotangent(cts[a.number], b, wide, a.aval.varying_axes, count_once)
                continue
            if len(args) == 1:
                # The single operand must be linear, so no test is needed; this is the commonest case.
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


def _raise_unbound_axis(prim: Primitive, params: Params, error: UnboundAxisError) -> None:
    """Raise a clearer error if an equation runs outside the map whose axes it names."""
    better = unbound_axes_error(find_axis_names(prim, params))
    if better is not None:
        raise better from error


def linearize_flat(fun: Callable[..., Sequence[Value]], primals: Sequence[Value],
                   active: Sequence[bool]) -> tuple[list[Value], LinearProgram]:
    """Run `fun` once; return its results and the linear program from active tangents to the tangents of the results."""
    trace = LinearTrace(trace_state.depth + 1)
    with new_trace_level(trace):
        # Only the tangents are variables of this trace. So one run of `run_jvp` computes f(x) and records the Jacobian
        # f'(x).
        ins = [trace.variable(typeof(p).strip_weak_type()) if a else None for p, a in zip(primals, active)]
        out, dout = run_jvp(fun, primals, ins, trace)
        return out, LinearProgram(trace.eqns, trace.count, [v for v in ins if v is not None], dout, trace.count_once,
                                  [typeof(o).varying_axes for o in out] if trace.count_once else ())


def record_linear(fun: Callable[..., Sequence[Value]], avals: Sequence[ShapedArray],
                  name: str | None = None) -> LinearProgram:
    """Record a function that is linear in all its arguments; with `name`, check the linearity and name it in errors."""
    trace = LinearTrace(trace_state.depth + 1) if name is None else CheckedLinearTrace(trace_state.depth + 1, name)
    with new_trace_level(trace):
        ins = [trace.variable(a) for a in avals]
        outs = list(fun(*ins))
        for i, o in enumerate(outs):
            if name is not None and not isinstance(o, Tracer) and np.any(np.asarray(o) != 0):
                raise TypeError(f"linear_transpose: `{name}` is not linear: result {i} is a constant that is not zero, "
                                f"{typeof(o).str_long()}")
        return LinearProgram(trace.eqns, trace.count, ins, outs, trace.count_once, [typeof(o).varying_axes for o in outs])
