"""Samples of reductions and cumulative operations."""
import numpy as np

from ... import prims as p
from ..._types.avals import shaped
from ..._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from ..sampling import away, bools, complexes, distinct, floats, ints, sample, small_ints

_I32 = np.dtype("int32")
_F32 = np.dtype("float32")


def _add_and_max() -> ClosedJaxpr:
    """(a, b, c, d) -> (a + c, max(b, d)) on float32 scalars."""
    a, b, c, d, e, f = (Var(shaped((), _F32)) for _ in range(6))
    eqns = [Eqn(p.add_p, [a, c], [e], {}), Eqn(p.max_p, [b, d], [f], {})]
    return ClosedJaxpr(Jaxpr([], [a, b, c, d], eqns, [e, f]))


sample(p.reduce_sum_p, floats(2, 3, 4), axes=(0, 2))
sample(p.reduce_sum_p, floats(3, 2), axes=())
sample(p.reduce_sum_p, complexes(3), axes=(0,))
sample(p.reduce_sum_p, ints(2, 3), axes=(1,))
sample(p.reduce_prod_p, away(2, 3, 4), axes=(0, 2))
sample(p.reduce_prod_p, np.array([[2.0, 0.0, 3.0], [0.0, 4.0, 0.0]], np.float32), axes=(1,))
sample(p.reduce_prod_p, small_ints(3, 2), axes=(0,))
for _p in (p.reduce_max_p, p.reduce_min_p):
    sample(_p, distinct(3, 4), axes=(1,))
    sample(_p, distinct(2, 3, 2), axes=(0, 2))
    sample(_p, ints(3, 4), axes=(0,))
    sample(_p, bools(3, 4), axes=(0,))
for _p in (p.reduce_and_p, p.reduce_or_p, p.reduce_xor_p):
    sample(_p, bools(3, 4), axes=(1,))
    sample(_p, ints(2, 3), axes=(0, 1))
for _p in (p.argmax_p, p.argmin_p):
    sample(_p, distinct(3, 4), axes=(1,), index_dtype=_I32)
    sample(_p, np.array([[1, 3, 3], [2, 0, 0]], np.int32), axes=(1,), index_dtype=_I32)
    sample(_p, np.array([1.0, np.nan, 3.0, np.nan], np.float32), axes=(0,), index_dtype=_I32)
    sample(_p, bools(3, 4), axes=(0,), index_dtype=_I32)
for _p, _s in ((p.cumsum_p, floats), (p.cumprod_p, away), (p.cummax_p, distinct), (p.cummin_p, distinct)):
    sample(_p, _s(3, 4), axis=1, reverse=False)
    sample(_p, _s(5, 2), axis=0, reverse=True)
    sample(_p, ints(2, 6), axis=1, reverse=False)
sample(p.cumprod_p, np.array([2.0, 0.0, 3.0, 0.0, 5.0], np.float32), axis=0, reverse=False)
sample(p.cumsum_p, floats(70), axis=0, reverse=False)
sample(p.cummax_p, floats(2, 70), axis=1, reverse=True)
sample(p.reduce_p, floats(3, 4), floats(3, 4), np.float32(0.5), np.float32(-9.0), computation=_add_and_max(),
       dimensions=(1,))
sample(p.reduce_p, floats(0, 2), floats(0, 2), np.float32(0), np.float32(-9), computation=_add_and_max(), dimensions=())
