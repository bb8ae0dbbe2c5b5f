"""`vectorize` and its relatives."""
from __future__ import annotations

from functools import partial
from typing import Any

import lamina_numpy as lnp
import numpy as np
import pytest


@partial(lnp.vectorize, signature="(n,m),(m)->(n)")
def matrix_vector_product(matrix: Any, vector: Any) -> Any:
    assert matrix.ndim == 2 and matrix.shape[1:] == vector.shape
    return matrix @ vector


@partial(lnp.vectorize, signature="(k),(k)->(k)")
def cross_product(a: Any, b: Any) -> Any:
    assert a.shape == b.shape and a.ndim == b.ndim == 1
    return lnp.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


@pytest.mark.parametrize(("a", "b", "shape"), [((3,), (3,), (3,)), ((2, 3), (3,), (2, 3)), ((1, 2, 3), (2, 1, 3), (2, 2, 3))])
def test_core_dimensions_stay_at_the_end(a: Any, b: Any, shape: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(a).astype(np.float32), rng.standard_normal(b).astype(np.float32)
    out = cross_product(x, y)
    assert out.shape == shape
    np.testing.assert_allclose(out, np.cross(x, y), rtol=1e-5, atol=1e-6)


def test_leading_axes_broadcast() -> None:
    assert matrix_vector_product(np.ones((2, 3)), np.ones((4, 3))).shape == (4, 2)
    assert matrix_vector_product(np.ones((5, 1, 2, 3)), np.ones((4, 3))).shape == (5, 4, 2)
    assert lnp.vectorize(lambda x, y: x + y)(np.ones((3, 1)), np.ones(2)).shape == (3, 2)
    assert lnp.vectorize(lambda x: x)(np.ones((1, 3, 1))).shape == (1, 3, 1)


WHERE = "on vectorized function with excluded=frozenset() and signature="


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda: matrix_vector_product(np.ones(3), np.ones(3)), ValueError,
     f"input with shape (3,) does not have enough dimensions for all core dimensions ('n', 'm') {WHERE}'(n,m),(m)->(n)'"),
    (lambda: matrix_vector_product(np.ones((2, 3)), np.ones((4, 2))), ValueError,
     f"inconsistent size for core dimension 'm': 2 vs 3 {WHERE}'(n,m),(m)->(n)'"),
    (lambda: matrix_vector_product(np.ones((2, 3))), TypeError,
     f"wrong number of positional arguments: expected 2, got 1 {WHERE}'(n,m),(m)->(n)'"),
    (lambda: lnp.vectorize(lambda x: x, signature="(n)->(m,n)")(np.ones(3)), ValueError,
     f"output shape (3,) does not match core dimensions ('m', 'n') {WHERE}'(n)->(m,n)'"),
    (lambda: lnp.vectorize(lambda x: (x, x), signature="(n)->(n)")(np.ones(3)), TypeError,
     f"wrong number of output arguments: expected 1, got 2 {WHERE}'(n)->(n)'"),
    (lambda: lnp.vectorize(lambda x: x, excluded={-1}), ValueError, "excluded={-1} contains negative numbers"),
    (lambda: lnp.vectorize(lambda x: x, excluded={1.5}), TypeError, "excluded={1.5}"),
    (lambda: lnp.vectorize(lambda x: x, signature="(n->(n)"), ValueError, "not a valid gufunc signature"),
    (lambda: lnp.matmul(np.ones((2, 3)), np.ones((4, 3))), TypeError,
     "dot_general requires contracting dimensions to have the same shape, got [3] and [4]")])
def test_errors_say_what_was_wrong(call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert message in str(error.value)


def test_excluded_arguments_pass_through() -> None:
    def add(x: Any, how: Any, y: Any = 1) -> Any:
        return x + y if how == "plus" else x - y
    assert lnp.vectorize(add, excluded={1})(np.ones(3), "plus").tolist() == [2, 2, 2]
    assert lnp.vectorize(add, excluded={1, "y"})(np.ones(3), "minus", y=3).tolist() == [-2, -2, -2]


def test_several_results() -> None:
    s, p = lnp.vectorize(lambda a, b: (a + b, a * b))(np.ones((2, 1)), np.full(3, 2.0))
    assert s.shape == p.shape == (2, 3)


def test_apply_along_axis_moves_results_into_place() -> None:
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for axis in range(3):
        np.testing.assert_allclose(lnp.apply_along_axis(lambda v: v[::-1] * 2, axis, x),
                                   np.apply_along_axis(lambda v: v[::-1] * 2, axis, x))
        np.testing.assert_allclose(lnp.apply_along_axis(lambda v: v.sum(), axis, x),
                                   np.apply_along_axis(lambda v: v.sum(), axis, x))


def test_frompyfunc_broadcasts_its_arguments() -> None:
    add = lnp.frompyfunc(lambda a, b: a + b, 2, 1)
    assert add(np.ones((2, 1)), np.ones(3)).shape == (2, 3)
