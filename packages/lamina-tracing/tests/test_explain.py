"""`explain_cache_misses`: one log line that gives the reason for staging a function again."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from lamina_tracing import enable_x64, explain_cache_misses, jit, lax, log_compiles

X = np.zeros(3, np.float32)


def f(x, n=1):
    return lax.mul(lax.convert_element_type(x, np.float32), float(n) if isinstance(n, int) else n)


@pytest.fixture
def explain_calls(caplog):
    """Return a function that logs the explanations of calls; the jitted function was called with float32[3] before."""
    def explain(*calls, **options):
        fun = jit(lambda x, n=1: f(x, n), **options)
        with caplog.at_level(logging.WARNING, logger="lamina"), explain_cache_misses(True):
            fun(X)
            caplog.clear()
            for args, kwargs in calls:
                fun(*args, **kwargs)
        return [r.getMessage() for r in caplog.records if "cache miss" in r.getMessage()]
    return explain


def test_first_call_is_explained(caplog):
    with caplog.at_level(logging.WARNING, logger="lamina"), explain_cache_misses(True):
        jit(lambda x: lax.neg(x))(X)
    assert "cache miss: first call of this function" in caplog.text


def test_cache_hit_logs_nothing(explain_calls):
    assert explain_calls(((X,), {})) == []


@pytest.mark.parametrize(("args", "kwargs", "words"), [
    ((np.zeros(4, np.float32),), {}, "args[0]: shape changed from (3,) to (4,) (float32[3] before, float32[4] now)"),
    ((np.zeros(3, np.int32),), {}, "args[0]: dtype changed from float32 to int32"),
    ((X,), {"n": 2.0}, "the tree of (args, kwargs) changed: it has at kwargs a dict which has the extra keys ['n']")])
def test_changed_arguments_are_named(explain_calls, args, kwargs, words):
    found, = explain_calls((args, kwargs))
    assert words in found


def test_old_and_new_static_arguments_are_shown(explain_calls):
    found = explain_calls(((X, 2), {}), ((X, 3), {}), static_argnums=1)
    assert "static argument 1 changed from 2 to 3" in found[-1]


def test_changed_settings_are_named(caplog):
    g = jit(lambda x: f(x))
    with caplog.at_level(logging.WARNING, logger="lamina"), explain_cache_misses(True):
        g(X)
        with enable_x64(True):
            g(X)
    assert "config enable_x64 changed from False to True" in caplog.records[-1].getMessage()


def test_weak_type_is_explained_as_python_scalar(caplog):
    g = jit(lambda x: lax.neg(x))
    with caplog.at_level(logging.WARNING, logger="lamina"), explain_cache_misses(True):
        g(np.float32(1))
        g(1.0)
    assert "weak_type changed from False to True (a Python scalar is weakly typed)" in caplog.records[-1].getMessage()


def test_function_redefined_at_each_call_is_reported(caplog):
    kept = []

    def call(x):
        kept.append(lambda y: lax.neg(y))
        return jit(kept[-1])(x)

    with caplog.at_level(logging.WARNING, logger="lamina"), explain_cache_misses(True):
        call(X)
        call(X)
    assert "new function object: another one made at" in caplog.records[-1].getMessage()


def test_staging_is_timed(caplog):
    with caplog.at_level(logging.WARNING, logger="lamina"), log_compiles(True):
        jit(f)(X)
    assert "jit of `f`: staged in" in caplog.text
