"""Specs of the collectives."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Ops across mapped axes. Members are numbered over all axes in force, outermost first, row by row; each has its own operands,
of one type. A **group** is made of those that differ along the named axes only, ordered by their index along them, the first
name the slowest; with `axis_index_groups` it is parted further. An inner axis hides an outer one of its name. An op gives
each member its own results. Floats of 16 bits and fewer are added up in f32.
"""

SPECS = [
    op("all_gather", "x",
       "the dtype of x; tiled: axis `all_gather_dimension` is axis_size times as long; else a new one of length axis_size",
       "Every member gets the operands of its group in order, put one behind the other, or stacked.",
       all_gather_dimension="the axis, of the result where it is new"),
    op("all_to_all", "x",
       """the dtype of x; tiled: `split_axis` is divided by axis_size, `concat_axis` multiplied; else axis `split_axis`
       moves to `concat_axis`""",
       """Each member cuts x along `split_axis` into as many parts as the group has members; member i gets part i of each
       in order, put one behind the other along `concat_axis`, or without the axis that was cut stacked there.""",
       concat_axis="the axis along which parts are put together",
       split_axis="the axis that is cut; not tiled: of length axis_size"),
    op("axis_index", "", "i32[]", "The member's index along the axis, or the axes."),
    op("pmax", "x...", "like the operands, without their own axes among `axes`", "As `psum`, with the largest.",
       axes="names of mapped axes, and numbers of axes of the operands"),
    op("pmin", "x...", "like the operands, without their own axes among `axes`", "As `psum`, with the smallest.",
       axes="names of mapped axes, and numbers of axes of the operands"),
    op("ppermute", "x", "like x",
       "The member of the group with index d gets x of the one with index s, for each (s, d) of `perm`; others get zeros.",
       perm="pairs (source, destination)"),
    op("psum", "x...", "like the operands, without their own axes among `axes`",
       """Each operand is summed over its own axes first; then every member of a group gets the sum over the group.
       Without names there are no groups.""", axes="names of mapped axes, and numbers of axes of the operands"),
    op("psum_scatter", "x", "the dtype of x; tiled: `scatter_dimension` divided by axis_size; else without it",
       """The sum over the group is cut along `scatter_dimension` into as many parts as it has members; member i gets part
       i, without the axis where it is not tiled.""", scatter_dimension="the axis; not tiled: of length axis_size"),
]
