"""Derivatives of whole programs, for primitives with subprograms: JVP, linearization in two parts, transpose.

Each derived program is cached on the program it comes from, so repeated calls neither trace nor compile again.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, prims
from lamina_ir.extend import wrap_in_checkpoint, exceeds_residual_budget
from lamina_ir.typing import AxisName, Value
from lamina_tracing.extend import StagingTrace, Tracer, bind, new_trace_level, eval_jaxpr, trace_state, stage
from lamina_ir.layers import former_parameters

from .jvp_trace import instantiate, run_jvp
from .linearize import LinearProgram, LinearTrace, LinearTracer, linearize_flat
from .rule_kinds import drop_zeros, expand_by_mask
from .._typing import Tangent

__all__ = ["LinearizedProgram", "Pushforward", "TransposedProgram", "jvp_program", "linearize_program", "pull_back",
           "transpose_program"]


class Pushforward(NamedTuple):
    """The JVP of a program.

    Attributes:
      program: (arguments, tangents of the active ones) -> (results, tangents of those that have one).
      active_out: for each result, whether it has a tangent.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) }")
    >>> jvp_program(closed, (False, True)).active_out
    (True,)
    """

    program: ClosedJaxpr
    active_out: tuple[bool, ...]


class LinearizedProgram(NamedTuple):
    """A program split into a known part, which runs now, and a linear part for later.

    Attributes:
      known: arguments -> (results, residuals).
      linear: (residuals, tangents of the active arguments) -> tangents of the results that have one.
      active_out: for each result, whether it has a tangent.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) }")
    >>> two = linearize_program(closed, (True, True))
    >>> [e.primitive.name for e in two.known.jaxpr.eqns], [e.primitive.name for e in two.linear.jaxpr.eqns]
    (['sin', 'cos', 'mul'], ['mul', 'mul', 'mul', 'add'])
    """

    known: ClosedJaxpr
    linear: ClosedJaxpr
    active_out: tuple[bool, ...]


class TransposedProgram(NamedTuple):
    """The transpose of a linear program.

    Attributes:
      program: (values of the non-linear arguments, nonzero cotangents) -> cotangents of the linear arguments for which
        `active_out` is true.
      active_out: for each linear argument, whether it has a cotangent.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) }")
    >>> transpose_program(closed, (False, True), (True,)).active_out
    (True,)
    """

    program: ClosedJaxpr
    active_out: tuple[bool, ...]


def _instantiate_required(tangents: Sequence[Tangent], primals: Sequence[Value],
                          required: Sequence[bool]) -> list[Tangent]:
    """Make the required tangents arrays: zeros if they are None."""
    if not required:
        return list(tangents)
    return [instantiate(t, p) if r else t for t, p, r in zip(tangents, primals, required)]


def jvp_program(closed: ClosedJaxpr, active: tuple[bool, ...], required: tuple[bool, ...] = ()) -> Pushforward:
    """Return the JVP of a program with respect to some of its arguments; cached on the program.

    Args:
      closed: the program.
      active: for each argument, whether it has a tangent.
      required: for each result, whether it must have a tangent, even if it is zero; default: none.
    Returns:
      A program and which results have a tangent: see `Pushforward`.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) }")
    >>> print(jvp_program(closed, (False, True)).program)
    { lambda ; a:f32[] b:f32[] c:f32[]. let
        d:f32[] = sin a
        e:f32[] = mul d b
        f:f32[] = mul d c
      in (e, f) }
    """
    def make() -> Pushforward:
        avals = closed.in_avals
        n = len(avals)
        flags: list[bool] = []

        def run(*args: Value) -> list[Value]:
            out, dout = run_jvp(lambda *xs: eval_jaxpr(closed, xs), args[:n], expand_by_mask(args[n:], active))
            dout = _instantiate_required(dout, out, required)
            flags[:] = [t is not None for t in dout]
            return out + drop_zeros(dout)

        program, outer = stage(run, avals + [a.strip_weak_type() for a, on in zip(avals, active) if on])
        assert not outer
        return Pushforward(program, tuple(flags))

    return closed.memo_with_settings(("jvp", active, required), make)


def linearize_program(closed: ClosedJaxpr, active: tuple[bool, ...],
                      required: tuple[bool, ...] = ()) -> LinearizedProgram:
    """Split a program into a part that is computed now and a linear program for later; cached on the program.

    Args:
      closed: the program.
      active: for each argument, whether it has a tangent.
      required: for each result, whether it must have a tangent, even if it is zero; default: none.
    Returns:
      Both programs, and which results have a tangent: see `LinearizedProgram`.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) }")
    >>> two = linearize_program(closed, (False, True))
    >>> len(two.known.out_avals), len(two.linear.in_avals)  # the residual is sin(a)
    (2, 2)
    """
    def split(closed: ClosedJaxpr) -> LinearizedProgram:
        avals = closed.in_avals
        info: dict[str, Any] = {}

        def run(*args: Value) -> list[Value]:
            out, linear = linearize_flat(lambda *xs: eval_jaxpr(closed, xs), args, active)
            # Residuals are the traced operands of the linear equations, keyed by `id` because several equations may
            # share one. Dead equations are dropped first, so that they keep no residuals. Constants stay in their
            # equations.
            linear.eqns = linear.live_eqns()
            trace = trace_state.trace
            assert isinstance(trace, StagingTrace)
            platform = {e.outvars[0]: e.params for e in trace.eqns if e.primitive is prims.platform_index_p}
            residuals: dict[int, Value] = {}
            platforms: dict[int, Any] = {}  # platform indices: bound again in the linear program, not saved as residuals
            for _, operands, *_ in linear.eqns:
                for x in operands:
                    if isinstance(x, Tracer) and type(x) is not LinearTracer:
                        params = platform.get(x._var)  # type: ignore[attr-defined]
                        if params is None:
                            residuals[id(x)] = x
                        else:
                            platforms[id(x)] = x, params
            info.update(linear=linear, residuals=list(residuals.values()), platforms=platforms)
            return [*out, *residuals.values()]

        known, outer = stage(run, avals)
        assert not outer
        linear, residuals, platforms, outs = info["linear"], info["residuals"], info["platforms"], closed.out_avals
        # The linear program replays the recorded equations on new variables for residuals and tangents.
        numbers = {id(r): i for i, r in enumerate(residuals)}
        flags = tuple([type(o) is LinearTracer or r for o, r in zip(linear.outs, required or [False] * len(linear.outs))])
        n = len(residuals)

        def push(*args: Value) -> list[Value]:
            def replace(x: Value) -> Value:
                if id(x) in platforms:
                    return bind(prims.platform_index_p, **platforms[id(x)][1])
                i = numbers.get(id(x))
                return x if i is None else args[i]
            return [instantiate(t, a) for t, on, a in zip(linear.forward(args[n:], replace), flags, outs) if on]

        program, outer = stage(push, [r.aval for r in residuals] + [v.aval for v in linear.ins])
        assert not outer
        return LinearizedProgram(known, program, flags)

    def make() -> LinearizedProgram:
        found = split(closed)
        count = len(found.known.out_avals) - len(closed.out_avals)  # number of residuals
        # Nested calls of one program can need exponentially many residuals: then recompute instead of saving.
        return split(wrap_in_checkpoint(closed, "again")) if exceeds_residual_budget(closed, count) else found

    return closed.memo_with_settings(("linearize", active, required), make)


def pull_back(closed: ClosedJaxpr, linear: Sequence[bool], values: Sequence[Value], cts: Sequence[Tangent],
              out_varying_axes: Sequence[frozenset[AxisName]] = (),
              allow_unreduced: Sequence[bool] = ()) -> list[Tangent]:
    """Return the cotangents of the arguments marked linear (None for zero).

    Args:
      closed: the program.
      linear: for each argument, whether it is linear.
      values: the other arguments.
      cts: one cotangent per result, None for zero.
      out_varying_axes: for each result, the axes over which the result of the equation varies.
      allow_unreduced: for each linear argument, whether its cotangent may keep axes over which the caller sums.
    """
    rest = iter(values)
    trace = LinearTrace(trace_state.depth + 1)
    with new_trace_level(trace):
        ins = [trace.variable(a) if on else next(rest) for a, on in zip(closed.in_avals, linear)]
        outs = eval_jaxpr(closed, ins)
        wide = [a.varying_axes for a in closed.out_avals]
        if out_varying_axes:  # the result of another branch or iteration may vary over more axes
            wide = [a | b for a, b in zip(wide, out_varying_axes)]
        program = LinearProgram(trace.eqns, trace.count, [v for v, on in zip(ins, linear) if on], outs, trace.count_once,
                                wide)
    return program.backward(cts, allow_unreduced=allow_unreduced)


@former_parameters(open="allow_unreduced")
def transpose_program(closed: ClosedJaxpr, linear: tuple[bool, ...], active: tuple[bool, ...],
                      required: tuple[bool, ...] = (), out_varying_axes: tuple[frozenset[AxisName], ...] = (),
                      allow_unreduced: bool = False) -> TransposedProgram:
    """Transpose a program that is linear in some of its arguments; cached on the program.

    Args:
      closed: the program.
      linear: for each argument, whether the program is linear in it.
      active: for each result, whether it has a cotangent.
      required: for each linear argument, whether it must have a cotangent, even if it is zero; default: none.
      out_varying_axes: for each result, the mapped axes over which the result of the equation varies; default: those of
        its type.
      allow_unreduced: whether the cotangent of a replicated value that counts once may be returned unreduced; its type then
        names
        axes over which the caller sums.
    Returns:
      A program, and which linear arguments have a cotangent: see `TransposedProgram`.
    Raises:
      MissingRuleError: a primitive on linear values has no transpose rule.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) }")
    >>> print(transpose_program(closed, (False, True), (True,)).program)
    { lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul b c in (d,) }
    """
    def make() -> TransposedProgram:
        avals = closed.in_avals
        known = [a for a, on in zip(avals, linear) if not on]
        flags: list[bool] = []

        def run(*args: Value) -> list[Value]:
            # Staged with the known values as arguments, so that one transpose serves every call of the program.
            back = pull_back(closed, linear, args[:len(known)], expand_by_mask(args[len(known):], active), out_varying_axes,
                             [allow_unreduced] * sum(linear))
            back = _instantiate_required(back, [a for a, on in zip(avals, linear) if on], required)
            flags[:] = [b is not None for b in back]
            return drop_zeros(back)

        ct_avals = [a.strip_weak_type().with_varying_axes(a.varying_axes | o) for a, o, on in zip(
            closed.out_avals, out_varying_axes or [frozenset()] * len(active), active) if on]
        program, outer = stage(run, known + ct_avals)
        assert not outer
        return TransposedProgram(program, tuple(flags))

    return closed.memo_with_settings(("transpose", linear, active, required, out_varying_axes, allow_unreduced), make)


