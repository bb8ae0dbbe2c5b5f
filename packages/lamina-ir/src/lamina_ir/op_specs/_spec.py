"""`OpSpec`: the specification of a primitive; and the general meanings and kinds of params."""
from __future__ import annotations

from typing import NamedTuple

__all__ = ["HOLDS", "PARAMS", "OpSpec", "op"]


class OpSpec(NamedTuple):
    """The specification of one primitive. Params, kinds, defaults and version are facts of the primitive itself.

    Attributes:
      name: the name of the primitive.
      operands: the names of the operands in order; a name that ends in `...` stands for any number of operands.
      result: the types of the results.
      meaning: the values of the results.
      params: param -> its meaning, if it differs from that in `PARAMS` or if only this primitive has it.
    """

    name: str
    operands: tuple[str, ...]
    result: str
    meaning: str
    params: dict[str, str]


def op(name: str, operands: str, result: str, meaning: str, /, **params: str) -> OpSpec:
    """Make a specification; the names in `operands` are separated by spaces.

    >>> op("neg", "x", "like x", "-x").operands
    ('x',)
    """
    return OpSpec(name, tuple(operands.split()), " ".join(result.split()), " ".join(meaning.split()),
                  {k: " ".join(v.split()) for k, v in params.items()})


# The meaning of params, unless the specification of a primitive overrides it.
PARAMS = {
    "axes": "axes of x that are combined and are not in the result",
    "axis": "the axis of the operation",
    "axis_index_groups": "null: all members of the axis are one group; else groups of indices along the axis (or the axes, the "
                         "first the slowest), each index once: each group is separate, its members in the given order",
    "axis_name": "the name of a mapped axis, or a tuple of names; the first is the slowest",
    "axis_size": "the number of members of the axis, or of each group",
    "backend": "where to compile for; no part of the meaning",
    "base_dilation": "per axis: the distance of the elements of the array in positions",
    "batch": "lengths of the axes over which the function is called once per position, the outermost first",
    "call_jaxpr": "the program",
    "callback": "the function, by its name",
    "conjugate_a": "whether the conjugate of a is used",
    "devices": "the devices that run it, or null; no part of the meaning",
    "device": "the device that runs it; no part of the meaning",
    "donated_invars": "per operand, whether its memory may be reused; no part of the meaning",
    "dtype": "the element type of the result",
    "global_arg_shapes": "of maps over several processes; else a null per operand; no part of the meaning",
    "global_axis_size": "the number of members of the axis in all processes; null: axis_size",
    "here": "of maps over several processes; else empty",
    "indices_are_sorted": "a promise; no part of the meaning",
    "inline": "no part of the meaning",
    "lower": "whether the lower triangle is used, else the upper one; the other one is not read",
    "mapped": "per operand, per axis of `batch`: whether the operand has that axis (they lead, in this order)",
    "mode": "the handling of windows that are not inside",
    "name": "a name for printing; no part of the meaning",
    "num_consts": "how many of the first operands are constants of the program",
    "ordered": "whether effects keep their order; no part of the values",
    "padding": "per axis (low, high): positions added before and after, or removed if negative",
    "precision": "a hint for accelerators, no part of the meaning; or for `dot_general` the algorithm",
    "preferred_element_type": "the element type of the result; null: that of the operands",
    "result_dtypes": "the element type of each result of one call",
    "result_shapes": "the shape of each result of one call",
    "select": "'ge' selects the largest element of a window, 'le' the smallest, the first of equals",
    "shape": "the shape of the result",
    "slice_sizes": "the length of the window along each axis of x",
    "threaded": "whether it has an order token: a last operand i32[] and a last result i32[] equal to it",
    "tiled": "whether parts are concatenated along, or split from, an existing axis; else an axis is added or removed",
    "unique_indices": "a promise; no part of the meaning",
    "window_dilation": "per axis: the distance of the elements of a window in positions",
    "window_dimensions": "per axis: the number of elements of a window",
    "window_strides": "per axis: the distance between the starts of windows in positions",
}

# The kinds of values of params without an entry in `core.param_types`.
HOLDS = {
    "axes": "a tuple of names and ints",
    "axis_name": "a name, or a tuple of names",
    "device": "an int or None",
}
