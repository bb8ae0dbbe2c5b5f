"""Shadow mode compares launches in a thread, one at a time, and raises what it finds at the next launch or at the end."""
import subprocess
import sys
import threading
import warnings

import lamina_numpy as np
import numpy as onp
from . import planted_failures as planted
import pytest
from lamina_runtime import device_put
from lamina_see._replay import capture, shadow
from lamina_see.replay import DifferenceError, replay_folder, shadow_every
from lamina_tracing import jit


def compared(f, *args):
    """Call a function, and wait until its comparison has ended."""
    result, thread = f(*args), shadow._shadow.thread
    if thread is not None:
        thread.join(60)
    return result


def test_difference_is_a_warning_at_the_call_and_an_error_of_the_next_one():
    f = jit(lambda x: np.cos(x) + np.sin(x))
    with planted.wrong_sine(), shadow_every(1):
        with pytest.warns(RuntimeWarning, match="`sin` gives -0.84") as found:
            y = onp.asarray(compared(f, onp.ones(3, "float32")))
        assert found[0].filename == __file__ and (y < 0).all()
        with pytest.raises(DifferenceError, match="`sin` gives -0.84"):
            jit(lambda x: x + 1)(1.0)
        shadow.finish()  # raised once


def test_donated_arguments_are_compared_and_right_ones_raise_nothing():
    f = jit(lambda x, y: (x * 2 + y, x @ x), donate_argnums=0)
    with shadow_every(1), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            x = device_put(onp.ones((50, 50), "float32"))
            compared(f, x, onp.ones((50, 50), "float32"))
            assert x.is_deleted()
        shadow.finish()


def test_launches_are_left_out_while_one_is_compared(monkeypatch):
    go, seen = threading.Event(), []

    def compare(launch, place=None):
        seen.append(launch.arguments[0].item())
        go.wait(60)

    monkeypatch.setattr(capture, "_check_against_numpy", compare)
    f = jit(lambda x: x + 1)
    with shadow_every(1):
        for k in range(4):
            f(float(k))
        go.set()
        shadow.finish()
        compared(f, 9.0)
    assert seen == [0.0, 9.0]


def test_call_that_raises_gives_the_turn_back(monkeypatch):
    from lamina_tracing import pure_callback

    def fail(x):
        raise ValueError("no")

    f = jit(lambda x: pure_callback(fail, x, x))
    with shadow_every(1):
        with pytest.raises(Exception, match="no"):
            f(onp.float32(1)).block_until_ready()
        assert shadow.reserve()
        shadow.release()


def test_folder_gets_the_call_that_differs(tmp_path):
    f = jit(lambda x: np.sin(x) * 3)
    with planted.wrong_sine(), shadow_every(1), replay_folder(str(tmp_path)):
        with pytest.warns(RuntimeWarning, match=r"The call is in .*-difference-1\.replay"):
            compared(f, onp.ones(3, "float32"))
        with pytest.raises(DifferenceError):
            shadow.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["lambda-difference-1.replay"]


def test_difference_is_raised_at_the_end_of_the_process():
    code = ("import numpy as onp, lamina_numpy as np, lamina_see.replay as r\nfrom lamina_tracing import jit\n"
            "from lamina_lowering.extend import lowering_rules\nfrom lamina_ir import prims\n"
            "lowering_rules.define(prims.sin_p, lambda ctx, x: ctx.op('stablehlo.cosine', (x,), ctx.aval_out))\n"
            "r.shadow_every.set(1)\nprint(jit(lambda x: np.sin(x) * 2)(onp.zeros(2, 'float32')))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "DifferenceError: jit of `<lambda>`" in done.stderr, done.stderr
