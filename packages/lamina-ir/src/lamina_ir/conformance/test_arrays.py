"""Primitives on whole arrays compared with NumPy or plain loops: shapes, reductions, products, sorting, FFT."""
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from lamina_ir import dtypes, evaluate_primitive, prims
from lamina_ir.testing.reference import check_against_reference, highest, lowest, samples_in
from lamina_ir.testing.samples import samples_of


def broadcast(x: Any, *, broadcast_dimensions: Any, shape: Any) -> Any:
    narrow = [1] * len(shape)
    for size, at in zip(x.shape, broadcast_dimensions):
        narrow[at] = size
    return np.broadcast_to(x.reshape(narrow), shape)


def padded(x: Any, value: Any, *, padding_config: Any) -> Any:
    """Pad: element i of an axis moves to `low + i * (inner + 1)`, if that is inside."""
    shape = [low + high + n + max(n - 1, 0) * inner for n, (low, high, inner) in zip(x.shape, padding_config)]
    out = np.full(shape, value, x.dtype)
    for index in np.ndindex(x.shape):
        to = tuple(low + i * (inner + 1) for i, (low, _, inner) in zip(index, padding_config))
        if all(0 <= t < n for t, n in zip(to, shape)):
            out[to] = x[index]
    return out


def running(ufunc: Any) -> Any:
    def scan(x: Any, *, axis: int, reverse: bool) -> Any:
        x = np.flip(x, axis) if reverse else x
        out = ufunc.accumulate(x, axis, dtype=x.dtype)
        return np.flip(out, axis) if reverse else out
    return scan


def product(x: Any, y: Any, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any) -> Any:
    (cx, cy), (bx, by) = dimension_numbers
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in x.shape]
    right = [next(letters) for _ in y.shape]
    for i, j in [*zip(cx, cy), *zip(bx, by)]:
        right[j] = left[i]
    out = [left[i] for i in bx] + [a for i, a in enumerate(left) if i not in (*bx, *cx)]
    out += [a for i, a in enumerate(right) if i not in (*by, *cy)]
    if dtypes.is_inexact(x.dtype):
        wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
        x, y = x.astype(wide), y.astype(wide)
    elif preferred_element_type is not None:
        x, y = x.astype(preferred_element_type), y.astype(preferred_element_type)
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)


def comparable(x: Any) -> Any:
    """Return a key for Python's sort: real before imaginary parts, NaNs last, equal zeros."""
    parts = [x.real, x.imag] if isinstance(x, complex) else [x]
    return [(p != p, 0.0 if p != p else p) for p in parts]


def sort(*xs: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    moved = [np.moveaxis(x, dimension, -1) for x in xs]
    outs = [np.empty_like(m) for m in moved]
    for row in np.ndindex(moved[0].shape[:-1]):
        order = sorted(range(moved[0].shape[-1]), key=lambda i: [comparable(m[row][i].item()) for m in moved[:num_keys]])
        for m, o in zip(moved, outs):
            o[row] = m[row][order]
    return tuple(np.moveaxis(o, -1, dimension) for o in outs)


def top_k(x: Any, *, axis: int, k: int) -> Any:
    moved = np.moveaxis(x, axis, -1)
    values, places = np.empty((*moved.shape[:-1], k), x.dtype), np.empty((*moved.shape[:-1], k), np.int32)
    for row in np.ndindex(moved.shape[:-1]):
        key = [comparable(v) for v in moved[row].tolist()]
        order = sorted(range(len(key)), key=lambda i: (key[i], -i), reverse=True)[:k]
        values[row], places[row] = moved[row][order], order
    return np.moveaxis(values, -1, axis), np.moveaxis(places, -1, axis)


def fourier(x: Any, *, fft_type: Any, fft_lengths: Any) -> Any:
    """Transform with the DFT matrix, axis by axis."""
    name, k = fft_type.name, len(fft_lengths)
    axes = range(x.ndim - k, x.ndim)
    sign = -1 if name in ("FFT", "RFFT") else 1
    z = x.astype(np.complex128)
    for axis, n in zip(axes, fft_lengths):
        if name == "IRFFT" and axis == x.ndim - 1:
            continue
        j = np.arange(n)
        z = np.moveaxis(np.tensordot(np.exp(sign * 2j * np.pi * np.outer(j, j) / n), z, (1, axis)), 0, axis)
    if name == "RFFT":
        return z[..., :fft_lengths[-1] // 2 + 1]
    if name == "IRFFT":
        n = fft_lengths[-1]
        j, half = np.arange(n), np.arange(n // 2 + 1)
        twice = np.where((half == 0) | (2 * half == n), 1.0, 2.0)
        z = np.real((z[..., :n // 2 + 1] * twice) @ np.exp(2j * np.pi * np.outer(half, j) / n))
    return z / math.prod(fft_lengths) if sign == 1 else z


def max_or_min(ufunc: Any, end: Any) -> Any:
    return lambda x, *, axes: ufunc.reduce(x, axes, initial=end(x.dtype)) if x.dtype.kind != "c" else ufunc.reduce(x, axes)


TABLE = {
    "broadcast_in_dim": broadcast, "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, dimensions), "pad": padded,
    "iota": lambda *, dimension, dtype, shape: broadcast(np.arange(shape[dimension]), broadcast_dimensions=(dimension,),
                                                         shape=shape),
    "reshape": lambda x, *, new_sizes, dimensions: (x if dimensions is None else x.transpose(dimensions)).reshape(new_sizes),
    "rev": lambda x, *, dimensions: np.flip(x, dimensions),
    "slice": lambda x, *, start_indices, limit_indices, strides: x[tuple(map(slice, start_indices, limit_indices,
                                                                             strides or (1,) * x.ndim))],
    "squeeze": lambda x, *, dimensions: np.squeeze(x, dimensions),
    "transpose": lambda x, *, permutation: np.transpose(x, permutation),
    "argmax": lambda x, *, axes, index_dtype: np.argmax(x, axes[0]),
    "argmin": lambda x, *, axes, index_dtype: np.argmin(x, axes[0]),
    "cummax": running(np.maximum), "cummin": running(np.minimum), "cumprod": running(np.multiply), "cumsum": running(np.add),
    "reduce_and": lambda x, *, axes: np.bitwise_and.reduce(x, axes),
    "reduce_or": lambda x, *, axes: np.bitwise_or.reduce(x, axes),
    "reduce_xor": lambda x, *, axes: np.bitwise_xor.reduce(x, axes),
    "reduce_max": max_or_min(np.maximum, lowest), "reduce_min": max_or_min(np.minimum, highest),
    "reduce_sum": lambda x, *, axes: np.sum(x, axes, dtype=x.dtype),
    "reduce_prod": lambda x, *, axes: np.prod(x, axes, dtype=x.dtype),
    "dot_general": product, "sort": sort, "top_k": top_k, "fft": fourier,
}


@pytest.mark.parametrize("sample", samples_in(TABLE), ids=lambda s: s.id)
def test_primitive_equals_plain_loop(sample):
    check_against_reference(TABLE, sample)


def test_generic_reduction_equals_loop():
    sample = samples_of(prims.reduce_p)[0]
    x, y, sum_from, max_from = sample.args
    total, most = evaluate_primitive(sample.prim, sample.args, sample.params)
    np.testing.assert_allclose(total, x.sum(1) + sum_from, rtol=1e-6)
    np.testing.assert_array_equal(most, np.maximum(y.max(1), max_from))


def run(name: str, *args: Any, **params: Any) -> Any:
    return np.asarray(evaluate_primitive(getattr(prims, f"{name}_p"), args, params)).tolist()


def test_results_computed_by_hand():
    """A few results computed by hand also check the loops above."""
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    assert run("reduce_sum", x, axes=(0,)) == [5, 7, 9] and run("reduce_sum", x, axes=(0, 1)) == 21
    assert run("cumsum", x, axis=1, reverse=True) == [[6, 5, 3], [15, 11, 6]]
    assert run("argmax", np.float32([1, 7, 7, 2]), axes=(0,), index_dtype=np.dtype("int32")) == 1
    assert run("pad", np.float32([1, 2, 3]), np.float32(9), padding_config=((-1, 2, 1),)) == [9, 2, 9, 3, 9, 9]
    numbers = (((1,), (1,)), ((), ()))
    got = run("dot_general", x, x, dimension_numbers=numbers, precision=None, preferred_element_type=None)
    assert got == [[14, 32], [32, 77]]
    values, places = evaluate_primitive(prims.top_k_p, [np.float32([3, 9, 1, 9])], {"axis": 0, "k": 3})
    assert values.tolist() == [9, 9, 3] and places.tolist() == [1, 3, 0]
    keys, carried = evaluate_primitive(prims.sort_p, [np.int32([2, 1, 2, 1]), np.int32([0, 1, 2, 3])],
                                       {"dimension": 0, "is_stable": True, "num_keys": 1})
    assert keys.tolist() == [1, 1, 2, 2] and carried.tolist() == [1, 3, 0, 2]


def test_transpose_with_all_permutations():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for p in itertools.permutations(range(3)):
        got = evaluate_primitive(prims.transpose_p, [x], {"permutation": p})
        for at in np.ndindex(got.shape):
            assert got[at] == x[tuple(at[p.index(axis)] for axis in range(3))]
