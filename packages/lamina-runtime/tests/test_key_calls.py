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
from lamina_tracing import jit, lax
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
