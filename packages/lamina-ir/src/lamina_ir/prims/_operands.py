"""What ops that hold a program share: whether their operands fit it, and the meaning of those that run it once."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..avals import ShapedArray
from ..errors import DTypeError, ShapeError

__all__ = ["check_operands", "run_param"]


def check_operands(where: str, program: Any, avals: Sequence[ShapedArray]) -> None:
    """ShapeError or DTypeError unless `program`, which `where` names, takes operands of these types."""
    wanted = program.jaxpr.invars
    if len(wanted) != len(avals):
        raise ShapeError(f"{where} takes {len(wanted)} operands; got {len(avals)}")
    for i, (v, got) in enumerate(zip(wanted, avals)):
        if v.aval is not got and not v.aval.same_type(got):
            kind = ShapeError if v.aval.shape != got.shape else DTypeError
            raise kind(f"{where} takes {v.aval.long()} as operand {i}; got {got.long()}")


def run_param(name: str) -> dict[str, Any]:
    """The meanings, on one device and on many, of an op whose results are those of the program in param `name`."""
    return dict(numpy=lambda run, *args, **params: run(params[name], args),
                spmd=lambda run, env, args, params: run(params[name], args, env))
