"""`FunctionCache`: tables that live as long as their function."""
import functools
import gc
import weakref

import numpy as np
from lamina_tracing import jit, lax
from lamina_tracing._jit import jit_spec
from lamina_tracing.extend import FunctionCache
from lamina_tracing.lax._control_flow import loop_bodies


def function():
    return lambda x: lax.mul(x, 2.0)


def test_table_is_released_with_its_function():
    tables, f = FunctionCache(), function()
    tables.get_table(f)["a"] = 1
    assert tables.get_table(f) == {"a": 1} and tables.get_table(function()) == {}
    assert len(tables) == 1
    del f
    assert len(tables) == 0


def test_functions_without_weak_key_get_new_tables():
    tables = FunctionCache()
    for fun in (functools.partial(print, []), [].append, type("Unhashable", (), {"__hash__": None})()):
        tables.get_table(fun)["a"] = 1
    assert len(tables) <= 1 and tables.get_table([].append) == {}


def test_table_that_references_its_function_is_evicted():
    tables = FunctionCache(max_functions=4)
    f = function()
    tables.get_table(f)["rule"] = f
    reference = weakref.ref(f)
    del f
    kept = [function() for _ in range(8)]
    for g in kept:
        tables.get_table(g)["program"] = g
    gc.collect()
    assert reference() is None and len(tables) <= 4
    assert tables.get_table(kept[-1]) == {"program": kept[-1]}


def test_function_as_its_own_static_argument_is_released(monkeypatch):
    monkeypatch.setattr(jit_spec, "_programs", FunctionCache(max_functions=4))
    f = lambda x, g: lax.mul(x, 2.0)  # noqa: E731
    specification = jit_spec.JitSpec(f, static_argnums=1)
    flat, tree, static = specification.split((np.float32(1), f), {})
    specification.trace(flat, tree, static)
    reference = weakref.ref(f)
    del f, specification, static
    kept = [jit(function()) for _ in range(8)]
    for g in kept:
        g(np.float32(1))
    gc.collect()
    assert reference() is None


def test_loops_are_staged_once_per_body(monkeypatch):
    monkeypatch.setattr(loop_bodies, "_staged", FunctionCache(max_functions=4))
    count = []

    def body(c, x):
        count.append(1)
        return lax.add(c, x), c

    for _ in range(3):
        lax.scan(body, np.float32(0), np.ones(3, np.float32))
    assert len(count) == 1
