"""`lamina.experimental.pallas` compiled, mapped, differentiated and over devices."""
import subprocess
import sys
from functools import partial

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental import pallas as pl
from lamina.experimental.pallas import tpu as pltpu
from lamina.sharding import Mesh, PartitionSpec as P
from lamina.test_util import check_grads

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 8)).astype(np.float32)
Y = RNG.standard_normal((8, 6)).astype(np.float32)


def multiply(x_ref, y_ref, z_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...])

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        z_ref[...] = jnp.sin(acc_ref[...])


def product(x, y):
    return pl.pallas_call(
        multiply, lamina.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype), grid=(2, 2, 4),
        in_specs=[pl.BlockSpec((x.shape[0] // 2, 2), lambda i, j, k: (i, k)), pl.BlockSpec((2, 3), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((x.shape[0] // 2, 3), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((x.shape[0] // 2, 3), x.dtype)], interpret=True)(x, y)


def attend(q_ref, k_ref, v_ref, o_ref, *, block):
    q = q_ref[...]

    def step(i, carry):
        acc, top, total = carry
        k, v = k_ref[pl.ds(i * block, block), :], v_ref[pl.ds(i * block, block), :]
        s = q @ k.T
        new = jnp.maximum(top, s.max(-1))
        p, scale = jnp.exp(s - new[:, None]), jnp.exp(top - new)
        return acc * scale[:, None] + p @ v, new, total * scale + p.sum(-1)

    first = (jnp.zeros_like(q), jnp.full(q.shape[:1], -jnp.inf), jnp.zeros(q.shape[:1]))
    acc, _, total = lax.fori_loop(0, k_ref.shape[0] // block, step, first)
    o_ref[...] = acc / total[:, None]


def attention(q, k, v):
    rows, whole = pl.BlockSpec((None, 2, 4), lambda h, i: (h, i, 0)), pl.BlockSpec((None, 8, 4), lambda h, i: (h, 0, 0))
    return pl.pallas_call(partial(attend, block=2), q, grid=(q.shape[0], 4), in_specs=[rows, whole, whole], out_specs=rows,
                          interpret=True)(q, k, v)


def plain_attention(q, k, v):
    return lamina.nn.softmax(q @ jnp.swapaxes(k, 1, 2)) @ v


def test_compiled_product():
    for f in (product, lamina.jit(product), lamina.jit(lamina.jit(product)), lamina.checkpoint(product)):
        np.testing.assert_allclose(f(X, Y), np.sin(X @ Y), rtol=1e-4, atol=1e-5)


def test_mapped_product():
    xs, ys = np.stack([X, X + 1]), np.stack([Y, Y * 2], 2)
    expected = [np.sin(x @ y) for x, y in zip(xs, np.moveaxis(ys, 2, 0))]
    for f in (lamina.vmap(product, (0, 2)), lamina.jit(lamina.vmap(product, (0, 2)))):
        np.testing.assert_allclose(f(xs, ys), expected, rtol=1e-4, atol=1e-5)
    shared = lamina.vmap(product, (0, None), out_axes=1)(xs, Y)
    np.testing.assert_allclose(shared, np.stack([np.sin(x @ Y) for x in xs], 1), rtol=1e-4, atol=1e-5)


def test_derivatives_of_product():
    check_grads(product, (X, Y), order=1, modes=("fwd", "rev"), rtol=2e-2, atol=2e-2)
    expected = lamina.grad(lambda x, y: jnp.sin(x @ y).sum(), (0, 1))(X, Y)
    for f in (product, lamina.jit(product), lamina.checkpoint(product)):
        got = lamina.grad(lambda x, y: f(x, y).sum(), (0, 1))(X, Y)
        for a, b in zip(got, expected):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_attention_by_blocks():
    q, k, v = RNG.standard_normal((3, 2, 8, 4)).astype(np.float32)
    for f in (attention, lamina.jit(attention)):
        np.testing.assert_allclose(f(q, k, v), plain_attention(q, k, v), rtol=1e-4, atol=1e-5)
    got, expected = [lamina.grad(lambda *a: (f(*a) ** 2).sum(), (0, 1, 2))(q, k, v) for f in (attention, plain_attention)]
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_kernels_on_several_devices():
    n = 2
    xs = np.stack([X] * n) * np.arange(1, n + 1, dtype=np.float32)[:, None, None]
    expected = [np.sin(x @ Y) for x in xs]
    np.testing.assert_allclose(lamina.pmap(product, in_axes=(0, None))(xs, Y), expected, rtol=1e-3, atol=1e-4)
    mapped = lamina.shard_map(product, mesh=Mesh(lamina.devices()[:n], "i"), in_specs=(P("i"), P()), out_specs=P("i"))
    np.testing.assert_allclose(mapped(xs.reshape(-1, 8), Y), np.concatenate(expected), rtol=1e-3, atol=1e-4)


def test_kernels_in_loops_and_calls_in_kernels():
    def run(c, _):
        return product(c, Y)[:, :4].repeat(2, 1), c.sum()

    carry, sums = lax.scan(run, X, None, length=3)
    expected = X
    for k in range(3):
        np.testing.assert_allclose(sums[k], expected.sum(), rtol=1e-3, atol=1e-4)
        expected = np.sin(expected @ Y)[:, :4].repeat(2, 1)
    np.testing.assert_allclose(carry, expected, rtol=1e-3, atol=1e-4)

    def kernel(x_ref, o_ref):
        o_ref[...] = lamina.jit(lambda v: lamina.vmap(jnp.sum)(v))(x_ref[...])

    got = pl.pallas_call(kernel, lamina.ShapeDtypeStruct((4,), X.dtype), interpret=True)(X)
    np.testing.assert_allclose(got, X.sum(1), rtol=1e-5)


def test_debug_print_shows_each_position(capfd):
    def kernel(o_ref):
        pl.debug_print("at {}", pl.program_id(0))
        o_ref[...] = 0.

    pl.pallas_call(kernel, lamina.ShapeDtypeStruct((), np.float32), grid=3, interpret=True)()
    lamina.effects_barrier()
    assert capfd.readouterr().out.split() == ["at", "0", "at", "1", "at", "2"]


def test_memory_that_nothing_was_written_to_is_no_fault():
    def kernel(x_ref, o_ref, s_ref):
        s_ref[...] = x_ref[...]
        o_ref[...] = s_ref[...] + 1

    call = pl.pallas_call(kernel, lamina.ShapeDtypeStruct((3,), np.float32), scratch_shapes=[pltpu.VMEM((3,), np.float32)],
                          interpret=True)
    with lamina.debug_nans(True):
        assert call(np.zeros(3, np.float32)).tolist() == [1, 1, 1]
    with lamina.disable_jit():
        assert call(np.zeros(3, np.float32)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("module", ["mosaic_gpu", "ops.tpu.flash_attention"])
def test_modules_of_one_kind_of_device_are_explained(module):
    with pytest.raises(ModuleNotFoundError, match="kernels for one kind of device; write them with lamina.experimental.pallas"):
        exec(f"import lamina.experimental.pallas.{module}")


PROGRAM = """
from functools import partial
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def add_vectors(x_ref, y_ref, o_ref):
    x, y = x_ref[...], y_ref[...]
    o_ref[...] = x + y

def iota(o_ref):
    i = pl.program_id(0)
    o_ref[i] = i

def matmul(x_ref, y_ref, z_ref, *, activation):
    z_ref[...] = activation(x_ref[...] @ y_ref[...])

@partial(jax.jit, static_argnames="activation")
def product(x, y, activation):
    return pl.pallas_call(
        partial(matmul, activation=activation), out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype), grid=(2, 2),
        in_specs=[pl.BlockSpec((x.shape[0] // 2, x.shape[1]), lambda i, j: (i, 0)),
                  pl.BlockSpec((y.shape[0], y.shape[1] // 2), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((x.shape[0] // 2, y.shape[1] // 2), lambda i, j: (i, j)))(x, y)

with pltpu.force_tpu_interpret_mode():
    x = jnp.arange(8.)
    print(pl.pallas_call(add_vectors, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, x))
    spec = pl.BlockSpec(memory_space=pltpu.SMEM)
    print(pl.pallas_call(iota, out_shape=jax.ShapeDtypeStruct((8,), jnp.int32), out_specs=spec, grid=(8,))())
    k1, k2 = jax.random.split(jax.random.key(0))
    x, y = jax.random.normal(k1, (4, 8, 8)), jax.random.normal(k2, (4, 8, 8))
    z = jax.vmap(partial(product, activation=jax.nn.relu))(x, y)
    np.testing.assert_allclose(z, jax.nn.relu(jax.vmap(jnp.matmul)(x, y)), rtol=1e-4, atol=1e-5)
"""


def test_program_for_jax_runs_unchanged(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "lamina", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[ 0.  2.  4.  6.  8. 10. 12. 14.]", "[0 1 2 3 4 5 6 7]"]
