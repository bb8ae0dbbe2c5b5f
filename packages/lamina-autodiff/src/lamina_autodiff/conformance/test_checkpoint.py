"""`checkpoint` changes which residuals are stored, never a value."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import checkpoint, checkpoint_name, checkpoint_policies, grad, jvp, linearize, value_and_grad
from lamina_ir import walk
from lamina_tracing import jit, lax, make_jaxpr

X = np.float32(0.7)
P = checkpoint_policies


def body(x):
    y = checkpoint_name(lax.sin(x), "a")
    z = checkpoint_name(lax.cos(y), "b")
    return lax.sin(z)


POLICIES = {"default": None, "nothing": P.nothing_saveable, "everything": P.everything_saveable, "dots": P.dots_saveable,
            "names": P.save_only_these_names("a"), "others": P.save_any_names_but_these("a"),
            "own": lambda prim, *avals, **params: prim.name == "cos"}
WAYS = {"grad": grad, "jit of grad": lambda f: jit(grad(f)), "grad of jit": lambda f: grad(jit(f)),
        "jvp": lambda f: lambda x: jvp(f, (x,), (np.float32(1),))[1], "linearize": lambda f: lambda x: linearize(f, x)[1](
            np.float32(1))}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", POLICIES)
def test_checkpoint_keeps_values_and_derivatives(policy, way):
    f = checkpoint(body, policy=POLICIES[policy])
    x = 0.7
    want = np.cos(np.cos(np.sin(x))) * -np.sin(np.sin(x)) * np.cos(x)
    np.testing.assert_allclose(float(WAYS[way](f)(X)), want, rtol=1e-5)
    np.testing.assert_allclose(float(f(X)), np.sin(np.cos(np.sin(x))), rtol=1e-6)


def test_checkpoint_with_trees_closures_and_static_arguments():
    def loss(w, n, x):
        return lax.mul(lax.integer_pow(w["a"], n), x)

    f = checkpoint(loss, static_argnums=(1,))
    value, g = value_and_grad(lambda w: f(w, 3, np.float32(2)))({"a": np.float32(2)})
    assert (float(value), float(g["a"])) == (16, 24)
    inner = grad(lambda w: checkpoint(lambda x: lax.sin(lax.mul(w, x)))(np.float32(2)))(np.float32(0.3))
    np.testing.assert_allclose(float(inner), 2 * np.cos(0.6), rtol=1e-5)


@pytest.mark.cost
def test_unsaved_values_are_recomputed():
    def count(f):
        closed = make_jaxpr(grad(f))(X)
        return sum(e.primitive.name in ("sin", "cos") for e in walk(closed))

    kept, again = count(body), count(checkpoint(body))
    assert count(checkpoint(body, policy=P.everything_saveable)) < again and kept < again


@pytest.mark.cost
def test_backward_pass_runs_function_again():
    seen = []

    def f(x):
        seen.append(x)
        return lax.sin(x)

    grad(checkpoint(f, concrete=True))(X)
    assert len(seen) == 2
