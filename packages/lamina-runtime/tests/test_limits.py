"""Programs that would crash XLA are refused before compilation; programs within the limits compile."""
import subprocess
import sys

import pytest
from lamina_ir.extend import collect_facts
from lamina_runtime._compile import compile_effort, executable_cache
from lamina_tracing import jit, lax, make_jaxpr


def conds(depth):
    def f(x):
        return lax.sin(x)
    for _ in range(depth):
        f = (lambda g: lambda x: lax.cond(lax.lt(x, 3.0), g, lax.cos, x))(f)
    return f


def doubled(depth):
    def f(x):
        return lax.sin(lax.cos(lax.sin(lax.cos(lax.sin(x)))))
    for _ in range(depth):
        f = (lambda g: jit(lambda x: g(g(x))))(jit(f))
    return f


@pytest.mark.parametrize("kind", ["cond", "scan", "while"])
def test_deep_control_flow_is_refused(kind):
    def f(x):
        return lax.sin(x)
    for _ in range(executable_cache.MAX_NESTING + 1):
        f = {"cond": lambda g: lambda x: lax.cond(lax.lt(x, 3.0), g, lax.cos, x),
             "scan": lambda g: lambda x: lax.scan(lambda c, _: (g(c), None), x, None, length=2)[0],
             "while": lambda g: lambda x: lax.while_loop(lambda c: lax.lt(c, 3.0), lambda c: lax.add(g(c), 4.0), x)}[kind](f)
    with pytest.raises(RecursionError, match=rf"nested 1\d\d levels deep, `{kind}` innermost; .*at most 128"):
        jit(f)(1.0)
    assert jit(f).lower(1.0).as_text()  # lowering works; only XLA cannot compile it


def test_programs_with_too_many_equations_are_refused():
    with pytest.raises(ValueError, match=r"which makes 16,\d\d\d,\d\d\d equations of this program; at most 4,194,304"):
        jit(doubled(21))(1.0)
    assert jit(doubled(5))(1.0) < 1


@pytest.mark.slow
def test_programs_within_the_limits_compile():
    program = """
from lamina_tracing import jit, lax, make_jaxpr
import lamina_runtime
from lamina_runtime._compile import executable_cache
f = lax.sin
for _ in range(executable_cache.MAX_NESTING - 28):
    f = (lambda g: lambda x: lax.while_loop(lambda c: lax.lt(c, 3.0), lambda c: lax.add(g(c), 4.0), x))(f)
jit(f).lower(1.0).compile()
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "done\n", done.stderr[-2000:]


def test_shared_programs_are_analyzed_once():
    def f(x):
        return lax.sin(x)
    for _ in range(40):
        f = (lambda g: jit(lambda x: lax.add(g(x), g(x))))(jit(f))
    closed = make_jaxpr(f)(1.0)
    assert collect_facts(closed).is_plain and not compile_effort.compile_effort(closed).cheap


@pytest.mark.parametrize("work", ["x = f(x)", "x = lax.mul(lax.sin(x), x)", "x = jit(lambda v: v + x)(x)", "np.asarray(f(x))",
                                  "x = pmap(f)(x)"])
def test_background_threads_do_not_abort_a_process_at_exit(work):
    code = f"""
import threading
import numpy as np
import lamina_runtime
from lamina_parallel import pmap
from lamina_tracing import jit, lax
f, begun = jit(lambda v: lax.mul(lax.sin(v), v)), threading.Event()
def go():
    x = f(np.ones((1, 9), np.float32))
    while True:
        {work}
        begun.set()
threading.Thread(target=go, daemon=True).start()
begun.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
