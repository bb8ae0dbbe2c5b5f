"""Repeated calls of `jit`: results, caching, errors, threads."""
from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from lamina_ir import ShapeDtypeStruct, config
from lamina_ir.testing import assert_close
from lamina_tracing import disable_jit, jit, lax, make_jaxpr

from lamina_runtime import Array, block_until_ready, clear_caches, device_put

X = np.arange(24, dtype=np.float32).reshape(8, 3)


def test_jit_returns_results_of_function_as_arrays() -> None:
    f = jit(lambda x: lax.sin(x) * 2)
    for given in (X, device_put(X), X.tolist() and X):
        got = f(given)
        assert isinstance(got, Array)
        assert_close(got, np.sin(X) * 2)


def test_jit_with_trees_keywords_and_scalars() -> None:
    f = jit(lambda t, *, k=2.0: {"s": lax.mul(t["a"], k), "n": None, "pair": (t["a"], 1)})
    got = f({"a": X})
    assert_close(got["s"], X * 2)
    assert got["n"] is None and int(got["pair"][1]) == 1
    assert_close(f({"a": X}, k=3.0)["s"], X * 3)
    assert jit(lambda: ())() == ()


def test_python_numbers_are_weak_and_typed_ones_are_not() -> None:
    f = jit(lambda x: lax.add(x, x))
    assert f(2).weak_type and f(2.0).weak_type and not f(np.int32(2)).weak_type and not f(X).weak_type
    assert (f(2).dtype, f(2.0).dtype) == (np.int32, np.float32)
    assert jit(lambda x: x + 1)(np.float16(1)).dtype == np.float16


def test_static_arguments_are_python_values() -> None:
    def f(x: Any, n: int) -> Any:
        return x * float(n) if n > 1 else x

    run = jit(f, static_argnums=1)
    assert_close(run(X, 3), X * 3)
    assert_close(run(X, 1), X)
    assert_close(run(X + 1, 3), (X + 1) * 3)
    with pytest.raises(ValueError, match="ashable"):
        run(X, [1])
    assert_close(jit(f, static_argnames="n")(X, n=4), X * 4)


def test_closed_over_arrays_are_constants() -> None:
    big = np.arange(5000, dtype=np.float32)
    there = device_put(big)
    f = jit(lambda x, unused: there * x + big)
    for _ in range(3):
        assert_close(f(np.float32(2), 1), big * 3)


@pytest.mark.cost
def test_only_donated_arguments_are_deleted() -> None:
    f = jit(lambda x, y: x + y, donate_argnums=0)
    x, y = device_put(X), device_put(X)
    assert_close(f(x, y), 2 * X)
    assert x.is_deleted() and not y.is_deleted()
    for use in (lambda: f(x, y), lambda: lax.sin(x), lambda: np.asarray(x)):
        with pytest.raises(RuntimeError, match="deleted or donated"):
            use()
    assert_close(f(X, y), 2 * X)  # host memory belongs to the caller


def test_nested_jit_and_jit_under_make_jaxpr() -> None:
    inner = jit(lambda x: lax.sin(x))
    inner(X)
    assert_close(jit(lambda x: inner(x) + inner(x))(X), 2 * np.sin(X))
    assert [a.shape for a in make_jaxpr(inner)(X).out_avals] == [X.shape]


def test_disable_jit_runs_each_primitive() -> None:
    seen = []
    f = jit(lambda x: (seen.append(type(x)), lax.neg(x))[1])
    f(X)
    with disable_jit():
        assert_close(f(X), -X)
    assert len(seen) == 2 and issubclass(seen[1], (np.ndarray, Array))


def test_calls_follow_enable_x64() -> None:
    f = jit(lambda x: x + 1)
    wide = np.arange(3, dtype=np.float64)
    assert f(wide).dtype == np.float32 and device_put(wide).dtype == np.float32 and f(3).dtype == np.int32
    with config.enable_x64(True):
        assert f(wide).dtype == np.float64 and device_put(wide).dtype == np.float64 and f(3).dtype == np.int64
        assert float(f(np.float64(1) / 3)) == 1 / 3 + 1
        assert lax.add(np.int64(2**40), np.int64(1)).tolist() == 2**40 + 1
    assert f(wide).dtype == np.float32


def test_lower_and_compile_steps_give_equal_results() -> None:
    f = jit(lambda x, y: {"sum": x + y})
    run = f.lower(ShapeDtypeStruct((8, 3), np.float32), ShapeDtypeStruct((), np.float32)).compile()
    assert_close(run(X, np.float32(2))["sum"], X + 2)
    with pytest.raises(TypeError):
        run(X[0], np.float32(2))
    assert f.eval_shape(X, X)["sum"].shape == X.shape


@pytest.mark.parametrize("bad", ["text", object(), {"q": object()}, np.array(["a"])], ids=["str", "object", "tree", "dtype"])
def test_non_array_argument_is_rejected_by_name(bad: Any) -> None:
    with pytest.raises(TypeError, match=r"\bx\b|args"):
        jit(lambda x: x)(bad)


def test_error_of_function_propagates_and_restores_state() -> None:
    def f(x: Any, fail: bool) -> Any:
        if fail:
            raise KeyError("mine")
        return x + 1

    run = jit(f, static_argnums=1)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            run(X, True)
        assert_close(run(X, False), X + 1)


def test_control_flow_in_jit() -> None:
    f = jit(lambda n, x: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1])
    for n in range(4):
        assert_close(f(n, X), X * 2**n)
    g = jit(lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: -v, x))
    assert_close(g(True, X), X + 1)
    assert_close(g(False, X), -X)
    total = jit(lambda x: lax.scan(lambda c, row: (c + row, c), np.zeros(3, np.float32), x))(X)
    assert_close(total[0], X.sum(0))
    assert_close(total[1], np.concatenate([np.zeros((1, 3), np.float32), np.cumsum(X, 0)[:-1]]))


def test_threads_may_call_concurrently() -> None:
    f = jit(lambda x, n: x * n)
    found: dict[int, Any] = {}

    def some(k: int) -> None:
        found[k] = [np.asarray(f(X[:k + 1], np.float32(n))) for n in range(5)]

    threads = [threading.Thread(target=some, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        for n, got in enumerate(found[k]):
            assert_close(got, X[:k + 1] * np.float32(n))


def test_settings_are_thread_local() -> None:
    found = []
    with config.enable_x64(True):
        t = threading.Thread(target=lambda: found.append(jit(lambda x: x + 1)(np.float64(1)).dtype))
        t.start()
        t.join()
    assert found == [np.float32]


@pytest.mark.cost
def test_function_is_traced_once_per_argument_types() -> None:
    calls = []

    @jit
    def f(x: Any) -> Any:
        calls.append(x.aval)
        return lax.neg(x)

    for value in (X, X + 1, device_put(X), device_put(X)):
        f(value)
    assert len(calls) == 1
    f(X[0]), f(X.astype(np.int32)), f(2.0), f(np.float32(2))
    assert len(calls) == 5


@pytest.mark.cost
def test_clear_caches_causes_retracing() -> None:
    calls = []
    f = jit(lambda x: (calls.append(1), x + 1)[1])
    f(X)
    clear_caches()
    assert_close(f(X), X + 1)
    assert_close(lax.sin(X), np.sin(X))
    assert len(calls) == 2


@pytest.mark.cost
def test_functions_and_their_programs_are_released() -> None:
    def made() -> Any:
        big = device_put(np.zeros(1000, np.float32))

        def f(x: Any) -> Any:
            return x + big

        block_until_ready(jit(f)(np.float32(1)))
        return weakref.ref(f)

    ref = made()
    gc.collect()
    assert ref() is None
