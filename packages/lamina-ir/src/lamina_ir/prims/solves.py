"""`linear_solve`: a linear system given as a program, with the programs that solve it and its transpose.

The operands are constants, then the right-hand sides b. `matvec(consts, x)` applies the system's matrix,
`solve(consts, b)` returns x and then auxiliary results, and `transpose_solve(consts, b)` solves the transposed system,
or is None. Differentiation uses these instead of differentiating the solver.
"""
from __future__ import annotations

from collections.abc import Sequence

from .._types.avals import ShapedArray
from ..errors import ShapeError
from .._core.region_signature import RegionSignature
from .._core.primitive import Primitive
from ._operands import run_param
from .._core.jaxpr import ClosedJaxpr

__all__ = ["linear_solve_p"]


def _linear_solve_infer(*avals: ShapedArray, matvec: ClosedJaxpr, num_aux: int, num_consts: int, solve: ClosedJaxpr,
                        transpose_solve: ClosedJaxpr | None) -> list[ShapedArray]:
    b = avals[num_consts:]
    programs = [("matvec", matvec, 0), ("solve", solve, num_aux)]
    if transpose_solve is not None:
        programs.append(("transpose_solve", transpose_solve, 0))
    for name, program, more in programs:
        ins, outs = program.in_avals, program.out_avals
        if len(ins) != len(avals) or not all(a.same_type(v) for a, v in zip(ins, avals)):
            raise ShapeError(f"linear_solve: {name} must take the operands {_types(avals)}; it takes {_types(ins)}")
        if len(outs) != len(b) + more or not all(a.same_type(v) for a, v in zip(outs, b)):
            raise ShapeError(f"linear_solve: {name} must give results of the types of b, {_types(b)}; it gives "
                             f"{_types(outs)}")
    return list(solve.out_avals)


def _types(avals: Sequence[ShapedArray]) -> str:
    return "(" + ", ".join(a.str_long() for a in avals) + ")"


linear_solve_p = Primitive("linear_solve", params=("matvec", "num_aux", "num_consts", "solve", "transpose_solve"),
                           family="solves", infer=_linear_solve_infer, multiple=True, **run_param("solve"),
                           region_signature=RegionSignature(
                               extra_programs=("matvec", "solve", "transpose_solve"),
                               indivisible="its results are defined by the system, not by the equations of `solve`"),
                           spec="the results of `solve`")
