"""Errors of exhausted memory name the largest live values, what holds them, and changes that would have fitted."""
import os
import re
import subprocess
import sys

import lamina_numpy as np
import numpy as onp
import pytest
from lamina_autodiff import checkpoint, grad
from lamina_batching import vmap
from lamina_ir import OutOfMemoryError, evaluate, trees
from lamina_parallel import Mesh, PartitionSpec
from lamina_runtime import NamedSharding, device_put, devices
from lamina_runtime.extend import MemoryRequest, compiled_program
from lamina_see import out_of_memory
from lamina_see._savings.chunks import ChunkError, check_chunks, chunk_program
from lamina_see._savings.find import peak_of as peak_bytes
from lamina_see.out_of_memory import find_changes, peak_memory
from lamina_see.out_of_memory._changes import format_size
from lamina_tracing import jit, lax

MIB = 2**20


def peak_of(f, *args, **options):
    compiled = compiled_program(jit(f, **options).lower(*args).compile())
    return peak_memory(MemoryRequest(None, compiled))


def new_bytes(peak):
    return peak.nbytes - sum(v.nbytes for v in peak.values if v.argument is not None)


def changes_of(peak, available):
    return {c.kind: c for c in find_changes(peak, available)}


WEIGHTS = [onp.ones((100, 100), "float32") for _ in range(12)]
BATCH = onp.ones((2000, 100), "float32")


def layers(ws, x):
    for w in ws:
        x = np.tanh(x @ w)
    return x


def make_step(layers, length):
    def loss(ws, x):
        for i in range(0, len(ws), length):
            x = layers(ws[i:i + length], x)
        return (x * x).sum()

    return lambda ws, x: [w - 0.1 * g for w, g in zip(ws, grad(loss)(ws, x))]


def test_residuals_are_named_and_checkpoint_needs_what_is_promised():
    peak = peak_of(make_step(layers, 12), WEIGHTS, BATCH)
    held = [v.held_by for v in peak.values[:5]]
    assert "residual" in held and "argument 12" in held
    assert any(v.place.startswith(__file__) for v in peak.values[:5])
    # The smallest change that fits, with memory for one change only.
    changes = changes_of(peak, new_bytes(peak) - 3 * BATCH.nbytes)
    assert not changes["donate"].fits and changes["checkpoint"].fits and changes["chunk"].fits
    assert f"of size {len(BATCH):,} in " in changes["chunk"].how
    assert changes["checkpoint"].how.startswith("save 4 of the 11 residuals")
    real = new_bytes(peak_of(make_step(checkpoint(layers), 3), WEIGHTS, BATCH))
    assert abs(real - changes["checkpoint"].nbytes) < 0.1 * BATCH.nbytes


def test_donation_needs_what_is_promised():
    x = onp.ones((1000, 250), "float32")
    changes = changes_of(peak_of(lambda x: x * 2 + 1, x), x.nbytes // 2)
    assert changes["donate"].fits and changes["donate"].nbytes == 0
    donated = peak_of(lambda x: x * 2 + 1, x, donate_argnums=0)
    assert "donate" not in changes_of(donated, 0)


def test_chunk_needs_what_is_promised():
    x, points = onp.ones((4000, 3), "float32"), onp.ones((500, 3), "float32")

    def nearest(row_or_rows):
        return np.square(row_or_rows[..., None, :] - points).sum(-1).min(-1)

    whole = peak_of(lambda x: np.sort(x @ points.T, axis=-1)[:, 0], x)
    change = changes_of(whole, new_bytes(whole) // 7)["chunk"]
    assert change.fits and "axis of size 4,000 in 8 parts" in change.how
    parts = peak_of(lambda x: lax.map(lambda row: np.sort(row @ points.T)[0], x, batch_size=500), x)
    assert new_bytes(parts) < 1.5 * change.nbytes


def test_failed_run_raises_with_explanation_at_every_call():
    n = 10**6
    f = jit(lambda x: np.sort(np.sin(x)[:, None] * np.cos(x)[None, :], axis=0).sum())
    for _ in range(2):
        with pytest.raises(OutOfMemoryError) as error:
            float(f(onp.ones(n, "float32")))
        first, *lines = str(error.value).splitlines()
        assert first == ("np.asarray of float32[]: out of memory: RESOURCE_EXHAUSTED: Out of memory allocating "
                         "4000008000016 bytes.")
        assert lines[0].startswith("`<lambda>` needs 3.64 TiB at its peak at " + __file__)
        assert "3.64 TiB  float32[1000000,1000000]  temporary, " in lines[1]
        assert any(line.startswith("What should have fitted: compute the axis of size 1,000,000 in ") for line in lines)
    assert isinstance(error.value, MemoryError)


def test_failed_primitive_is_explained():
    with pytest.raises(OutOfMemoryError, match="`broadcast_in_dim` needs 3.64 TiB at its peak"):
        np.ones((10**6, 10**6))


def explanation(monkeypatch, f, available, *args, **options):
    """Return the lines of the error of a call for which `available` bytes are left, and its compiled program."""
    monkeypatch.setattr(out_of_memory, "available_bytes", lambda device=None: available)
    compiled = compiled_program(jit(f, **options).lower(*args).compile())
    leaves = [x for x in trees.tree_leaves(args)]
    return out_of_memory.explain(MemoryRequest(None, compiled, None, leaves)).splitlines(), compiled


def promised(lines):
    """Return the line of the change, and the bytes that it needs."""
    [line] = [line for line in lines if line.startswith("What would have fitted: ")]
    number, unit = re.search(r"this needs ([\d.]+) (\w+), as compiled", line).groups()
    return line, float(number) * {"B": 1, "KiB": 2**10, "MiB": MIB}[unit]


def test_vmap_of_a_large_batch_fits_in_the_chunks_of_the_error(monkeypatch):
    points = onp.ones((500, 3), "float32")

    def nearest(row):
        return np.sort(np.square(row - points).sum(-1))[0]

    x = onp.random.default_rng(0).standard_normal((4000, 3)).astype("float32")
    whole = new_bytes(peak_of(vmap(nearest), x))
    lines, _ = explanation(monkeypatch, vmap(nearest), whole // 7, x)
    line, needed = promised(lines)
    size = int(re.search(r"lax.map\(..., batch_size=(\d+)\)", line)[1])
    assert "compute the axis of size 4,000 in" in line and needed <= whole // 7
    real = new_bytes(peak_of(lambda x: lax.map(nearest, x, batch_size=size), x))
    assert real <= whole // 7 and abs(real - needed) < 0.1 * whole // 7


def test_chunks_of_a_training_step_are_compiled_and_its_other_changes_are_too_small(monkeypatch):
    step = make_step(layers, 12)
    whole = new_bytes(peak_of(step, WEIGHTS, BATCH))
    lines, _ = explanation(monkeypatch, step, whole // 6, WEIGHTS, BATCH)
    line, needed = promised(lines)
    assert "compute the axis of size 2,000 in" in line and needed <= whole // 6
    assert any(line.startswith("Not enough: donate the arguments that have") for line in lines)


def test_replicated_argument_fits_if_it_is_split_over_the_devices(monkeypatch):
    mesh = Mesh(onp.array(devices()[:4]), ("i",))
    w = device_put(onp.ones((256, 1024), "float32"), NamedSharding(mesh, PartitionSpec()))

    def f(w):
        return np.sort(w, axis=1).sum()

    lines, compiled = explanation(monkeypatch, f, MIB // 2, w)
    line, needed = promised(lines)
    assert "NamedSharding(mesh, P(<axes>))) splits dimension 0 over 4 devices" in line
    split = device_put(w, NamedSharding(mesh, PartitionSpec("i")))
    real = compiled_program(jit(f).lower(split).compile())
    assert peak_bytes(real) - w.nbytes <= MIB // 2 < peak_bytes(compiled) - w.nbytes


@pytest.mark.parametrize(("name", "f"), [
    ("all rows", lambda x: x / np.sort(x, axis=0).sum(0)),
    ("position", lambda x: np.sort(x + np.arange(2000.0)[:, None], axis=1)),
    ("sum before", lambda x: np.sort(x, axis=1)[:-1] - np.sort(x, axis=1)[1:])])
def test_rows_that_depend_on_each_other_are_not_divided(name, f):
    program = jit(f).trace(BATCH).program
    with pytest.raises(ChunkError):
        check_chunks(program, 2000, [BATCH])
        chunk_program(program, 2000, 8)


def test_program_in_chunks_gives_the_same():
    step = jit(make_step(layers, 12)).trace(WEIGHTS, BATCH).program
    x = [*WEIGHTS, BATCH / 50]
    for a, b in zip(evaluate(chunk_program(step, 2000, 8), *x), evaluate(step, *x)):
        onp.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


PROGRAM = """
import resource
import lamina_runtime
import lamina_numpy as np, numpy as onp
from lamina_tracing import jit, lax
x, points = onp.ones((4000, 3), "float32"), onp.ones((5000, 3), "float32")
f = jit(lambda x: (x @ points.T).max(-1))
g = jit(lambda x: lax.map(lambda row: (row @ points.T).max(), x, batch_size=500))
x = np.asarray(x) + 0
f.lower(x).compile(), g(x)  # the limit is for the memory of the programs, not for that of the compiler
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 60 * 2**20, -1))
try:
    print(f(x).sum())
except MemoryError as error:
    print(error)
print(g(x).sum())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")
def test_limit_of_the_process_is_what_a_change_must_fit():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert "Out of memory allocating" in done.stdout and "MiB can be allocated. The largest live values:" in done.stdout
    assert "What should have fitted: compute the axis of size 4,000 in" in done.stdout
    assert "(estimated, because the process has too little memory for the compiler)" in done.stdout
    assert done.stdout.splitlines()[-1] == "12000.0"  # in parts it fits


def test_explanation_that_fails_leaves_the_first_line(monkeypatch):
    from lamina_runtime._backend import memory_errors

    def fail(request):
        raise MemoryError

    monkeypatch.setattr(memory_errors, "_explain", fail)
    with pytest.raises(OutOfMemoryError, match=r"^evaluation of `broadcast_in_dim`: out of memory: [^\n]*\n\[LAM1510\]"):
        np.ones((10**6, 10**6))


def test_sizes_have_units():
    assert [format_size(n) for n in (0, 1023, 1536, 3 * MIB, 5 * 2**40)] == ["0 B", "1023 B", "1.5 KiB", "3 MiB", "5 TiB"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")
def test_failed_transfer_names_no_program():
    code = ("import resource, numpy as np\nfrom lamina_runtime import device_put\nx = np.ones(1 << 26, 'float32')\n"
            "device_put(np.ones(3))\npages = int(open('/proc/self/statm').read().split()[0])\n"
            "resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**26, -1))\n"
            "try:\n  [device_put(x) for _ in range(3)]\nexcept MemoryError as e:\n  print(e)")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100).stdout
    assert found.startswith("device_put: out of memory: ") and " can be allocated.\n" in found, found


FAST_PATH = """
import resource
import lamina_runtime
import lamina_numpy as np, numpy as onp
from lamina_ir import OutOfMemoryError
from lamina_tracing import jit
x, points = np.ones((4000, 3)), onp.ones(5000, "float32")
f = jit(lambda x: x[:, :1] * points)
for _ in range(3):
    f(x).block_until_ready()
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 30 * 2**20, -1))
try:
    held = [f(x).block_until_ready() for _ in range(6)]  # freed memory is used again
except OutOfMemoryError as error:
    print("explained" if "The largest live values" in str(error) else error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")
def test_repeated_call_on_the_fast_path_is_explained():
    done = subprocess.run([sys.executable, "-c", FAST_PATH], capture_output=True, text=True, timeout=100)
    assert done.stdout == "explained\n", done.stdout + done.stderr
