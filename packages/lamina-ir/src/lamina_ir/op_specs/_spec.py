"""`OpSpec`: what a reader in another language has to know of an op; and what params hold and mean in general."""
from __future__ import annotations

from typing import NamedTuple

__all__ = ["HOLDS", "PARAMS", "OpSpec", "op"]


class OpSpec(NamedTuple):
    """The words on one op. Everything else (params, kinds, defaults, version) is a fact of its primitive.

    Attributes:
      name: of the op.
      operands: their names in order; the last may end in `...`: any number of them.
      result: the types of the results.
      meaning: the values of the results.
      params: param -> its meaning, of params that mean something else here than `PARAMS` says, or that only this op has.
    """

    name: str
    operands: tuple[str, ...]
    result: str
    meaning: str
    params: dict[str, str]


def op(name: str, operands: str, result: str, meaning: str, /, **params: str) -> OpSpec:
    """The spec of an op. `operands` are separated by spaces.

    >>> op("neg", "x", "like x", "-x").operands
    ('x',)
    """
    return OpSpec(name, tuple(operands.split()), " ".join(result.split()), " ".join(meaning.split()),
                  {k: " ".join(v.split()) for k, v in params.items()})


# What a param means wherever it stands, unless an op's own words say otherwise.
PARAMS = {
    "axes": "axes of x that are combined and are not in the result",
    "axis": "the axis along which the op works",
    "axis_index_groups": "null: all members of the axis are one group; else groups of indices along the axis (or the axes, the "
                         "first the slowest), each index once: each group is for itself, its members in the order given",
    "axis_name": "the name of a mapped axis, or a tuple of names; the first is the slowest",
    "axis_size": "how many members the axis, or each group, has",
    "backend": "where to compile for; no part of the meaning",
    "base_dilation": "per axis: the elements of the array stand so many places apart",
    "batch": "lengths of the axes over which the function is called one by one, the outermost first",
    "call_jaxpr": "the program",
    "callback": "the function, by its name",
    "conjugate_a": "whether the conjugate of a is meant",
    "devices": "which devices run it, or null; no part of the meaning",
    "device": "where to run; no part of the meaning",
    "donated_invars": "per operand, whether its memory may be used again; no part of the meaning",
    "dtype": "the element type of the result",
    "global_arg_shapes": "of maps over several processes; else a null per operand; no part of the meaning",
    "global_axis_size": "how many members the axis has in all processes together; null: axis_size",
    "here": "of maps over several processes; else empty",
    "indices_are_sorted": "a promise; no part of the meaning",
    "inline": "no part of the meaning",
    "lower": "whether the lower triangle is meant, else the upper one; the other one is not read",
    "mapped": "per operand, per axis of `batch`: whether the operand has that axis (they lead, in this order)",
    "mode": "what happens to windows that do not lie inside",
    "name": "for people; no part of the meaning",
    "num_consts": "how many of the operands are constants of the program, which lead",
    "ordered": "whether effects keep their order; no part of the values",
    "padding": "per axis (low, high): places put before and after, or cropped where negative",
    "precision": "a hint for accelerators; no part of the meaning",
    "preferred_element_type": "the element type of the result; null: that of the operands",
    "result_dtypes": "the element type of each result of one call",
    "result_shapes": "the shape of each result of one call",
    "select": "'ge' chooses the largest element of a window, 'le' the smallest, the first of equals",
    "shape": "the shape of the result",
    "slice_sizes": "the length of the window along each axis of x",
    "threaded": "whether a last operand i32[] and a last result i32[], equal to it, hand on the order of effects",
    "tiled": "whether parts are put together along, or cut from, an axis that is there; else an axis comes or goes",
    "unique_indices": "a promise; no part of the meaning",
    "window_dilation": "per axis: the elements of a window stand so many places apart",
    "window_dimensions": "per axis: how many elements a window has",
    "window_strides": "per axis: how many places further the next window begins",
}

# What params hold that no kind of `param_kinds` describes.
HOLDS = {
    "algorithm": "an enum `RandomAlgorithm`",
    "auto": "a frozenset of names",
    "axes": "a tuple of names and ints",
    "axis_name": "a name, or a tuple of names",
    "axis_resources": "a tuple of pairs (name, tuple of names)",
    "backend": "a string or None",
    "batch": "a tuple of ints",
    "callback": "a record `HostFunction`",
    "device": "an int or None",
    "devices": "a tuple of ints or None",
    "dimension_numbers": "a record, or tuples of ints",
    "donated_invars": "a tuple of bools",
    "fft_type": "an enum `FftType`",
    "global_arg_shapes": "a tuple, or None",
    "global_axis_size": "an int or None",
    "in_axes": "a tuple of ints and None",
    "mapped": "a tuple of tuples of bools",
    "mode": "an enum `GatherScatterMode`",
    "out_axes": "a tuple of ints and None",
    "policy": "None, or a record",
    "precision": "None, or a pair of enums `Precision`",
    "result_dtypes": "a tuple of dtypes",
    "result_shapes": "a tuple of tuples of ints",
    "select": "`'ge'` or `'le'`",
    "solve": "a ClosedJaxpr",
    "transpose_solve": "a ClosedJaxpr or None",
}
