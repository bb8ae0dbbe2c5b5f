"""Warnings about donated arguments whose memory no result can use."""
import threading
import warnings

import numpy as np
import pytest
from lamina_parallel import Mesh, PartitionSpec, pmap, xmap
from lamina_runtime import NamedSharding, device_put, devices
from lamina_tracing import jit, lax

X = np.ones((2, 3), np.float32)


def recorded(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in seen]


def test_unusable_argument_is_named_once():
    def step(params, x):
        return {"w": lax.mul(params["w"], x)}, lax.neg(params["b"])[0]

    f = jit(step, donate_argnums=0)

    def call():
        f({"w": device_put(X), "b": device_put(np.ones(5, np.int32))}, np.float32(2))

    text, = recorded(call)
    assert "jit of `step`" in text and "params['b'], int32[5] (no result has this shape and dtype)" in text
    assert "'w'" not in text
    assert recorded(call) == []


def test_warning_points_at_caller():
    f = jit(lambda x: lax.reduce_sum(x, axes=(0, 1)), donate_argnums=0)
    with pytest.warns(UserWarning, match="x, float32") as seen:
        f(device_put(X))
    assert seen[0].filename == __file__


def test_second_argument_of_one_result_is_reported():
    f = jit(lambda x, y: lax.add(x, y), donate_argnums=(0, 1))
    with pytest.warns(UserWarning, match="y, float32.*use the memory of other arguments"):
        f.lower(X, X).compile()
    assert recorded(lambda: f(device_put(X), device_put(X))) == []


def test_result_with_another_sharding_is_reported():
    if len(devices()) < 2:
        pytest.skip("needs two devices")
    mesh = Mesh(np.array(devices()[:2]), "i")
    rows, whole = NamedSharding(mesh, PartitionSpec("i")), NamedSharding(mesh, PartitionSpec())
    f = jit(lax.neg, donate_argnums=0, in_shardings=(rows,), out_shardings=whole)
    with pytest.warns(UserWarning, match="divided over the devices in another way"):
        f(device_put(X, rows))


@pytest.mark.parametrize("make", [
    lambda f: pmap(f, donate_argnums=0), lambda f: xmap(f, in_axes=["i", ...], out_axes=["i"], donate_argnums=0)])
def test_maps_warn(make):
    rows = np.ones((1, 3), np.float32)
    f = make(lambda x: lax.reduce_sum(x, axes=(0,)))
    text, = recorded(lambda: f(device_put(rows)))
    assert "x, float32[1,3] (no result has this shape and dtype)" in text
    assert recorded(lambda: f(device_put(rows))) == []


def test_usable_and_unused_arguments_do_not_warn():
    same_size = jit(lambda x, unused: lax.reshape(x, (6,)), donate_argnums=(0, 1))
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert recorded(lambda: same_size(device_put(X), device_put(X))) == []
        assert recorded(lambda: jit(lax.neg, donate_argnums=0)(device_put(X))) == []
    finally:
        done.set()
        other.join()
