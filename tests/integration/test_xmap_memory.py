"""`SerialLoop`: memory in XLA's report falls with the number of iterations."""
import os

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental.maps import Mesh, SerialLoop, xmap

WIDE = bool(os.environ.get("LAMINA_WIDE"))


def assert_close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


def memory_report(f, *args):
    return jax.jit(f).lower(*args).compile().memory_analysis()


def temporaries(f, *args):
    return memory_report(f, *args).temp_size_in_bytes


def test_memory_falls_with_the_number_of_iterations():
    n, width = 64, 2048
    x, w = np.ones((n, 16), np.float32), np.ones((16, width), np.float32)

    def f(x, w):
        h = jnp.tanh(x @ w)
        for _ in range(3):
            h = jnp.sort(h) * 2 - jnp.roll(h, 1)
        e = jnp.exp(h - lax.pmax(lax.stop_gradient(h), "b"))
        p = jnp.sort(e / lax.psum(e, "b"))
        return (p * jnp.cumsum(p)).sum()

    def loss(iterations):
        h = xmap(f, (["b", ...], {}), ["b"], axis_resources={"b": SerialLoop(iterations)})
        return lambda x, w: h(x, w).sum()

    values = n * width * 4
    for derivative, stored in ((lambda g: g, 1), (lambda g: jax.grad(g, (0, 1)), 2)):  # `h`, and the cotangent of `p`
        whole, few, many = [temporaries(derivative(loss(iterations)), x, w) for iterations in (1, 4, 16)]
        assert whole > few > many
        assert many < 1.5 * (stored * values + (whole - stored * values) / 16)


def softmax(x, name="b"):
    e = jnp.exp(x - lax.pmax(x, name))
    return e / lax.psum(e, name)


def attention(x, name):
    """Queries shared by all members; each member has a key and a value."""
    q = jnp.sin(jnp.arange(16 * 256.).reshape(16, 256))
    return lax.psum(jax.nn.softmax(q @ x[:256], axis=name)[:, None] * x[256:320], name)


# Functions of a member and of the axes that are summed over; and the number of arrays in which such sums are live at once.
PROGRAMS = {
    "softmax": (softmax, 2),
    "log_softmax": (lambda x, name: jax.nn.log_softmax(x, axis=name), 3),
    "logsumexp": (lambda x, name: jax.nn.logsumexp(jnp.sin(x), axis=name), 2),
    "layer norm": (lambda x, name: (x - jnp.mean(x, axis=name)) * lax.rsqrt(jnp.var(x, axis=name) + 1e-5), 4),
    "smallest to largest": (lambda x, name: (x - lax.pmin(x, name)) / (lax.pmax(x, name) - lax.pmin(x, name)), 4),
    "attention": (attention, 4),
}
# The axes that are summed over; the number of iterations of each serial axis.
LOOPS = [("b", {"b": 4}), ("b", {"b": 16}), ("a", {"a": 4, "b": 4}), ("b", {"a": 4, "b": 4}), ("ab", {"a": 4, "b": 4}),
         ("a", {"b": 16}), ("a", {"a": 8, "b": 2}), ("a", {"a": 2, "b": 8}), ("ab", {"a": 8, "b": 16}),
         ("a", {"a": 8, "b": 16}), ("b", {"a": 8}), ("ab", {"b": 16}), ("ab", {"a": 2}), ("ab", {"a": 4})]


def loop_cases():
    """Yield all loops for each program in a wide run, else two."""
    for k, name in enumerate(PROGRAMS):
        yield from [(name, *loops) for j, loops in enumerate(LOOPS) if WIDE or (j - 2 * k) % len(LOOPS) < 2]


@pytest.mark.parametrize("mesh", [False, True], ids=["one device", "over a mesh too"])
@pytest.mark.parametrize("name, over, iterations", list(loop_cases()))
def test_memory_is_stored_values_and_one_chunk(name, over, iterations, mesh):
    """Temporaries are at most 1.5 times (stored values + one chunk) in XLA's report, forward and with the pullback.

    A chunk is the memory of the program in one iteration - operands, results and temporaries - divided by the number of
    iterations. Stored values are the residuals of a derivative, and carries.
    """
    fun, sums = PROGRAMS[name]
    devices = 2 if mesh else 1
    x = np.sin(np.arange(8 * devices * 16 * 2048, dtype=np.float32)).reshape(8 * devices, 16, 2048)
    left = [a for a in "ab" if a not in over or name not in ("logsumexp", "attention")]

    def pulled(iterations):
        resources = {a: SerialLoop(n) for a, n in iterations.items()}
        if mesh:
            resources["a"] = ("x", *([resources["a"]] if "a" in resources else []))
        h = xmap(lambda x: fun(x, tuple(over)), ["a", "b", ...], [*left, ...], axis_resources=resources)

        def both(x, ct):
            y, back = jax.vjp(h, x)
            return y, back(ct)
        return h, both

    with Mesh(np.array(jax.devices()[:devices]), ("x",)):
        (h, both), (once, both_once) = pulled(iterations), pulled(dict.fromkeys(iterations, 1))
        y = np.ones(jax.eval_shape(h, x).shape, np.float32)
        stored = jax.make_jaxpr(lambda x: jax.vjp(h, x)[1])(x).jaxpr
        residuals = sum(v.aval.size * 4 for v in set(stored.outvars) - set(stored.invars))
        totals = sums * x.nbytes // np.prod([{"a": len(x), "b": 16}[a] for a in over])
        parts = np.prod(list(iterations.values()))
        for f, g, args, held in [(h, once, (x,), totals), (both, both_once, (x, y), totals + residuals)]:
            whole = memory_report(g, *args)
            chunk = (whole.argument_size_in_bytes + whole.output_size_in_bytes + whole.temp_size_in_bytes) / parts
            assert devices * temporaries(f, *args) < 1.5 * (held + devices * chunk)


@pytest.mark.parametrize("over", ["a", "ab"])
def test_pullback_of_max_and_min_needs_one_sum_each(over):
    """Counting the members that attain a maximum needs no more arrays per chunk than without a loop."""
    x = np.sin(np.arange(64 * 4 * 2048, dtype=np.float32)).reshape(64, 4, 2048)
    fun = PROGRAMS["smallest to largest"][0]

    def pulled(iterations):
        h = xmap(lambda x: fun(x, tuple(over)), ["a", "b", ...], ["a", "b", ...], axis_resources={"a": SerialLoop(iterations)})
        return lambda x, ct: jax.vjp(h, x)[1](ct)

    for iterations in (4, 16):
        stored = 8 * x.nbytes // np.prod([{"a": 64, "b": 4}[a] for a in over])  # maxima and minima, counts, and two cotangents
        assert temporaries(pulled(iterations), x, x) < 1.5 * (stored + temporaries(pulled(1), x, x) / iterations)


def test_loop_over_another_axis_needs_no_transpose():
    x = np.sin(np.arange(4 * 64 * 1024, dtype=np.float32)).reshape(4, 64, 1024)
    h = xmap(softmax, {1: "b"}, {1: "b"}, axis_resources={"b": SerialLoop(16)})
    over = jax.vmap(xmap(softmax, ["b", ...], ["b", ...], axis_resources={"b": SerialLoop(16)}))
    wanted = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    for f in (h, over):
        assert_close(f(x), wanted)
        assert temporaries(f, x) < x.nbytes / 4
        assert temporaries(lambda x, ct, f=f: jax.vjp(f, x)[1](ct), x, x) < x.nbytes / 4
