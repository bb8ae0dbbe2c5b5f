"""Spec of linear_solve."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
A linear system that is given by a program and solved by one.
"""

SPECS = [
    op("linear_solve", "const... b...", "those of `solve`", "The results of `solve` on all operands.",
       matvec="the program of the system, of constants and x; what derivatives read",
       num_aux="how many results of `solve` are beside the solution", solve="the program that solves it",
       transpose_solve="one that solves the transposed system, or null"),
]
