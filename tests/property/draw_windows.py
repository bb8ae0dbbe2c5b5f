"""Random samples of window primitives: sizes, strides, dilations, positive and negative padding."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import Draw, combination, kind_of
from hypothesis import strategies as st
from lamina_ir import Primitive, aval_of, prims
from lamina_ir.prims import ConvDimensionNumbers
from lamina_ir.testing.samples import Sample

__all__ = ["FAMILY"]


def padding(d: Draw, n: int) -> tuple[tuple[int, int], ...]:
    return tuple((d.pick((0, 1, 2, -1, -2)), d.pick((0, 1, -1, 3, -2))) for _ in range(n))


def steps(d: Draw, n: int, high: int = 3) -> tuple[int, ...]:
    return tuple(d.pick(range(1, high + 1)) for _ in range(n))


def windows(d: Draw, prim: Primitive) -> Sample:
    shape = d.shape(0, 3)
    n = len(shape)
    params: dict[str, Any] = {"window_dimensions": steps(d, n), "window_strides": steps(d, n), "padding": padding(d, n)}
    if prim is not prims.select_and_scatter_add_p:
        params |= {"base_dilation": steps(d, n, 2), "window_dilation": steps(d, n, 2)}
    if prim is prims.reduce_window_p:
        kinds = [d.dtype("fciub") for _ in range(d.int(1, 2))]
        program, starts = combination(d, kinds)
        return Sample(prim, (*(d.array(shape, t) for t in kinds), *starts), {**params, "computation": program})
    if "select" in prim.params:
        x, select = d.distinct(shape, d.dtype("fiu")), d.pick(("ge", "le"))
        other = d.dtype("fciu") if d.flag() else x.dtype
        if prim is prims.select_and_scatter_add_p:
            ones = (1,) * n
            shape = prims.reduce_window_max_p.infer(aval_of(x), base_dilation=ones, window_dilation=ones, **params).shape
        return Sample(prim, (d.array(shape, other), x), {**params, "select": select})
    extreme = prim in (prims.reduce_window_max_p, prims.reduce_window_min_p)
    x = d.distinct(shape, d.dtype("fiub")) if extreme else d.array(shape, d.dtype("fciu"))
    return Sample(prim, (x,), params)


def convolution(d: Draw, prim: Primitive) -> Sample:
    n = d.pick((1, 2, 0, 3))
    groups, batches = d.pick(((1, 1), (2, 1), (1, 2), (3, 1), (1, 3)))
    features, length = d.pick((1, 2, 0)), (2, 3, 1, 4, 5, 0)
    sizes = ([batches * d.pick((1, 2, 0)), groups * features, *(d.pick(length) for _ in range(n))],
             [groups * batches * d.pick((1, 2, 0)), features, *(d.pick((2, 3, 1, 2, 0)) for _ in range(n))])
    specs = [tuple(d.draw(st.permutations(range(n + 2)))) for _ in range(3)]
    shapes = [tuple(own[spec.index(a)] for a in range(n + 2)) for own, spec in zip(sizes, specs)]
    dtype = d.dtype("fciu")
    small = kind_of(dtype) != "c" and dtype.itemsize < 4 and d.flag()
    wider = np.dtype({"f": "float32", "i": "int32", "u": "uint32"}[kind_of(dtype)]) if small else None
    return Sample(prim, tuple(d.array(s, dtype) for s in shapes), {
        "dimension_numbers": ConvDimensionNumbers(*specs), "feature_group_count": groups, "batch_group_count": batches,
        "window_strides": steps(d, n), "padding": padding(d, n), "lhs_dilation": steps(d, n, 2),
        "rhs_dilation": steps(d, n, 2), "precision": None, "preferred_element_type": wider})


FAMILY: dict[str, Callable[[Draw, Primitive], Sample]] = {"windows": windows, "convolution": convolution}
