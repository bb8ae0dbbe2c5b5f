"""Calls with typed keys use the fast path, unless key reuse is checked."""
from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

from lamina_ir import DTypeError, KeyReuseError, config, dtypes, prims
from lamina_runtime import KeyArray
from lamina_runtime._dispatch import eager, jit_call
from lamina_tracing import debug, jit, lax
from lamina_tracing.extend import bind


def key(*data, impl="fry"):
    return bind(prims.random_wrap_p, np.array(data or (1, 2), np.uint32), impl=impl)


def key_data(keys, use="data"):
    return bind(prims.random_unwrap_p, keys, use=use)


@pytest.fixture
def forbid_python_path(monkeypatch):
    """Return a function after whose call no jitted call may run in Python."""
    def begin():
        def miss(*args, **kwargs):
            raise AssertionError("the call ran in Python")
        monkeypatch.setattr(jit_call._CacheMissHandler, "on_user_call", miss)
        monkeypatch.setattr(jit_call._CacheMissHandler, "compile_and_run", miss)
        monkeypatch.setattr(eager, "_run", miss)
    return begin


def test_calls_with_keys_use_the_fast_path(forbid_python_path):
    @jit
    def f(pair, x):
        first, other = pair
        return {"keys": lax.concatenate([lax.reshape(first, (1,)), other], 0), "sum": key_data(first)[0] + x, "same": first}

    a, b = key(), lax.reshape(key(3, 4), (1,))
    f((a, b), 1.0)
    c, d = key(5, 6), lax.reshape(key(7, 8), (1,))
    forbid_python_path()
    out = f((c, d), 2.0)
    assert type(out["keys"]) is KeyArray and out["keys"].dtype == a.dtype and out["keys"].shape == (2,)
    assert np.asarray(out["keys"].key_data).tolist() == [[5, 6], [7, 8]] and np.asarray(out["sum"]) == 7
    assert np.asarray(out["same"].key_data).tolist() == [5, 6]


def test_keys_of_other_generators_are_separate_signatures():
    f = jit(lambda k: k)
    assert f(key()).dtype == dtypes.key_type("fry")
    four = key(1, 2, 3, 4, impl="rbg")
    other = key(1, 2, 3, 4, impl="urbg")
    for _ in range(2):
        assert [f(x).dtype for x in (four, other)] == [four.dtype, other.dtype]
    assert f(np.zeros((2,), np.uint32)).dtype == np.uint32


def test_donated_keys_are_deleted():
    f = jit(lambda k: lax.reshape(k, (1,)), donate_argnums=0)
    for _ in range(3):
        k = key()
        f(k)
        assert k.is_deleted()
        with pytest.raises(RuntimeError):
            f(k)


def test_eager_primitives_on_keys_use_the_fast_path(forbid_python_path):
    lax.reshape(key(), (1,))
    k = key(9, 9)
    forbid_python_path()
    assert np.asarray(lax.reshape(k, (1,)).key_data).tolist() == [[9, 9]]


def test_key_reuse_is_checked_in_every_call():
    f = jit(lambda k: key_data(k, "bits"))
    k = key()
    f(k)
    f(k)
    with config.debug_key_reuse(True):
        f(k)
        for again in (f, lambda k: key_data(k, "split"), lambda k: key_data(lax.reshape(k, (1,)), "bits")):
            with pytest.raises(KeyReuseError):
                again(k)
        key_data(k, "fold_in")
        for new in (k.copy(), copy.deepcopy(k), pickle.loads(pickle.dumps(k))):
            f(new)
    f(k)


def test_checked_keys_are_freed():
    with config.debug_key_reuse(True):
        k = key()
        key_data(k, "bits")
        gone = weakref.ref(k)
        del k
        gc.collect()
        assert gone() is None


def test_pickles_of_unknown_key_types_are_refused():
    k = KeyArray(key().key_data, dtypes.define_key_type("once", 2))
    data = pickle.dumps(k)
    assert pickle.loads(data).dtype == k.dtype
    with pytest.raises(DTypeError, match="keys cannot be restored: they are key<absent> with 2 uint32 values"):
        pickle.loads(data.replace(b"\x8c\x04once", b"\x8c\x06absent"))
    with pytest.raises(DTypeError, match="cannot be stored"):
        pickle.dumps(KeyArray(k.key_data, dtypes.define_key_type("once", 2)))


FLOAT0 = np.zeros(3, dtypes.float0)


def is_float0(x, shape):
    return type(x) is np.ndarray and x.dtype == dtypes.float0 and x.shape == shape


def test_float0_arguments_and_results_of_calls_are_numpy_arrays():
    call, constant = jit(lambda x, t: (lax.add(x, x), t, lax.reshape(t, (1, 3)))), jit(lambda x: (x, FLOAT0))
    for _ in range(3):  # jaxlib's fast path would return booleans
        out, tangent, reshaped = call(np.float32(2), FLOAT0)
        assert float(out) == 4 and is_float0(tangent, (3,)) and is_float0(reshaped, (1, 3))
        assert is_float0(constant(1.0)[1], (3,))
    compiled = call.lower(np.float32(2), FLOAT0).compile()
    assert is_float0(compiled(np.float32(2), FLOAT0)[1], (3,))


def test_float0_values_pass_through_control_flow():
    def body(carry, t):
        return lax.add(carry, np.float32(1)), (t, carry)
    for run in (lambda f: f, jit):
        total, (tangents, carries) = run(lambda x, t: lax.scan(body, x, t))(np.float32(0), FLOAT0)
        assert float(total) == 3 and is_float0(tangents, (3,)) and np.array_equal(carries, [0, 1, 2])
        assert is_float0(run(lambda t: lax.cond(np.True_, lambda x: x, lambda x: x, t))(FLOAT0), (3,))


def test_callbacks_of_compiled_programs_refuse_float0():
    with pytest.raises(DTypeError, match=r"debug_callback: expected numbers; got float0\[3\]"):
        jit(lambda t: debug.print("{}", t))(FLOAT0)
