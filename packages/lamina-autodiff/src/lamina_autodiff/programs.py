"""Derivatives of whole programs, for ops that hold one: its jvp, its linearization in two parts, its transpose.

Each derived program is remembered with the program it came from, so repeated calls neither trace nor compile again.
"""
from __future__ import annotations

from typing import Any, NamedTuple

from lamina_ir.program import ClosedJaxpr
from lamina_tracing.extend import Tracer, deeper, eval_jaxpr, now, stage

from .jvp import run_jvp
from .linear import LinearProgram, LinearTrace, LinearTracer, linearize_flat
from .tables import jvp_rules, transpose_rules

__all__ = ["Linearized", "Pushforward", "Transposed", "jvp_program", "linearize_program", "transpose_program"]


class Pushforward(NamedTuple):
    """`program(primals, active tangents) -> (results, tangents of results that have one)`."""

    program: ClosedJaxpr
    active_out: tuple[bool, ...]


class Linearized(NamedTuple):
    """`known(primals) -> (results, residuals)` and `linear(all residuals, active tangents) -> active result tangents`.

    `residual_from[i]` is the number of the argument that already is residual `i`, or None where `known` returns it.
    """

    known: ClosedJaxpr
    linear: ClosedJaxpr
    residual_from: tuple[int | None, ...]
    active_out: tuple[bool, ...]


class Transposed(NamedTuple):
    """`program(values of the operands that are not linear, cotangents that are not zero)` gives the cotangents of the
    linear operands for which `active_out` is true."""

    program: ClosedJaxpr
    active_out: tuple[bool, ...]


def _versions() -> tuple[int, int]:
    return jvp_rules.version, transpose_rules.version


def jvp_program(closed: ClosedJaxpr, active: tuple[bool, ...]) -> Pushforward:
    """The forward derivative of a program with respect to the active arguments."""
    def make() -> Pushforward:
        avals = closed.in_avals
        n = len(avals)
        flags: list[bool] = []

        def run(*args: Any) -> list[Any]:
            rest = iter(args[n:])
            tangents = [next(rest) if a else None for a in active]
            out, dout = run_jvp(lambda *xs: eval_jaxpr(closed, xs), args[:n], tangents)
            flags[:] = [t is not None for t in dout]
            return out + [t for t in dout if t is not None]

        program, outer = stage(run, avals + [a.strong() for a, on in zip(avals, active) if on])
        assert not outer
        return Pushforward(program, tuple(flags))

    return closed.memo(("jvp", active, _versions()), make)


def linearize_program(closed: ClosedJaxpr, active: tuple[bool, ...]) -> Linearized:
    """Split a program at the active arguments into what is computed now and a linear program for later."""
    def make() -> Linearized:
        avals = closed.in_avals
        kept: dict[str, Any] = {}

        def run(*args: Any) -> list[Any]:
            out, linear = linearize_flat(lambda *xs: eval_jaxpr(closed, xs), args, active)
            linear.rows = linear.needed()
            residuals: dict[int, Any] = {}
            for _, operands, _, _ in linear.rows:
                for x in operands:
                    if isinstance(x, Tracer) and type(x) is not LinearTracer:
                        residuals[id(x)] = x
            known = {id(a): i for i, a in enumerate(args)}
            kept.update(linear=linear, residuals=list(residuals.values()),
                        sources=tuple(known.get(i) for i in residuals))
            return out + [r for i, r in residuals.items() if i not in known]

        known, outer = stage(run, avals)
        assert not outer
        linear, residuals = kept["linear"], kept["residuals"]
        numbers = {id(r): i for i, r in enumerate(residuals)}
        flags = tuple(type(o) is LinearTracer for o in linear.outs)
        n = len(residuals)

        def push(*args: Any) -> list[Any]:
            def replace(x: Any) -> Any:
                i = numbers.get(id(x))
                return x if i is None else args[i]
            return [t for t, on in zip(linear.forward(args[n:], replace), flags) if on]

        program, outer = stage(push, [r.aval for r in residuals] + [v.aval for v in linear.ins])
        assert not outer
        return Linearized(known, program, kept["sources"], flags)

    return closed.memo(("linearize", active, _versions()), make)


def transpose_program(closed: ClosedJaxpr, linear: tuple[bool, ...], active: tuple[bool, ...]) -> Transposed:
    """The transpose of a program that is linear in the marked arguments, for cotangents of the active results."""
    def make() -> Transposed:
        avals = closed.in_avals
        held = [a for a, on in zip(avals, linear) if not on]
        flags: list[bool] = []

        def run(*args: Any) -> list[Any]:
            rest = iter(args[:len(held)])
            trace = LinearTrace(now.depth + 1)
            with deeper(trace):
                ins = [trace.variable(a) if on else next(rest) for a, on in zip(avals, linear)]
                outs = eval_jaxpr(closed, ins)
            recorded = LinearProgram(trace, [v for v, on in zip(ins, linear) if on], outs)
            cts = iter(args[len(held):])
            back = recorded.backward([next(cts) if on else None for on in active])
            flags[:] = [b is not None for b in back]
            return [b for b in back if b is not None]

        ct_avals = [a.strong() for a, on in zip(closed.out_avals, active) if on]
        program, outer = stage(run, held + ct_avals)
        assert not outer
        return Transposed(program, tuple(flags))

    return closed.memo(("transpose", linear, active, _versions()), make)


