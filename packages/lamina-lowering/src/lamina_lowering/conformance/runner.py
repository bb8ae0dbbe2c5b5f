"""Run lowered programs of any format, and make programs of a few equations."""
from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, Var, evaluate, shaped
from lamina_ir.testing import assert_close

from lamina_lowering import lower

__all__ = ["V", "check_run", "call_of", "chain", "program_of", "run"]

V = shaped((3,), np.dtype("float32"))


def run(lowered: Any, program: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a lowered program and return its results.

    If the object has a method `run`, as that of the default implementation on a CPU has, call it. Otherwise a loaded
    runtime that accepts the format runs it; the runtime lowers the program again.

    Args:
      lowered: the result of `lower`.
      program: the program that was lowered.
      args: one array per argument of the program.
    """
    if callable(getattr(lowered, "run", None)):
        return list(lowered.run(list(args)))
    runtime = sys.modules.get("lamina_runtime")
    if runtime is None or lowered.format not in runtime.accepts:
        what = f"lamina_runtime accepts {sorted(runtime.accepts)}" if runtime else "no runtime is loaded"
        pytest.fail(f"lowering: a program lowered to {lowered.format!r} cannot be run: the object has no method `run(args)`, "
                    f"and {what}. Give it that method, or load a runtime that accepts the format: "
                    "LAMINA_LAYERS=lowering=...,runtime=... python -m lamina_lowering.conformance -p lamina_runtime")
    evaluator = sys.modules["lamina_tracing"].slots.evaluator
    return [np.asarray(x) for x in evaluator.program(program, list(args))]


def check_run(program: ClosedJaxpr, *args: Any, slack: float = 1.0, **options: Any) -> Any:
    """Lower and run the program, compare with the NumPy evaluator, and return the lowered object."""
    lowered = lower(program, **options)
    got, wanted = run(lowered, program, args), evaluate(program, *args)
    assert len(got) == len(wanted), f"{len(got)} results, expected {len(wanted)}"
    for k, (a, b) in enumerate(zip(got, wanted)):
        assert_close(a, b, slack=slack, what=f"result {k}")
    return lowered


def program_of(uses: Sequence[tuple[Primitive, Sequence[Any], dict[str, Any]]]) -> ClosedJaxpr:
    """Return a program of one equation per use `(primitive, operand types, params)`, each with its own arguments."""
    ins, outs, eqns = [], [], []
    for prim, avals, params in uses:
        operands = [Var(a) for a in avals]
        types = prim.infer(*avals, **params)
        results = [Var(a) for a in (types if prim.multiple else (types,))]
        eqns.append(Eqn(prim, operands, results, params))
        ins += operands
        outs += results
    return ClosedJaxpr(Jaxpr([], ins, eqns, outs))


def chain(*ops: Primitive, aval: Any = V) -> ClosedJaxpr:
    """Return a program that applies primitives of one operand one after the other."""
    v = x = Var(aval)
    eqns = []
    for op in ops:
        w = Var(aval)
        eqns.append(Eqn(op, [v], [w], {}))
        v = w
    return ClosedJaxpr(Jaxpr([], [x], eqns, [v]))


def call_of(program: ClosedJaxpr, args: Sequence[Any], call: Primitive, **params: Any) -> tuple[Eqn, list[Var]]:
    """Return (equation that calls a program, its results)."""
    outs = [Var(a) for a in program.out_avals]
    return Eqn(call, args, outs, {**call.defaults, "call_jaxpr": program, **params}), outs
