"""Specs of maps over several axes."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
The program runs for every member of several new axes, the last one innermost. Each operand and result has an entry per
dimension of the global array. null: members have the whole dimension. `Indexed(names)`: the dimension has one element per
member of these axes (the first name the slowest); a member has its element, without the dimension. `Split(names)`: the
dimension is divided into one block per member, in that order; a member has its block. If no entry of a result names an axis,
all members along it have the same value, and that of the first one is returned.
"""

SPECS = [
    op("shard_map", "x...", "those of the program, assembled",
       "The program for every member of the axes of `mesh` that are not in `auto`.",
       auto="names of axes of the mesh that are not bound", in_specs="entries, per operand",
       out_specs="entries, per result",
       mesh="(names, sizes, devices): of each axis, and a device number per position, which is no part of the meaning"),
    op("xmap", "x...", "those of the program, assembled", "The program for every member of `axis_sizes`.",
       axis_resources="(axis, names of axes of the mesh) for axes mapped to devices; no part of the meaning",
       axis_sizes="(name, size) of each axis", in_axes="entries, per operand", out_axes="entries, per result",
       loops="(axis, number of iterations) of axes whose members run serially; no part of the meaning",
       mesh="null, or (names, sizes, devices); no part of the meaning"),
]
