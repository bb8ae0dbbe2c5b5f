"""Compiled programs whose constants include NaN and infinity."""
import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax, nn

C, X = np.arange(16) % 3 == 0, np.arange(16, dtype=np.float32)
FUNCTIONS = {name: getattr(jnp, name) for name in "exp exp2 expm1 sinh cosh tanh sin log1p sqrt cbrt arctan sinc".split()} | {
    "logistic": nn.sigmoid, "softplus": nn.softplus, "erf": lax.erf, "power": lambda x: jnp.power(2.5, x), "lgamma": lax.lgamma}
VALUES = {
    "nan or 0": lambda c, x: jnp.where(c, jnp.nan, 0.), "2 nan + 1": lambda c, x: jnp.where(c, jnp.nan, 0.5) * 2 + 1,
    "inf - inf": lambda c, x: jnp.where(c, jnp.inf, 0.) - jnp.inf, "0 / 0": lambda c, x: 0. / (1. - c),
    "log": lambda c, x: jnp.log(jnp.where(c, -1., 1.)), "one of three": lambda c, x: jnp.where(c, jnp.nan, jnp.where(x > 4,
                                                                                                                     1., 2.)),
    "bool": lambda c, x: c * jnp.nan, "all": lambda c, x: jnp.where(c, 1., 2.) + jnp.nan, "x": lambda c, x: x * jnp.nan,
    "positions": lambda c, x: jnp.arange(16.) * jnp.nan, "moved": lambda c, x: (x * 0 + jnp.nan).reshape(4, 4).T.reshape(-1),
    "half": lambda c, x: jnp.where(c, jnp.nan, 0.).astype(jnp.float16), "inf": lambda c, x: jnp.where(c, jnp.inf, 0.5)}


FIRST = ("exp", "exp2", "logistic", "sinh", "softplus")  # the rest guards against other compiler versions


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in FUNCTIONS])
def test_functions_of_nan_constants(name, value):
    f, h = FUNCTIONS[name], VALUES[value]
    with np.errstate(all="ignore"):
        want = np.asarray(f(np.asarray(h(C, X))), np.float64)  # evaluated eagerly
    np.testing.assert_allclose(np.asarray(lamina.jit(lambda c, x: f(h(c, x)))(C, X), np.float64), want, rtol=2e-3)


@pytest.mark.parametrize("x", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
def test_booleans_times_non_finite_values(x, dtype):
    values = np.full(16, x).astype(dtype)
    with np.errstate(invalid="ignore"):
        want = C.astype(dtype) * values
    assert np.array_equal(lamina.jit(lambda c, v: c * v)(C, values), want, equal_nan=True)
    assert np.array_equal(lamina.jit(lambda c: values * c.astype(dtype))(C), want, equal_nan=True)
