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


CUSTOM_RULES = """
import jax, jax.numpy as jnp, numpy as np
x, mask, steps = np.arange(3.0, dtype=np.float32) + 1, np.array([True, False, True]), np.arange(3)
seen = []

def make(out, rule):
    f = jax.custom_jvp(out)
    f.defjvp(lambda primals, tangents: (seen.append(tangents[0].dtype), (f(*primals), rule(*primals, *tangents)))[1])
    return f

product = lambda m, x: x * m
pair = lambda m, x: (m, x * m)
cases = [make(pair, lambda m, x, dm, dx: (dm, dx * m)), make(pair, lambda m, x, dm, dx: (jnp.zeros_like(dm), dx * m)),
         make(product, lambda m, x, dm, dx: dx * m)]
if {old}:
    cases += [make(product, lambda m, x, dm, dx: jnp.where(dm, 0.0, dx * m)),
              make(product, lambda m, x, dm, dx: dm.astype(np.float32) + dx * m),
              make(product, lambda m, x, dm, dx: jnp.sum(dm) * x + dx * m)]
for f in cases:
    for m in (mask, steps):
        g = lambda m, x: jnp.sum(jax.tree.leaves(f(m, x))[-1])
        over = lambda x: jnp.sum(jax.vmap(g)(m, x))
        for run in (jax.grad(over), jax.jit(jax.grad(over)), jax.grad(jax.jit(over)), lambda x: jax.vmap(jax.grad(g, 1))(m, x),
                    lambda x: jax.jvp(over, (x,), (jnp.ones(3),))[1] * m / np.sum(m),
                    lambda x: jnp.stack([jax.grad(g, 1)(a, b) for a, b in zip(m, x)])):
            np.testing.assert_allclose(run(x), m, rtol=1e-6)
assert set(seen) == ({{np.dtype(bool), np.dtype("int32")}} if {old} else {{jax.dtypes.float0}}), set(seen)
"""


@pytest.mark.parametrize("level", ["0.4.30", "0.10"])
def test_rules_of_custom_jvp_get_zeros_of_the_release_for_integers(level):
    run_as_jax(CUSTOM_RULES.format(old=level == "0.4.30"), level)


FLOAT0 = """
import jax, jax.numpy as jnp, numpy as np
zero = np.zeros(3, jax.dtypes.float0)
for make in (jnp.zeros_like, jnp.ones_like, lambda z: jnp.full_like(z, 0), jnp.asarray, lambda z: jax.lax.full_like(z, 0),
             lambda z: jnp.zeros(3, z.dtype), jnp.empty_like):
    made = make(zero)
    assert made.dtype == jax.dtypes.float0 and made.shape == (3,)
"""


def test_zero_tangents_of_integers_are_made():
    run_as_jax(FLOAT0)


DERIVATIVES_ON_DEVICES = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:2]), ("i",))
w, x = np.float32(3), np.array([1, 2], np.float32)

def run(f, argument=0):
    def body(w, x):
        return jnp.reshape(jax.grad(lambda *xs: jnp.sum(f(*xs)), argument)(w, x), (1,))
    found = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i"), check_vma=False))
    return found(w, x).tolist()

# The numbers of JAX 0.12 with check_vma=False.
assert run(lambda w, x: w * x) == [1, 2]
assert run(lambda w, x: lax.psum(w * w * x, "i")) == [12, 24]
assert run(lambda w, x: lax.pmean(w * w * x, "i")) == [6, 12]
assert run(lambda w, x: lax.psum(w * x * x, "i"), 1) == [12, 24]
"""


def test_derivatives_inside_shard_map_are_those_of_unchecked_maps():
    run_as_jax(DERIVATIVES_ON_DEVICES, "0.10")
