"""Window primitives and convolutions compared with loops over windows and their elements."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import evaluate_primitive, prims
from lamina_ir.testing.reference import check_against_reference, highest, lowest, samples_in
from lamina_ir.testing.samples import samples_of


def windows(x: Any, fill: Any, *, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any = None,
            window_dilation: Any = None) -> Any:
    """Return (result shape, window -> indices of its elements in `x`); an element may be outside `x`."""
    n = x.ndim
    base, wide = base_dilation or (1,) * n, window_dilation or (1,) * n
    spread = [max((s - 1) * b + 1, 0) if s else 0 for s, b in zip(x.shape, base)]
    spans = [(w - 1) * d + 1 for w, d in zip(window_dimensions, wide)]
    shape = tuple(max((s + low + high - span) // stride + 1, 0) for s, (low, high), span, stride in zip(
        spread, padding, spans, window_strides))

    def elements(at: Any) -> Any:
        for offset in np.ndindex(*window_dimensions):
            places = [a * s + o * d - low for a, s, o, d, (low, _) in zip(at, window_strides, offset, wide, padding)]
            if all(p % b == 0 and 0 <= p // b < size for p, b, size in zip(places, base, x.shape)):
                yield tuple(p // b for p, b in zip(places, base))
    return shape, elements


def window_reduction(fun: Any, identity: Any) -> Any:
    def reduced(x: Any, **params: Any) -> Any:
        shape, elements = windows(x, None, **params)
        start = identity(x.dtype)
        out = np.full(shape, start, x.dtype)
        for at in np.ndindex(*shape):
            for index in elements(at):
                out[at] = fun(out[at], x[index])
        return out
    return reduced


def chosen(x: Any, select: str, **params: Any) -> Any:
    """Return (result shape, window -> index of its first largest, or smallest, element)."""
    shape, elements = windows(x, None, **params)

    def choose(at: Any) -> Any:
        best = None
        for index in elements(at):
            if best is None or (x[index] > x[best] if select == "ge" else x[index] < x[best]):
                best = index
        return best
    return shape, choose


def gathered_of_chosen(tangents: Any, x: Any, *, select: Any, **params: Any) -> Any:
    shape, choose = chosen(x, select, **params)
    out = np.zeros(shape, tangents.dtype)
    for at in np.ndindex(*shape):
        best = choose(at)
        if best is not None:
            out[at] = tangents[best]
    return out


def scattered_to_chosen(source: Any, x: Any, *, select: Any, **params: Any) -> Any:
    _, choose = chosen(x, select, **params)
    out = np.zeros(x.shape, source.dtype)
    for at in np.ndindex(source.shape):
        best = choose(at)
        if best is not None:
            out[best] += source[at]
    return out


def convolution(x: Any, w: Any, *, window_strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any,
                feature_group_count: int, batch_group_count: int, dimension_numbers: Any, precision: Any,
                preferred_element_type: Any) -> Any:
    d = dimension_numbers
    x, w = x.transpose(d.lhs_spec), w.transpose(d.rhs_spec)
    wide = np.complex128 if np.iscomplexobj(x) else np.float64
    shape, elements = windows(x[0, 0], None, window_dimensions=w.shape[2:], window_strides=window_strides, padding=padding,
                              base_dilation=lhs_dilation, window_dilation=rhs_dilation)
    groups = max(feature_group_count, batch_group_count)
    batch, per_out = x.shape[0] // batch_group_count, w.shape[0] // groups
    out = np.zeros((batch, w.shape[0], *shape), wide)
    for at in np.ndindex(*shape):
        for offset in np.ndindex(*w.shape[2:]):
            places = [a * s + o * r - low for a, s, o, r, (low, _) in zip(at, window_strides, offset, rhs_dilation, padding)]
            if not all(p % b == 0 and 0 <= p // b < n for p, b, n in zip(places, lhs_dilation, x.shape[2:])):
                continue
            seen = x[(slice(None), slice(None), *[p // b for p, b in zip(places, lhs_dilation)])]
            for o in range(w.shape[0]):
                group = o // per_out
                if batch_group_count > 1:
                    part = seen[group * batch:(group + 1) * batch]
                else:
                    part = seen[:, group * w.shape[1]:(group + 1) * w.shape[1]]
                out[(slice(None), o, *at)] += part.astype(wide) @ w[(o, slice(None), *offset)].astype(wide)
    return out.transpose(np.argsort(d.out_spec))


TABLE = {
    "reduce_window_sum": window_reduction(lambda a, b: a + b, lambda d: 0),
    "reduce_window_prod": window_reduction(lambda a, b: a * b, lambda d: 1),
    "reduce_window_max": window_reduction(np.maximum, lowest), "reduce_window_min": window_reduction(np.minimum, highest),
    "select_and_gather_add": gathered_of_chosen, "select_and_scatter_add": scattered_to_chosen,
    "conv_general_dilated": convolution,
}


@pytest.mark.parametrize("sample", samples_in(TABLE), ids=lambda s: s.id)
def test_primitive_equals_plain_loop(sample):
    check_against_reference(TABLE, sample)


def test_generic_window_reduction_equals_loop():
    for sample in samples_of(prims.reduce_window_p):
        x, y, sum_from, max_from = sample.args
        params = {k: v for k, v in sample.params.items() if k != "computation"}
        total, most = evaluate_primitive(sample.prim, sample.args, sample.params)
        shape, elements = windows(x, None, **params)
        assert total.shape == most.shape == shape
        for at in np.ndindex(*shape):
            within = list(elements(at))
            np.testing.assert_allclose(total[at], sum_from + sum(x[i] for i in within), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(most[at], max([max_from, *[y[i] for i in within]]))


def run(name: str, *args: Any, **params: Any) -> Any:
    return np.asarray(evaluate_primitive(getattr(prims, f"{name}_p"), args, params)).tolist()


def test_window_sums_computed_by_hand():
    window = dict(window_dimensions=(2,), window_strides=(2,), padding=((1, 0),), base_dilation=(1,), window_dilation=(1,))
    assert run("reduce_window_sum", np.float32([1, 2, 3, 4, 5]), **window) == [1, 5, 9]
    wide = {**window, "window_strides": (1,), "padding": ((0, 0),), "window_dilation": (3,)}
    assert run("reduce_window_max", np.float32([1, 2, 3, 4, 0]), **wide) == [4, 2]


def test_convolution_computed_by_hand():
    """Convolve [1, 2, 3] with [1, 10]: the window is not reversed."""
    numbers = prims.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
    got = run("conv_general_dilated", np.float32([[[1, 2, 3]]]), np.float32([[[1, 10]]]), window_strides=(1,),
              padding=((1, 0),), lhs_dilation=(1,), rhs_dilation=(1,),
              feature_group_count=1, batch_group_count=1, dimension_numbers=numbers,
              precision=None, preferred_element_type=None)
    assert got == [[[10, 21, 32]]]
