"""Derivatives of whole programs, for ops that hold one: its jvp, its linearization in two parts, its transpose.

Each derived program is remembered with the program it came from, so repeated calls neither trace nor compile again.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, prims
from lamina_ir.extend import checkpointed, too_many
from lamina_tracing.extend import StagingTrace, Tracer, bind, deeper, eval_jaxpr, now, stage

from .jvp import instantiate, run_jvp
from .linear import LinearProgram, LinearTrace, LinearTracer, linearize_flat
from .rows import nonzero, spread

__all__ = ["Linearized", "Pushforward", "Transposed", "jvp_program", "linearize_program", "pull_back",
           "transpose_program"]


class Pushforward(NamedTuple):
    """The forward derivative of a program.

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


class Linearized(NamedTuple):
    """A program in two parts: what runs now, and its linear part for later.

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


class Transposed(NamedTuple):
    """The transpose of a linear program.

    Attributes:
      program: (values of the arguments that are not linear, cotangents that are not zero) -> cotangents of the linear
        arguments for which `active_out` is true.
      active_out: for each linear argument, whether it has a cotangent.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) }")
    >>> transpose_program(closed, (False, True), (True,)).active_out
    (True,)
    """

    program: ClosedJaxpr
    active_out: tuple[bool, ...]


def _wanted(tangents: Sequence[Any], primals: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
    """Tangents with zeros where they are wanted and not there."""
    if not wanted:
        return list(tangents)
    return [instantiate(t, p) if w else t for t, p, w in zip(tangents, primals, wanted)]


def jvp_program(closed: ClosedJaxpr, active: tuple[bool, ...], wanted: tuple[bool, ...] = ()) -> Pushforward:
    """The forward derivative of a program with respect to some of its arguments; remembered with the program.

    Args:
      closed: the program.
      active: for each argument, whether it has a tangent.
      wanted: for each result, whether it must have a tangent, be it zero; default: none must.
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

        def run(*args: Any) -> list[Any]:
            out, dout = run_jvp(lambda *xs: eval_jaxpr(closed, xs), args[:n], spread(args[n:], active))
            dout = _wanted(dout, out, wanted)
            flags[:] = [t is not None for t in dout]
            return out + nonzero(dout)

        program, outer = stage(run, avals + [a.strong() for a, on in zip(avals, active) if on])
        assert not outer
        return Pushforward(program, tuple(flags))

    return closed.derived(("jvp", active, wanted), make)


def linearize_program(closed: ClosedJaxpr, active: tuple[bool, ...], wanted: tuple[bool, ...] = ()) -> Linearized:
    """A program split into what is computed now and a linear program for later; remembered with the program.

    Args:
      closed: the program.
      active: for each argument, whether it has a tangent.
      wanted: for each result, whether it must have a tangent, be it zero; default: none must.
    Returns:
      Both programs, and which results have a tangent: see `Linearized`.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) }")
    >>> two = linearize_program(closed, (False, True))
    >>> len(two.known.out_avals), len(two.linear.in_avals)  # the residual is sin(a)
    (2, 2)
    """
    def split(closed: ClosedJaxpr) -> Linearized:
        avals = closed.in_avals
        kept: dict[str, Any] = {}

        def run(*args: Any) -> list[Any]:
            out, linear = linearize_flat(lambda *xs: eval_jaxpr(closed, xs), args, active)
            # Residuals are the values of this trace that rows of the linear program hold; by `id`, since many rows may hold
            # one. Rows nobody needs go first, so that nothing is kept for them. Constants stay in the rows that hold them.
            linear.rows = linear.needed()
            trace = now.trace
            assert isinstance(trace, StagingTrace)
            platform = {e.outvars[0]: e.params for e in trace.eqns if e.primitive is prims.platform_index_p}
            residuals: dict[int, Any] = {}
            asked: dict[int, Any] = {}  # in the linear program once more, where lowering knows the answer too
            for _, operands, *_ in linear.rows:
                for x in operands:
                    if isinstance(x, Tracer) and type(x) is not LinearTracer:
                        params = platform.get(x._var)  # type: ignore[attr-defined]
                        if params is None:
                            residuals[id(x)] = x
                        else:
                            asked[id(x)] = x, params
            kept.update(linear=linear, residuals=list(residuals.values()), asked=asked)
            return [*out, *residuals.values()]

        known, outer = stage(run, avals)
        assert not outer
        linear, residuals, asked, outs = kept["linear"], kept["residuals"], kept["asked"], closed.out_avals
        # The second program is the record run once more, on variables of its own for residuals and tangents.
        numbers = {id(r): i for i, r in enumerate(residuals)}
        flags = tuple([type(o) is LinearTracer or w for o, w in zip(linear.outs, wanted or [False] * len(linear.outs))])
        n = len(residuals)

        def push(*args: Any) -> list[Any]:
            def replace(x: Any) -> Any:
                if id(x) in asked:
                    return bind(prims.platform_index_p, **asked[id(x)][1])
                i = numbers.get(id(x))
                return x if i is None else args[i]
            return [instantiate(t, a) for t, on, a in zip(linear.forward(args[n:], replace), flags, outs) if on]

        program, outer = stage(push, [r.aval for r in residuals] + [v.aval for v in linear.ins])
        assert not outer
        return Linearized(known, program, flags)

    def make() -> Linearized:
        found = split(closed)
        count = len(found.known.out_avals) - len(closed.out_avals)
        return split(checkpointed(closed, "again")) if too_many(closed, count) else found

    return closed.derived(("linearize", active, wanted), make)


def pull_back(closed: ClosedJaxpr, linear: Sequence[bool], held: Sequence[Any], cts: Sequence[Any],
              overs: Sequence[Any] = (), open: Sequence[bool] = ()) -> list[Any]:
    """Cotangents of the arguments marked linear (None for zero), from one per result and the values of the others. Those of the
    `open` ones may be left to be summed over members, as their types say."""
    rest = iter(held)
    trace = LinearTrace(now.depth + 1)
    with deeper(trace):
        ins = [trace.variable(a) if on else next(rest) for a, on in zip(closed.in_avals, linear)]
        outs = eval_jaxpr(closed, ins)
        wide = [a.over for a in closed.out_avals]
        if overs:  # the equation's results differ over more: those of another branch, or turn
            wide = [a | b for a, b in zip(wide, overs)]
        program = LinearProgram(trace.rows, trace.count, [v for v, on in zip(ins, linear) if on], outs, trace.counted, wide)
    return program.backward(cts, open=open)


def transpose_program(closed: ClosedJaxpr, linear: tuple[bool, ...], active: tuple[bool, ...],
                      wanted: tuple[bool, ...] = (), overs: tuple[frozenset[Any], ...] = (), open: bool = False) -> Transposed:
    """The transpose of a program that is linear in some of its arguments; remembered with the program.

    Args:
      closed: the program.
      linear: for each argument, whether it is one of them.
      active: for each result, whether it has a cotangent.
      wanted: for each linear argument, whether it must have a cotangent, be it zero; default: none must.
      overs: for each result, mapped axes over which the value that it becomes differs; default: those of its type.
      open: whether, where one value counts once, its cotangent may be left to be summed over members, as its type says.
    Returns:
      A program, and which linear arguments have a cotangent: see `Transposed`.
    Raises:
      MissingRuleError: an op on linear values has no transpose.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (d,) }")
    >>> print(transpose_program(closed, (False, True), (True,)).program)
    { lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul b c in (d,) }
    """
    def make() -> Transposed:
        avals = closed.in_avals
        held = [a for a, on in zip(avals, linear) if not on]
        flags: list[bool] = []

        def run(*args: Any) -> list[Any]:
            back = pull_back(closed, linear, args[:len(held)], spread(args[len(held):], active), overs,
                             [open] * sum(linear))
            back = _wanted(back, [a for a, on in zip(avals, linear) if on], wanted)
            flags[:] = [b is not None for b in back]
            return nonzero(back)

        ct_avals = [a.strong().differing(a.over | o) for a, o, on in zip(
            closed.out_avals, overs or [frozenset()] * len(active), active) if on]
        program, outer = stage(run, held + ct_avals)
        assert not outer
        return Transposed(program, tuple(flags))

    return closed.derived(("transpose", linear, active, wanted, overs, open), make)


