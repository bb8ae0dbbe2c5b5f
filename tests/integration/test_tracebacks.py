"""Tracebacks show only user code, for every entry point that an error leaves."""
import subprocess
import sys
import traceback

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest

X = np.ones(4, "float32")


def failing(x):
    return jnp.add(x, np.ones((2, 3)))


def f(x):
    return failing(x).sum()


def files(error):
    return [(frame.filename, frame.name) for frame in traceback.extract_tb(error.__traceback__)]


WAYS = {
    "jit": lamina.jit, "grad": lamina.grad, "value_and_grad": lamina.value_and_grad, "jacfwd": lamina.jacfwd,
    "jacrev": lamina.jacrev, "hessian": lamina.hessian, "make_jaxpr": lamina.make_jaxpr,
    "donating": lambda f: lamina.jit(f, donate_argnums=0), "nested": lambda f: lamina.jit(lamina.grad(lamina.jit(f))),
    "jvp": lambda f: lambda x: lamina.jvp(f, (x,), (x,)), "vjp": lambda f: lambda x: lamina.vjp(f, x),
    "linearize": lambda f: lambda x: lamina.linearize(f, x), "lower": lambda f: lamina.jit(f).lower,
    "eval_shape": lambda f: lambda x: lamina.eval_shape(f, x), "trace": lambda f: lamina.jit(f).trace,
    "scan": lambda f: lambda x: lamina.lax.scan(lambda c, _: (f(c), None), x, None, length=2),
    "cond": lambda f: lambda x: lamina.lax.cond(True, f, f, x),
    "while": lambda f: lambda x: lamina.lax.while_loop(lambda c: True, f, x),
    "vmap": lambda f: lambda x: lamina.vmap(f)(x[None]), "pmap": lambda f: lambda x: lamina.pmap(f)(x[None]),
}


@pytest.mark.parametrize("way", WAYS)
def test_only_user_frames_are_shown(way):
    with pytest.raises((ValueError, TypeError)) as caught:
        WAYS[way](f)(X)
    shown = files(caught.value)
    assert all(file == __file__ for file, _ in shown), shown
    assert [name for _, name in shown][-2:] == ["f", "failing"]
    assert len(traceback.extract_tb(caught.value.unfiltered_traceback.traceback)) > 2


@pytest.mark.parametrize("call", [
    lambda: lamina.jit(3), lambda: lamina.jit(f)("text"), lambda: lamina.grad(lambda x: x)(X),
    lambda: lamina.vmap(f, in_axes=(0, 0))(X), lambda: lamina.jit(lambda x: x, static_argnums=1)(X, [1]),
    lambda: lamina.vmap(f)(1.0), lambda: lamina.pmap(f)(np.ones(99))])
def test_library_errors_point_at_the_call(call):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert all(file == __file__ for file, _ in files(caught.value))


def test_causes_of_errors_are_filtered():
    def g(x):
        try:
            return f(x)
        except ValueError as e:
            raise KeyError("outer") from e

    with pytest.raises(KeyError) as caught:
        lamina.jit(g)(X)
    assert all(file == __file__ for file, _ in files(caught.value) + files(caught.value.__cause__))


def test_filtering_off_shows_all_frames():
    with lamina.config.traceback_filtering(False), pytest.raises(ValueError) as caught:
        lamina.jit(f)(X)
    assert any(file != __file__ for file, _ in files(caught.value))


@pytest.mark.parametrize(("mode", "shows_library_frames"), [("auto", False), ("remove_frames", False), ("off", True),
                                            ("tracebackhide", True)])
def test_traceback_filtering_modes(mode, shows_library_frames):
    with lamina.config.traceback_filtering(mode), pytest.raises(ValueError) as caught:
        lamina.jit(f)(X)
    assert any(file != __file__ for file, _ in files(caught.value)) is shows_library_frames
    tb, hidden = caught.value.__traceback__, []
    while tb is not None:
        hidden.append(tb.tb_frame.f_locals.get("__tracebackhide__", False))
        tb = tb.tb_next
    assert any(hidden) is (mode == "tracebackhide")


def test_uncaught_errors_are_printed_filtered(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import threading
import lamina.numpy as jnp

def user():
    return jnp.ones(3) + jnp.ones(4)

thread = threading.Thread(target=user)
thread.start()
thread.join()
user()
""")
    said = subprocess.run([sys.executable, str(script)], capture_output=True, text=True).stderr
    assert said.count("incompatible shapes") == 2 and "lamina_numpy" not in said


def test_user_exception_with_slots_is_filtered():
    class Own(Exception):
        __slots__ = ()

    def g(x):
        raise Own("mine")

    with pytest.raises(Own, match="mine") as caught:
        lamina.jit(lamina.vmap(g))(X)
    assert [name for _, name in files(caught.value)] == ["test_user_exception_with_slots_is_filtered", "g"]
