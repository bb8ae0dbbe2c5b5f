"""Defect: a sum over several axes uses only the first axis and the first elements of the others."""
import numpy as np
from lamina_ir import prims

_sum = prims.reduce_sum_p.numpy
prims.reduce_sum_p.numpy = lambda x, *, axes: _sum(np.take(x, [0], axes[-1]) if len(axes) > 1 else x, axes=axes)
