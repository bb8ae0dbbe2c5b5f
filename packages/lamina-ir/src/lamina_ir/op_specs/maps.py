"""Specs of maps of several axes."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
The program runs for every member of several new axes, the last the innermost. For each operand and result there is an entry
per dimension of the whole array. null: members have that dimension as it is. `Indexed(names)`: it has one element per member
of these axes (the first name the slowest), and a member has its own, without the dimension. `Split(names)`: it is divided
into as many blocks, in that order, and a member has its block. Along axes that no entry of a result names all members have
the same, and the first one's is given.
"""

SPECS = [
    op("shard_map", "x...", "those of the program, put together",
       "The program for every member of the axes of `mesh` that are not in `auto`.",
       auto="names of axes of the mesh that are not bound", in_specs="entries, per operand",
       out_specs="entries, per result",
       mesh="(names, sizes, devices): of each axis, and a device number for each place, which is no part of the meaning"),
    op("xmap", "x...", "those of the program, put together", "The program for every member of `axis_sizes`.",
       axis_resources="(axis, names of axes of the mesh) for axes that lie along devices; no part of the meaning",
       axis_sizes="(name, size) of each axis", in_axes="entries, per operand", out_axes="entries, per result",
       loops="(axis, number of turns) of axes whose members come in turns; no part of the meaning",
       mesh="null, or (names, sizes, devices); no part of the meaning"),
]
