"""Helpers for primitives that hold a program: check their operands, and run the program once."""
from __future__ import annotations

from collections.abc import Sequence

from .._types.avals import ShapedArray
from ..errors import DTypeError, ShapeError
from .._core.jaxpr import ClosedJaxpr
from ..typing import ParamValue

__all__ = ["check_operands", "run_param"]


def check_operands(where: str, program: ClosedJaxpr, avals: Sequence[ShapedArray]) -> None:
    """Raise ShapeError or DTypeError unless `program`, named `where` in the message, takes operands of these types."""
    wanted = program.jaxpr.invars
    if len(wanted) != len(avals):
        raise ShapeError(f"{where} takes {len(wanted)} operands; got {len(avals)}")
    for i, (v, got) in enumerate(zip(wanted, avals)):
        if v.aval is not got and not v.aval.same_type(got):
            kind = ShapeError if v.aval.shape != got.shape else DTypeError
            raise kind(f"{where} takes {v.aval.str_long()} as operand {i}; got {got.str_long()}")


def run_param(name: str) -> dict[str, ParamValue]:
    """Return the implementations, for one device and for many, of a primitive that runs the program in param `name`."""
    return dict(numpy=lambda run, *args, **params: run(params[name], args),
                spmd=lambda run, env, args, params: run(params[name], args, env))
