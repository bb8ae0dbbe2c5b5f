"""Forked children: they compute with NumPy and warn, using devices raises, and they end normally."""
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")]

PROGRAM = """
import os, sys
import numpy as np
import lamina_runtime as rt
from lamina_parallel import pmap, psum
from lamina_tracing import jit, lax
used = lambda x: lax.mul(x, lax.sin(x))
f, g = jit(used), pmap(lambda v: psum(v, "i"), axis_name="i")
if {first}:
    x, rows = f(np.arange(5.)), g(np.arange(8.))
    rt.block_until_ready((x, rows))
    compiled = f.lower(np.arange(5.)).compile()
pid = os.fork()
if pid == 0:
    try:
        {child}
        status = 0
    except RuntimeError as e:
        status = 3 if "forked" in str(e) else 1
    {leave}
assert os.waitpid(pid, 0)[1] == {want} << 8, "the child ended otherwise"
if {first}:
    assert float(f(x)[0]) == 0 and float(g(rows)[0]) == 224  # the parent still works
"""


def run(child, want, first=True, leave="os._exit(status)"):
    text = PROGRAM.format(child=child, want=want, first=first, leave=leave)
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", text], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


COMPUTED = {"f(x)": "used(np.asarray(x))", "f(np.arange(5.))": "np.arange(5.) * np.sin(np.arange(5.))",
            "f(np.arange(7.))": "np.arange(7.) * np.sin(np.arange(7.))", "jit(lambda x: lax.neg(x))(x)": "-np.asarray(x)",
            "lax.neg(x)": "-np.asarray(x)", "g(rows)": "[224.] * 8", "pmap(lambda v: lax.neg(v))(np.arange(8.))":
            "-np.arange(8.)", "lax.add(x, 1)": "np.asarray(x) + 1", "rt.device_put(np.ones(3))": "np.ones(3)",
            "list(x)": "np.asarray(x)", "jit(lambda x: lax.dot(x, x))(np.ones((300, 300)))": "np.full((300, 300), 300.)"}
REFUSED = ["compiled(x)", "f.lower(np.ones(3)).compile()", "rt.device_put_sharded([x, x], rt.devices()[:2])"]


def test_forked_child_computes_with_numpy_and_warns():
    run(f"""import warnings
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for text, want in {COMPUTED!r}.items():
                assert np.allclose(np.asarray(eval(text)), eval(want), atol=1e-6), text
        warned = [w for w in warned if w.category is RuntimeWarning]
        assert len(warned) == 1 and "NumPy" in str(warned[0].message) and "spawn" in str(warned[0].message), warned""", 0)


def test_devices_in_a_forked_child_are_refused():
    run(f"""for text in {REFUSED!r}:
            try:
                eval(text)
            except RuntimeError as e:
                assert "forked" in str(e) and "spawn" in str(e), (text, e)
            else:
                raise AssertionError(text)""", 0)


def test_forked_child_reads_arrays():
    run("assert abs(np.asarray(x)[1] - np.sin(1.)) < 1e-6 and np.asarray(rows)[0] == 28 and x.tolist()[0] == 0\n"
        "        assert rt.device_get(rows).sum() == 28 * 8 and repr(x)", 0)


def test_forked_child_exits_normally():
    run("np.asarray(x)", 0, leave="sys.exit(status)")
    run("f(x)", 0, leave="sys.exit(status)")
    run("compiled(x)", 3, leave="sys.exit(status)")


def test_forked_child_works_if_no_device_was_used_before():
    run("assert f(np.arange(5.))[0] == 0 and g(np.arange(8.))[0] == 28", 0, first=False)
