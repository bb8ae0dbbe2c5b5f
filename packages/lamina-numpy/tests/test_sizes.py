"""Functions whose result length depends on values, with `size=` under `jit`."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_tracing import jit

L = np.array([3, 1, 4, 1, 5], np.int32)
K = np.array([1, 9, 4], np.int32)
CASES: list[tuple[Any, Any]] = [
    (lambda x: lnp.nonzero(x > 2, size=4)[0], [0, 2, 4, 0]), (lambda x: lnp.nonzero(x > 2, size=2)[0], [0, 2]),
    (lambda x: lnp.nonzero(x > 2, size=4, fill_value=-1)[0], [0, 2, 4, -1]),
    (lambda x: lnp.where(x > 2, size=4)[0], [0, 2, 4, 0]), (lambda x: lnp.argwhere(x > 2, size=3), [[0], [2], [4]]),
    (lambda x: lnp.flatnonzero(x > 4, size=2), [4, 0]), (lambda x: lnp.unique(x, size=5), [1, 3, 4, 5, 1]),
    (lambda x: lnp.unique(x, size=5, fill_value=0), [1, 3, 4, 5, 0]), (lambda x: lnp.unique(x, size=2), [1, 3]),
    (lambda x: lnp.unique(x, True, True, True, size=4)[1], [1, 0, 2, 4]),
    (lambda x: lnp.unique(x, True, True, True, size=4)[2], [1, 0, 2, 0, 3]),
    (lambda x: lnp.unique(x, True, True, True, size=4)[3], [2, 1, 1, 1]),
    (lambda x: lnp.union1d(x, K, size=6), [1, 3, 4, 5, 9, 1]), (lambda x: lnp.intersect1d(x, K, size=3), [1, 4, 0]),
    (lambda x: lnp.setdiff1d(x, K, size=3), [3, 5, 0]), (lambda x: lnp.setxor1d(x, K, size=4), [3, 5, 9, 0]),
    (lambda x: lnp.bincount(x, length=6), [0, 2, 0, 1, 1, 1]), (lambda x: lnp.bincount(x, length=4), [0, 2, 0, 1]),
    (lambda x: lnp.compress(x > 2, x, size=4), [3, 4, 5, 0]), (lambda x: lnp.extract(x > 2, x, size=2), [3, 4]),
    (lambda x: lnp.repeat(K, x[:3] - 1, total_repeat_length=5), [1, 1, 4, 4, 4])]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_sized_results(case: int) -> None:
    fun, want = CASES[case]
    np.testing.assert_array_equal(fun(lnp.asarray(L)), want)
    np.testing.assert_array_equal(jit(fun)(L), want)


@pytest.mark.parametrize("fun", [lnp.nonzero, lnp.unique, lnp.bincount, lnp.argwhere, lambda x: lnp.where(x > 1),
                                 lambda x: lnp.arange(x[0]), lambda x: lnp.union1d(x, x)])
def test_traced_values_need_a_size(fun: Any) -> None:
    with pytest.raises(TypeError, match="size|length|traced"):
        jit(fun)(L)


def test_a_traced_shape_is_refused_and_a_known_scalar_is_one() -> None:
    assert lnp.zeros(lnp.asarray(3)).shape == lnp.ones(np.int32(3)).shape == (3,)
    for fun in (lnp.zeros, lambda n: lnp.ones((n, 2)), lambda n: lnp.ones(6).reshape(n)):
        with pytest.raises(TypeError, match="traced value.*static_argnums"):
            jit(fun)(3)


def test_unique_rows() -> None:
    rows = np.array([[1, 2], [0, 5], [1, 2]], np.int32)
    np.testing.assert_array_equal(lnp.unique(rows, axis=0, size=2), np.unique(rows, axis=0))


def test_nothing_from_an_axis_of_length_0() -> None:
    with pytest.raises(IndexError, match="take: an axis of length 0"):
        lnp.take(lnp.zeros((3, 0)), lnp.array([0]), axis=1)
    assert lnp.take(lnp.zeros(0), lnp.zeros(0, "int32")).shape == (0,)


def test_unique_of_nothing() -> None:
    values, counts = lnp.unique(lnp.zeros(0), return_counts=True, size=2, fill_value=7)
    assert values.tolist() == [7, 7] and counts.tolist() == [0, 0]
    assert lnp.unique(lnp.zeros(0), size=0).shape == (0,)
    with pytest.raises(ValueError, match="needs a fill_value"):
        lnp.unique(lnp.zeros(0), size=2)


def test_derivatives_pass_where_values_are_known() -> None:
    x = np.float32([3, 0, 1, 3])
    assert grad(lambda v: (lnp.unique(v) * np.float32([1, 2, 4])).sum())(x).tolist() == [4, 1, 2, 0]
    assert grad(lambda v: v[lnp.nonzero(v)[0]].sum())(x).tolist() == [1, 0, 1, 1]
    assert grad(lambda v: v[lnp.flatnonzero(v)].sum())(x).tolist() == [1, 0, 1, 1]
    assert grad(lambda v: lnp.unique(v, axis=0)[-1].sum())(x[:, None]).ravel().tolist() == [1, 0, 0, 0]
    with pytest.raises(TypeError, match="give size="):
        grad(lambda v: lnp.setdiff1d(v, x).sum())(x)
