"""Samples of host callbacks; their functions are registered, so that programs with them can be loaded."""
from __future__ import annotations

import numpy as np

from ... import prims
from ...prims.callbacks import register_host_function
from ..sampling import floats, ints, sample

_F32, _I32 = np.dtype("float32"), np.dtype("int32")


def _halves(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    return x / 2 + y, np.argsort(x).astype(np.int32)


def _ignored(*args: np.ndarray) -> tuple[()]:
    return ()


_HALVES, _IGNORED = register_host_function("halves", _halves), register_host_function("ignored", _ignored)

sample(prims.pure_callback_p, ints(3), ints(3), callback=register_host_function("sum_up", lambda x, y: (x + y,)),
       result_dtypes=(_I32,), result_shapes=((3,),), batch=(), mapped=(), vmap_method="sequential")
sample(prims.pure_callback_p, ints(2, 3), ints(3), callback=_HALVES, result_dtypes=(_F32, _I32),
       result_shapes=((3,), (3,)), batch=(2,), mapped=((True,), (False,)), vmap_method="sequential")
sample(prims.io_callback_p, ints(3), ints(3), callback=_HALVES, result_dtypes=(_F32, _I32),
       result_shapes=((3,), (3,)), batch=(), mapped=(), ordered=False, threaded=False)
sample(prims.debug_callback_p, floats(3), floats(), callback=_IGNORED, batch=(), indexed=False, mapped=(),
       ordered=False, threaded=False)
