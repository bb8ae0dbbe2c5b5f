"""Host callbacks: called with the values, as often and in the order of the program; errors reach the caller."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import CallbackError, ShapeDtypeStruct
from lamina_ir.testing import assert_close
from lamina_tracing import debug, io_callback, jit, lax, pure_callback

from lamina_runtime import effects_barrier

X = np.arange(3, dtype=np.float32)


@pytest.mark.core
@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["eager", "jit"])
def test_pure_callback_computes_on_host(how: Any) -> None:
    f = how(lambda x: pure_callback(lambda v: np.sin(v), ShapeDtypeStruct((3,), np.float32), x * 2) + 1)
    assert_close(f(X), np.sin(2 * X) + 1)
    assert_close(f(X + 1), np.sin(2 * (X + 1)) + 1)
    pair = how(lambda x: pure_callback(lambda v: {"a": v.sum(), "b": np.argsort(-v).astype(np.int32)},
                                       {"a": ShapeDtypeStruct((), np.float32), "b": ShapeDtypeStruct((3,), np.int32)}, x))(X)
    assert float(pair["a"]) == 3 and np.asarray(pair["b"]).tolist() == [2, 1, 0]


@pytest.mark.order
@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["eager", "jit"])
def test_ordered_callbacks_run_in_program_order(how: Any) -> None:
    seen: list[int] = []

    def f(x: Any) -> Any:
        for k in range(5):
            io_callback(lambda v, k=k: seen.append((k, int(v))), None, x + k, ordered=True)
        return x

    run = how(f)
    run(np.int32(0)), run(np.int32(10))
    effects_barrier()
    assert seen == [(k, k) for k in range(5)] + [(k, 10 + k) for k in range(5)]


@pytest.mark.order
def test_ordered_callbacks_in_loops_and_branches() -> None:
    seen: list[int] = []

    def note(v: Any) -> None:
        seen.append(int(v))

    @jit
    def f(n: Any) -> Any:
        def body(k: Any, c: Any) -> Any:
            io_callback(note, None, k, ordered=True)
            return c + k
        total = lax.fori_loop(0, n, body, 0)
        lax.cond(total > 2, lambda: io_callback(note, None, 100 + total, ordered=True), lambda: None)
        return total

    f(2), f(4)
    effects_barrier()
    assert seen == [0, 1, 0, 1, 2, 3, 106]


@pytest.mark.core
def test_unused_effects_run_at_each_call() -> None:
    seen: list[float] = []
    f = jit(lambda x: (debug.callback(lambda v: seen.append(float(v)), x), x + 1)[1])
    for k in range(3):
        f(np.float32(k))
    effects_barrier()
    assert sorted(seen) == [0, 1, 2]


@pytest.mark.core
@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["eager", "jit"])
def test_callback_error_reaches_the_caller(how: Any) -> None:
    def bad(v: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises((CallbackError, ValueError), match="mine"):
        np.asarray(how(lambda x: pure_callback(bad, ShapeDtypeStruct((3,), np.float32), x))(X))
    with pytest.raises((CallbackError, TypeError, ValueError)):
        np.asarray(how(lambda x: pure_callback(lambda v: v[:2], ShapeDtypeStruct((3,), np.float32), x))(X))
    assert_close(jit(lambda x: x + 1)(X), X + 1)
