"""Spec of `dot_general`."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Sums of products. Floats are multiplied and accumulated in f32 at least, and rounded once; integers modulo 2 to the number of
bits of the result's dtype.
"""

SPECS = [
    op("dot_general", "lhs rhs",
       """dtype `preferred_element_type`, or the operands'; the batch axes, then the free axes of lhs, then those of rhs
       (all others), each in order""",
       """The operands may have different dtypes if `preferred_element_type` is given. y[batch, m, n] = sum over k of
       lhs[batch, m, k] rhs[batch, n, k], for axes in any order. bool: or of and.""",
       dimension_numbers="""((lhs contracting, rhs contracting), (lhs batch, rhs batch)): tuples of axes that correspond
       pairwise, of equal length"""),
]
