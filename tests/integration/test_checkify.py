"""`lamina.experimental.checkify` with compiled programs, maps over devices, and lamina.numpy."""
import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental import checkify
from lamina.experimental.maps import xmap
from lamina.sharding import Mesh, PartitionSpec as P

V = jnp.array([1., -1., -2., 1.])


@pytest.fixture(autouse=True)
def program_checks():
    with lamina.enable_checks(True):  # rewritten programs are checked too
        yield


def positive(x):
    checkify.check(jnp.all(x > 0), "not positive: {x}", x=x)
    return jnp.sin(x)


def text_of(f, *args, errors=checkify.user_checks):
    eager, compiled = [g(*args)[0].get() for g in (checkify.checkify(f, errors=errors),
                                                   lamina.jit(checkify.checkify(f, errors=errors)))]
    assert eager == compiled
    return eager


def mesh():
    return Mesh(np.array(lamina.devices()[:4]).reshape(2, 2), ("a", "b"))


# --- maps over devices --------------------------------------------------------------------------------------------------
def test_checkify_of_pmap_names_the_device():
    for f in (lamina.pmap(positive, axis_name="i"), lamina.jit(lamina.pmap(positive, axis_name="i"))):
        text = text_of(f, V)
        assert text.startswith("not positive: -1.0") and ", index 1 of axis 'i' of 4, device 1 of the pmap at " in text
    assert text_of(lamina.pmap(positive), jnp.ones(4)) is None
    assert ", index 2 of the map of 3, device 2 of the pmap" in text_of(lamina.pmap(positive), jnp.array([1., 1., -3.]))


def test_pmap_of_checkify_lists_all_devices():
    err, out = lamina.pmap(checkify.checkify(positive), axis_name="i")(V)
    lines = err.get().split("\n")
    assert [line.split(":")[0] for line in lines] == ["at mapped index 1", "at mapped index 2"] and out.shape == (4,)


@pytest.mark.parametrize("of_sum, of_value", [(True, False), (False, True), (True, True), (False, False)])
def test_values_that_vary_over_devices_or_not(of_sum, of_value):
    def f(x):
        total = lax.psum(x, "i")
        checkify.check((total if of_sum else x) > 10, "{}", x if of_value else total)
        return x
    assert text_of(lamina.pmap(f, axis_name="i"), V + 1).startswith("2.0" if of_value else "3.0")


def test_collectives_keep_their_results():
    def f(x):
        return positive(x) + lax.psum(x, "i")
    err, out = checkify.checkify(lamina.pmap(f, axis_name="i"))(V)
    np.testing.assert_allclose(out, np.sin(np.asarray(V)) - 1, rtol=1e-6)
    assert err.get() is not None


def test_shard_map():
    def f(x):
        return lamina.shard_map(lambda s: positive(s) * lax.psum(1, "b"), mesh=mesh(), in_specs=P("a", "b"),
                                out_specs=P("a", "b"))(x)
    x = jnp.ones((4, 4)).at[3, 1].set(-5.)
    text = text_of(f, x)
    assert text.startswith("not positive: [[ 1.  1.]\n [ 1. -5.]]")
    assert ", index 1 of axis 'a' of 2, index 0 of axis 'b' of 2, device 2 of the shard_map at " in text
    np.testing.assert_allclose(checkify.checkify(f)(x)[1], 2 * np.sin(np.asarray(x)), rtol=1e-6)
    assert text_of(f, jnp.ones((4, 4))) is None


@pytest.mark.parametrize("f", [
    lambda s: lax.cond(s[0] < 0, lambda s: positive(s + 1.5), jnp.cos, s),
    lambda s: lax.cond(lax.psum(s, "b")[0] < 0, lambda s: positive(s + 1.5), jnp.cos, s),
    lambda s: lax.while_loop(lambda a: a[0] < 3, lambda a: a + 1 + 0 * positive(a + 1.5), s),
    lambda s: lax.while_loop(lambda a: (positive(a + 1.5), a[0] < 3)[1], lambda a: a + 1, s),
    lambda s: lax.scan(lambda c, x: (c, positive(x + 1.5)), 0., s)[1],
    lamina.checkpoint(lambda s: positive(s + 1.5))])
def test_control_flow_in_shard_map(f):
    def run(x):
        return lamina.shard_map(f, mesh=Mesh(np.array(lamina.devices()[:4]), ("b",)), in_specs=P("b"), out_specs=P("b"))(x)
    text = text_of(run, V)
    assert text.startswith("not positive: ") and "-0.5" in text
    assert "index 2 of axis 'b' of 4, device 2 of the shard_map" in text
    np.testing.assert_allclose(checkify.checkify(run)(V)[1], run_without_checks(run, V), rtol=1e-6)


def run_without_checks(run, x):
    err, out = checkify.checkify(run, errors=checkify.div_checks)(x)
    assert err.get() is None
    return out


def test_xmap():
    f = xmap(lambda x: positive(x) + lax.psum(x, "i"), in_axes=["i", "j"], out_axes=["i", "j"])
    text = text_of(f, jnp.array([[1., 1., 1.], [1., 1., -5.]]))
    assert ", index 1 of axis 'i' of 2, index 2 of axis 'j' of 3, member 5 of the xmap at " in text


def test_loop_in_a_map_names_iteration_and_device():
    def f(xs):
        return lax.scan(lambda c, x: (c + positive(x), None), 0., xs)[0]
    text = text_of(lamina.pmap(f, axis_name="i"), jnp.array([[1., 2.], [1., -2.]]))
    assert "at index 1 of the scan" in text and text.index("scan") < text.index("device 1 of the pmap")


# --- compiled programs --------------------------------------------------------------------------------------------------
def test_control_flow():
    def body(i, a):
        checkify.check(i < 3, "i = {}", i)
        return a + 1
    assert ", at index 3 of the scan at " in text_of(lambda a: lax.fori_loop(0, 5, body, a), 0.)
    assert ", at index 3 of the while at " in text_of(lambda n: lax.fori_loop(0, n, body, 0.), jnp.int32(5))
    assert text_of(lambda n: lax.fori_loop(0, n, body, 0.), jnp.int32(3)) is None
    assert text_of(lambda i, x: lax.switch(i, [jnp.cos, positive], x), jnp.int32(0), -V) is None
    assert text_of(lambda xs: lax.map(positive, xs), V).startswith("not positive: -1.0")


def test_vmap_of_loop_and_branch():
    def count(n):
        return lax.while_loop(lambda a: a < n, lambda a: (checkify.check(a < 3, "{} of {}", a, n), a + 1)[1], 0)
    assert text_of(lamina.vmap(count), jnp.array([2, 3])) is None
    assert text_of(lamina.vmap(count), jnp.array([2, 5, 4])).startswith("3 of 5")
    assert text_of(lamina.vmap(lambda x: lax.cond(x > 0, positive, jnp.cos, x)), V) is None


def test_derivatives():
    def f(x):
        return lax.scan(lambda c, y: (c * y, positive(y * x)), x, jnp.array([2., -3.]))[1].sum()
    g = lamina.grad(f)
    assert "at index 1 of the scan" in text_of(g, 1.)
    d, err = lamina.jit(lamina.grad(lambda x: checkify.checkify(f)(x)[::-1], has_aux=True))(1.)
    np.testing.assert_allclose(d, g_of_f(1.), rtol=1e-6)
    assert "at index 1 of the scan" in err.get()
    h = lamina.hessian(lambda x: checkify.checkify(lamina.checkpoint(lambda x: positive(x) ** 2))(x)[1])
    np.testing.assert_allclose(h(1.), 2 * np.cos(2.), rtol=1e-5)


def g_of_f(x):
    return 2 * np.cos(2 * x) - 3 * np.cos(-3 * x)


def test_bounded_loop_in_reverse_mode():
    def f(x):
        def body(a):
            checkify.check(a < 40, "{}", a)
            return a * 2
        return lax.while_loop(lambda a: a < 50, body, x, max_iters=10)
    d, err = lamina.grad(lambda x: checkify.checkify(f)(x)[::-1], has_aux=True)(3.)
    assert float(d) == 32 and err.get().startswith("48.0")


def test_custom_rules_compiled():
    @lamina.custom_vjp
    def f(x):
        return positive(x)
    f.defvjp(lambda x: (f(x), x), lambda x, t: (t * 7,))
    d, err = lamina.jit(lamina.vmap(lamina.grad(lambda x: checkify.checkify(f)(x)[::-1], has_aux=True)))(V)
    assert d.tolist() == [7] * 4 and err.get().count("\n") == 1


def test_custom_rules_with_collectives():
    @lamina.custom_vjp
    def f(x):
        return positive(x) + lax.psum(x, "i")
    f.defvjp(lambda x: (f(x), lax.psum(x, "i")), lambda total, t: (t * total,))

    @lamina.custom_jvp
    def g(x):
        return positive(x) + lax.psum(x, "i")
    g.defjvp(lambda primals, tangents: (g(*primals), tangents[0] * lax.psum(primals[0], "i")))

    for h in (f, g):
        def loss(x):
            err, out = checkify.checkify(lamina.pmap(h, axis_name="i"))(x)
            return out.sum(), err
        for grad in (lamina.grad(loss, has_aux=True), lamina.jit(lamina.grad(loss, has_aux=True))):
            d, err = grad(V + 1.5)
            assert d.tolist() == [5] * 4 and "device 2 of the pmap" in err.get()
        assert "device 2 of the pmap" in text_of(lamina.grad(lambda x: lamina.pmap(h, axis_name="i")(x).sum()), V + 1.5)


def test_error_passes_through_branches_and_loops():
    def f(x):
        return lax.cond(x > 5, checkify.checkify(positive), checkify.checkify(positive), x)[0]
    assert f(-1.).get().startswith("not positive: -1.0")
    with pytest.raises(checkify.JaxRuntimeError, match="not positive: -1.0"):
        checkify.check_error(f(-1.))


def test_compiled_check_without_checkify_is_refused():
    with pytest.raises(ValueError, match="not functionalized: 'not positive: {x}'.*checkify"):
        lamina.jit(positive)(V)
    with pytest.raises(checkify.JaxRuntimeError):
        positive(V)
    assert lamina.jit(lambda x: (checkify.debug_check(x > 0, "no"), x)[1])(-1.) == -1


# --- automatic checks of lamina.numpy -------------------------------------------------------------------------------------
@pytest.mark.parametrize("read", [
    lambda x, i: x[i], lambda x, i: x[i, 0], lambda x, i: x.at[i].get(), lambda x, i: x.at[i].set(0.),
    lambda x, i: x.at[i, 0].add(1.), lambda x, i: jnp.take(x, i, axis=0), lambda x, i: x[jnp.array([0, 1]) * i],
    lambda x, i: lax.dynamic_slice_in_dim(x, i, 1)])
@pytest.mark.parametrize("known", [False, True])
def test_index_checks(read, known):
    x = jnp.ones((3, 2))
    for i, ok in ((1, True), (2, True), (3, False), (70, False)):
        f = (lambda x, i=i: read(x, i)) if known else read
        args = (x,) if known else (x, jnp.int32(i))
        text = text_of(f, *args, errors=checkify.index_checks)
        assert text is None if ok else text.startswith("out-of-bounds indexing for array of shape (3, 2): index ")


@pytest.mark.parametrize("index", [5, -6, (5, 0), (-7, slice(None)), (slice(None), 9), (0, 9), (..., 9, None)])
def test_known_index_outside_reads_the_nearest(index):
    x = np.arange(15.).reshape(5, 3)
    near = tuple(np.clip(i + n if i < 0 else i, 0, n - 1) if isinstance(i, int) else i
                 for i, n in zip(index if isinstance(index, tuple) else (index,), x.shape))
    if index == (..., 9, None):
        near = (..., 2, None)
    for f in (lambda x: x[index], lamina.jit(lambda x: x[index])):
        np.testing.assert_array_equal(f(jnp.asarray(x)), x[near])
    expected = np.zeros_like(x)
    expected[near] = 1
    np.testing.assert_array_equal(lamina.grad(lambda x: x[index].sum())(jnp.asarray(x)), expected)


ROWS = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
KEY = lamina.random.key(0)
QUIET = {
    "sort": lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
    "interp": lambda x: jnp.interp(x[0] * 9, jnp.sort(x[1]), x[2]),
    "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1] * 9),
    "quantile": lambda x: jnp.quantile(x, 1.0),
    "choice": lambda x: lamina.random.choice(KEY, x, (3,)),
    "poisson": lambda x: lamina.random.poisson(KEY, 3., (5,)),
    "gamma": lambda x: lamina.random.gamma(KEY, 2., (5,)),
    "svd": lamina.grad(lambda x: jnp.linalg.svd(x)[1].sum()),
    "softmax": lamina.grad(lambda x: lamina.nn.log_softmax(x)[0, 0]),
    "nonzero": lambda x: jnp.nonzero(x > 9, size=3),
    "norm": lamina.grad(jnp.linalg.norm),
}


@pytest.mark.parametrize("name", QUIET)
def test_library_functions_pass_all_checks(name):
    assert text_of(QUIET[name], jnp.asarray(ROWS), errors=checkify.all_checks) is None


def test_nan_in_the_backward_pass():
    text = text_of(lamina.grad(lambda x: jnp.sum(jnp.sqrt(x) * 0)), jnp.zeros(2), errors=checkify.nan_checks)
    assert text.startswith("nan generated by primitive: ")
