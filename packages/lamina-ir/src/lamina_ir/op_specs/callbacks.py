"""Specs of the ops that call the host."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
A function of the host, which a file knows by name alone (a record `HostFunction`). It takes arrays and gives arrays. Where
there is a `batch` it is called for each position of it, in row-major order, with the operands' slices there (operands that
have an axis of the batch lead with it), and results lead with the batch. A reader that has no function of the name says so
when it is called.
"""

SPECS = [
    op("debug_callback", "x...", "none", "A call for its effect.",
       indexed="whether the function is also told its position in the batch and among devices"),
    op("io_callback", "x...", "`result_dtypes` and `result_shapes` behind `batch`",
       "The results of calls that have an effect too."),
    op("pure_callback", "x...", "`result_dtypes` and `result_shapes` behind `batch`", "The results of calls.",
       vmap_method="how it was mapped; no part of the meaning"),
]
