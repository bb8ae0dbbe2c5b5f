"""Specs of the collectives."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Primitives across mapped axes. Members are numbered in row-major order over all bound axes, outermost first; each has its own
operands, of one type. A **group** consists of the members that differ along the named axes only, ordered by their index along
these, the first name the slowest; `axis_index_groups` divides it further. An inner axis shadows an outer one of the same
name. Each member gets its own results. Floats of 16 bits and fewer are accumulated in f32.
"""

SPECS = [
    op("all_gather", "x",
       "the dtype of x; tiled: axis `all_gather_dimension` is axis_size times as long; else a new one of length axis_size",
       "Every member gets the operands of its group in order, concatenated (tiled) or stacked.",
       all_gather_dimension="the axis; an axis of the result if it is new"),
    op("all_to_all", "x",
       """the dtype of x; tiled: `split_axis` is divided by axis_size, `concat_axis` multiplied; else axis `split_axis`
       moves to `concat_axis`""",
       """Each member splits x along `split_axis` into one part per member of the group; member i gets part i of each member,
       in order. Tiled: concatenated along `concat_axis`; else stacked there, without the split axis.""",
       concat_axis="the axis along which parts are combined",
       split_axis="the axis that is split; not tiled: of length axis_size"),
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
       """The sum over the group is split along `scatter_dimension` into one part per member; member i gets part i, without
       the axis if not tiled.""", scatter_dimension="the axis; not tiled: of length axis_size"),
]
