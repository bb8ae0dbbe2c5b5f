"""`jit`: equals the function; traced again only if types, trees, static arguments or settings change."""
from __future__ import annotations

import functools
import gc
from concurrent.futures import ThreadPoolExecutor
import weakref

import numpy as np
import pytest
from lamina_tracing import disable_jit, enable_x64, jit, lax

X = np.arange(3.0, dtype=np.float32)


@pytest.mark.parametrize("order", [(X, 2 * X, X), (X, X[:2], X, np.int32([1, 2]))], ids=["values", "types"])
def test_jitted_function_equals_function(order):
    f = lambda x: {"y": lax.mul(x, x), "n": [x, None]}
    g = jit(f)
    for x in order:
        out = g(x)
        np.testing.assert_array_equal(np.asarray(out["y"]), x * x)
        assert out["n"][1] is None and np.asarray(out["y"]).dtype == x.dtype


def test_jit_of_trees_and_keywords():
    @jit
    def f(p, *rest, scale, **more):
        return lax.mul(lax.add(p["a"], lax.add(rest[0], more["c"])), scale)

    np.testing.assert_array_equal(np.asarray(f({"a": X}, X, scale=2.0, c=X)), 6 * X)


def test_new_static_arguments_are_traced_again():
    @functools.partial(jit, static_argnums=1)
    def power(x, n):
        assert type(n) is int
        return lax.integer_pow(x, n)

    assert [float(power(np.float32(2), n)) for n in (3, 2, 3)] == [8, 4, 8]
    assert float(power(np.float32(2), n=4)) == 16

    named = jit(lambda x, how: lax.neg(x) if how == "neg" else x, static_argnames="how")
    assert float(named(np.float32(2), how="neg")) == -2 and float(named(np.float32(2), "not")) == 2
    last = jit(lambda x, n: lax.mul(x, float(n)), static_argnums=-1)
    assert float(last(np.float32(2), 5)) == 10


def test_static_arguments_must_be_hashable_and_present():
    with pytest.raises((TypeError, ValueError), match="hash"):
        jit(lambda x, n: x, static_argnums=1)(X, [2])
    with pytest.raises(ValueError, match="static_argnums"):
        jit(lambda x: x, static_argnums=3)
    with pytest.raises(ValueError, match="static_argnames"):
        jit(lambda x: x, static_argnames="z")
    with pytest.raises(ValueError, match="donate_argnums"):
        jit(lambda x: x, donate_argnums=2)


def test_donation_does_not_change_results():
    f = jit(lambda x, y: lax.add(x, y), donate_argnums=(0,))
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(lax.mul(X, 1.0), X)), 2 * X)


def test_jit_of_methods():
    class Model:
        def __init__(self, w):
            self.w = w

        @functools.partial(jit, static_argnums=0)
        def __call__(self, x, *, bias):
            return lax.add(lax.mul(x, self.w), bias)

    for w in (2.0, 3.0):
        np.testing.assert_array_equal(np.asarray(Model(w)(X, bias=1.0)), w * X + 1)


def test_jit_of_closures():
    def f(x, y):
        return jit(lambda z: lax.mul(x, z))(y)

    assert float(f(np.float32(2), np.float32(3))) == 6 and float(jit(f)(np.float32(2), np.float32(3))) == 6
    made = [jit(lambda x, k=k: lax.mul(x, k)) for k in (1.0, 2.0, 3.0)]
    assert [float(g(np.float32(2))) for g in made] == [2, 4, 6]


def test_disable_jit_passes_concrete_values():
    seen = []

    @jit
    def f(x):
        seen.append(float(x))
        return lax.neg(x)

    with disable_jit():
        assert float(f(np.float32(2))) == -2 and float(f(np.float32(3))) == -3
    assert seen == [2.0, 3.0]


def test_jit_keeps_name_and_docstring():
    @jit
    def scaled(x):
        """Twice `x`."""
        return lax.mul(x, 2.0)

    assert scaled.__name__ == "scaled" and scaled.__doc__ == "Twice `x`."


def test_settings_are_part_of_the_cache_key():
    f = jit(lambda x: lax.mul(x, 2.0))
    assert str(f(np.float64(1)).dtype) == "float32"
    with enable_x64(True):
        assert str(f(np.float64(1)).dtype) == "float64"
    assert str(f(np.float64(1)).dtype) == "float32"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_exception_leaves_thread_usable(error):
    def f(x):
        def g(y):
            raise error("stop")
        return jit(g)(lax.sin(x))

    with pytest.raises(error):
        jit(f)(X)
    np.testing.assert_array_equal(np.asarray(lax.neg(X)), -X)
    np.testing.assert_array_equal(np.asarray(jit(lax.neg)(X)), -X)


def test_non_functions_and_non_arrays_are_rejected():
    with pytest.raises(TypeError, match="function"):
        jit(3)
    with pytest.raises(TypeError, match="str"):
        jit(lambda x: {"a": "no"})(X)
    with pytest.raises(TypeError, match="str"):
        jit(lambda x: x)("no")


def test_threads_may_call_one_function():
    f = jit(lambda x, y: lax.sub(lax.mul(x, y), y))

    def work(k):
        for n in range(1, 15):
            x = np.full(n, k, np.float32)
            np.testing.assert_array_equal(np.asarray(f(x, x)), x * x - x)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


@pytest.mark.cost
def test_function_is_traced_once_per_signature():
    count = []

    @jit
    def f(x, y=1.0):
        count.append(1)
        return lax.add(x, y)

    for x in (X, X + 1, X * 5):
        f(x, y=2.0)
    assert len(count) == 1
    f(np.int32(1), y=2)
    assert len(count) == 2
    f(X, y=3.0)
    assert len(count) == 2


@pytest.mark.cost
def test_cache_does_not_keep_function_alive():
    def make():
        big = np.zeros(1000, np.float32)

        def f(x):
            return lax.add(x, big[0])
        return f

    f = make()
    jit(f)(X)
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None
