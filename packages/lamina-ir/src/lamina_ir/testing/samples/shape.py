"""Samples of primitives that move elements."""
import numpy as np

from ... import prims as p
from ..sampling import bools, floats, ints, sample

_I32, _F32 = np.dtype("int32"), np.dtype("float32")

sample(p.broadcast_in_dim_p, floats(3), shape=(2, 3, 4), broadcast_dimensions=(1,))
sample(p.broadcast_in_dim_p, floats(2, 1), shape=(5, 2, 3), broadcast_dimensions=(1, 2))
sample(p.broadcast_in_dim_p, floats(), shape=(3, 2), broadcast_dimensions=())
sample(p.broadcast_in_dim_p, bools(2), shape=(2, 2), broadcast_dimensions=(0,))
sample(p.reshape_p, floats(2, 6), new_sizes=(3, 4), dimensions=None)
sample(p.reshape_p, floats(2, 3, 4), new_sizes=(4, 6), dimensions=(2, 0, 1))
sample(p.reshape_p, floats(1), new_sizes=(), dimensions=None)
sample(p.transpose_p, floats(2, 3, 4), permutation=(2, 0, 1))
sample(p.transpose_p, ints(2, 3), permutation=(1, 0))
sample(p.squeeze_p, floats(1, 3, 1, 2), dimensions=(0, 2))
sample(p.expand_dims_p, floats(3, 2), dimensions=(0, 2))
sample(p.concatenate_p, floats(2, 3), floats(2, 1), floats(2, 2), dimension=1)
sample(p.concatenate_p, floats(3), dimension=0)
sample(p.concatenate_p, ints(2, 3), ints(4, 3), dimension=0)
sample(p.pad_p, floats(2, 3), floats(), padding_config=((1, 2, 0), (0, 1, 2)))
sample(p.pad_p, floats(4, 5), floats(), padding_config=((-1, 2, 1), (1, -2, 0)))
sample(p.pad_p, ints(3), ints(), padding_config=((-1, 0, 3),))
sample(p.slice_p, floats(4, 6), start_indices=(1, 0), limit_indices=(3, 5), strides=None)
sample(p.slice_p, floats(7, 4), start_indices=(1, 1), limit_indices=(7, 4), strides=(3, 2))
sample(p.rev_p, floats(2, 3, 4), dimensions=(0, 2))
sample(p.iota_p, dtype=_I32, shape=(3, 4), dimension=1)
sample(p.iota_p, dtype=_F32, shape=(5,), dimension=0)
