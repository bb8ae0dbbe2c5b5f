"""With `debug_key_reuse`, the programs that JAX 0.4.30 refuses are refused, with some listed exceptions."""
from __future__ import annotations

import numpy as np
import pytest

import lamina as jax
import lamina.numpy as jnp
from lamina import lax, random
from lamina.errors import KeyReuseError
from lamina.experimental import key_reuse

normal, split = random.normal, random.split


def key():
    return random.key(0)


def draws(n):
    """Return `n` normal numbers from the keys of one `split`."""
    return jax.vmap(normal)(split(key(), n))


def both(f):
    return lambda k=None: [f(k := key()), f(k)]


TWICE = {
    "drawn": both(normal),
    "split, drawn": lambda: [split(k := key()), normal(k)],
    "drawn, split": lambda: [normal(k := key()), split(k)],
    "bits": both(random.bits),
    "inside jit": lambda: jax.jit(lambda k: normal(k) + normal(k))(key()),
    "inside make_jaxpr": lambda: jax.make_jaxpr(lambda k: normal(k) + normal(k))(key()),
    "inside eval_shape": lambda: jax.eval_shape(lambda k: normal(k) + normal(k), key()),
    "two calls of jit": both(jax.jit(lambda k: normal(k))),
    "compiled": lambda: (lambda k, f: [f(k), f(k)])(k := key(), jax.jit(lambda k: normal(k)).lower(k).compile()),
    "jit, drawn": lambda: [jax.jit(lambda k: normal(k))(k := key()), normal(k)],
    "drawn, jit": lambda: [normal(k := key()), jax.jit(lambda k: normal(k))(k)],
    "used up and returned": lambda: normal(jax.jit(lambda k: (normal(k), k))(key())[1]),
    "closed over by jit": lambda k=None: (lambda f: [f(1.0), f(2.0)])((lambda k: jax.jit(lambda x: x + normal(k)))(key())),
    "jit in jit": lambda: jax.jit(lambda k: jax.jit(normal)(k) + jax.jit(normal)(k))(key()),
    "scan's constant": lambda: (lambda k: lax.scan(lambda c, _: (c + normal(k), None), 0.0, None, length=3))(key()),
    "scan's carry": lambda: lax.scan(lambda k, _: (k, normal(k)), key(), None, length=3),
    "while's constant": lambda: (lambda k: lax.while_loop(lambda c: c < 3.0, lambda c: c + 1 + 0 * normal(k), 0.0))(key()),
    "while's test": lambda: (lambda k: lax.while_loop(lambda c: c < random.uniform(k), lambda c: c + 1.0, 0.0))(key()),
    "fori's constant": lambda: (lambda k: lax.fori_loop(0, 3, lambda i, c: c + normal(k), 0.0))(key()),
    "a branch, drawn": lambda: [lax.cond(False, normal, lambda k: 0.0, k := key()), normal(k)],
    "one part": lambda: [normal((ks := split(key()))[0]), normal(ks[0])],
    "whole, part": lambda: [jax.vmap(normal)(ks := split(key(), 4)), normal(ks[0])],
    "part, whole": lambda: [normal((ks := split(key(), 4))[0]), jax.vmap(normal)(ks)],
    "range, part": lambda: [jax.vmap(normal)((ks := split(key(), 4))[:2]), normal(ks[0])],
    "part inside jit": lambda: jax.jit(lambda ks: normal(ks[0]) + jax.vmap(normal)(ks)[1])(split(key())),
    "part of a variable number": lambda: jax.jit(lambda ks, i: normal(ks[i]) + normal(ks[i + 1]))(split(key(), 3), 0),
    "chosen, drawn": lambda: [normal(jnp.where(True, *(ab := tuple(split(key()))))), normal(ab[0])],
    "parts of another shape": lambda: [normal((ks := split(key(), (2, 3))).T[0, 1]), normal(ks[1, 0])],
    "a part, chosen from": lambda: [normal((ab := split(key()))[0]), normal(jnp.where(True, ab[0], ab[1]))],
    "while's carry": lambda: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1 + 0 * normal(c[1]), c[1]), (0.0, key())),
    "a key folded in, split": lambda: [split(k := random.fold_in(key(), 0)), normal(k)],
    "mapped": lambda: jax.vmap(lambda k: normal(k) + normal(k))(split(key(), 3)),
    "gradient, drawn": lambda: [jax.grad(lambda x, k: x * normal(k))(1.0, k := key()), normal(k)],
    "without jit": lambda: jax.disable_jit()(both(normal))(),
    "other generators": lambda: [normal(k := random.key(0, impl="rbg")), normal(k)],
    # programs that JAX accepts
    "two names of an argument": lambda: jax.jit(lambda a, b: normal(a) + normal(b))(k := key(), k),
    "jit gives it back": lambda: [normal(jax.jit(lambda k: k)(k := key())), normal(k)],
    "another shape": lambda: [normal((k := key()).reshape(1)[0]), normal(k)],
    "unpacked, whole": lambda: [normal(list(ks := split(key()))[0]), jax.vmap(normal)(ks)],
    "stacked, drawn": lambda: [jax.vmap(normal)(jnp.stack([k := key(), key()])), normal(k)],
    "stacked twice": lambda: jax.vmap(normal)(jnp.stack([k := key(), k])),
    "put in place": lambda: [jax.vmap(normal)(split(key(), 3).at[0].set(k := key())), normal(k)]}

ONCE = {
    "drawn": lambda: normal(key()),
    "a clone": lambda: [normal(k := key()), normal(random.clone(k)), normal(random.clone(k))],
    "words": lambda: [normal(k := random.PRNGKey(0)), normal(k)],
    "folded in": lambda: [random.fold_in(k := key(), 1), random.fold_in(k, 1), normal(k), random.fold_in(k, 2)],
    "read": lambda: [normal(k := key()), random.key_data(k), repr(k), k == k],
    "two keys of one seed": lambda: [normal(key()), normal(key())],
    "different parts": lambda: [normal((ks := split(key()))[0]), normal(ks[1])],
    "unpacked": lambda: list(map(normal, split(key(), 3))),
    "fresh keys, stacked": lambda: jax.vmap(normal)(jnp.stack(list(split(key())))),
    "a fresh key, chosen": lambda: normal(jnp.where(True, *split(key()))),
    "halves": lambda: [jax.vmap(normal)((ks := split(key(), 4))[:2]), jax.vmap(normal)(ks[2:])],
    "numbered parts": lambda: [jax.vmap(normal)((ks := split(key(), 4))[jnp.array([0, 2])]), normal(ks[1])],
    "columns of mapped splits": lambda: [jax.vmap(normal)((ks := jax.vmap(split)(split(key(), 3)))[:, 0]),
                                         jax.vmap(normal)(ks[:, 1])],
    "both branches": lambda: lax.cond(True, normal, random.uniform, key()),
    "scan's slices": lambda: lax.scan(lambda c, k: (c + normal(k), None), 0.0, split(key(), 12)),
    "scan's carry": lambda: lax.scan(lambda k, _: ((ks := split(k))[0], normal(ks[1])), key(), None, length=3),
    "scan with fold_in": lambda: (lambda k: lax.scan(
        lambda c, i: (c + normal(random.fold_in(k, i)), None), 0.0, jnp.arange(3)))(key()),
    "while's carry": lambda: lax.while_loop(
        lambda c: c[1] < 3, lambda c: ((ks := split(c[0]))[0], c[1] + 1 + 0 * normal(ks[1])), (key(), 0.0)),
    "keys that scan gives": lambda: jax.vmap(normal)(lax.scan(lambda k, _: tuple(split(k)), key(), None, length=3)[1]),
    "for all members": lambda: (lambda k: jax.vmap(lambda x: x + normal(k))(jnp.arange(3.0)))(key()),
    "computed again": lambda: (lambda k: jax.grad(jax.checkpoint(lambda x: jnp.sin(x * normal(k))))(1.0))(key()),
    "computed again inside jit": lambda: jax.jit(jax.grad(jax.checkpoint(lambda x, k: jnp.sin(x * normal(k)))))(1.0, key()),
    "gradient": lambda: jax.grad(jax.jit(lambda x, k: x * normal(k)))(1.0, key()),
    "one type, no run": lambda: [jax.eval_shape(normal, k := key()), normal(k)],
    "copies": lambda: [normal(k := key()), normal(k.copy()), normal(jax.device_put(k))],
    "one iteration": lambda: (lambda k: lax.scan(lambda c, _: (c + normal(k), None), 0.0, None, length=1))(key()),
    "every draw": lambda: [draw(k) for draw, k in zip(DRAWS, split(key(), len(DRAWS)))]}

DRAWS = [
    random.normal, random.uniform, random.bits, random.bernoulli, random.cauchy, random.exponential, random.gumbel,
    random.laplace, random.logistic, random.maxwell, random.rademacher, lambda k: random.beta(k, 1.0, 2.0),
    lambda k: random.t(k, 3.0), lambda k: random.f(k, 2.0, 3.0), lambda k: random.dirichlet(k, jnp.ones(3)),
    lambda k: random.ball(k, 3), lambda k: random.gamma(k, 2.0, (3,)), lambda k: random.loggamma(k, 1.0),
    lambda k: random.chisquare(k, 1.0), lambda k: random.double_sided_maxwell(k, 0.0, 1.0),
    lambda k: random.multivariate_normal(k, jnp.zeros(2), jnp.eye(2)), lambda k: random.orthogonal(k, 2),
    lambda k: random.wald(k, 1.0), lambda k: random.rayleigh(k, 1.0), lambda k: random.triangular(k, 0.0, 0.5, 1.0),
    lambda k: random.normal(k, (2,), "complex64"), lambda k: random.categorical(k, jnp.zeros(3)),
    lambda k: random.generalized_normal(k, 2.0), lambda k: random.truncated_normal(k, -1.0, 1.0),
    lambda k: random.weibull_min(k, 1.0, 1.0), lambda k: random.geometric(k, 0.5), lambda k: random.lognormal(k),
    lambda k: random.pareto(k, 1.0), lambda k: random.poisson(k, 3.0, (3,)),
    lambda k: random.binomial(k, 10, 0.3, (3,)), lambda k: random.permutation(k, 5),
    lambda k: random.permutation(k, jnp.arange(5)), lambda k: random.choice(k, 5, (2,), replace=False),
    lambda k: random.choice(k, 5, (2,), p=jnp.ones(5) / 5), lambda k: random.randint(k, (3,), 0, 5)]


@pytest.mark.parametrize("name", TWICE)
def test_reused_key_is_refused(name):
    with jax.debug_key_reuse(True), pytest.raises(KeyReuseError, match="test_key_reuse.py:.*test_key_reuse.py:"):
        TWICE[name]()


@pytest.mark.parametrize("draw", [
    lambda k: random.gamma(k, 2.0), lambda k: random.poisson(k, 3.0), lambda k: random.ball(k, 2),
    lambda k: random.permutation(k, 4),
    lambda k: random.randint(k, (), 0, 9), lambda k: random.generalized_normal(k, 2.0)])
def test_random_functions_of_other_generators_consume_a_key_once(draw):
    with jax.debug_key_reuse(True):
        draw(k := random.key(1, impl="rbg"))
        with pytest.raises(KeyReuseError):
            normal(k)


@pytest.mark.parametrize("name", ONCE)
def test_keys_used_once_are_accepted(name):
    with jax.debug_key_reuse(True):
        ONCE[name]()


def test_reuse_is_checked_only_with_the_setting():
    k = key()
    np.testing.assert_array_equal(normal(k), normal(k))
    with jax.debug_key_reuse(True):
        normal(k)
    normal(k)


def test_error_names_both_source_lines():
    def first(k):
        return normal(k)

    def second(k):
        return split(k)

    with jax.debug_key_reuse(True):
        k = key()
        first(k)
        with pytest.raises(key_reuse.KeyReuseError, match=r"it is split at .*\(second\), and was drawn from at .*\(first\)\. "):
            second(k)


def test_refused_call_consumes_no_key():
    with jax.debug_key_reuse(True):
        a, b = split(key())
        normal(b)
        with pytest.raises(KeyReuseError):
            jax.jit(lambda a, b: normal(a) + normal(b))(a, b)
        normal(a)
