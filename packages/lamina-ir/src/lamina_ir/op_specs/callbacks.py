"""Specs of host callbacks."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
A function of the host, referred to by name (a record `HostFunction`). It takes and returns arrays. With a `batch` it is
called for each position of the batch, in row-major order, with the slices of the operands at that position (the batch axes of
an operand come first); the results have the batch axes first. A reader without a function of that name reports an error when
it is called.
"""

SPECS = [
    op("debug_callback", "x...", "none", "A call for its effect.",
       indexed="whether the function also gets its position in the batch and among devices"),
    op("io_callback", "x...", "`result_dtypes` and `result_shapes` after `batch`",
       "The results of calls that have an effect too."),
    op("pure_callback", "x...", "`result_dtypes` and `result_shapes` after `batch`", "The results of calls.",
       vmap_method="how it was mapped; no part of the meaning"),
]
