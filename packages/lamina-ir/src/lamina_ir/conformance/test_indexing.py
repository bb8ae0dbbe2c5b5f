"""Primitives that read and write at indices, compared with loops over index vectors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import dtypes, evaluate_primitive, prims
from lamina_ir.testing.reference import check_against_reference, highest, lowest, samples_in


def indexed(d: Any, indices: Any, rank: int, batching: Any, index_batching: Any, starts: Any) -> Any:
    """Yield (batch index, start per axis of the operand) for each index vector."""
    for place in np.ndindex(*indices.shape[:-1]):
        start = [0] * rank
        for axis, value in zip(starts, indices[place]):
            start[axis] = int(value)
        for axis, at in zip(batching, index_batching):
            start[axis] = place[at]
        yield place, start


def gather(x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any, fill_value: Any,
           indices_are_sorted: bool, unique_indices: bool) -> Any:
    d = dimension_numbers
    gone = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    kept = [n for i, n in enumerate(slice_sizes) if i not in gone]
    rank = indices.ndim - 1 + len(kept)
    batch_at = [i for i in range(rank) if i not in d.offset_dims]
    shape = [0] * rank
    for i, n in zip([*batch_at, *d.offset_dims], [*indices.shape[:-1], *kept]):
        shape[i] = n
    fill = fill_value
    if fill is None:
        fill = np.nan if dtypes.is_inexact(x.dtype) else highest(x.dtype) if x.dtype.kind in "ub" else lowest(x.dtype)
    out = np.full(shape, fill, x.dtype)
    for place, start in indexed(d, indices, x.ndim, d.operand_batching_dims, d.start_indices_batching_dims, d.start_index_map):
        inside = all(0 <= s <= n - k for s, n, k in zip(start, x.shape, slice_sizes))
        if mode.name == "FILL_OR_DROP" and not inside:
            continue
        start = [min(max(s, 0), n - k) for s, n, k in zip(start, x.shape, slice_sizes)]
        part = x[tuple(slice(s, s + k) for s, k in zip(start, slice_sizes))].reshape(kept)
        to: list[Any] = [slice(None)] * rank
        for i, p in zip(batch_at, place):
            to[i] = p
        out[tuple(to)] = part
    return out


def scatter(fun: Any) -> Any:
    def scattered(x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any, indices_are_sorted: bool,
                  unique_indices: bool) -> Any:
        d = dimension_numbers
        out = np.array(x)
        gone = {*d.inserted_window_dims, *d.operand_batching_dims}
        window = [i for i in range(x.ndim) if i not in gone]
        sizes = [1] * x.ndim
        for i, u in zip(window, d.update_window_dims):
            sizes[i] = updates.shape[u]
        batch_at = [i for i in range(updates.ndim) if i not in d.update_window_dims]
        for place, start in indexed(d, indices, x.ndim, d.operand_batching_dims, d.scatter_indices_batching_dims,
                                    d.scatter_dims_to_operand_dims):
            inside = all(0 <= s <= n - k for s, n, k in zip(start, x.shape, sizes))
            if mode.name == "FILL_OR_DROP" and not inside:
                continue
            start = [min(max(s, 0), n - k) for s, n, k in zip(start, x.shape, sizes)]
            take: list[Any] = [slice(None)] * updates.ndim
            for i, p in zip(batch_at, place):
                take[i] = p
            at = tuple(slice(s, s + k) for s, k in zip(start, sizes))
            out[at] = fun(out[at], updates[tuple(take)].reshape(sizes))
        return out
    return scattered


def clamped(x: Any, starts: Any, sizes: Any) -> Any:
    places = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, x.shape, sizes)]
    return tuple(slice(p, p + k) for p, k in zip(places, sizes))


def updated(x: Any, update: Any, *starts: Any) -> Any:
    out = np.array(x)
    out[clamped(x, starts, update.shape)] = update
    return out


TABLE = {
    "dynamic_slice": lambda x, *starts, slice_sizes: x[clamped(x, starts, slice_sizes)], "dynamic_update_slice": updated,
    "gather": gather, "scatter": scatter(lambda old, new: new), "scatter_add": scatter(lambda old, new: old + new),
    "scatter_mul": scatter(lambda old, new: old * new), "scatter_min": scatter(np.minimum), "scatter_max": scatter(np.maximum),
}


@pytest.mark.parametrize("sample", samples_in(TABLE), ids=lambda s: s.id)
def test_primitive_equals_plain_loop(sample):
    check_against_reference(TABLE, sample)


def run(name: str, *args: Any, **params: Any) -> Any:
    return np.asarray(evaluate_primitive(getattr(prims, f"{name}_p"), args, params)).tolist()


X = np.float32([10, 11, 12, 13])


def test_slices_computed_by_hand():
    assert run("dynamic_slice", X, np.int32(3), slice_sizes=(2,)) == [12, 13]
    assert run("dynamic_slice", X, np.int32(-1), slice_sizes=(2,)) == [10, 11]
    assert run("dynamic_update_slice", X, np.float32([1, 2]), np.int32(9)) == [10, 11, 1, 2]


@pytest.mark.parametrize(("mode", "want"), [("CLIP", [12, 13, 10]), ("FILL_OR_DROP", [12, -1, -1])])
def test_gather_and_scatter_computed_by_hand(mode, want):
    numbers = prims.GatherDimensionNumbers((), (0,), (0,))
    got = run("gather", X, np.int32([[2], [7], [-1]]), dimension_numbers=numbers, slice_sizes=(1,),
              mode=prims.GatherScatterMode[mode], fill_value=-1, indices_are_sorted=False, unique_indices=False)
    assert got == want


@pytest.mark.parametrize(("name", "want"), [("scatter_add", [10, 14, 12, 13]), ("scatter_mul", [10, 22, 12, 13]),
                                            ("scatter_max", [10, 11, 12, 13]), ("scatter_min", [10, 1, 12, 13])])
def test_duplicate_scatter_updates_accumulate(name, want):
    numbers = prims.ScatterDimensionNumbers((), (0,), (0,))
    got = run(name, X, np.int32([[1], [1], [9]]), np.float32([1, 2, 5]), dimension_numbers=numbers,
              mode=prims.GatherScatterMode.FILL_OR_DROP, indices_are_sorted=False, unique_indices=False)
    assert got == want
