"""Listeners of launches are called for every launch, also for those on the fast path."""
import numpy as np
import pytest
from lamina_ir import evaluate
from lamina_parallel import pmap
from lamina_runtime import unwatch_launches, unwrap_launches, watch_launches, watching_launches, wrap_launches
from lamina_tracing import jit, lax


@pytest.fixture
def seen():
    """The launches reported so far."""
    return []


def test_fast_path_calls_are_reported_while_watched(seen):
    f, x = jit(lambda x: lax.sin(x) * 2), np.float32([0.5, 1])
    for _ in range(3):
        f(x)
    with watching_launches(seen.append):
        for _ in range(3):
            f(x)
    f(x)
    assert [s.call for s in seen] == ["jit"] * 3
    for s in seen:
        np.testing.assert_allclose(s.results[0], evaluate(s.program, *map(np.asarray, s.arguments))[0], rtol=1e-6)


def test_eager_primitives_and_operators_are_reported(seen):
    x = lax.sin(np.float32([0.5, 1]))
    x + x
    with watching_launches(seen.append):
        y = x + x
        lax.cos(y)
    assert [s.program.eqns[0].primitive.name for s in seen] == ["add", "cos"]


@pytest.mark.devices
def test_pmap_launches_are_reported_with_placement(seen):
    f = pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    x = np.arange(8, dtype=np.float32)
    f(x)
    with watching_launches(seen.append):
        f(x), f(f(x))
    assert [(s.call, len(s.placement.devices)) for s in seen] == [("pmap", 8)] * 3


def test_exception_of_a_listener_is_raised_by_the_call(seen):
    def stop(launch):
        raise OverflowError("enough")

    f = jit(lambda x: x - 1)
    with watching_launches(stop), pytest.raises(OverflowError, match="enough"):
        f(2.0)
    assert f(2.0) == 1


def test_invalid_listeners_are_refused():
    with pytest.raises(TypeError, match="watch_launches: expected a function; got int: 3"):
        watch_launches(3)
    with pytest.raises(ValueError, match="does not watch launches"):
        unwatch_launches(print)


def test_wrapper_makes_each_launch_and_sees_its_error(seen):
    f, g = jit(lambda x: jit(lambda y: y * 2)(x) + 1), jit(lambda x: x - 1)
    f(2.0)

    def wrapper(launch, run):
        seen.append((launch.name, launch.results))
        g(5.0)  # not wrapped
        out, = run()
        return [out]

    wrap_launches(wrapper)
    try:
        assert [float(f(3.0)), float(f(3.0))] == [7, 7]
    finally:
        unwrap_launches(wrapper)
    f(2.0)
    assert seen == [("<lambda>", ())] * 2


def test_exception_of_a_wrapper_is_raised_and_leaves_later_calls_unwrapped():
    def stop(launch, run):
        raise OverflowError("enough")

    f = jit(lambda x: x - 1)
    wrap_launches(stop)
    try:
        for _ in range(2):
            with pytest.raises(OverflowError, match="enough"):
                f(2.0)
    finally:
        unwrap_launches(stop)
    assert f(2.0) == 1


def test_invalid_wrappers_are_refused():
    with pytest.raises(TypeError, match="wrap_launches: expected a function; got int: 3"):
        wrap_launches(3)
    with pytest.raises(ValueError, match="does not wrap launches"):
        unwrap_launches(print)
