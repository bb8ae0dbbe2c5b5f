"""The cells of the notebook at a small size, and the exact text of its programs."""
import re

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import random
from lamina.lib import xla_bridge
from lamina_ir.testing.programs import NOTEBOOK


def dot(v: jax.Array, u: jax.Array):
    return jnp.vdot(v, u)


def program_text(fun, *args):
    return re.sub(r"<axis 0x[0-9a-f]+>", "<axis 0x0>", str(jax.make_jaxpr(fun)(*args)))


V = random.normal(random.PRNGKey(42), shape=(16, 3))[:8, :]
U = random.normal(random.PRNGKey(42), shape=(16, 3))[8:, :]
NUMBERS = [0.51048726, -0.7174605, -0.20105815, -0.26437205, -1.3696793, 2.744793, 1.7936493, -1.1743435]


def test_platform_and_devices():
    assert xla_bridge.get_backend().platform == jax.default_backend()
    assert len(jax.local_devices()) == jax.local_device_count() == 8
    assert repr(dot(jnp.ones(shape=(3,)), jnp.ones(shape=(3,)))) == "Array(3., dtype=float32)"


@pytest.mark.parametrize("f", [jax.vmap(dot), jax.pmap(dot), jax.jit(jax.vmap(dot)), jax.jit(jax.pmap(dot)),
                               jax.pmap(jax.jit(dot))])
def test_numbers(f):
    np.testing.assert_allclose(np.asarray(f(V, U)), NUMBERS, rtol=3e-5)  # the notebook ran on a TPU


def test_too_many_slices():
    v = jnp.ones((1000, 3))
    with pytest.raises(ValueError, match="requires 1000 logical devices, but only 8 XLA devices are available"):
        jax.pmap(dot)(v, v)


def test_shapes():
    v = jnp.ones((8, 50, 3))
    assert jax.pmap(dot)(v, v).shape == (8,)
    assert jax.pmap(jax.vmap(dot))(v, v).shape == (8, 50)


BIG = jax.ShapeDtypeStruct((8, 1_250_000, 3), "float32")
PROGRAMS = {"pmap of vdot": (jax.pmap(dot), BIG, BIG), "jit of vmap": (jax.jit(jax.vmap(dot)), V, U),
            "jit of pmap": (jax.jit(jax.pmap(dot)), V, U), "pmap of jit": (jax.pmap(jax.jit(dot)), V, U),
            "pmap": (jax.pmap(dot), V, U)}


@pytest.mark.parametrize("name", NOTEBOOK)
def test_printed_programs(name):
    text = re.sub(r"<axis 0x[0-9a-f]+>", "<axis 0x0>", NOTEBOOK[name][1])
    assert program_text(*PROGRAMS[name]) == text
