"""The first factorisation of a process: without scipy.linalg, and without a trace for those who import it."""
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
def factorised():
    assert np.allclose(jit(cholesky)(spd), np.linalg.cholesky(spd))
"""
USED = """
import scipy.linalg, scipy.linalg.cython_lapack, scipy.linalg.cython_blas
assert scipy.linalg.cython_lapack.__pyx_capi__["spotrf"] and scipy.linalg.cython_blas.__pyx_capi__["sgemm"]
assert np.allclose(scipy.linalg.cholesky(spd, lower=True), np.linalg.cholesky(spd))
factorised()
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_loads_two_tables_alone_and_scipy_can_be_imported_after():
    run("""
factorised()
assert not any(name.startswith("scipy.linalg") for name in sys.modules)
""" + USED)


def test_scipy_that_is_there_is_used():
    run("import scipy.linalg\nfactorised()" + USED)


@pytest.mark.parametrize("hidden", ["scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"])
def test_what_cannot_be_had_alone_comes_with_the_package(hidden):
    run(f"""
from lamina_runtime._jaxlib import lapack_registration as lapack_tables
find = lapack_tables.PathFinder.find_spec
class Hiding:
    find_spec = staticmethod(lambda name, path: None if name == {hidden!r} else find(name, path))
lapack_tables.PathFinder = Hiding
factorised()
assert "scipy.linalg" in sys.modules
""" + USED)
