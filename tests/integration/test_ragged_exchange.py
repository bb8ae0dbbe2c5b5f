"""`ragged_all_to_all` against loops over the members, and `pcast`, under every map."""
import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.sharding import Mesh, PartitionSpec as P

RNG = np.random.default_rng(0)
N = 4


def exchange(operand, output, starts, sizes, targets):
    """Move rows of every sender to every receiver, with loops."""
    result = output.copy()
    for j in range(len(operand)):
        for i in range(len(operand)):
            for k in range(sizes[i, j]):
                if targets[i, j] + k < output.shape[1]:
                    result[j, targets[i, j] + k] = operand[i, starts[i, j] + k]
    return result


def draw(rows=9, n=N):
    """Draw sizes of blocks; each receiver stores the blocks one after the other."""
    sizes = RNG.integers(0, 3, (n, n)).astype(np.int32)
    starts = np.cumsum(sizes, 1, dtype=np.int32) - sizes
    targets = np.cumsum(sizes, 0, dtype=np.int32) - sizes
    operand = RNG.standard_normal((n, rows, 2)).astype(np.float32)
    output = RNG.standard_normal((n, rows, 2)).astype(np.float32)
    return operand, output, starts, sizes, targets, np.ascontiguousarray(sizes.T)


def one(*args, **options):
    return lax.ragged_all_to_all(*args, axis_name="i", **options)


MAPS = {"vmap": lambda f: lamina.vmap(f, axis_name="i"), "pmap": lambda f: lamina.pmap(f, axis_name="i"),
        "shard_map": lambda f: lamina.shard_map(lambda *a: f(*[x[0] for x in a])[None],
                                                mesh=Mesh(lamina.devices()[:N], "i"), in_specs=P("i"), out_specs=P("i")),
        "jit": lambda f: lamina.jit(lamina.vmap(f, axis_name="i"))}


@pytest.mark.parametrize("name", MAPS)
def test_ragged_all_to_all_moves_blocks(name):
    for _ in range(3):
        args = draw()
        np.testing.assert_array_equal(MAPS[name](one)(*args), exchange(*args[:5]))


def test_ragged_all_to_all_exchanges_in_groups():
    args = draw(n=2)
    both = [np.concatenate([x, x[::-1]]) for x in args]
    both[2:] = [np.concatenate([x, x]) for x in args[2:]]
    got = lamina.vmap(lambda *a: one(*a, axis_index_groups=[[0, 1], [2, 3]]), axis_name="i")(*both)
    np.testing.assert_array_equal(got[:2], exchange(*args[:5]))
    np.testing.assert_array_equal(got[2:], exchange(args[0][::-1], args[1][::-1], *args[2:5]))


def test_ragged_all_to_all_drops_rows_beyond_the_end():
    operand, output = np.arange(6.).reshape(2, 3), np.zeros((2, 2))
    counts = np.int32([[2, 1], [2, 1]])
    starts, targets = np.zeros((2, 2), np.int32), np.int32([[0, 0], [1, 1]])
    got = lamina.vmap(one, axis_name="i")(operand, output, starts, counts, targets, counts.T)
    np.testing.assert_array_equal(got, exchange(operand, output, starts, counts, targets))


def test_gradient_of_ragged_all_to_all_returns_to_the_sender():
    args = draw()
    weights = RNG.standard_normal(args[1].shape).astype(np.float32)
    run = lambda x, y: (lamina.vmap(one, axis_name="i")(x, y, *args[2:]) * weights).sum()  # noqa: E731
    dx, dy = lamina.grad(run, (0, 1))(*args[:2])
    t = RNG.standard_normal(args[0].shape).astype(np.float32)
    expected = (exchange(t, np.zeros_like(t), *args[2:5]) * weights).sum()
    np.testing.assert_allclose((dx * t).sum(), expected, rtol=1e-5)
    expected = (exchange(np.zeros_like(t), t, *args[2:5]) * weights).sum()
    np.testing.assert_allclose((dy * t).sum(), expected, rtol=1e-5)


@pytest.mark.parametrize("args,error,text", [
    ((np.ones(3), np.ones(3, np.float16)), ValueError, "must have one dtype"),
    ((np.ones((3, 1)), np.ones((3, 2))), ValueError, "the same axes after the first"),
    ((np.float32(1), np.float32(1)), ValueError, "the same axes after the first"),
    ((np.ones(3), np.ones(3), np.ones(N)), ValueError, "input_offsets must be integers"),
    ((np.ones(3), np.ones(3), *[np.zeros(N, int)] * 3, np.zeros(2, int)), ValueError,
     "recv_sizes must have an entry for each")])
def test_ragged_all_to_all_names_wrong_arguments(args, error, text):
    args = (*args, *[np.zeros(N, np.int32)] * (6 - len(args)))
    with pytest.raises(error, match=f"ragged_all_to_all: .*{text}"):
        lamina.make_jaxpr(one, axis_env=[("i", N)])(*args)


def test_pcast_returns_its_argument():
    x, mesh = jnp.arange(4.), Mesh(lamina.devices()[:N], "i")

    def total(w, x):
        return lax.psum((lax.pcast(w, "i", to="varying") * lax.pvary(x, ("i",))).sum(), "i")

    mapped = lamina.shard_map(total, mesh=mesh, in_specs=(P(), P("i")), out_specs=P())
    assert mapped(3., x) == 18 and lamina.grad(mapped)(3., x) == 6
    np.testing.assert_array_equal(lamina.vmap(lambda x: lax.pcast({"a": x}, "i", to="varying"), axis_name="i")(x)["a"], x)
    assert lax.pcast(2., None, to="varying") == 2


def test_pcast_starts_a_carry_that_differs_between_members():
    run = lamina.shard_map(lambda x: lax.fori_loop(0, 3, lambda _, c: c + x, lax.pcast(jnp.zeros(1), "i", to="varying")),
                           mesh=Mesh(lamina.devices()[:N], "i"), in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_array_equal(run(jnp.arange(4.)), [0, 3, 6, 9])


@pytest.mark.parametrize("call,error,text", [
    (lambda x: lax.pcast(x, "i", to="reduced"), ValueError, "pcast: to must be 'varying'; got 'reduced'. Types have no"),
    (lambda x: lax.pcast(x, "i", to="both"), ValueError, "pcast: to must be 'varying'; got 'both'"),
    (lambda x: lax.pcast(x, "j", to="varying"), lamina.errors.UnboundAxisError, "pcast: axis name 'j' is not bound"),
    (lambda x: lax.pvary(x, "j"), lamina.errors.UnboundAxisError, "pvary: axis name 'j' is not bound"),
    (lambda x: lax.pvary("x", "i"), TypeError, "str")])
def test_pcast_names_wrong_arguments(call, error, text):
    with pytest.raises(error, match=text):
        lamina.vmap(call, axis_name="i")(jnp.arange(4.))
