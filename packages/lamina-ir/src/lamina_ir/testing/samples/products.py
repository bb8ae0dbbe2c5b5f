"""Samples for dot_general: every mixture of batch, contracted and free axes, in odd places too."""
import numpy as np

from ... import prims as p
from ..sampling import complexes, floats, ints, sample

_F32 = np.dtype("float32")


def _dot(x, y, contract, batch=((), ()), preferred=None):
    sample(p.dot_general_p, x, y, dimension_numbers=(contract, batch), precision=None, preferred_element_type=preferred)


_dot(floats(4), floats(4), ((0,), (0,)))
_dot(floats(3, 4), floats(4, 5), ((1,), (0,)))
_dot(floats(3, 4), floats(4), ((1,), (0,)))
_dot(floats(2), floats(3), ((), ()))
_dot(floats(6, 3), floats(6, 3), ((1,), (1,)), ((0,), (0,)))
_dot(floats(3, 4, 2), floats(4, 2, 5), ((1,), (0,)), ((2,), (1,)))
_dot(floats(3, 4, 2, 2), floats(2, 5, 4, 3), ((1, 0), (2, 3)), ((3,), (0,)))
_dot(floats(2, 3), floats(3, 2), ((), ()), ((0, 1), (1, 0)))
_dot(complexes(2, 3), complexes(3, 2), ((1,), (0,)))
_dot(ints(2, 3), ints(3, 2), ((1,), (0,)))
_dot(floats(2, 3, dtype="bfloat16"), floats(3, 2, dtype="bfloat16"), ((1,), (0,)), preferred=_F32)
_dot(floats(2, 3, dtype="bfloat16"), floats(3, 2, dtype="bfloat16"), ((1,), (0,)))
