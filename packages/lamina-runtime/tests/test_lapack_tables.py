"""The first factorization of a process does not import scipy.linalg, and scipy.linalg still works afterwards."""
import subprocess
import sys

import pytest

BEGIN = """
import sys
import numpy as np
import lamina_runtime
from lamina_tracing import jit
from lamina_tracing.lax.factorizations import cholesky
spd = np.float32([[4, 2], [2, 3]])
def check_factorization():
    assert np.allclose(jit(cholesky)(spd), np.linalg.cholesky(spd))
"""
USED = """
import scipy.linalg, scipy.linalg.cython_lapack, scipy.linalg.cython_blas
assert scipy.linalg.cython_lapack.__pyx_capi__["spotrf"] and scipy.linalg.cython_blas.__pyx_capi__["sgemm"]
assert np.allclose(scipy.linalg.cholesky(spd, lower=True), np.linalg.cholesky(spd))
check_factorization()
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_scipy_can_be_imported_after_loading_two_of_its_modules():
    run("""
check_factorization()
assert not any(name.startswith("scipy.linalg") for name in sys.modules)
""" + USED)


def test_imported_scipy_is_used():
    run("import scipy.linalg\ncheck_factorization()" + USED)


@pytest.mark.parametrize("hidden", ["scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"])
def test_scipy_is_imported_if_a_module_cannot_be_loaded_alone(hidden):
    run(f"""
from lamina_runtime._jaxlib import lapack_registration as lapack_tables
find = lapack_tables.PathFinder.find_spec
class Hiding:
    find_spec = staticmethod(lambda name, path: None if name == {hidden!r} else find(name, path))
lapack_tables.PathFinder = Hiding
check_factorization()
assert "scipy.linalg" in sys.modules
""" + USED)
