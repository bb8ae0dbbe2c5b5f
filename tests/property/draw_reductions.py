"""Random samples of primitives that reduce, order or transform along axes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import NARROW, Draw, accepted, combination
from lamina_ir import Primitive, prims
from lamina_ir.prims import FftType
from lamina_ir.testing.samples import Sample, samples_of

__all__ = ["FAMILY"]

MAX_MIN = ("max", "min", "arg")


def reductions(d: Draw, prim: Primitive) -> Sample:
    if prim is prims.reduce_p:
        shape, kinds = d.shape(0, 3), [d.dtype("fciub") for _ in range(d.int(1, 2))]
        program, starts = combination(d, kinds)
        return Sample(prim, (*(d.array(shape, t) for t in kinds), *starts),
                      {"computation": program, "dimensions": d.axes(len(shape))})
    ordered = any(word in prim.name for word in MAX_MIN)
    kinds = "".join(k for k in "fciub" if any(accepted(prim, [np.zeros(s.args[0].shape, NARROW[k][-1])], s.params)
                                              for s in samples_of(prim)))
    if ordered or prim.name == "cumlogsumexp":
        kinds = kinds.replace("c", "")
    cumulates, arg = "axis" in prim.params, "index_dtype" in prim.params
    shape = d.shape(1 if cumulates or arg else 0, 4, empty=not arg)
    x = (d.distinct if ordered else d.array)(shape, d.dtype(kinds))
    if cumulates:
        params: dict[str, Any] = {"axis": d.int(0, len(shape) - 1), "reverse": d.flag()}
    elif arg:
        params = {"axes": (d.int(0, len(shape) - 1),), "index_dtype": d.dtype("i") if len(x) < 100 else np.dtype("i8")}
    else:
        params = {"axes": d.axes(len(shape))}
    return Sample(prim, (x,), params)


def sorting(d: Draw, prim: Primitive) -> Sample:
    shape = d.shape(1, 3)
    if prim is prims.top_k_p:
        axis, dtype = d.int(0, len(shape) - 1), d.dtype("fiub")
        x = (d.array if d.flag() else d.distinct)(shape, dtype)
        return Sample(prim, (x,), {"axis": axis, "k": d.int(0, shape[axis])})
    keys = d.int(1, 2)
    args = [d.distinct(shape, d.dtype("fiu"))]
    args += [d.array(shape, d.dtype("fciub")) for _ in range(d.int(keys - 1, 2))]
    return Sample(prim, tuple(args), {"dimension": d.int(0, len(shape) - 1), "is_stable": True, "num_keys": keys})


def fft(d: Draw, prim: Primitive) -> Sample:
    kind = d.pick(tuple(FftType))
    lengths = tuple(d.pick((3, 4, 1, 2, 5, 8, 0)) for _ in range(d.int(1, 3)))
    last = lengths[-1] // 2 + 1 if kind is FftType.IRFFT else lengths[-1]
    dtype = d.dtype("f" if kind is FftType.RFFT else "c")
    if dtype.itemsize < 4:
        dtype = np.dtype("float32")
    x = d.array((*d.shape(0, 2), *lengths[:-1], last), dtype)
    return Sample(prim, (x,), {"fft_type": kind, "fft_lengths": lengths})


FAMILY: dict[str, Callable[[Draw, Primitive], Sample]] = {
    "reductions": reductions, "sorting": sorting, "fft": fft}
