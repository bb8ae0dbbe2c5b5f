"""Control flow across packages: jit, pmap, vmap with axis names, eager calls, memory, serialization."""
import time

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina_autodiff.extend import transpose_rules
from lamina_ir import Primitive, walk
from lamina_tracing.extend import bind
from lamina_tracing.lax.callbacks import debug_callback

RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 4)).astype(np.float32) * np.float32(0.5)
XS = RNG.normal(size=(6, 4)).astype(np.float32)


def rnn(w, xs):
    def step(c, x):
        c = jnp.tanh(c @ w + x)
        return c, (c * x).sum()
    c, ys = lax.scan(step, jnp.zeros(4), xs)
    return ys.sum() + c.sum()


def rnn_unrolled(w, xs):
    c, total = jnp.zeros(4), 0.0
    for x in xs:
        c = jnp.tanh(c @ w + x)
        total = total + (c * x).sum()
    return total + c.sum()


def assert_close(a, b, tol=2e-4):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


WANTED = np.asarray(jax.grad(rnn_unrolled)(W, XS))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, lambda f: lambda w, x: jax.vmap(f, (None, 0))(w, x[None])[0],
                                  lambda f: lambda w, x: jax.pmap(f, in_axes=(None, 0))(w, x[None])[0]],
                         ids=["eager", "jit", "vmap", "pmap"])
def test_grad_of_scan(wrap):
    assert_close(wrap(jax.grad(rnn))(W, XS), WANTED)
    assert_close(jax.grad(wrap(rnn))(W, XS), WANTED)
    assert_close(wrap(jax.jit(jax.grad(jax.jit(rnn))))(W, XS), WANTED)


def test_hessian_under_jit():
    v = jnp.ones(4)

    def along(f):
        return jax.jit(jax.hessian(lambda b: f(W + b[:, None], XS)))(v * 0.1)
    assert_close(along(rnn), along(rnn_unrolled), 2e-3)


LOOPS = {
    "scan": lambda x, reduce: lax.scan(lambda c, _: (c * 0.5 + reduce(c), c), x, None, length=3)[0],
    "fori": lambda x, reduce: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + reduce(c), x),
    "while": lambda x, reduce: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.5 + reduce(s[1])),
                                              (0, x), max_iters=5)[1],
    "cond": lambda x, reduce: lax.cond(reduce(x) > 0, lambda x: x * 0.5 + reduce(x), lambda x: x, x),
    "until all agree": lambda x, reduce: lax.while_loop(lambda c: reduce(c) < 50, lambda c: c + reduce(c), x,
                                                        max_iters=9),
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("reduce", ["psum", "pmean", "pmax"])
def test_collectives_inside_control_flow(loop, reduce):
    x = np.array([1.0, 3.0, 2.0, 0.5], np.float32)

    def f(x):
        return loop(x, lambda v: getattr(lax, reduce)(v, "i"))
    mapped = jax.vmap(f, axis_name="i")(x)
    assert_close(jax.pmap(f, axis_name="i")(x), mapped)
    assert_close(jax.jit(jax.vmap(f, axis_name="i"))(x), mapped)
    pulled = jax.vmap(jax.grad(f), axis_name="i")(x)
    assert_close(jax.pmap(jax.grad(f), axis_name="i")(x), pulled)
    assert_close(jax.grad(lambda x: jax.vmap(f, axis_name="i")(x).sum())(x), pulled)
    assert_close(jax.vmap(lambda x: jax.jvp(f, (x,), (1.0,))[1], axis_name="i")(x),
          jax.jvp(jax.vmap(f, axis_name="i"), (x,), (jnp.ones(4),))[1])


def test_axis_index_as_loop_bound():
    def f(x):
        return lax.fori_loop(0, lax.axis_index("i") + 1, lambda i, c: c * 2, x)
    x = jnp.ones(4)
    assert jax.vmap(f, axis_name="i")(x).tolist() == jax.pmap(f, axis_name="i")(x).tolist() == [2, 4, 8, 16]


def test_eager_loops_are_traced_once():
    count = [0]

    def body(c, x):
        count[0] += 1
        return jnp.sin(c) + x, c

    def half(x):
        count[0] += 1
        return x / 2
    small, bigger = (lambda c: c > 1), (lambda x: x * 2)
    xs = jnp.arange(4.0)
    for _ in range(4):
        lax.scan(body, jnp.float32(0), xs)
        lax.while_loop(small, half, jnp.float32(9))
        lax.cond(True, half, bigger, jnp.float32(1))
        jax.grad(lambda c: lax.scan(body, c, xs)[0])(jnp.float32(1))
    assert count[0] == 3


def test_gradient_of_bounded_while_needs_little_memory():
    def f(x, bound):
        out = lax.while_loop(lambda c: c[0] < 10**6, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x), max_iters=bound)
        return out[1].sum()

    def temporary(bound):
        made = jax.jit(jax.grad(lambda x: f(x, bound))).lower(jnp.ones(1000)).compile()
        return made.memory_analysis().temp_size_in_bytes
    small, large = temporary(100), temporary(10_000)
    assert large < 15 * small and large < 10_000 * 4000 / 20


def test_compiled_size_does_not_grow_with_length():
    def text(n):
        return jax.jit(jax.grad(lambda x: lax.scan(lambda c, x: (jnp.sin(c * x), None), 1.0, x)[0])).lower(
            jnp.ones(n)).as_text()
    assert len(text(10)) + 60 > len(text(100_000)) - 60


def test_loops_under_x64():
    with jax.config.enable_x64(True):
        assert lax.fori_loop(0, 3, lambda i, c: c * i + 1, np.float64(1)).dtype == np.float64
        assert lax.scan(lambda c, x: (c + x, c), 0, np.arange(3))[0] == 3
        assert lax.scan(lambda c, x: (2, c), np.int32(0), None, length=2)[0].dtype == np.int32


def test_collectives_in_branches_of_nested_maps():
    def f(x):
        def step(c, _):
            return lax.cond(c > 2, lambda c: c - lax.psum(c, "j"), lambda c: c + 1.0, c), None
        return lax.scan(step, x, None, length=2)[0]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    inner = jax.vmap(jax.vmap(f, axis_name="j"))(x)
    assert_close(jax.pmap(jax.vmap(f, axis_name="j"))(x), inner)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.grad, lambda f: jax.jit(jax.grad(f))],
                         ids=["eager", "jit", "grad", "jit of grad"])
def test_ordered_effects_in_control_flow(wrap):
    seen = []

    def note(*values):
        seen.append([float(v) for v in values])

    def doubled(i):
        return lambda c: (debug_callback(note, 10 + i, ordered=True), c * 2)[1]

    def f(x):
        def step(c, i):
            debug_callback(note, i, c, ordered=True)
            return lax.cond(i > 0, doubled(i), lambda c: c + 1, c), None
        return lax.scan(step, x, jnp.arange(3))[0]
    jax.block_until_ready(wrap(f)(1.0))
    deadline = time.monotonic() + 10
    while len(seen) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert seen == [[0, 1], [1, 2], [11], [2, 4], [12]]


def test_lax_control_flow_is_that_of_lamina_tracing():
    from lamina_tracing import lax as tracing_lax
    for name in ("cond", "switch", "scan", "map", "while_loop", "fori_loop", "associative_scan"):
        assert getattr(lax, name) is getattr(tracing_lax, name)


def test_serialized_program_evaluates_the_same():
    from lamina_ir import dumps, loads
    from lamina_tracing.extend import eval_jaxpr
    made = jax.make_jaxpr(jax.grad(rnn))(W, XS)
    assert any(e.primitive.name == "scan" for e in walk(made))
    assert_close(eval_jaxpr(loads(dumps(made)), [W, XS])[0], WANTED)


def test_batched_while_gradients_with_different_iteration_counts():
    def f(x):
        return lax.while_loop(lambda c: lax.lt(c, 10.0), lambda c: lax.mul(c, c), x, max_iters=7)
    x = np.array([2.0, 1.5, 20.0, 1.01], np.float32)
    np.testing.assert_allclose(jax.vmap(jax.grad(f))(x), [jax.grad(f)(v) for v in x], rtol=1e-4)
    summed = jax.grad(lambda x: lax.reduce_sum(jax.vmap(f)(x), (0,)))
    np.testing.assert_allclose(summed(x), [jax.grad(f)(v) for v in x], rtol=1e-4)


def test_gradient_of_untaken_branch_is_masked():
    def f(x):
        return lax.cond(lax.gt(x, 0.0), lambda x: lax.sqrt(x), lambda x: lax.mul(x, 0.0), x)
    out = jax.vmap(jax.grad(f))(np.array([4.0, -1.0], np.float32))
    np.testing.assert_allclose(out, [0.25, 0.0])


def test_platform_dependent_through_derivatives_and_batches():
    def fun(x, z):
        return lax.platform_dependent(x, cpu=lambda v: jnp.sin(v) * z, default=lambda v: v * 0)

    x, z = jnp.array([0.5, 1.0, 2.0]), jnp.array([1.0, 2.0, 3.0])
    wanted = np.cos(x) * z
    np.testing.assert_allclose(jax.vmap(jax.grad(fun))(x, z), wanted, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(fun)))(x, z), wanted, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(jax.jit(fun)))(x, z), wanted, rtol=1e-6)


def test_derivatives_lower_only_the_branch_of_the_platform():
    odd = Primitive("odd", infer=lambda x: x, numpy=lambda x: x, linear_in=(0,), family="elementwise")  # has no lowering
    transpose_rules.define(odd, lambda ct, x: bind(odd, ct))

    def fun(x):
        return lax.platform_dependent(x, cpu=jnp.sin, default=lambda v: bind(odd, v))

    def loop(x):
        return lax.scan(lambda c, _: (fun(c), None), x, None, length=2)[0]

    def bounded(x):
        return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, fun(c[1])), (0, x), max_iters=3)[1]

    twice = np.cos(np.sin(0.5)) * np.cos(0.5)
    for f, wanted in ((fun, np.cos(0.5)), (loop, twice), (bounded, twice)):
        for g in (f, jax.jit(f), jax.checkpoint(f), jax.checkpoint(f, policy=jax.checkpoint_policies.everything_saveable)):
            np.testing.assert_allclose(jax.grad(g)(0.5), wanted, rtol=1e-6)
            np.testing.assert_allclose(jax.linearize(g, 0.5)[1](1.0), wanted, rtol=1e-6)
            np.testing.assert_allclose(jax.grad(jax.grad(g))(0.5), jax.grad(jax.grad(f))(0.5), rtol=1e-6)


def test_scatter_apply_through_derivatives_and_batches():
    rows = lax.ScatterDimensionNumbers((1,), (0,), (0,))

    def fun(x):
        return lax.scatter_apply(x, np.array([[0], [7], [2], [0]]), lambda v: v * v, rows, update_shape=(4, 2))

    x = jnp.arange(6.0).reshape(3, 2)
    wanted = np.stack([4 * x[0] ** 3, np.ones(2), 2 * x[2]])
    np.testing.assert_allclose(jax.grad(lambda x: fun(x).sum())(x), wanted, rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(fun, (x,), (jnp.ones((3, 2)),))[1], wanted, rtol=1e-6)
    both = jnp.stack([x, x + 1])
    np.testing.assert_allclose(jax.jit(jax.vmap(fun))(both), np.stack([fun(x), fun(x + 1)]), rtol=1e-6)


def test_sharding_constraint_of_a_batch_leaves_its_axis_unconstrained():
    sharding = jax.pmap(lambda v: v)(np.ones((8, 2), np.float32)).sharding
    constrained = jax.vmap(lambda v: lax.with_sharding_constraint(v, sharding), 1, 1)
    text = str(jax.make_jaxpr(constrained)(np.ones((8, 3, 2))))
    assert "sharding='{devices=[8,1,1]<=[8]} on cpu:0,1,2,3,4,5,6,7'" in text and "unspecified_dims=(1,)" in text
