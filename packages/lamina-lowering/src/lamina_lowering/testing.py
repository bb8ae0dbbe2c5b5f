"""Run lowered programs on jaxlib's CPU client and compare primitives with their NumPy implementation, for tests."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, ShapedArray, Var, aval_of, evaluate_primitive
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import canonicalize_results
from lamina_ir.typing import Params, Value

from . import _jaxlib
from ._emit.module import lower
from ._emit.run_on_cpu import run_lowered

__all__ = ["check_collective", "check_lowering", "register_kernels", "run_lowered", "single_eqn_program"]

register_kernels = _jaxlib.register_kernels


def single_eqn_program(prim: Primitive, avals: Sequence[ShapedArray], params: Params) -> ClosedJaxpr:
    """Return the program of a single equation."""
    ins = [Var(a) for a in avals]
    out = prim.infer(*avals, **params)
    outs = [Var(a) for a in (out if prim.multiple else (out,))]
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(prim, ins, outs, params)], outs))


def check_lowering(prim: Primitive, args: Sequence[Value], params: Params) -> None:
    """Compare a compiled primitive with its NumPy implementation on these arguments."""
    avals = [aval_of(a) for a in args]
    arrays = [np.asarray(a, v.dtype) for a, v in zip(args, avals, strict=True)]
    got = run_lowered(lower(single_eqn_program(prim, avals, params)), *arrays)
    wanted = evaluate_primitive(prim, arrays, params)
    pairs = zip(canonicalize_results(prim, got),
                canonicalize_results(prim, wanted if prim.multiple else (wanted,)), strict=True)
    for g, w in pairs:
        assert_close(g, w, what=prim.name)


def check_collective(prim: Primitive, operands: Sequence[Sequence[Any]], params: Params, env: Any) -> None:
    """Compare a compiled collective on every device with its NumPy implementation.

    Args:
      prim: the collective.
      operands: for each operand one array per device.
      params: the equation's params.
      env: the `AxisEnv` of the enclosing axes.
    """
    lowered = lower(single_eqn_program(prim, [aval_of(xs[0]) for xs in operands], params),
                    axis_env=list(zip(env.names, env.sizes, strict=True)))
    got = run_lowered(lowered, *operands)
    wanted = prim.numpy(env, *operands, **params)
    for k, per_device in enumerate(wanted if prim.multiple else (wanted,)):
        for d, w in enumerate(per_device):
            assert_close(got[d][k], w, what=f"{prim.name} on device {d}")
