"""Samples of collectives. The operands of a sample are those of one device, as for `infer`; its axes are those of `AXES`.

`per_device(sample)` makes different operands for every device, for evaluations that need all of them.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ... import prims
from ..._core.axis_env import AxisEnv
from ..sampling import Sample, bools, distinct, floats, ints, sample

__all__ = ["AXES", "per_device"]

AXES = AxisEnv([("i", 4), ("j", 2)])
_HALVES = ((0, 2), (1, 3))


def per_device(example: Sample) -> list[list[Any]]:
    """Return for each operand a list with one array per device of `AXES`; device 0 has the sample's own operands."""
    return [[np.asarray(np.roll(a, d) if a.dtype == bool else (a * (1 + d % 3) + a.dtype.type(d % 5)), a.dtype)
             for d in range(AXES.size)] for a in example.args]


sample(prims.psum_p, floats(2, 3), axes=("i",), axis_index_groups=None)
sample(prims.psum_p, floats(), ints(2), axes=("i", "j"), axis_index_groups=None)
sample(prims.psum_p, floats(4), axes=("i",), axis_index_groups=_HALVES)
sample(prims.psum_p, floats(2, 3), axes=("j", 0), axis_index_groups=None)
sample(prims.pmax_p, distinct(2, 3), axes=("i",), axis_index_groups=None)
sample(prims.pmax_p, bools(3), axes=("j", "i"), axis_index_groups=None)
sample(prims.pmin_p, distinct(2, 3), axes=("i",), axis_index_groups=None)
sample(prims.pmin_p, ints(3), axes=("i",), axis_index_groups=_HALVES)
sample(prims.all_gather_p, floats(2, 3), all_gather_dimension=1, axis_index_groups=None, axis_name="i", axis_size=4,
       tiled=False)
sample(prims.all_gather_p, floats(2, 3), all_gather_dimension=0, axis_index_groups=_HALVES, axis_name="i", axis_size=2,
       tiled=True)
sample(prims.psum_scatter_p, floats(4, 3), axis_index_groups=None, axis_name="i", axis_size=4, scatter_dimension=0,
       tiled=False)
sample(prims.psum_scatter_p, floats(2, 8), axis_index_groups=None, axis_name="i", axis_size=4, scatter_dimension=1,
       tiled=True)
sample(prims.all_to_all_p, floats(4, 3), axis_index_groups=None, axis_name="i", axis_size=4, concat_axis=1,
       split_axis=0, tiled=False)
sample(prims.all_to_all_p, floats(8, 3), axis_index_groups=None, axis_name="i", axis_size=4, concat_axis=1,
       split_axis=0, tiled=True)
sample(prims.ppermute_p, floats(2), axis_name="i", perm=((0, 1), (1, 2), (2, 3), (3, 0)))
sample(prims.ppermute_p, floats(2), axis_name="i", perm=((0, 3), (2, 0)))
sample(prims.axis_index_p, axis_name="i")
sample(prims.axis_index_p, axis_name=("i", "j"))
# Over both axes: groups of different sizes, and of one.
_UNEVEN = ((0, 3, 5), (1,), (6, 2, 4, 7))
_PAIRS = ((0, 3), (5, 1), (6, 2), (4, 7))
sample(prims.psum_p, floats(2), ints(), axes=("i", "j"), axis_index_groups=_UNEVEN)
sample(prims.pmax_p, distinct(2, 3), axes=("j", 1, "i"), axis_index_groups=_UNEVEN)
sample(prims.pmin_p, distinct(2), axes=("i",), axis_index_groups=((3, 0, 2), (1,)))
sample(prims.all_gather_p, floats(2, 3), all_gather_dimension=1, axis_index_groups=_PAIRS, axis_name=("j", "i"),
       axis_size=2, tiled=True)
sample(prims.psum_scatter_p, floats(2, 3), axis_index_groups=_PAIRS, axis_name=("j", "i"), axis_size=2,
       scatter_dimension=0, tiled=False)
sample(prims.all_to_all_p, floats(3, 4), axis_index_groups=_PAIRS, axis_name=("i", "j"), axis_size=2, concat_axis=0,
       split_axis=1, tiled=True)
sample(prims.all_to_all_p, floats(8, 3), axis_index_groups=None, axis_name=("j", "i"), axis_size=8, concat_axis=1,
       split_axis=0, tiled=False)
sample(prims.ppermute_p, floats(2), axis_name=("j", "i"), perm=((0, 5), (5, 2), (3, 3)))
