"""Functions along a named axis give the same results for every map: over devices, in loops and in jit. Values and derivatives
are compared with the positional program."""
import os

import numpy as np
import pytest

import lamina
import lamina.numpy as jnp
from lamina import lax

N = 8
X = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
REDUCTIONS = {"sum": jnp.sum, "var": jnp.var, "max": jnp.max, "prod": jnp.prod, "median": jnp.median, "argmin": jnp.argmin,
              "norm": lambda x, axis: jnp.linalg.norm(x, axis=axis)}
KEEP = {"cumsum": jnp.cumsum, "sort": jnp.sort, "argsort": jnp.argsort, "flip": jnp.flip,
        "roll": lambda x, axis: jnp.roll(x, 3, axis)}
MAPS = {"pmap": lambda f: lamina.pmap(f, axis_name="b"), "jit in pmap": lambda f: lamina.pmap(lamina.jit(f), axis_name="b"),
        "jit of vmap": lambda f: lamina.jit(lamina.vmap(f, axis_name="b")),
        "scan in vmap": lambda f: lamina.vmap(lambda v: lax.scan(lambda c, _: (c, f(c)), v, None, 1)[1][0], axis_name="b"),
        "checkpoint": lambda f: lamina.vmap(lamina.checkpoint(f), axis_name="b")}


ALL = os.environ.get("LAMINA_WIDE")  # by default a sample


@pytest.mark.parametrize("way", MAPS if ALL else ["pmap", "scan in vmap", "checkpoint"])
@pytest.mark.parametrize("name", [*REDUCTIONS, *KEEP] if ALL else ["max", "median", "sort", "flip"])
def test_function_along_a_named_axis(name, way):
    f = (REDUCTIONS | KEEP)[name]
    want = np.asarray(f(X, axis=0))
    want = np.broadcast_to(want, X.shape) if name in REDUCTIONS else want
    mapped = MAPS[way](lambda v: f(v, axis="b"))
    np.testing.assert_allclose(mapped(X), want, rtol=1e-5, atol=1e-5)
    if not name.startswith("arg"):
        w = np.cos(np.arange(X.size, dtype=np.float32)).reshape(X.shape)
        got = lamina.grad(lambda x: (mapped(x) * w).sum())(X)
        np.testing.assert_allclose(got, lamina.grad(lambda x: (jnp.broadcast_to(f(x, axis=0), X.shape) * w).sum())(X),
                                   rtol=1e-4, atol=1e-5)
