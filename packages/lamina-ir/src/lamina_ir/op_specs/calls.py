"""Specs of calls and the map of one axis."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
A program that refers to mapped axes runs for all members at once, in lockstep (see collectives).
"""

SPECS = [
    op("xla_call", "x...", "those of the program", "The program's results on the operands."),
    op("xla_pmap", "x...", "those of the program, with the axis where `out_axes` says",
       """The program for each of `axis_size` members of a new, innermost axis: of an operand that is mapped along an axis
       member i has the slice i, without that axis; else all have the whole. Results are stacked along their axis; of one
       that has none member 0's is given.""", axis_name="the name of the axis, or an `axis` without one",
       axis_size="how many members there are", in_axes="per operand an axis, or null",
       out_axes="per result an axis, or null"),
]
