"""Custom derivatives, batching rules and rematerialization in every other transformation, and after serialization."""
import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.ad_checkpoint import checkpoint_name
from lamina.custom_batching import custom_vmap, sequential_vmap
from lamina.test_util import check_grads
from lamina_ir import MissingRuleError, alpha_equal, dumps, jaxpr_text, loads, parse
from lamina_tracing.extend import jaxpr_as_fun

X = jnp.linspace(-1.0, 1.0, 4)


def assert_close(a, b, rtol=1e-5):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-5)


def with_jvp():
    """Return sin(x) y with a rule whose derivative in x is three times too large."""
    @jax.custom_jvp
    def f(x, y):
        return jnp.sin(x) * y

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (s, t) = primals, tangents
        return f(x, y), 3 * jnp.cos(x) * y * s + jnp.sin(x) * t
    return f


def with_vjp():
    """The same with a reverse rule."""
    @jax.custom_vjp
    def f(x, y):
        return jnp.sin(x) * y

    def fwd(x, y):
        return f(x, y), (jnp.cos(x), jnp.sin(x), y)

    def bwd(res, ct):
        return 3 * res[0] * res[2] * ct, res[1] * ct

    f.defvjp(fwd, bwd)
    return f


RULES = [with_jvp, with_vjp]
WANTED = 3 * np.cos(np.asarray(X)) * 2.0


@pytest.mark.parametrize("make", RULES)
def test_custom_rules_under_nested_transformations(make):
    f = make()
    for g in (f, jax.jit(f)):
        def member(x, g=g):
            return g(x, 2.0)

        def total(x, g=g):
            return jax.vmap(lambda x: g(x, 2.0))(x).sum()

        for gradient in (jax.vmap(jax.grad(member)), jax.jit(jax.vmap(jax.grad(member))), jax.vmap(jax.jit(jax.grad(member))),
                       jax.grad(total), jax.jit(jax.grad(total)), jax.grad(jax.jit(total)), jax.vmap(jax.jacfwd(member)),
                       lambda x: jnp.diagonal(jax.jacfwd(jax.vmap(member))(x)),
                       lambda x: jnp.diagonal(jax.jacrev(jax.vmap(member))(x)),
                       lambda x: jax.jvp(jax.vmap(member), (x,), (jnp.ones(4),))[1],
                       lambda x: jax.linearize(jax.vmap(member), x)[1](jnp.ones(4)),
                       lambda x: jax.jit(jax.linearize(jax.vmap(member), x)[1])(jnp.ones(4)), jax.pmap(jax.grad(member)),
                       jax.grad(lambda x: jax.pmap(member)(x).sum())):
            assert_close(gradient(X), WANTED)
        assert_close(jax.vmap(jax.grad(lambda y: g(0.5, y)))(X), np.full(4, np.sin(0.5)))
        assert_close(jax.grad(lambda y: jax.vmap(g, (0, None))(X, y).sum())(2.0), np.sin(X).sum())


@pytest.mark.parametrize("make", RULES)
def test_custom_rules_in_loops_and_branches(make):
    f = make()

    def scanned(x):
        return lax.scan(lambda c, y: (f(c, y), c), x, jnp.array([2.0, 3.0]))[0]

    def unrolled(x):
        return f(f(x, 2.0), 3.0)

    for t in (jax.grad, jax.jacfwd, lambda f: jax.jit(jax.grad(f)), lambda f: jax.grad(jax.jit(f))):
        assert_close(t(scanned)(0.3), t(unrolled)(0.3))
    assert_close(jax.vmap(jax.grad(scanned))(X), jax.vmap(jax.grad(unrolled))(X))
    assert_close(jax.grad(jax.grad(scanned))(0.3), jax.grad(jax.grad(unrolled))(0.3))

    def branched(x):
        return lax.cond(x > 0, lambda x: f(x, 2.0), lambda x: f(x, 5.0), x)

    assert_close(jax.grad(branched)(0.3), 6 * np.cos(0.3))
    assert_close(jax.jit(jax.grad(branched))(-0.3), 15 * np.cos(0.3))
    assert_close(jax.vmap(jax.grad(branched))(X), 3 * np.cos(X) * np.where(np.asarray(X) > 0, 2.0, 5.0))


@pytest.mark.parametrize("make", RULES)
def test_serialized_programs_keep_their_rules(make):
    f = make()
    program = jax.make_jaxpr(lambda x: f(x, 2.0))(1.0)
    again = loads(dumps(program))
    assert alpha_equal(program, again, weak=True)

    def fun(x):
        return f(x, 2.0)

    def loaded(x):
        return jaxpr_as_fun(again)(x)[0]

    for t in (lambda f: f, jax.grad, jax.jacfwd, lambda f: jax.grad(jax.grad(f)), lambda f: jax.grad(jax.grad(jax.grad(f))),
              lambda f: jax.jit(jax.grad(f))):
        assert_close(t(loaded)(0.5), t(fun)(0.5))
    text = parse(jaxpr_text(program))
    assert alpha_equal(text, program)
    assert_close(jaxpr_as_fun(text)(0.5)[0], fun(0.5))
    with pytest.raises(MissingRuleError, match="program text does not contain rules"):
        jax.grad(lambda x: jaxpr_as_fun(text)(x)[0])(0.5)


def test_serialized_recursive_rule_is_cut_with_an_error():
    from functools import partial

    @partial(jax.custom_jvp, nondiff_argnums=(0,))
    def nth(n, x):
        return x * x + n

    nth.defjvp(lambda n, p, t: (nth(n, p[0]), t[0] * nth(n + 1, p[0])))
    again = loads(dumps(jax.make_jaxpr(lambda x: nth(0, x))(1.0)))

    def fun(x):
        return jaxpr_as_fun(again)(x)[0]

    for order in range(4):
        assert_close(fun(1.0), 1.0 + order)
        fun = jax.grad(fun)
    with pytest.raises(MissingRuleError, match="not known here"):
        for _ in range(10):
            fun = jax.grad(fun)
        fun(1.0)


def test_custom_vmap_under_derivatives():
    @custom_vmap
    def f(x, y):
        return jnp.sin(x) * y

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        return 2 * jnp.sin(x) * y, in_batched[0] or in_batched[1]

    assert_close(jax.grad(f)(0.3, 2.0), 2 * np.cos(0.3))
    for g in (f, jax.jit(f)):
        assert_close(jax.vmap(g, (0, None))(X, 2.0), 4 * np.sin(X))
        assert_close(jax.vmap(jax.grad(g), (0, None))(X, 2.0), 4 * np.cos(X))
        assert_close(jax.vmap(jax.grad(g), (None, 0))(0.3, X), 2 * X * np.cos(0.3))
        assert_close(jax.vmap(jax.grad(g, 1), (0, None))(X, 2.0), 2 * np.sin(X))
        assert_close(jax.grad(lambda x: jax.vmap(g, (0, None))(x, 2.0).sum())(X), 4 * np.cos(X))
        assert_close(jax.vmap(jax.jacfwd(g), (0, None))(X, 2.0), 4 * np.cos(X))
        assert_close(jax.vmap(jax.hessian(g), (0, None))(X, 2.0), -4 * np.sin(X))
        assert_close(jax.jit(jax.vmap(jax.grad(jax.grad(g)), (0, None)))(X, 2.0), -4 * np.sin(X))
    assert_close(jax.vmap(jax.grad(sequential_vmap(jnp.sin)))(X), np.cos(X))


def layers(x):
    for k in range(8):
        x = checkpoint_name(jnp.sin(x @ (np.ones((32, 32), np.float32) / (32 + k))), f"layer{k % 2}")
    return x


POLICIES = {"everything": jax.checkpoint_policies.everything_saveable,
            "nothing": jax.checkpoint_policies.nothing_saveable,
            "dots": jax.checkpoint_policies.checkpoint_dots,
            "dots without batch": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
            "names": jax.checkpoint_policies.save_only_these_names("layer1")}


@pytest.mark.parametrize("name", POLICIES)
def test_checkpoint_policies_change_memory_only(name):
    x = jnp.ones((64, 32))

    def loss(x):
        return jax.checkpoint(layers, policy=POLICIES[name])(x).sum()

    assert_close(jax.grad(loss)(x), jax.grad(lambda x: layers(x).sum())(x))
    assert_close(jax.jit(jax.grad(loss))(x), jax.grad(lambda x: layers(x).sum())(x))
    compiled = jax.jit(jax.value_and_grad(loss)).lower(x).compile()
    products = compiled.as_text().count(" dot(")
    least, most = {"nothing": (22, 24), "names": (22, 24)}.get(name, (16, 16))
    assert least <= products <= most, products


def test_only_saved_values_of_a_loop_are_stacked():
    def inner(c, _):
        for _ in range(6):
            c = jnp.sin(jnp.cos(c))
        return checkpoint_name(c, "step"), None

    def steps(c):
        return lax.scan(inner, c, None, length=16)[0]

    def temporary(f):
        loss = jax.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=16)[0].sum())
        return jax.jit(loss).lower(x).compile().memory_analysis().temp_size_in_bytes / x.nbytes

    x = jnp.ones((4096,))
    names = jax.checkpoint_policies.save_only_these_names("step")
    most, some, least = map(temporary, (steps, jax.checkpoint(steps, policy=names), jax.checkpoint(steps)))
    assert least + 200 < some < 256 + 300 and most > 16 * 16 * 6, (most, some, least)


def test_nested_checkpoints():
    w = jnp.ones((4, 4)) / 3

    def body(x):
        return jnp.sin(jnp.sin(w @ x) @ w)

    f = jax.checkpoint(body)
    for t in (lambda f: jax.grad(lambda x: f(x).sum()), lambda f: jax.jit(jax.grad(lambda x: f(x).sum())),
              jax.jacfwd, jax.jacrev,
              lambda f: jax.vmap(jax.grad(lambda s: f(s * X).sum())), lambda f: jax.hessian(lambda x: f(x).sum()),
              lambda f: jax.grad(lambda x: jax.vmap(lambda s: f(s * x).sum())(X).sum()),
              lambda f: jax.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0].sum()),
              lambda f: jax.grad(lambda x: jax.checkpoint(lambda x: f(f(x)))(x).sum())):
        assert_close(t(f)(X), t(body)(X), 1e-4)
    check_grads(f, (X,), 2)
    assert_close(jax.grad(lambda w: jax.checkpoint(lambda x: jnp.sin(w * x))(2.0))(0.3), 2 * np.cos(0.6))


def test_optimization_barrier_under_grad_and_vmap():
    def f(x):
        a, b = lax.optimization_barrier((jnp.sin(x), jnp.cos(x)))
        return a * b

    assert_close(jax.grad(f)(0.3), np.cos(0.6))
    assert_close(jax.jit(jax.vmap(jax.grad(f)))(X), np.cos(2 * X))
    assert "optimization_barrier" in jax.jit(f).lower(1.0).as_text()


def test_collectives_in_custom_rules():
    def mean_sine(x):
        return jnp.sin(lax.psum(jnp.sin(x), "i"))

    @jax.custom_vjp
    def total(x):
        return lax.psum(x, "i")

    total.defvjp(lambda x: (total(x), None), lambda _, ct: (2 * lax.psum(ct, "i"),))
    for t in (jax.pmap, jax.vmap, lambda f, axis_name: jax.jit(jax.vmap(f, axis_name=axis_name))):
        assert_close(t(jax.grad(jax.checkpoint(mean_sine)), axis_name="i")(X), t(jax.grad(mean_sine), axis_name="i")(X))
        for f in (total, jax.jit(lambda x: total(x))):
            assert_close(t(jax.grad(f), axis_name="i")(X), np.full(4, 8.0))
            assert_close(t(lambda x, f=f: jax.jvp(f, (x,), (1.0,))[1], axis_name="i")(X), np.full(4, 8.0))


def test_linear_transpose_of_a_loop():
    assert_close(jax.linear_transpose(lambda x: lax.scan(lambda c, x: (c + x, c * 2), 0.0, x), X)((1.0, jnp.ones(4)))[0],
          [7.0, 5.0, 3.0, 1.0])
    with pytest.raises(TypeError, match=r"is not linear: mul\(float32\[\], float32\[\]\) at .*test_custom_rules.py:\d+"):
        jax.linear_transpose(lambda x: lax.scan(lambda c, x: (c * x, c), 0.0, x), X)((1.0, X))


def test_custom_jvp_rule_with_batched_cond():
    def fun(x):
        return jnp.sin(lax.cond(x > 0.1, jnp.sqrt, lambda y: y * y, x))

    f = jax.custom_jvp(fun)
    f.defjvp(lambda primals, tangents: jax.jvp(fun, primals, tangents))
    wanted = np.stack([jax.grad(fun)(x) for x in X])
    assert_close(jax.vmap(jax.grad(f))(X), wanted)
    assert_close(jax.grad(lambda x: jax.vmap(f)(x).sum())(X), wanted)
    assert_close(jax.grad(lambda x: jax.jit(jax.vmap(f))(x).sum())(X), wanted)
    assert_close(jax.vmap(jax.grad(jax.grad(f)))(X), np.stack([jax.grad(jax.grad(fun))(x) for x in X]))


def test_python_scalar_results_of_custom_functions():
    """A returned Python scalar stays one in eager calls, and becomes a weakly typed array when staged or mapped."""
    f = jax.custom_jvp(lambda x: 2.0)
    f.defjvp(lambda primals, tangents: (2.0, tangents[0] * 0))
    g = jax.custom_vjp(lambda x: 2.0)
    g.defvjp(lambda x: (2.0, None), lambda r, ct: (ct,))
    checkpointed = jax.checkpoint(lambda x: 2.0)
    assert type(f(1.0)) is type(g(1.0)) is float and checkpointed(1.0).weak_type  # a checkpointed function is staged
    for h in (f, g, checkpointed):
        assert jax.jit(h)(1.0).weak_type and jax.vmap(h)(jnp.ones(2)).shape == (2,)
    assert type(jax.value_and_grad(g)(1.0)[0]) is float
    assert jax.value_and_grad(jax.checkpoint(lambda x: x * 2))(1.0)[0].weak_type
    def pair(x):
        return x, (3, "a")
    with_aux = [t(pair, has_aux=True)(1.0)[1] for t in (jax.grad, jax.jacrev, jax.jacfwd)]
    with_aux.append(jax.vjp(pair, 1.0, has_aux=True)[2])
    assert with_aux == [(3, "a")] * 4
    x, aux = jax.jit(lambda y: jax.jacfwd(lambda x: (x * y, y + 1), has_aux=True)(1.0))(2.0)
    assert (x, aux) == (2.0, 3.0)


@jax.custom_vjp
def _shared(w, x):
    return w * x


_shared.defvjp(lambda w, x: (w * x, (w, x)), lambda residuals, ct: (lax.psum(ct * residuals[1], "i"), ct * residuals[0]))


def _unmapped(mapper, call):
    return lambda w: jnp.sum(mapper(lambda x: call(w) + x, axis_name="i")(jnp.ones(4)))


_CALLS = {"call": lambda w: _shared(w, w), "jit": lambda w: jax.jit(_shared)(w, w),
          "scan": lambda w: lax.scan(lambda c, _: (_shared(c, w), None), w, None, length=1)[0]}


@pytest.mark.parametrize("call", _CALLS)
def test_backward_rule_with_collectives_in_unmapped_calls(call):
    """Works like pmap if an argument is mapped, and inside the map; else the rule would run once, so it is an error."""
    f, w = _CALLS[call], jnp.float32(3)
    assert float(jax.grad(_unmapped(jax.pmap, f))(w)) == 4 * (4 * 3 + 3)
    inside = jax.vmap(lambda x: jax.grad(f)(w), axis_name="i")(jnp.ones(4))
    assert inside.tolist() == [15.0] * 4
    ways = jax.grad, lambda g: jax.jit(jax.grad(g)), lambda g: jax.grad(jax.jit(g)), lambda g: jax.grad(jax.checkpoint(g))
    for way in ways:
        with pytest.raises(NameError, match="collectives over 'i', but no argument of the call is mapped by that vmap"):
            way(_unmapped(jax.vmap, f))(w)
    spread = jax.grad(lambda w: jnp.sum(jax.vmap(f, axis_name="i")(jnp.broadcast_to(w, (4,)))))
    assert float(spread(w)) == 4 * (4 * 3 + 3)
    typo = jax.custom_vjp(lambda w: w)
    typo.defvjp(lambda w: (w, None), lambda _, ct: (lax.psum(ct, "k"),))
    with pytest.raises(NameError, match="axis name 'k' is not bound; bound here: none"):
        jax.grad(typo)(w)


def test_linear_call_under_vmap():
    def scaled(r, x):
        return jax.custom_derivatives.linear_call(lambda r, x: x / r, lambda r, ct: ct / r, r, x)
    assert jax.vmap(scaled)(jnp.full(2, 2.0), jnp.arange(2.0)).tolist() == [0, 0.5]
    back = jax.vmap(lambda r, ct: jax.linear_transpose(lambda x: scaled(r, x), 6.0)(ct)[0])
    assert back(jnp.full(2, 2.0), jnp.arange(2.0)).tolist() == [0, 0.5]


@pytest.mark.parametrize("argnum, wanted", [(0, [1.0, 2.0]), (1, [3.0, 3.0])])
def test_rules_with_symbolic_zeros_know_the_differentiated_arguments_under_vmap(argnum, wanted):
    seen = []
    product = jax.custom_vjp(lambda x, y: x * y)

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        return x.value * y.value, (x.value if y.perturbed else None, y.value if x.perturbed else None)

    def bwd(residuals, ct):
        return tuple(None if r is None else ct * r for r in residuals[::-1])

    product.defvjp(fwd, bwd, symbolic_zeros=True)
    f, xs, y = jax.jit(product), np.float32([3.0, 3.0]), np.float32([1.0, 2.0])
    np.testing.assert_array_equal(jax.vmap(jax.grad(f, argnum))(xs, y), wanted)
    np.testing.assert_array_equal(jax.grad(lambda *xs: jax.vmap(f)(*xs).sum(), argnum)(xs, y), wanted)
    assert set(seen) == {(argnum == 0, argnum == 1)}


def _linear_pair(x, n):
    return x * n, n + 1


def pair_with_vjp(bwd, fwd=lambda x, n: (_linear_pair(x, n), (x, n))):
    """Return (x n, n + 1), whose second result does not depend on x, with a forward and a backward rule."""
    f = jax.custom_vjp(_linear_pair)
    f.defvjp(fwd, bwd)
    return f


def pair_with_jvp(rule):
    """The same with a JVP rule."""
    f = jax.custom_jvp(_linear_pair)
    f.defjvp(rule)
    return f


def _refuse(*args):
    raise NotImplementedError


SHARED_RESULTS = {
    "vjp": pair_with_vjp(lambda r, ct: (ct[0] * r[1], ct[0] * r[0] + ct[1])),
    "jvp": pair_with_jvp(lambda p, t: (_linear_pair(*p), (t[0] * p[1] + p[0] * t[1], t[1]))),
    "jitted": pair_with_jvp(jax.jit(lambda p, t: (_linear_pair(*p), (t[0] * p[1] + p[0] * t[1], t[1])))),
}
# Rules by which the second result depends on x after all, or not linearly on n: it stays batched.
OWN_RESULTS = {
    "injected vjp": pair_with_vjp(lambda r, ct: (ct[0] * r[1] + ct[1], ct[0] * r[0] + ct[1])),
    "scaled vjp": pair_with_vjp(lambda r, ct: (ct[0] * r[1], ct[0] * r[0] + ct[1] * r[0])),
    "clipped vjp": pair_with_vjp(lambda r, ct: (ct[0] * r[1], ct[0] * r[0] + jnp.clip(ct[1], -1, 1))),
    "injected jvp": pair_with_jvp(lambda p, t: (_linear_pair(*p), (t[0] * p[1] + p[0] * t[1], t[1] + t[0]))),
    "scaled jvp": pair_with_jvp(lambda p, t: (_linear_pair(*p), (t[0] * p[1] + p[0] * t[1], t[1] * p[0]))),
    "primal jvp": pair_with_jvp(lambda p, t: ((p[0] * p[1], p[1] + 1 + 0 * p[0]), (t[0] * p[1], t[1]))),
}


@pytest.mark.parametrize("name", SHARED_RESULTS)
def test_results_that_all_examples_share_stay_unbatched(name):
    f = jax.jit(SHARED_RESULTS[name])
    batched, shared = jax.vmap(f, (0, None), (0, None))(X, 3.0)
    assert_close(batched, 3 * X)
    assert shared.shape == () and shared == 4

    def total(x, n):
        batched, shared = jax.vmap(f, (0, None), (0, None))(x, n)
        return batched.sum() + 2 * shared

    assert_close(jax.grad(total, 1)(X, 3.0), X.sum() + 2)
    assert_close(jax.hessian(total, 1)(X, 3.0), 0)
    assert_close(jax.jvp(total, (X, 3.0), (X, 2.0))[1], 3 * X.sum() + 2 * X.sum() + 4)
    # Another batch axis, over which the result differs.
    twice = jax.vmap(jax.vmap(f, (0, None), (0, None)), (None, 0), 0)(X, X)
    assert twice[1].shape == X.shape
    assert_close(twice[1], X + 1)


@pytest.mark.parametrize("name", [*SHARED_RESULTS, *OWN_RESULTS])
def test_derivatives_of_shared_results_equal_those_of_a_loop(name):
    f = jax.jit((SHARED_RESULTS | OWN_RESULTS)[name])

    def total(x, n):
        batched, shared = jax.vmap(f, (0, None))(x, n)
        return (batched + 2 * shared).sum()

    def loop(x, n):
        return sum(r[0] + 2 * r[1] for r in (f(row, n) for row in x))

    for argnum in (0, 1):
        assert_close(jax.grad(total, argnum)(X, 3.0), jax.grad(loop, argnum)(X, 3.0))


@pytest.mark.parametrize("name", OWN_RESULTS)
def test_result_whose_derivative_depends_on_the_batch_stays_batched(name):
    with pytest.raises(ValueError, match=r"out_axes is None for output\[1\]"):
        jax.vmap(jax.jit(OWN_RESULTS[name]), (0, None), (0, None))(X, 3.0)


def test_rules_that_fail_do_not_stop_vmap_without_derivatives():
    f = jax.jit(pair_with_vjp(_refuse, _refuse))
    assert jax.vmap(f, (0, None), (0, None))(X, 3.0)[1] == 4
    with pytest.raises(NotImplementedError):
        jax.grad(lambda n: jax.vmap(f, (0, None), (0, None))(X, n)[1])(3.0)


DIFFERENTIATED = {
    "eager": lambda f: jax.grad(f)(3.0),
    "jit": lambda f: jax.grad(jax.jit(f))(3.0),
    "jitted grad": lambda f: jax.jit(jax.grad(f))(3.0),
    "vmap": lambda f: jax.grad(lambda x: jax.vmap(f)(x).sum())(X)[0],
    "jitted vmap": lambda f: jax.grad(lambda x: jax.jit(jax.vmap(f))(x).sum())(X)[0],
    "vmap of grad": lambda f: jax.vmap(jax.grad(f))(X)[0],
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f))(3.0),
    "cond": lambda f: jax.grad(lambda x: lax.cond(x > 0, f, lambda x: x, x))(3.0),
    "scan": lambda f: jax.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 1)[0])(3.0),
    "jvp": lambda f: jax.jvp(jax.jit(f), (3.0,), (1.0,))[1],
    "linearize": lambda f: jax.linearize(jax.jit(f), 3.0)[1](1.0),
    "pmap": lambda f: jax.grad(lambda x: jax.pmap(f)(x).sum())(X[:1])[0],
    "saved": lambda f: jax.grad(lambda x: jaxpr_as_fun(loads(dumps(jax.make_jaxpr(f)(x))))(x)[0])(3.0),
}


@pytest.mark.parametrize("way", DIFFERENTIATED)
@pytest.mark.parametrize("number", [True, 2, 2.5, 2j, np.bool_(True), np.float32(2)], ids=repr)
def test_numbers_among_residuals_reach_the_backward_rule_unchanged(way, number):
    found = []

    def bwd(residuals, ct):
        found.append(type(residuals[1]))
        return 5 * ct if residuals[1] else ct,

    f = jax.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, (x, number)), bwd)
    assert DIFFERENTIATED[way](f) == 5
    assert set(found) == {type(number)}


@pytest.mark.parametrize("way", DIFFERENTIATED)
def test_residuals_without_arrays(way):
    f = jax.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, (True, None, {"scale": 5})), lambda r, ct: (r[2]["scale"] * ct if r[0] else ct,))
    assert DIFFERENTIATED[way](f) == 5


def test_number_residual_of_a_rule_that_closes_over_a_traced_value():
    @jax.jit
    def g(x, scale):
        f = jax.custom_vjp(lambda x: x * scale)
        f.defvjp(lambda x: (x * scale, (scale, True, x)), lambda r, ct: (ct * scale * 5 if r[1] else ct,))
        return jax.grad(jax.jit(f))(x)

    assert g(3.0, 2.0) == 10


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("place", ["function", "rule"])
@pytest.mark.parametrize("jitted", [False, True])
def test_index_on_mapped_axis_makes_results_and_derivatives_batched(kind, place, jitted):
    def index():
        return jax.lax.axis_index("i").astype(jnp.float32)

    f = getattr(jax, kind)(lambda x, y: (x * 2, y * index() if place == "function" else y * 3))
    if kind == "custom_jvp":
        f.defjvp(lambda p, t: (f(*p), (t[0] * 2, t[1] * index())))
    else:
        f.defvjp(lambda x, y: (f(x, y), ()), lambda _, ct: (ct[0] * 2, ct[1] * index()))
    mapped = jax.vmap(f, in_axes=(0, None), axis_name="i")
    mapped = jax.jit(mapped) if jitted else mapped
    x = jnp.ones(3)
    assert mapped(x, 5.0)[1].tolist() == ([0, 5, 10] if place == "function" else [15, 15, 15])
    assert float(jax.grad(lambda y: mapped(x, y)[1].sum())(5.0)) == 3
