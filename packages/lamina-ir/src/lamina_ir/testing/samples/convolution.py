"""Samples for conv_general_dilated: strides, dilations, paddings of either sign, groups of both kinds, odd layouts."""
import numpy as np

from ... import prims as p
from ..sampling import complexes, floats, ints, sample

_2D = ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))
_1D = ((0, 1, 2), (0, 1, 2), (0, 1, 2))


def _conv(lhs, rhs, numbers, padding, strides=None, lhs_dilation=None, rhs_dilation=None, features=1, batches=1,
          preferred=None):
    ones = (1,) * len(padding)
    sample(p.conv_general_dilated_p, lhs, rhs, window_strides=strides or ones, padding=padding,
           lhs_dilation=lhs_dilation or ones, rhs_dilation=rhs_dilation or ones, feature_group_count=features,
           batch_group_count=batches, dimension_numbers=p.ConvDimensionNumbers(*numbers), precision=None,
           preferred_element_type=preferred)


_conv(floats(2, 3, 5), floats(4, 3, 3), _1D, ((1, 1),))
_conv(floats(2, 3, 7), floats(4, 3, 2), _1D, ((2, -1),), (2,), (2,), (3,))
_conv(floats(2, 3, 4), floats(2, 3, 6), _1D, ((0, 0),))
_conv(floats(2, 3), floats(4, 3), ((0, 1), (0, 1), (0, 1)), ())
_conv(floats(2, 5, 6, 3), floats(2, 3, 3, 4), ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)), ((0, 1), (1, 0)), (2, 1))
_conv(floats(2, 4, 5, 5), floats(6, 2, 2, 3), _2D, ((1, 0), (-1, 2)), (1, 2), (1, 2), (2, 1), features=2)
_conv(floats(4, 2, 5, 4), floats(6, 2, 2, 3), _2D, ((0, 0), (1, 1)), (2, 1), (1, 2), batches=2)
_conv(floats(6, 3, 4), floats(3, 3, 2), ((1, 0, 2), (2, 1, 0), (2, 0, 1)), ((1, 2),), (2,), features=2)
_conv(floats(2, 4, 5), floats(4, 1, 3), _1D, ((1, 1),), features=4)
_conv(complexes(2, 2, 4), complexes(3, 2, 2), _1D, ((1, 0),))
_conv(ints(2, 2, 4), ints(3, 2, 2), _1D, ((0, 1),), (2,))
_conv(floats(1, 2, 4, dtype="bfloat16"), floats(2, 2, 2, dtype="bfloat16"), _1D, ((0, 0),))
_conv(floats(1, 2, 4, dtype="bfloat16"), floats(2, 2, 2, dtype="bfloat16"), _1D, ((0, 0),),
      preferred=np.dtype("float32"))
_conv(floats(1, 2, 3), floats(2, 2, 0), _1D, ((0, 1),))
