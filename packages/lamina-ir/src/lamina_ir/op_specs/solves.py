"""Spec of linear_solve."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
A linear system that is given by a program, and solved by another program.
"""

SPECS = [
    op("linear_solve", "const... b...", "those of `solve`", "The results of `solve` on all operands.",
       matvec="the program of the system, of constants and x; used by derivatives only",
       num_aux="how many results of `solve` come after the solution", solve="the program that solves the system",
       transpose_solve="the program that solves the transposed system, or null"),
]
