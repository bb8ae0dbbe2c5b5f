import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import ShapeDtypeStruct
from lamina_parallel import pmap, psum
from lamina_runtime import device_put, devices
from lamina_tracing import disable_jit, jit, lax, make_jaxpr

pytestmark = pytest.mark.devices
X = np.random.RandomState(0).randn(8, 3).astype(np.float32)


def total(x):
    return psum(x, "i")


def test_shards_stay_on_their_devices():
    y = pmap(lambda x: lax.mul(x, x))(X)
    np.testing.assert_allclose(y, X * X, rtol=1e-6)
    assert [next(iter(row.devices())) for row in y] == devices()
    for _ in range(3):
        y = pmap(lambda x: lax.neg(x))(y)
    np.testing.assert_allclose(y, -X * X, rtol=1e-6)


@pytest.mark.parametrize("make", [lambda: X, lambda: device_put(X), lambda: device_put(X, devices()[3]),
                                  lambda: pmap(lambda x: x)(X)])
def test_arguments_on_host_or_any_device(make):
    f = pmap(lambda x: lax.add(x, x))
    for _ in range(3):
        np.testing.assert_array_equal(f(make()), X + X)


def test_broadcast_and_empty_arguments():
    f = pmap(lambda x: lax.neg(x))
    for value in (np.broadcast_to(np.float32([1, 2]), (8, 2)), np.zeros((8, 0), np.float32), np.float32(range(8))):
        for _ in range(2):
            np.testing.assert_array_equal(f(value), -value)


def test_collectives():
    f = pmap(total, axis_name="i")
    for _ in range(20):
        np.testing.assert_allclose(f(X), np.tile(X.sum(0), (8, 1)), rtol=1e-5)
    np.testing.assert_array_equal(pmap(lambda x: lax.axis_index("i"), axis_name="i")(X), np.arange(8))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_collectives_of_empty_arrays(wrap, dtype):
    nothing = np.zeros((4, 0, 2), dtype)
    for f in (lambda x: lax.all_gather(x, "i", tiled=True), lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
              lambda x: lax.psum_scatter(lax.convert_element_type(x, np.float32), "i", tiled=True)):
        got, want = wrap(pmap(f, axis_name="i"))(nothing), vmap(f, axis_name="i")(nothing)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)


def test_in_axes_and_out_axes():
    np.testing.assert_array_equal(pmap(lambda x, y: lax.add(x, y), in_axes=(1, None), out_axes=1)(X.T, 2.0), X.T + 2)
    t = np.arange(48, dtype=np.float32).reshape(2, 8, 3)
    out = pmap(lambda x: lax.neg(x), in_axes=1, out_axes=2)(t)
    np.testing.assert_array_equal(out, -np.moveaxis(t, 1, 2))
    np.testing.assert_array_equal(pmap(lambda x: lax.mul(x, 2.0), in_axes=2)(out), np.moveaxis(-t, 1, 0) * 2)
    np.testing.assert_allclose(pmap(total, axis_name="i", out_axes=None)(X), X.sum(0), rtol=1e-5)


def test_arguments_with_another_sharding():
    square = np.random.RandomState(1).randn(8, 8).astype(np.float32)
    columns = pmap(lambda x: x, out_axes=1)(square)  # sharded along axis 1
    f = pmap(lambda x: lax.mul(x, x))
    backwards = pmap(lambda x: x, devices=devices()[::-1])(X)
    for _ in range(3):
        np.testing.assert_array_equal(f(columns), square.T * square.T)
        np.testing.assert_array_equal(f(backwards), X * X)


def test_static_arguments_and_trees():
    f = pmap(lambda t, k: {"a": lax.mul(t["x"], float(k)), "b": 1.0}, static_broadcasted_argnums=1)
    out = f({"x": X}, 3)
    np.testing.assert_allclose(out["a"], X * 3, rtol=1e-6)
    assert out["b"].shape == (8,)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"pmap of `<lambda>`: static argument 1 \('k'\) must be hashable; got list"):
            f({"x": X}, [3])


def test_maps_over_fewer_devices():
    assert pmap(lambda x: lax.neg(x))(X[:3]).devices() == set(devices()[:3])
    one = pmap(total, axis_name="i")(X[:1])
    np.testing.assert_array_equal(one, X[:1])
    assert one.shape == (1, 3) and np.asarray(one[0]).shape == (3,)


def test_more_members_than_devices_is_refused():
    with pytest.raises(ValueError, match=r"requires 10000000 logical devices, but only 8 XLA devices are available "
                                         r"\(num_replicas=10000000, num_partitions=1\)"):
        pmap(lambda x: x)(np.zeros(10_000_000, np.float32))


def test_nested_maps():
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    f = pmap(lambda r: pmap(lambda v: lax.add(psum(v, "j"), psum(v, "i")), axis_name="j")(r), axis_name="i")
    np.testing.assert_array_equal(f(x), x.sum(1, keepdims=True) + x.sum(0))


def test_inside_jit():
    f = jit(lambda v: lax.add(pmap(lambda x: lax.mul(x, psum(x, "i")), axis_name="i")(v), 1.0))
    for _ in range(3):
        np.testing.assert_allclose(f(X), X * X.sum(0) + 1, rtol=1e-4)
    assert f(X).sharding == pmap(lambda x: x)(X).sharding
    assert "xla_pmap" in str(make_jaxpr(pmap(total, axis_name="i"))(X))


def test_donated_shards_are_deleted():
    step = pmap(lambda x: lax.mul(psum(x, "i"), 0.125), axis_name="i", donate_argnums=0)
    free = pmap(lambda x: lax.neg(x))
    z = first = free(X)
    free(first)
    for _ in range(40):  # more than the window, each result given to the next call
        z = step(z)
    np.testing.assert_allclose(z, np.tile(-X.sum(0) / 8, (8, 1)), rtol=1e-4, atol=1e-5)
    for use in (lambda: step(first), lambda: free(first), lambda: lax.neg(first)):
        with pytest.raises(RuntimeError, match="deleted or donated"):
            np.asarray(use())  # with other threads, jaxlib 0.12 raises when the result is read
    both = pmap(lambda x, y: lax.add(x, y), donate_argnums=(0, 1))
    z = free(X)
    with pytest.raises(ValueError, match="twice"):
        both(z, z)


def test_many_queued_collectives_finish():
    f, y = pmap(total, axis_name="i"), pmap(lambda x: x)(X)
    for _ in range(300):
        out = f(y)
    np.testing.assert_allclose(out, np.tile(X.sum(0), (8, 1)), rtol=1e-5)


def test_lower_and_compile():
    f = pmap(lambda x: lax.sin(x))
    low = f.lower(X)
    assert "stablehlo.sine" in low.as_text() and "num_replicas = 8" in low.as_text()
    run = low.compile()
    np.testing.assert_allclose(run(X), np.sin(X), rtol=1e-5)
    assert run.cost_analysis() and run.memory_analysis() and "sine" in run.as_text()


def test_disable_jit():
    used = pmap(total, axis_name="i")
    used(X), used(X)
    with disable_jit():
        for f in (pmap(total, axis_name="i"), used, used):
            np.testing.assert_allclose(f(X), np.tile(X.sum(0), (8, 1)), rtol=1e-5)


def test_given_devices():
    f = pmap(lambda x: lax.neg(x), devices=devices()[::-1])
    assert f(X)[0].devices() == {devices()[7]}
    with pytest.raises(ValueError, match="requires 8 logical devices, but devices names 2"):
        pmap(lambda x: x, devices=devices()[:2])(X)
    with pytest.raises(TypeError, match=r"devices\[0\] must be a device"):
        pmap(lambda x: x, devices=["cpu"] * 8)(X)


def test_compiled_pmap_refuses_other_types():
    compiled = pmap(lambda x, y: lax.add(x, y), in_axes=(0, None)).lower(ShapeDtypeStruct((8, 3), "float32"), 1.0).compile()
    np.testing.assert_allclose(compiled(X, 1.0), X + 1, rtol=1e-6)
    for args, message in [((X[:, :2], 1.0), r"x was compiled with float32\[8,3\] and called with float32\[8,2\]"),
                        ((X.astype("int32"), 1.0), "called with int32"), ((X,), "expected arguments of structure")]:
        with pytest.raises(TypeError, match=message):
            compiled(*args)


def test_compiled_pmap_error_names_the_call():
    compiled = pmap(lambda x: lax.neg(x)).lower(ShapeDtypeStruct((8, 3), "float32")).compile()
    with pytest.raises(TypeError, match=r"^compiled pmap of `<lambda>`: args\[0\]: expected an array"):
        compiled("text")


def test_second_pmap_of_a_function_reuses_the_executable():
    f = lambda x: lax.add(x, x)  # noqa: E731
    made = [pmap(f).lower(X).compile().runtime_executable() for _ in range(2)]
    assert made[0] is made[1]
    assert pmap(f, out_axes=1).lower(X).compile().runtime_executable() is not made[0]


def test_pmap_of_one_function_over_different_devices():
    def double(x):
        return lax.add(x, x)

    x = np.ones((4, 2), np.float32)
    for where in (devices()[:4], devices()[4:], devices()[:4][::-1], devices()[1:5]):
        for _ in range(2):
            y = pmap(double, devices=where)(x)
            assert [s.device for s in y.addressable_shards] == where
            np.testing.assert_array_equal(y, 2 * x)
