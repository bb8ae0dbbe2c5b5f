"""`import lamina` does not import modules that few programs need."""
import subprocess
import sys

import pytest

# Modules that only rare code paths use, except those that numpy or jaxlib import.
LATE = {"importlib.metadata", "email", "zipfile", "tempfile", "socket", "difflib", "csv", "json", "random",
        "multiprocessing", "unittest", "lamina_nn", "lamina_sparse", "lamina_scipy", "lamina_checkify", "lamina_refs",
        "lamina_checkpoint", "tensorstore", "asyncio", "lamina_see",
        "lamina_pallas", "lamina_random", "lamina_numpy.special",
        "lamina_numpy.extend", "sysconfig", "glob", "lamina_ir.testing",
        "lamina_ir._config.jax_compat_flags", "lamina_ir._text.parser", "lamina_ir._serialize.binary",
        "lamina_distributed._rendezvous.rendezvous_protocol", "lamina_distributed._rendezvous.rendezvous_client",
        "lamina_distributed.coordinator", "lamina_distributed._rendezvous.cluster_env",
        "lamina_distributed._rendezvous.spawn_coordinator", "lamina_distributed.launch",
        "lamina_distributed._rendezvous.service_proxy", "lamina_distributed", "lamina_runtime.profiler", "pytest",
        "hypothesis", "bz2", "hashlib", "heapq", "lzma", "numpy.fft", "shutil", "lamina_lowering", "lamina_autodiff",
        "lamina_batching", "lamina_parallel._maps.rules", "lamina_parallel._explicit.analyze", "lamina_parallel._padded",
        "lamina_parallel._serial_axis", "lamina_parallel._maps.xmap"}
MAX_MODULES = 350  # of lamina, after the import; a module costs about 0.3 ms


def test_rarely_used_modules_are_not_imported():
    code = ("import sys, numpy, ml_dtypes, jaxlib.xla_client\nbefore = set(sys.modules)\nimport lamina, lamina.numpy\n"
            f"print(*sorted((set(sys.modules) - before) & {LATE!r}))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_number_of_imported_modules_does_not_grow():
    code = "import sys, lamina, lamina.numpy\nprint(sum(m.startswith('lamina') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= MAX_MODULES


def test_import_compiles_no_regular_expressions():
    code = ("import sys, re, numpy, ml_dtypes, jaxlib.xla_client\n"
            "def refuse(*args):\n    print(sys._getframe(1).f_globals['__name__'])\n    return compile_text(*args)\n"
            "compile_text, re.compile = re.compile, refuse\nimport lamina, lamina.numpy")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [m for m in done.stdout.split() if m.startswith("lamina")] == []


def test_packages_are_imported_at_the_first_use():
    """Before that, implementations of layers can be selected."""
    code = ("import sys, lamina\nlamina.use(batching=None), lamina.layers\n"
            "print(*[m for m in sys.modules if m.startswith('lamina_') and not m.startswith('lamina_ir')])\n"
            "lamina.grad\nprint({'lamina_autodiff', 'lamina_batching', 'lamina_runtime'} <= set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]


THREADS = """
import threading, lamina, lamina.numpy as jnp
x, errors, barrier = jnp.ones((1, 3)), [], threading.Barrier(10)
calls = [lambda: lamina.grad(lambda v: jnp.sin(v).sum())(x), lambda: lamina.vmap(jnp.cos)(x), lambda: lamina.jit(jnp.tan)(x),
         lambda: lamina.vmap(lamina.pmap(jnp.cos))(x[None]), lambda: lamina.grad(lambda v: lamina.pmap(jnp.sin)(v).sum())(x)]
def run(call):
    barrier.wait()
    try:
        call()
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=run, args=(call,)) for call in calls * 2]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(errors)
"""


@pytest.mark.parametrize("_", range(3))
def test_threads_may_use_rules_first(_):
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["[]"]


def test_numpy_operators_do_not_depend_on_the_import_order():
    code = ("from lamina.experimental.maps import xmap\nimport numpy as np\n"
            "print(xmap(lambda v: v.sum('i'), {0: 'i'}, {})(np.ones((4, 3), np.float32)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[4.", "4.", "4.]"]
