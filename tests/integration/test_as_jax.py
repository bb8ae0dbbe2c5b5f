"""Programs under `as_jax`, in a process of their own."""
import subprocess
import sys

import pytest


def run_as_jax(program, level="0.4.30"):
    done = subprocess.run([sys.executable, "-c", f"from lamina_compat import as_jax\nas_jax({level!r})\n{program}"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


STAGES = """
import jax, jax.numpy as jnp
from jax import export
f = jax.jit(lambda x: jax.jit(jnp.sin)(x) + 1)
traced = f.trace(1.0)
assert traced.jaxpr.eqns[0].primitive.name == {name!r}, traced.jaxpr
assert str(traced.jaxpr.eqns) == str(jax.make_jaxpr(lambda x: f.__wrapped__(x))(1.0).eqns)
assert traced.jaxpr is traced.jaxpr
assert float(traced.lower().compile()(1.0)) == float(f(1.0)) == float(export.export(f)(1.0).call(1.0))
"""


@pytest.mark.parametrize("level, name", [("0.4.30", "pjit"), ("0.10", "jit")])
def test_traced_function_shows_the_program_of_jax(level, name):
    run_as_jax(STAGES.format(name=name), level)
