"""Specs of sort and top_k."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
-0 equals 0, and NaN comes after all numbers. Complex numbers are ordered by real, then imaginary part, those with a NaN last.
"""

SPECS = [
    op("sort", "x...", "like the operands",
       """Operands of one shape. Their elements are permuted along `dimension` so that the first operand is ascending; among
       equal elements the second one is, and so on for `num_keys` operands; if all keys are equal, elements stay in order.""",
       dimension="the axis", is_stable="whether equal ones must stay in order (here they always do)",
       num_keys="how many operands are keys"),
    op("top_k", "x", "like x, of length k along `axis`; i32 of the same shape",
       "The k largest elements, descending, NaN first, and their indices; of equals the one with the lower index first.",
       k="the number of elements"),
]
