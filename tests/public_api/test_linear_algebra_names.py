"""`lax.linalg`, the solvers of `lax`, `numpy.linalg` and `numpy.fft` in the umbrella package."""
import lamina
import lamina_autodiff
import lamina_numpy
import numpy as np
import pytest
from lamina_tracing.lax import factorizations


def test_lax_linalg_contains_the_factorizations():
    for name in ("cholesky", "eig", "eigh", "hessenberg", "householder_product", "lu", "lu_pivots_to_permutation", "qdwh",
                 "qr", "schur", "svd", "triangular_solve", "tridiagonal", "tridiagonal_solve"):
        assert getattr(lamina.lax.linalg, name) is getattr(factorizations, name) and name in lamina.lax.linalg.__all__


def test_solvers_are_available_in_lax():
    assert lamina.lax.custom_root is lamina_autodiff.custom_root
    assert lamina.lax.custom_linear_solve is lamina_autodiff.custom_linear_solve


@pytest.mark.parametrize("module", ["linalg", "fft"])
def test_numpy_submodules_are_complete(module):
    ours, theirs = getattr(lamina.numpy, module), getattr(np, module)
    assert all(getattr(ours, name) is getattr(getattr(lamina_numpy, module), name) for name in ours.__all__)
    absent = set(theirs.__all__) - set(ours.__all__) - {"LinAlgError"}
    assert not absent
    assert all(getattr(ours, name).__doc__ for name in ours.__all__)
