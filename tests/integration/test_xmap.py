"""`xmap` inside other transformations, and other transformations inside `xmap`."""
import re
import threading

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental.maps import xmap

X = np.arange(12, dtype=np.float32).reshape(4, 3)
W = np.array([1, 2, 4], np.float32)


def scaled(x, w):  # one member
    return x * w / 8 - lax.psum(x, "b")


named = xmap(scaled, (["b", ...], {}), ["b", ...])


def plain(x, w):
    return x * w / 8 - x.sum(0)


def assert_same(a, b):
    a, b = jax.tree.leaves(a), jax.tree.leaves(b)
    assert len(a) == len(b)
    for one, two in zip(a, b):
        assert one.shape == two.shape and np.array_equal(one, two), (one, two)


def total(f):
    return lambda *args: (f(*args) ** 2).sum()


TRANSFORMED = {
    "call": lambda f: f(X, W),
    "jit": lambda f: jax.jit(f)(X, W),
    "grad": lambda f: jax.grad(total(f), (0, 1))(X, W),
    "jit of grad": lambda f: jax.jit(jax.grad(total(f), (0, 1)))(X, W),
    "jvp": lambda f: jax.jvp(f, (X, W), (X + 1, W)),
    "linearize": lambda f: jax.linearize(f, X, W)[1](X, W),
    "hessian": lambda f: jax.hessian(total(f))(X, W),
    "jacrev of jacrev": lambda f: jax.jacrev(jax.jacrev(total(f)))(X, W),
    "third": lambda f: nth(3, lambda w: total(f)(X, w * w[0]))(W),
    "vmap": lambda f: jax.vmap(f, (0, None))(np.stack([X, X + 1]), W),
    "vmap of grad": lambda f: jax.vmap(jax.grad(total(f), (0, 1)), (None, 0))(X, np.stack([W, W + 1])),
    "grad of vmap": lambda f: jax.grad(lambda w: (jax.vmap(f, (0, 0))(np.stack([X, X + 1]), w) ** 2).sum())(np.stack([W, W])),
    "pmap": lambda f: jax.pmap(f, in_axes=(0, None))(np.stack([X, X + 1]), W),
    "grad of pmap": lambda f: jax.grad(lambda x: jax.pmap(lambda x: f(x, W), axis_name="d")(x).sum())(np.stack([X, X])),
    "scan": lambda f: lax.scan(lambda c, w: (f(c, w) % 16, c.sum()), X, np.stack([W, W, W + 1])),
    "grad of scan": lambda f: jax.grad(lambda x: lax.scan(lambda c, w: (f(c, w) / 8, 0), x, np.stack([W, W]))[0].sum())(X),
    "cond": lambda f: jax.jit(lambda p: lax.cond(p, lambda: f(X, W), lambda: X))(True),
    "while": lambda f: lax.while_loop(lambda c: c.max() < 99, lambda c: f(c, W) ** 2 + 100, X),
    "checkpoint": lambda f: jax.grad(lambda x: (jax.checkpoint(f)(x, W) ** 2).sum())(X),
    "eval_shape": lambda f: [np.zeros(s.shape, s.dtype) for s in [jax.eval_shape(f, X, W)]],
    "once": lambda f: once(jax.grad(total(f), (0, 1))),
}


def nth(n, f):
    return f if n == 0 else jax.grad(lambda x: nth(n - 1, f)(x).sum())


def once(f):
    with jax.config.replicated_counts_once(True):
        return f(X, W)


@pytest.mark.parametrize("how", TRANSFORMED)
def test_xmap_in_transformations_matches_the_positional_function(how):
    assert_same(TRANSFORMED[how](named), TRANSFORMED[how](plain))


@jax.custom_jvp
def cubed(x):
    return x ** 3


cubed.defjvp(lambda x, t: (cubed(*x), 5 * t[0] * lax.psum(x[0], "b")))


@jax.custom_vjp
def with_residual(x):
    return x + 1


with_residual.defvjp(lambda x: (x + 1, x), lambda x, ct: (ct * lax.psum(x, "b"),))

INSIDE = {  # function of one member, over `b`, and of all members
    "vmap": (lambda x: jax.vmap(lambda a: a + lax.psum(a, "b"))(x), lambda x: x + x.sum(0)),
    "jit": (lambda x: jax.jit(lambda a: a * lax.psum(a, "b"))(x), lambda x: x * x.sum(0)),
    "grad": (lambda x: jax.grad(lambda a: (a * a).sum())(x), lambda x: 2 * x),
    "scan": (lambda x: lax.scan(lambda c, a: (c + lax.psum(a, "b"), c), 0.0, x)[1],
             lambda x: jnp.broadcast_to(jnp.cumsum(jnp.concatenate([jnp.zeros(1), x.sum(0)[:-1]])), (4, 3))),
    "cond": (lambda x: lax.cond(x[0] > 4, lambda: x * 2, lambda: x), lambda x: jnp.where(x[:, :1] > 4, 2 * x, x)),
    "checkpoint": (lambda x: jax.checkpoint(lambda a: a * lax.psum(a, "b"))(x), lambda x: x * x.sum(0)),
    "custom_vjp": (with_residual, None),
    "custom_jvp": (cubed, None),
    "xmap": (lambda x: xmap(lambda a: a * lax.psum(a, ("b", "c")), ["c"], ["c"])(x), lambda x: x * x.sum()),
    "named_shape": (lambda x: x * len(x.named_shape) * x.named_shape["b"], lambda x: 4 * x),
    "gather": (lambda x: lax.all_gather(x, "b")[0] + x, lambda x: x[0] + x),
}


@pytest.mark.parametrize("what", INSIDE)
def test_transformations_inside_xmap(what):
    inside, outside = INSIDE[what]
    f = xmap(inside, ["b", ...], ["b", ...])
    g = outside or jax.vmap(inside, axis_name="b")
    for run in (lambda h: h, jax.jit):
        assert_same(run(f)(X), run(g)(X))
        assert_same(*[run(jax.grad(lambda x, h=h: (h(x) * X).sum()))(X) for h in (f, g)])


def test_named_shape_in_all_contexts():
    seen = {}

    def note(what, factor=1):
        def noted(v):
            assert v.named_shape == v.aval.named_shape
            seen.setdefault(what, set()).add(tuple(v.named_shape.items()))
            return v * factor
        return noted

    @jax.custom_vjp
    def ruled(v):
        return note("custom_vjp")(v)

    @jax.custom_jvp
    def pushed(v):
        return note("custom_jvp")(v)

    ruled.defvjp(lambda v: (note("fwd")(v), v), lambda with_residual, ct: (note("bwd")(with_residual) * note("bwd")(ct),))
    pushed.defjvp(lambda p, t: (pushed(*p), note("jvp")(p[0]) * note("jvp")(t[0])))

    def inside(x):
        note("call")(x)
        jax.jit(note("jit"))(x)
        lax.scan(lambda c, a: (c, note("scan")(a)), 0, x)
        lax.cond(x[0] > 1, note("cond"), lambda v: v, x)
        lax.while_loop(lambda c: note("while")(c)[0] < 3, note("while", 2), x)
        jax.vmap(note("vmap"))(x)
        jax.vmap(note("named vmap"), axis_name="v")(x)
        xmap(note("xmap"), {0: "c"}, {0: "c"})(x)
        jax.jvp(note("tangent"), (x,), (x,))
        assert lax.psum(x, "b").named_shape == {}
        shape = jax.eval_shape(lambda v: (v, lax.psum(v, "b")), x)
        assert shape[0].named_shape == {"b": 4} and shape[1].named_shape == {}
        assert jax.eval_shape(lambda v: v * 2, shape[0]) == shape[0]
        with_residual.append((x.aval, shape[0]))
        assert "float32[3]{b:4}" in repr(x)
        return jax.checkpoint(lambda v: note("checkpoint")(ruled(v) + pushed(v)))(x)

    with_residual = []
    f = xmap(inside, ["b", ...], ["b", ...])
    for run in (f, jax.jit(f), jax.grad(lambda x: (f(x) * X).sum()), jax.jit(jax.grad(lambda x: (f(x) * X).sum()))):
        run(X)
    more = {"named vmap": (("b", 4), ("v", 3)), "xmap": (("b", 4), ("c", 3))}
    assert seen == {what: {more.get(what, (("b", 4),))} for what in seen} and len(seen) == 15
    aval, shape = with_residual[0]  # outside: a struct has it, an aval raises an error
    assert shape.named_shape == {"b": 4}
    with pytest.raises(ValueError, match=r"named_shape of f32\[3\]{b}: the axis 'b' is not bound here"):
        _ = aval.named_shape
    with pytest.raises(ValueError, match="axis name 'b' is not bound"):
        jax.eval_shape(lambda v: v, shape)
    with pytest.raises(ValueError, match="the named axis 'b' has 4 positions in named_shape, but 2 here"):
        xmap(lambda x: (jax.eval_shape(lambda v: v, shape), x)[1], {0: "b"}, {0: "b"})(X[:2])
    assert jax.numpy.ones(3).named_shape == {}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gradient_of_pmax_of_infinities(dtype):
    largest = xmap(lambda v: lax.pmax(v, "b"), {0: "b"}, {})
    for run in (jax.grad(largest), jax.jit(jax.grad(largest))):
        for row, shares in (([1, jnp.inf, 2, jnp.inf], [0, .5, 0, .5]), ([-jnp.inf] * 4, [.25] * 4),
                            ([3, -jnp.inf, 3, 1], [.5, 0, .5, 0])):
            assert run(jnp.array(row, dtype)).astype("float32").tolist() == shares


def test_all_forms_of_in_axes_and_out_axes():
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for ins, outs, wanted in [
        ({2: "c", 0: "a"}, {0: "c", 2: "a"}, cube.transpose(2, 1, 0)),
        (["a", "b", "c"], ["c", "a", "b"], cube.transpose(2, 0, 1)),
        (["a", ...], {-1: "a"}, cube.transpose(1, 2, 0)),
        ({-1: "c"}, ["c", ...], cube.transpose(2, 0, 1)), ({}, {}, cube),
        ({1: ("b", 1)}, [("b", 1), ...], cube.transpose(1, 0, 2)), ([...], [...], cube)]:
        assert np.array_equal(xmap(lambda x: x, ins, outs)(cube), wanted)


def test_pytree_prefixes_and_missing_axes():
    params = {"w": [X, X + 1], "b": W}
    f = xmap(lambda p, x: {"y": [w + x for w in p["w"]], "n": lax.psum(1, "b"), "b": p["b"]},
             ({"w": ["b", ...], "b": {}}, {0: "b"}), {"y": {1: "b"}, "n": {}, "b": ["c", "b", ...]}, axis_sizes={"c": 2})
    found = f(params, X)
    assert np.array_equal(found["y"][1], (2 * X + 1).T) and found["n"] == 4
    assert np.array_equal(found["b"], np.broadcast_to(W, (2, 4, 3)))
    assert np.array_equal(xmap(lambda: lax.axis_index("n"), (), ["n"], axis_sizes={"n": 3})(), [0, 1, 2])
    pull = jax.vjp(lambda w: f({**params, "b": w}, X)["b"], W)[1]
    assert np.array_equal(pull(np.ones((2, 4, 3), np.float32))[0], [8, 8, 8])


def test_captured_values_are_replicated():
    def f(w):
        return xmap(lambda x: x * w, ["b", ...], ["b", ...])(X)

    assert_same(jax.grad(lambda w: f(w).sum())(W), X.sum(0))
    assert_same(jax.jit(jax.vmap(f))(np.stack([W, W])), np.stack([X * W] * 2))
    assert_same(xmap(f, {}, {})(W), X * W)


def test_stages_of_xmap():
    lowered = named.lower(X, W)
    assert "stablehlo" in lowered.as_text() and np.array_equal(lowered.compile()(X, W), plain(X, W))
    assert named.trace(X, W).jaxpr.eqns[0].primitive.name == "xmap"
    assert "xmap[" in str(jax.make_jaxpr(jax.grad(total(named)))(X, W)) and named.eval_shape(X, W).shape == (4, 3)
    with jax.disable_jit():
        assert_same(named(X, W), plain(X, W))
    program = jax.make_jaxpr(jax.vmap(named, (0, None)))(np.stack([X, X]), W)
    from lamina_ir import alpha_equal, check, dumps, loads, parse
    check(program)
    assert alpha_equal(parse(str(program)), program) and alpha_equal(loads(dumps(program)), program)


def test_repeated_xmap_traces_once_per_signature():
    count = []

    def f(x):
        count.append(1)
        return x + lax.psum(x, "b")

    for _ in range(3):
        xmap(f, ["b", ...], ["b", ...])(X)
        jax.jit(xmap(f, ["b", ...], ["b", ...]))(X)
    xmap(f, {0: "b"}, ["b", ...])(X[:2])
    assert len(count) <= 3


def test_xmap_in_several_threads():
    found = []

    def work(k):
        found.append(np.array_equal(xmap(lambda x: x * k + lax.psum(x, f"n{k}"), [f"n{k}", ...], [f"n{k}", ...])(X),
                                    X * k + X.sum(0)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 6


def test_cotangents_have_no_axes_of_later_factors():
    def f(x, u, v, w):
        for weight, names in ((u, "{a},{a}->{}"), (v, "{b},{b}->{}"), (w, "{c},{c}->{}")):
            x = jnp.tanh(jnp.einsum(names, x, weight))
        return lax.psum(x, ("batch", "d"))

    named = xmap(f, (["batch", "a"], ["a", "b"], ["b", "c"], ["c", "d"]), {})
    x, *weights = [np.cos(np.arange(m * n, dtype=np.float32)).reshape(m, n) for m, n in ((5, 3), (3, 4), (4, 2), (2, 3))]
    program = str(jax.make_jaxpr(jax.grad(named, (0, 1, 2, 3)))(x, *weights))
    assert max(len(names.split(",")) for names in re.findall(r"\]\{([\w,]+)\}", program)) == 3

    def positional(x, u, v, w):
        return jnp.tanh(jnp.tanh(jnp.tanh(x @ u) @ v) @ w).sum()

    for got, want in zip(jax.grad(named, (0, 1, 2, 3))(x, *weights), jax.grad(positional, (0, 1, 2, 3))(x, *weights)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_reductions_of_one_function_over_different_names():
    """Names are part of the axes that staged functions are cached by."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name, axis in (("a", 0), ("b", 1), ("a", 0)):
        over = xmap(lambda v: jax.nn.logsumexp(v, axis=name), ["a", "b"], ["b" if name == "a" else "a"])  # noqa: B023
        np.testing.assert_allclose(over(x), jax.nn.logsumexp(x, axis=axis), rtol=1e-6)
