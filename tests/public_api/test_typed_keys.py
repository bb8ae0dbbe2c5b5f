"""Array functions of typed keys: the results of JAX 0.4.30, or a TypeError if there is no meaning."""
from __future__ import annotations

import numpy as np
import pytest

import lamina as jax
import lamina.numpy as jnp
from lamina import lax, random

KEYS = random.split(random.key(3), 4).reshape(2, 2)
DATA = np.asarray(random.key_data(KEYS))


def masked(keep):
    return np.where(keep[..., None], DATA, 0)


@pytest.mark.parametrize("fun, expected", [
    (lambda k: jnp.zeros_like(k), 0 * DATA), (lambda k: jnp.ones_like(k), 0 * DATA + 1),
    (lambda k: lax.full_like(k, 0), 0 * DATA),
    (lambda k: jnp.full((2, 2), 7, k.dtype), 0 * DATA + 7),
    (lambda k: jnp.full_like(k, 7), 0 * DATA + 7), (lambda k: lax.zeros_like_array(k), 0 * DATA),
    (lambda k: jnp.empty_like(k), 0 * DATA), (lambda k: jnp.tril(k), masked(np.tri(2, dtype=bool))),
    (lambda k: jnp.triu(k), masked(np.tri(2, dtype=bool).T)),
    (lambda k: lax.full_like(k, k[0, 1]), np.broadcast_to(DATA[0, 1], DATA.shape)),
    (lambda k: jnp.fill_diagonal(k, k[0, 1], inplace=False), np.where(np.eye(2, dtype=bool)[..., None], DATA[0, 1], DATA)),
    (lambda k: jnp.real(k), DATA), (lambda k: jnp.take(k, 1, axis=0), DATA[1])])
def test_functions_that_return_keys(fun, expected):
    for f in (fun, jax.jit(fun)):
        np.testing.assert_array_equal(random.key_data(f(KEYS)), expected)


@pytest.mark.parametrize("fun, expected", [
    (lambda k: jnp.isclose(k, k.T), [[True, False], [False, True]]), (lambda k: jnp.allclose(k, k), True),
    (lambda k: jnp.isin(k, k[0]), [[True, True], [False, False]]),
    (lambda k: jnp.isnan(k), np.zeros((2, 2), bool)), (lambda k: jnp.isfinite(k), np.ones((2, 2), bool)),
    (lambda k: jnp.array_equal(k, k.T), False)])
def test_predicates_of_keys(fun, expected):
    for f in (fun, jax.jit(fun)):
        np.testing.assert_array_equal(f(KEYS), expected)


@pytest.mark.parametrize("name", ["round", "around", "floor", "ceil", "trunc", "fix", "rint", "abs", "sign", "sum", "max",
                                  "sort", "argsort", "cumsum", "unique", "sin", "negative", "square", "mean", "diff",
                                  "any", "all", "count_nonzero", "logical_not", "argwhere", "packbits"])
def test_numeric_functions_refuse_keys(name):
    with pytest.raises(TypeError):
        getattr(jnp, name)(KEYS)


@pytest.mark.parametrize("fun, error", [
    (lambda: lax.full_like(KEYS, 0.5), TypeError), (lambda: lax.full_like(KEYS, -1), OverflowError),
    (lambda: lax.full_like(KEYS, 2**32), OverflowError), (lambda: jnp.isclose(KEYS, 1), TypeError)])
def test_invalid_key_data_is_refused(fun, error):
    with pytest.raises(error):
        fun()


@pytest.mark.parametrize("make", [
    lambda d: jnp.array([1, 2], dtype=d), lambda d: jnp.asarray(3, d), lambda d: jnp.asarray(np.zeros((2, 2), "uint32"), d),
    lambda d: jnp.arange(3, dtype=d), lambda d: jnp.eye(2, dtype=d), lambda d: jnp.indices((2,), d),
    lambda d: jnp.full(2, 0.5, d)])
def test_conversion_of_numbers_to_keys_is_refused(make):
    with pytest.raises(TypeError, match="keys"):
        make(KEYS.dtype)
    with pytest.raises(TypeError, match="keys"):
        jax.jit(lambda: make(KEYS.dtype))()
