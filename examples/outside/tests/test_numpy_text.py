"""The text computes the same as the NumPy evaluator, for each primitive and for whole programs; missing rules are
errors."""
from __future__ import annotations

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina_ir import MissingRuleError, Primitive, evaluate, prims
from lamina_ir.testing import assert_close
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import samples_of
from outside import numpy_text, numpy_text_rules

SAMPLES = [sample for op in numpy_text_rules for sample in samples_of(op)]


def run(program, *args):
    space = {}
    with np.errstate(all="ignore"):
        exec(compile(numpy_text(program), "<numpy text>", "exec"), space)
        return space["main"](*map(np.asarray, args))


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.id for sample in SAMPLES])
def test_text_equals_the_numpy_implementation(sample):
    program = make_sample_program(sample)
    try:
        found = run(program, *sample.args)
    except NotImplementedError as e:
        assert "NumPy" in str(e)
        return
    for got, want in zip(found, evaluate(program, *sample.args), strict=True):
        assert_close(np.asarray(got), np.asarray(want), slack=10, what=sample.id)


def test_every_primitive_has_a_rule_or_a_reason():
    assert all(numpy_text_rules.has_rule_or_reason(op) for op in prims.ALL)


def mlp(w, x):
    for a in w:
        x = jnp.tanh(x @ a)
    return jnp.sum(x ** 2)


def rnn(w, xs):
    def step(c, x):
        c = jnp.tanh(c @ w + x)
        return c, lax.cond(jnp.sum(c) > 0, jnp.sin, jnp.cos, c)
    return lax.scan(step, jnp.zeros(3), xs)


def newton(x):
    return lax.while_loop(lambda y: abs(y * y - x) > 1e-5, lambda y: (y + x / y) / 2, x)


W = [np.full((3, 3), 0.3, np.float32), np.eye(3, dtype=np.float32)]
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(("fun", "args"), [
    (mlp, (W, X)), (lamina.grad(mlp), (W, X)), (lamina.vmap(lamina.grad(mlp), in_axes=(None, 0)), (W, X)), (rnn, (W[0], X)),
    (lamina.grad(lambda w, x: jnp.sum(rnn(w, x)[1])), (W[0], X)), (newton, (np.float32(2),)),
    (lamina.jit(newton), (np.float32(3),)), (lamina.vmap(newton), (np.float32([2, 9]),)), (lamina.jvp, None)], ids=str)
def test_text_of_programs_and_their_derivatives(fun, args):
    if args is None:
        fun, args = (lambda x: lamina.jvp(lamina.checkpoint(jnp.sin), (x,), (x,))), (X,)
    program = lamina.make_jaxpr(fun)(*args)
    leaves = lamina.tree_util.tree_leaves(args)
    for got, want in zip(run(program, *leaves), evaluate(program, *leaves), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_shared_program_is_written_once():
    f = lamina.jit(lambda x: jnp.sin(x) * 2)
    assert numpy_text(lamina.make_jaxpr(lambda x: f(f(x)))(1.0)).count("np.sin") == 1


def test_missing_rule_is_reported():
    odd_p = Primitive("odd", infer=lambda x: x, family="elementwise")
    program = make_sample_program(type(SAMPLES[0])(odd_p, (np.float32(1),), {}))
    with pytest.raises(MissingRuleError, match="NumPy text of `odd` has no rule; add a rule to outside/numpy_text"):
        numpy_text(program)
    with pytest.raises(MissingRuleError, match="the text is for one device"):
        numpy_text(lamina.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 2)])(1.0))
