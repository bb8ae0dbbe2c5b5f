"""The two primitives pass the tests of built-in primitives, and nest with the built-in transformations."""
from __future__ import annotations

import functools

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina_autodiff import testing as derivatives
from lamina_batching import testing as batches
from lamina_ir import (DTypeError, MissingRuleError, Primitive, ProgramError, ShapeError, alpha_equal, check, cse, dce, dumps,
                       evaluate, inline_calls, loads, parse, partial_eval)
from lamina_ir.extend import RegionSignature, carry_operands
from lamina_ir.testing import assert_close
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import samples_of
from lamina_lowering.testing import check_lowering
from lamina_tracing.extend import bind
from outside import bounds, numpy_text, repeat, repeat_p, softsign, softsign_p

SAMPLES = [sample for op in (softsign_p, repeat_p) for sample in samples_of(op)]
X = np.float32([[0.5, -1.0, 2.0], [0.1, 0.2, -0.3]])


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.id for sample in SAMPLES])
class TestSamples:
    def test_compiled_primitive_equals_its_numpy_implementation(self, sample):
        check_lowering(sample.prim, sample.args, sample.params)

    def test_derivatives(self, sample):
        derivatives.check_sample(sample)

    def test_batches(self, sample):
        batches.check_sample(sample)

    def test_programs(self, sample):
        program = make_sample_program(sample)
        check(program)
        expected = evaluate(program, *sample.args)
        for other in (loads(dumps(program)), parse(str(program)), cse(program), dce(program, instantiate=True)[0],
                      inline_calls(program)):
            assert alpha_equal(program, other)
            for a, b in zip(evaluate(other, *sample.args), expected):
                assert_close(a, b)


def both(x):
    """Nest both primitives; one carry is not read."""
    return jnp.sum(repeat(lambda a, n: (softsign(a * x + 0.5), n + 1), 4, x, 0)[0])


def scanned(x):
    return jnp.sum(lax.scan(lambda c, y: (repeat(lambda v: softsign(v + y), 2, c), c), x[0], x)[1])


def branched(x):
    return jnp.sum(lax.cond(x[0, 0] > 0, lambda y: repeat(lambda v: v * y, 3, y), softsign, x))


def looped(x):
    return jnp.sum(lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, repeat(softsign, 2, c[1])), (0, x), max_iters=5)[1])


def saved(x):
    policy = lamina.checkpoint_policies.everything_saveable
    return jnp.sum(lamina.checkpoint(lambda y: repeat(lambda v: jnp.sin(v * y), 3, y), policy=policy)(x))


FUNS = [both, scanned, branched, looped, saved]


@pytest.mark.parametrize("fun", FUNS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("wrap", [
    lambda f: f, lamina.jit, lamina.checkpoint, lambda f: lamina.jit(lamina.checkpoint(f)),
    lambda f: lambda x: jnp.sum(lamina.vmap(lambda s: f(x * s))(np.float32([1, 0.5]))),
    lambda f: lambda x: jnp.sum(lamina.grad(f)(x) ** 2), lambda f: lambda x: lamina.jvp(f, (x,), (x,))[1]],
    ids=["plain", "jit", "checkpoint", "jit of checkpoint", "vmap", "grad", "jvp"])
def test_transformations_of_nested_primitives(fun, wrap):
    f = wrap(fun)
    program = lamina.make_jaxpr(f)(X)
    check(program)
    want, = evaluate(program, X)
    np.testing.assert_allclose(f(X), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(lamina.jit(f)(X), want, rtol=1e-4, atol=1e-5)
    lamina.test_util.check_grads(f, (X,), order=1, rtol=5e-2, atol=5e-2, eps=1e-2)


@pytest.mark.parametrize("inner", [jnp.sin, lamina.jit(jnp.sin), lamina.grad(lambda v: v * v), lamina.checkpoint(jnp.tanh),
                                   lambda v: lax.scan(lambda c, _: (c * 0.9, None), v, None, 3)[0]])
def test_transformations_in_the_body(inner):
    f = functools.partial(repeat, inner, 3)
    want = inner(inner(inner(0.7)))
    assert_close(np.asarray(f(0.7)), np.asarray(want), slack=4)
    assert_close(np.asarray(lamina.vmap(f)(np.float32([0.7]))), np.asarray(want)[None], slack=4)


def test_collectives_in_the_body():
    x = np.arange(4, dtype=np.float32)
    got = lamina.pmap(lambda v: repeat(lambda u: softsign(u + lax.psum(v, "i")), 2, v), axis_name="i",
                      devices=lamina.devices()[:1])(x[:1])
    assert got.shape == (1,)
    inner = lamina.vmap(lambda v: repeat(lambda u: lax.pmean(u, "i") + v, 2, v), axis_name="i")(x)
    np.testing.assert_allclose(inner, 2 * x.mean() + x, rtol=1e-5)


def test_dead_carries_are_removed_and_known_ones_are_split_off():
    program = lamina.make_jaxpr(lambda x, y: repeat(lambda a, b: (a * 2.0, b + a), 3, x, y))(1.0, 1.0)
    small, used = dce(program, [True, False])
    assert used == [True, False] and len(small.eqns[0].outvars) == 1
    split = partial_eval(program, [True, False])
    assert split.out_known == [True, False]


def test_effects_in_body_are_ordered():
    seen = []

    def step(v):
        lamina.debug.callback(lambda u: seen.append(float(u)), v, ordered=True)
        return v + 1.0

    lamina.jit(lambda x: repeat(step, 3, x))(0.0)
    lamina.effects_barrier()
    assert seen == [0.0, 1.0, 2.0]


def test_repeat_of_a_linear_body_is_linear():
    back, = lamina.linear_transpose(lambda v: repeat(lambda u: u * 3.0, 2, v), 1.0)(1.0)
    assert back == 9


def test_bounds_and_numpy_text_of_both_primitives():
    lo, hi = bounds(both)((X - 0.1,), (X + 0.1,))
    assert lo <= both(X) <= hi
    lo, hi = bounds(lamina.jit(lambda x: repeat(lambda v: v * x, 2, x)))((np.float32(2),), (np.float32(3),))
    assert (lo, hi) == (8, 27)
    space = {}
    program = lamina.make_jaxpr(both)(X)
    exec("import numpy as np\n" + numpy_text(program), space)
    np.testing.assert_allclose(space["main"](X)[0], both(X), rtol=1e-5)


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: softsign(np.int32(1)), DTypeError, r"softsign: operand must be a float array; got int32\[\]"),
    (lambda: repeat(lambda v: v[:1], 2, X), ShapeError, r"result 0 of the body must be float32\[2,3\]"),
    (lambda: repeat(lambda v: v, -1, X), ShapeError, "times must be at least 0"),
    (lambda: Primitive("r", params=("b",), infer=print,
                       region_signature=RegionSignature(carry_operands(), body="b", length="n")), ProgramError,
     "Primitive 'r': region_signature: length must name one of the params b; got 'n'")])
def test_invalid_arguments_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_missing_rule_names_primitive_table_and_page():
    lonely_p = Primitive("lonely", infer=lambda x: x, numpy=lambda x: x, family="elementwise")

    def use(x):
        return bind(lonely_p, x)

    for call, table in [(lamina.jit(use), "lowering"), (lamina.grad(use), "jvp"), (lamina.vmap(use), "vmap")]:
        words = f"{table} of `lonely` has no rule; add a rule to .*docs/contributing/adding-an-op.md"
        with pytest.raises(MissingRuleError, match=words):
            call(np.float32([1]) if table == "vmap" else np.float32(1))
