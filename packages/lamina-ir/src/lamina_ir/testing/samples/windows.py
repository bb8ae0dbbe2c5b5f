"""Samples for window reductions: strides, dilations, paddings of either sign, ties."""
import numpy as np

from ... import prims as p
from ..sampling import away, distinct, floats, ints, sample, small_ints
from .reductions import _add_and_max


def _params(window, strides=None, padding=None, base=None, gaps=None):
    ones = (1,) * len(window)
    return dict(window_dimensions=window, window_strides=strides or ones, padding=padding or ((0, 0),) * len(window),
                base_dilation=base or ones, window_dilation=gaps or ones)


_USES = (_params((3,), (2,), ((1, 1),)), _params((3,), (1,), ((-1, 1),), (2,)),
         _params((2,), (2,), ((1, 1),), gaps=(3,)), _params((7,), gaps=(2,)))
_FLAT = _params((2, 3), (2, 1), ((0, 1), (1, 1)))
for _p, _s in ((p.reduce_window_sum_p, floats), (p.reduce_window_prod_p, away), (p.reduce_window_max_p, distinct),
               (p.reduce_window_min_p, distinct)):
    for _use in _USES:
        sample(_p, _s(6), **_use)
    sample(_p, _s(4, 5), **_FLAT)
    sample(_p, small_ints(4, 5), **_FLAT)
    sample(_p, _s(4, dtype="bfloat16"), **_params((2,)))
sample(p.reduce_window_max_p, np.array([1.0, np.nan, 3.0, 2.0, 5.0], np.float32), **_params((2,)))
sample(p.reduce_window_p, floats(5, 3), floats(5, 3), np.float32(0), np.float32(-9), computation=_add_and_max(),
       **_params((2, 2), (2, 1), ((1, 0), (0, 1))))
for _select in ("ge", "le"):
    for _use in _USES:
        sample(p.select_and_gather_add_p, floats(6), distinct(6), select=_select, **_use)
    sample(p.select_and_gather_add_p, floats(4, 5), distinct(4, 5), select=_select, **_FLAT)
    sample(p.select_and_scatter_add_p, floats(2, 5), distinct(4, 5), select=_select, padding=((0, 0), (1, 1)),
           window_dimensions=(2, 3), window_strides=(2, 1))
    sample(p.select_and_scatter_add_p, floats(4), distinct(9), select=_select, padding=((0, 0),),
           window_dimensions=(3,), window_strides=(2,))
sample(p.select_and_scatter_add_p, floats(3), np.array([1, 1, 1, 1], np.int32), select="ge", padding=((0, 0),),
       window_dimensions=(2,), window_strides=(1,))
sample(p.select_and_scatter_add_p, ints(3), ints(4), select="ge", padding=((0, 0),), window_dimensions=(2,),
       window_strides=(1,))
for _p, _s in ((p.reduce_window_sum_p, floats), (p.reduce_window_prod_p, away), (p.reduce_window_max_p, distinct),
               (p.reduce_window_min_p, distinct)):  # negative paddings that remove all elements
    sample(_p, _s(2), **_params((1,), padding=((-3, 5),)))
    sample(_p, _s(2), **_params((1,), padding=((-2, -1),)))
    sample(_p, _s(3, 0), **_params((2, 1), padding=((0, 0), (0, -1))))
sample(p.select_and_gather_add_p, floats(2), distinct(2), select="ge", **_params((1,), padding=((-2, -1),)))
sample(p.select_and_gather_add_p, floats(dtype="bfloat16"), distinct(dtype="float16"), select="le", **_params(()))
sample(p.select_and_scatter_add_p, floats(1), distinct(0), select="ge", padding=((2, -1),), window_dimensions=(1,),
       window_strides=(1,))
sample(p.select_and_gather_add_p, floats(4), np.array([0, 0, 3, 0], np.uint8), select="ge",
       **_params((2,), padding=((1, 1),)))
sample(p.select_and_scatter_add_p, floats(5), np.array([0, 0, 3, 0], np.uint8), select="ge", padding=((1, 1),),
       window_dimensions=(2,), window_strides=(1,))
for _more in (dict(base=(2,)), dict(gaps=(2,))):
    sample(p.select_and_gather_add_p, floats(4), np.array([0, 0, 3, 0], np.uint8), select="ge",
           **_params((3,), padding=((1, 1),), **_more))
