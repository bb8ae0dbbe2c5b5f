"""`sys.modules["jax"] = lamina`: programs find the modules of lamina under the name jax."""
import subprocess
import sys

PROGRAM = """
import sys, lamina
sys.modules["jax"] = lamina
import jax
import jax.numpy as jnp
from jax import lax, random
import jax.scipy.special
assert jnp is lamina.numpy and jax.scipy.special is lamina.scipy.special
assert jax.jit(lambda x: 2 * x)(jnp.ones(2)).tolist() == [2, 2]
assert jax.grad(lambda x: jax.scipy.special.erf(x))(0.0) > 1
"""

REAL_JAX = """
import sys, types
sys.modules["jax"] = types.ModuleType("jax")
try:
    import lamina_runtime
except ImportError as error:
    assert "in a process that has imported jax" in str(error)
else:
    raise SystemExit("not refused")
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_lamina_is_accepted_as_jax_before_the_runtime_is_loaded():
    run(PROGRAM)


def test_runtime_refuses_to_load_with_jax():
    run(REAL_JAX)
