"""Samples for sort and top_k: NaN, signed zeros, ties, several keys."""
import numpy as np

from ... import prims as p
from ..sampling import bools, complexes, distinct, floats, ints, sample, small_ints, uints

_ODD = np.array([2.0, np.nan, -0.0, -np.inf, 0.0, np.inf, -0.0, -1.0], np.float32)

sample(p.sort_p, distinct(3, 5), dimension=1, is_stable=True, num_keys=1)
sample(p.sort_p, distinct(4, 3), dimension=0, is_stable=True, num_keys=1)
sample(p.sort_p, ints(9), dimension=0, is_stable=True, num_keys=1)
sample(p.sort_p, uints(2, 5), dimension=1, is_stable=True, num_keys=1)
sample(p.sort_p, bools(7), dimension=0, is_stable=True, num_keys=1)
sample(p.sort_p, complexes(6), dimension=0, is_stable=True, num_keys=1)
sample(p.sort_p, small_ints(3, 8), floats(3, 8), dimension=1, is_stable=True, num_keys=1)
sample(p.sort_p, small_ints(12), small_ints(12), distinct(12), dimension=0, is_stable=True, num_keys=2)
sample(p.sort_p, _ODD, np.arange(8, dtype=np.int32), dimension=0, is_stable=True, num_keys=1)

sample(p.top_k_p, distinct(3, 6), axis=1, k=2)
sample(p.top_k_p, distinct(5, 3), axis=0, k=5)
sample(p.top_k_p, small_ints(2, 9), axis=1, k=4)
sample(p.top_k_p, uints(7), axis=0, k=3)
sample(p.top_k_p, bools(7), axis=0, k=3)
sample(p.top_k_p, distinct(6, dtype="bfloat16"), axis=0, k=3)
sample(p.top_k_p, floats(4), axis=0, k=0)
sample(p.top_k_p, _ODD, axis=0, k=8)
sample(p.top_k_p, floats(0, 2), axis=0, k=0)
