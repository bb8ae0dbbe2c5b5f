"""The installed package does what its README says, with only its declared dependencies."""
import importlib
import os
import subprocess
import sys

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax, random


def test_the_four_transformations():
    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ w))

    w, x = jnp.array([1.0, 2.0]), jnp.array([[1.0, 0.0], [0.0, 2.0]])
    g = jax.grad(loss)(w, x)
    np.testing.assert_allclose(np.asarray(jax.jit(jax.grad(loss))(w, x)), np.asarray(g), rtol=1e-4)
    rows = jax.vmap(jax.grad(loss), in_axes=(None, 0))(w, x)
    np.testing.assert_allclose(np.asarray(rows.sum(0)), np.asarray(g), rtol=1e-4)
    n = jax.local_device_count()
    total = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(jnp.arange(n))
    assert total.tolist() == [n * (n - 1) // 2] * n


def test_random_numbers_are_those_users_know():
    got = random.normal(random.PRNGKey(42), (16, 3))
    np.testing.assert_allclose(np.asarray(jax.vmap(jnp.vdot)(got[:8], got[8:]))[:2], [0.5104895, -0.717459], rtol=1e-5)


@pytest.mark.parametrize("name", ["numpy", "numpy.fft", "numpy.linalg", "lax", "lax.linalg", "random", "tree_util",
                                  "flatten_util", "dtypes", "distributed", "profiler", "sharding", "typing", "launch",
                                  "lib.xla_bridge", "tools.colab_tpu"])
def test_submodules_import_by_themselves(name):
    module = importlib.import_module(f"lamina.{name}")
    assert all(hasattr(module, n) for n in module.__all__)


@pytest.mark.slow
def test_two_processes_are_one_system(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("""
import lamina as jax
jax.distributed.initialize()
rows = jax.numpy.ones((jax.local_device_count(), 3)) * (1 + jax.process_index())
total = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(rows)
print(jax.process_index(), jax.device_count(), total[0].tolist())
""")
    command = [sys.executable, "-m", "lamina.launch", "-n", "2", "--devices", "2", "--timeout", "100", str(path)]
    done = subprocess.run(command, env={**os.environ, "XLA_FLAGS": ""}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for r in (0, 1):  # the output also has Gloo's messages, from several threads at a time
        assert f"{r} 4 [6.0, 6.0, 6.0]" in done.stdout, done.stdout


def test_a_loaded_jax_is_refused_in_one_line():
    program = "import sys, types; sys.modules['jax'] = types.ModuleType('jax'); import lamina; lamina.jit"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode and "ImportError" in done.stderr.splitlines()[-1] and "jax" in done.stderr.splitlines()[-1]
