"""`jet` through maps over devices and NumPy-like functions equals nested `jvp`."""
import math

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental.jet import jet
from lamina.experimental.maps import xmap
from lamina.experimental.shard_map import shard_map
from lamina.sharding import Mesh, PartitionSpec as P

X = np.linspace(0.1, 0.9, 4)
SERIES = np.random.default_rng(0).normal(size=(3, 4))


@pytest.fixture(autouse=True)
def use_64_bits():
    with lamina.enable_x64(True):
        yield


def body(x):
    return jnp.sin(x) * lax.psum(x**2, "i")


def with_shard_map(x):
    mesh = Mesh(np.array(lamina.devices()[:4]), ("i",))
    return shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)


FUNCTIONS = {
    "pmap": lambda x: lamina.pmap(body, axis_name="i")(x), "shard_map": with_shard_map,
    "xmap": lambda x: xmap(body, in_axes=["i", ...], out_axes=["i", ...])(x),
    "softmax": lamina.nn.softmax, "gelu": lamina.nn.gelu, "logsumexp": lamina.nn.logsumexp,
    "inverse": lambda x: jnp.linalg.inv(jnp.diag(x) + 0.1), "norm": jnp.linalg.norm,
    "fft": lambda x: jnp.abs(jnp.fft.fft(x) + 2) ** 2,
    "incomplete gamma": lambda x: lamina.scipy.special.gammainc(2.0, x), "standard deviation": jnp.std}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jet_equals_nested_jvp(name):
    f = FUNCTIONS[name]
    value, derivatives = jet(f, (X,), (list(SERIES),))

    def along_curve(t):
        return f(sum([c * t**k / math.factorial(k) for k, c in enumerate(SERIES, 1)], X))

    g, wanted = along_curve, [along_curve(0.0)]
    for _ in SERIES:
        g = (lambda g: lambda t: lamina.jvp(g, (t,), (1.0,))[1])(g)
        wanted.append(g(0.0))
    for a, b in zip([value, *derivatives], wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
