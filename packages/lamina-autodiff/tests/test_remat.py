"""Recomputation without a backend: values, what is kept and what is computed again."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import checkpoint, checkpoint_name, checkpoint_policies, grad, jvp, linearize
from lamina_tracing import jit, lax, make_jaxpr


def body(x):
    y = checkpoint_name(lax.sin(x), "a")
    z = checkpoint_name(lax.cos(y), "b")
    return lax.sin(z)


def again(policy):
    """Ops of the recomputing equation, and how many values it is given."""
    program = make_jaxpr(grad(checkpoint(body, policy=policy)))(np.float32(1))
    e = program.eqns[-1]
    assert e.primitive.name == "remat" and e.params["differentiated"]
    return {f.primitive.name for f in e.params["call_jaxpr"].eqns}, len(e.invars)


P = checkpoint_policies


@pytest.mark.parametrize(("policy", "gone", "given"), [
    (None, set(), 2), (P.nothing_saveable, set(), 2), (P.dots_saveable, set(), 2),
    (P.save_only_these_names("a"), {"name"}, 3), (P.save_only_these_names("a", "b"), {"name"}, 4),
    (P.save_any_names_but_these("a"), set(), 3),
    (P.save_from_both_policies(P.save_only_these_names("a"), P.save_only_these_names("b")), {"name"}, 4),
    (lambda prim, *avals, **params: prim.name == "cos", set(), 3)])
def test_policies_keep_what_they_say(policy, gone, given):
    ops, n = again(policy)
    assert n == given
    if n == 4:
        assert not gone & ops
    np.testing.assert_allclose(grad(checkpoint(body, policy=policy))(1.0), grad(body)(1.0), rtol=1e-6)


def test_values_in_every_mode():
    f = checkpoint(body)
    for t in (grad, lambda f: jit(grad(f)), lambda f: grad(jit(f)), lambda f: grad(grad(f)), lambda f: grad(grad(jit(f))),
              lambda f: lambda x: jvp(f, (x,), (1.0,))[1], lambda f: lambda x: linearize(f, x)[1](1.0)):
        np.testing.assert_allclose(t(f)(0.7), t(body)(0.7), rtol=1e-5)


def test_eager_reverse_mode_runs_the_function_twice_and_keeps_nothing():
    seen = []

    def f(x):
        seen.append(x)
        return lax.sin(x) if x > 0 else lax.cos(x)

    assert grad(checkpoint(f, concrete=True))(2.0) == grad(lax.sin)(2.0)
    assert len(seen) == 2
    with pytest.raises(TypeError, match="has no known number"):
        grad(checkpoint(f))(2.0)


def test_values_closed_over_are_differentiated():
    assert np.isclose(grad(lambda w: checkpoint(lambda x: lax.sin(lax.mul(w, x)))(2.0))(0.3), 2 * np.cos(0.6))
    with pytest.raises(TypeError, match="closes over a value that is being differentiated"):
        grad(lambda w: checkpoint(lambda x: w * x, concrete=True)(w))(2.0)


def test_static_arguments_and_bad_input():
    assert grad(checkpoint(lambda n, x: x ** n, static_argnums=(0,)), 1)(3, 2.0) == 12.0
    with pytest.raises(TypeError, match="policy must be a function"):
        checkpoint(body, policy="dots")
    with pytest.raises(NotImplementedError, match="not available here"):
        P.offload_dot_with_no_batch_dims("device", "pinned_host")
    with pytest.raises(TypeError, match="names must be strings"):
        P.save_only_these_names(1)
    with pytest.raises(TypeError, match="name must be a string"):
        checkpoint_name(1.0, 2)


def test_effort_grows_with_the_program_not_with_its_nesting():
    def count(program):
        return sum(1 + sum(count(v) for v in e.params.values() if hasattr(v, "eqns")) for e in program.eqns)

    def nested(depth):
        f = lax.sin
        for _ in range(depth):
            f = checkpoint(lambda x, f=f: lax.sin(f(x)))
        return count(make_jaxpr(grad(f))(1.0))

    assert nested(16) < 5 * nested(8)
