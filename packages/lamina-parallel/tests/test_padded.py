"""`padded` with any number of members and devices gives the results of vmap. Without a backend, only `len(devices)` matters."""
import numpy as np
import pytest
from lamina_autodiff import custom_jvp, custom_vjp, grad, jvp
from lamina_batching import vmap
from lamina_parallel import padded, pmap, psum
from lamina_tracing import io_callback, jit, lax, make_jaxpr

W = np.float32([1, -1, 2])


def members(rows, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, (rows, 3)).astype(np.float32)


def run_both(rows, devices, f, *args, axis_name="i", in_axes=0, out_axes=0):
    """Return the results of vmap and of padded."""
    return [m(f, axis_name=axis_name, in_axes=in_axes, out_axes=out_axes, **more)(*args)
            for m, more in ((vmap, {}), (padded, {"devices": range(devices)}))]


def assert_same(a, b):
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert a.dtype == b.dtype and a.shape == b.shape


SIZES = [(1, 8), (3, 8), (8, 8), (9, 8), (13, 8), (16, 8), (5, 2), (7, 3), (2, 1), (6, 3), (17, 4)]


@pytest.mark.parametrize("rows, devices", SIZES)
def test_padded_without_collectives(rows, devices):
    x = members(rows)
    f = lambda w, x: (lax.mul(w, x), lax.reduce_sum(x, (0,)))  # noqa: E731
    for a, b in zip(*run_both(rows, devices, f, W, x, axis_name=None, in_axes=(None, 0), out_axes=(1, 0))):
        assert_same(a, b)
    for a, b in zip(*run_both(rows, devices, f, W, x.T.copy(), in_axes=(None, 1), out_axes=(-1, 0))):
        assert_same(a, b)


@pytest.mark.parametrize("rows, devices", [(5, 2), (9, 8), (4, 2)])
@pytest.mark.parametrize("f", [lambda x: psum(x, "i"), lambda x: lax.mul(x, lax.axis_index("i")), lambda x: lax.add(x, x)])
def test_padded_nested_with_other_transformations(rows, devices, f):
    x = members(rows).astype(np.int32)
    stack = np.stack([x, x + 1, x * 2])
    rounds = padded(f, "i", devices=range(devices))
    want = np.asarray(vmap(f, axis_name="i")(x))
    wanted = np.asarray(vmap(vmap(f, axis_name="i"))(stack))
    assert_same(jit(rounds)(x), want)
    assert_same(vmap(rounds)(stack), wanted)
    assert_same(padded(rounds, "j", devices=range(2))(stack), wanted)
    assert_same(pmap(rounds, "j")(stack), wanted)
    assert_same(jit(padded(jit(f), "i", devices=range(devices)))(x), want)
    assert_same(padded(vmap(f), "i", devices=range(devices))(x[:, None])[:, 0], want)
    assert_same(lax.scan(lambda c, _: (rounds(c), None), x, None, length=2)[0], vmap(f, axis_name="i")(want))


def test_collectives_over_a_padded_and_another_axis():
    x = members(15).reshape(5, 3, 3)

    def f(v):
        return lax.psum(v, ("j", "i")), lax.all_gather(v, ("i", "j")), lax.all_gather(v, ("j", "i")), lax.axis_index(("i", "j"))

    def nested(outer, inner, **more):
        return outer(inner(f, axis_name="j"), axis_name="i", **more)(x)

    want = nested(vmap, vmap)
    for got in (nested(padded, vmap, devices=range(2)), nested(vmap, lambda f, **a: padded(f, devices=range(2), **a)),
                nested(padded, pmap, devices=range(2))):
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)


def test_in_axes_out_axes_and_axis_size():
    x = members(5)
    rounds = lambda f, **more: padded(f, devices=range(2), **more)  # noqa: E731
    assert_same(rounds(lambda x: psum(x, "i"), axis_name="i", out_axes=None)(x), x.sum(0))
    assert_same(rounds(lambda x: lax.mul(np.float32(3), W), out_axes=None)(x), 3 * W)
    assert_same(rounds(lambda: lax.axis_index("i"), axis_name="i", axis_size=5)(), np.arange(5, dtype=np.int32))
    assert_same(rounds(lambda x, n: lax.mul(x, float(n)), static_broadcasted_argnums=1)(x, 3), 3 * x)
    assert_same(rounds(lambda d, *, k: d["a"] + k, in_axes=({"a": 0, "b": None},))({"a": x, "b": 1.0}, k=x), 2 * x)
    got = padded(axis_name="i", devices=range(2))(lambda x: lax.gt(psum(x, "i"), x))(x)
    assert_same(got, x.sum(0) > x)
    assert_same(rounds(lambda x: lax.ppermute(lax.gt(x, np.float32(0)), "i", [(0, 4), (1, 2)]), axis_name="i")(x),
          np.stack([x[0] < -9, x[0] < -9, x[1] > 0, x[0] < -9, x[0] > 0]))
    jitted = jit(lambda y: rounds(lambda x: lax.mul(x, y))(x))  # captures a traced value
    assert_same(jitted(W), x * W)


def test_padded_keeps_dtype_and_weak_type():
    for f in (lambda x: 2.0, lambda x: psum(x, "i"), lambda x: lax.pmax(x, "i")):
        for x in (members(5), members(5).astype(np.int32)):
            a, b = run_both(5, 2, f, x)
            assert (a.aval.dtype, a.aval.weak_type) == (b.aval.dtype, b.aval.weak_type)


def round_trip(x):
    rows = lax.axis_size("i")
    return lax.ppermute(x, "i", [(j, (j + 1) % rows) for j in range(rows)])


def scattered(x):
    return lax.psum_scatter(lax.broadcast_in_dim(x, (lax.axis_size("i"), 3), (1,)), "i")


@pytest.mark.parametrize("rows, devices", [(5, 4), (9, 8), (7, 3)])
@pytest.mark.parametrize("f", [
    lambda w, x: lax.div(w, round_trip(x)), lambda w, x: lax.mul(w, lax.log(x)),
    lambda w, x: lax.div(w, lax.sub(psum(x, "i"), x)), lambda w, x: lax.div(w, scattered(x)),
    lambda w, x: lax.mul(w, lax.sqrt(lax.convert_element_type(lax.axis_index("i") + 1, "float32")))])
def test_unused_slots_do_not_affect_gradients(rows, devices, f):
    x = np.abs(members(rows)) + np.arange(1, rows + 1, dtype=np.float32)[:, None]
    grads = []
    for m, more in ((vmap, {}), (padded, {"devices": range(devices)})):
        mapped = m(f, in_axes=(None, 0), axis_name="i", **more)
        grads.append(grad(lambda w, x: lax.reduce_sum(mapped(w, x), (0, 1)), (0, 1))(W, x))  # noqa: B023
    for a, b in zip(*grads):
        assert np.isfinite(np.asarray(a)).all()
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("rows, devices", [(5, 2), (4, 2), (9, 8)])
def test_custom_rules_with_collectives(rows, devices):
    @custom_vjp
    def summed_back(x):
        return lax.mul(x, np.float32(2))

    summed_back.defvjp(lambda x: (summed_back(x), None), lambda _, ct: (psum(ct, "i"),))

    @custom_vjp
    def moved_back(x):
        return psum(x, "i")

    moved_back.defvjp(lambda x: (moved_back(x), None), lambda _, ct: (round_trip(ct),))

    @custom_jvp
    def pushed(x):
        return x

    pushed.defjvp(lambda primals, tangents: (pushed(*primals), lax.add(tangents[0], psum(tangents[0], "i"))))
    x, weights = members(rows), members(rows, 1)
    for rule in (summed_back, moved_back, pushed):
        for f in (lambda w, x: rule(lax.mul(w, x)), lambda w, x: lax.mul(rule(w), x)):  # noqa: B023
            found = []
            for mapped in (pmap(f, "i", in_axes=(None, 0)), padded(f, "i", in_axes=(None, 0), devices=range(devices))):
                loss = lambda w, x: lax.reduce_sum(lax.mul(mapped(w, x), weights), (0, 1))  # noqa: B023, E731
                found.append([*grad(loss, (0, 1))(W, x), *jvp(mapped, (W, x), (W, x))])
            for a, b in zip(*found, strict=True):
                assert_same(a, b)


def test_tied_pmax_and_pmin_derivatives():
    x = np.float32([[1], [3], [3], [-np.inf], [3]])
    for values in (x, np.full((5, 1), -np.inf, np.float32)):
        for op in (lax.pmax, lax.pmin):
            a, b = [jvp(m, (values,), (np.arange(5, dtype=np.float32)[:, None],)) for m in (
                vmap(lambda v: op(v, "i"), axis_name="i"), padded(lambda v: op(v, "i"), "i", devices=range(3)))]  # noqa: B023
            for u, v in zip(a, b):
                np.testing.assert_allclose(u, v, rtol=1e-6)


def test_function_is_traced_once_per_number_of_rounds():
    seen = []

    def f(x):
        seen.append(x.shape)
        return lax.add(x, x)

    for rows in (9, 10, 15, 16):
        for _ in range(2):
            padded(f, devices=range(8))(members(rows))
    assert len(seen) == 1
    padded(f, "i", devices=range(8))(members(9))
    padded(f, "i", devices=range(8))(members(9))
    padded(f, "i", devices=range(8))(members(10))
    assert len(seen) == 3


def test_members_run_one_at_a_time_without_collectives():
    def numbered(v):
        return lax.add(lax.sin(v), lax.convert_element_type(lax.axis_index("i"), v.dtype))

    def body(x):
        return str(make_jaxpr(padded(numbered, "i", devices=range(2)))(x))

    assert "sin" in body(members(4)) and "scan" in body(members(4)) and "cond" not in body(members(4))
    assert "cond" in body(members(5))


def test_effects_run_once_per_member():
    calls = []

    def f(x):
        io_callback(lambda v: calls.append(float(v)), None, x)
        return x

    padded(f, devices=range(2))(np.float32([1, 2, 3]))
    assert sorted(calls) == [1, 2, 3]

    def g(x):
        return psum(f(x), "i")

    with pytest.raises(ValueError, match="padded of `g`: .* and effects, and its 3 rows leave 1 of 2 x 2 slots empty"):
        padded(g, "i", devices=range(2))(np.float32([1, 2, 3]))


@pytest.mark.parametrize("call, message", [
    (lambda: padded(3), "padded: expected a function; got int"),
    (lambda: padded(lambda x, y: x, devices=range(2))(members(5), members(4)),
     "padded of `<lambda>`: inconsistent sizes .*y, .*has 4"),
    (lambda: padded(lambda x: x, in_axes=2)(members(5)), "padded of `<lambda>`: in_axes 2 is out of range for x"),
    (lambda: padded(lambda x: x, devices=[])(members(5)), "padded of `<lambda>`: devices must not be empty"),
    (lambda: padded(lambda x: x, "i", out_axes=None, devices=range(2))(members(5)), "padded of `<lambda>`: out_axes is None"),
    (lambda: padded(lambda x: x)("a"), "padded of `<lambda>`: x: expected an array"),
    (lambda: padded(lambda x: x, axis_size=0)(), "padded of `<lambda>`: axis_size must be at least 1; got 0"),
    (lambda: padded(lambda x: x)(members(0)), "padded of `<lambda>`: x, .*size 0"),
])
def test_error_names_the_argument(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
