"""Every value of a function over a box is within its bounds; `bounds` nests with the built-in transformations."""
from __future__ import annotations

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina_ir import MissingRuleError, dtypes, prims
from lamina_ir.testing.samples import samples_of
from lamina_tracing.extend import bind
from outside import bounds, bounds_rules, softsign

RNG = np.random.default_rng(0)
SAMPLES = [sample for op in bounds_rules for sample in samples_of(op)
           if sample.args and all(a.dtype == np.float32 and np.isfinite(a).all() for a in sample.args) and not op.multiple]


def check_bounds(fun, lo, hi, slack=1e-4, tries=20):
    """Check the bounds of `fun` at random points and at corners of the box."""
    low, high = bounds(fun)(lo, hi)
    for t in range(tries):
        share = 0 if t == 0 else 1 if t == 1 else RNG.uniform(size=1).astype(np.float32)[0]
        value = fun(*[a + (b - a) * np.float32(share) for a, b in zip(lo, hi)])
        for v, a, b in zip(*map(lamina.tree_util.tree_leaves, (value, low, high))):
            v = np.asarray(v, np.float64)
            assert (np.asarray(a) - slack <= v).all() and (v <= np.asarray(b) + slack).all(), (a, v, b)
    return low, high


@pytest.mark.parametrize("sample", SAMPLES, ids=[s.id for s in SAMPLES])
def test_every_rule_bounds_its_primitive(sample):
    def fun(*xs):
        return bind(sample.prim, *xs, **sample.params)
    width = [np.abs(a) * np.float32(0.1) for a in sample.args]
    lo, hi = [a - w for a, w in zip(sample.args, width)], [a + w for a, w in zip(sample.args, width)]
    try:
        out = fun(*sample.args)
        if not dtypes.is_float(np.asarray(out).dtype):
            return
        check_bounds(fun, lo, hi, slack=1e-3)
    except NotImplementedError as e:
        assert f"`{sample.prim.name}`" in str(e)


def mlp(w, x):
    return jnp.sum(softsign(jnp.tanh(x @ w)) ** 2)


W, X = RNG.normal(size=(3, 2)).astype(np.float32), RNG.normal(size=(4, 3)).astype(np.float32)
BOX = ((W - 0.1, X - 0.1), (W + 0.1, X + 0.1))


@pytest.mark.parametrize("wrap", [lambda f: f, lamina.jit, lamina.grad, lamina.checkpoint, lambda f: lamina.jit(lamina.grad(f)),
                                  lambda f: lamina.vmap(f, (None, 0)), lambda f: lamina.grad(lamina.checkpoint(f))])
def test_bounds_of_transformed_functions(wrap):
    check_bounds(wrap(mlp), *BOX)


def test_transformations_of_bounds():
    def upper(w, x):
        return bounds(mlp)((w - 0.1, x), (w + 0.1, x))[1]
    plain = upper(W, X)
    np.testing.assert_allclose(lamina.jit(upper)(W, X), plain, rtol=1e-5)
    assert lamina.vmap(upper, (None, 0))(W, np.stack([X, X])).shape == (2,)
    lamina.test_util.check_grads(upper, (W, X), order=1, modes=("rev",), rtol=5e-2, atol=5e-2)


def test_bounds_of_known_values_are_equal():
    lo, hi = bounds(lambda x: jnp.cos(X) + 0 * x)((np.float32(1),), (np.float32(2),))
    np.testing.assert_allclose(lo, hi)


def test_invalid_calls_are_refused():
    with pytest.raises(NotImplementedError, match="`lt` decides by a value of which only bounds are known"):
        bounds(lambda x: jnp.where(x < 1, x, 0))((np.float32(0),), (np.float32(2),))
    with pytest.raises(MissingRuleError, match="bounds of `sort` has no rule; add a rule to outside/bounds"):
        bounds(jnp.sort)((X,), (X + 1,))
    with pytest.raises(ValueError, match="must have the same tree, shapes and dtypes"):
        bounds(mlp)((W, X), (W, X[:1]))


def test_overridden_rule_is_used_inside_block():
    f = lamina.jit(lambda x: bounds(lambda y: lax.exp(y))((x,), (x + 1,)))
    before = f(np.float32(0))
    with bounds_rules.override(prims.exp_p, lambda xs, /: xs[0]):
        assert f(np.float32(0)) == (0, 1)
    assert f(np.float32(0)) == before
