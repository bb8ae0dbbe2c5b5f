"""Batches of matrices: mixed with unbatched operands, and one factorization for many right-hand sides."""
import numpy as np
import pytest
from lamina_batching import vmap
from lamina_batching.testing import check_vmap
from lamina_tracing import make_jaxpr
from lamina_tracing.lax import factorizations as linalg

RNG = np.random.default_rng(0)
A = (RNG.normal(size=(3, 4, 4)) + 4 * np.eye(4)).astype(np.float32)
B = RNG.normal(size=(3, 4, 2)).astype(np.float32)


def solve(a, b):
    return linalg.triangular_solve(a, b, left_side=True, lower=True)


def solve_right(a, b):
    return linalg.triangular_solve(a, b, lower=True)


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None), (None, 2), (None, 1)])
def test_triangular_solve(axes):
    a = A if axes[0] == 0 else A[0]
    b = B[0] if axes[1] is None else np.moveaxis(B, 0, axes[1])
    check_vmap(solve, (a, b), axes)


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_triangular_solve_from_the_right(axes):
    b = np.swapaxes(B, -1, -2)
    check_vmap(solve_right, (A if axes[0] == 0 else A[0], b if axes[1] == 0 else b[0]), axes)


def test_unbatched_matrix_solves_all_examples_at_once():
    program = str(make_jaxpr(vmap(solve, (None, 0)))(A[0], B))
    assert "triangular_solve" in program and "f32[4,6]" in program
    diagonals = [np.full(4, 9.0, np.float32)] * 3
    program = str(make_jaxpr(vmap(linalg.tridiagonal_solve, (None, None, None, 0)))(*diagonals, B))
    assert "f32[4,6]" in program


def test_nested_batches():
    stack = np.stack([A, 2 * A])
    got = vmap(vmap(linalg.lu))(stack)
    for x, wanted in zip(got, linalg.lu(stack)):
        np.testing.assert_allclose(x, wanted, rtol=1e-5)
