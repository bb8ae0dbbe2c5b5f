"""Specs of calls and of the map over one axis."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
A program that refers to mapped axes runs for all members at once, in lockstep (see collectives).
"""

SPECS = [
    op("xla_call", "x...", "those of the program", "The program's results on the operands."),
    op("xla_pmap", "x...", "those of the program, with the axis at `out_axes`",
       """The program for each of `axis_size` members of a new, innermost axis. If an operand is mapped along an axis,
       member i has slice i, without that axis; else all members have the whole operand. Results are stacked along their
       axis; of a result without an axis that of member 0 is returned.""",
       axis_name="the name of the axis, or an `axis` without a name",
       axis_size="the number of members", in_axes="per operand an axis, or null",
       out_axes="per result an axis, or null"),
]
