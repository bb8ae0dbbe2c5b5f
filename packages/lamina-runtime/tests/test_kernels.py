"""LAPACK kernels are loaded when a program first needs them, also if the program is loaded from disk."""
import os
import subprocess
import sys

import numpy as np
from lamina_tracing import jit
from lamina_tracing.lax import factorizations as linalg

SCRIPT = """
import sys
import lamina_runtime
import numpy as np
from lamina_runtime._compile.executable_cache import cache_stats
from lamina_tracing.lax import factorizations as linalg, sin
sin(np.ones(3, np.float32))
assert not any(m == "scipy" or m.startswith("scipy.") for m in sys.modules)
x = np.array([[4, 2], [2, 5]], np.float32)
print(np.asarray(linalg.cholesky(x)).tolist(), cache_stats().disk_hits > 0)
"""


def run(folder):
    env = dict(os.environ, LAMINA_CACHE_DIR=str(folder), PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    made = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def test_program_from_disk_loads_its_kernels(tmp_path):
    folder = tmp_path / "cache"
    assert run(folder) == "[[2.0, 0.0], [1.0, 2.0]] False"
    assert run(folder) == "[[2.0, 0.0], [1.0, 2.0]] True"


def test_kernel_and_other_operations_in_one_program():
    x = np.diag(np.array([1, 2, 3], np.float32))
    u, s, vh = jit(lambda x: linalg.svd(x @ x))(x)
    np.testing.assert_allclose(s, [9, 4, 1], rtol=1e-6)
    assert u.shape == vh.shape == (3, 3)
