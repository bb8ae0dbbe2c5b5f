"""Exported functions over several devices, with all kinds of program contents."""
import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import export, lax
from lamina.sharding import Mesh, NamedSharding, PartitionSpec

X = np.arange(16, dtype=np.float32).reshape(4, 4)


def round_trip(e, **more):
    return export.deserialize(e.serialize(**more))


def test_shardings_are_exported():
    mesh = Mesh(np.array(lamina.devices()[:4]).reshape(2, 2), ("x", "y"))
    split, rows = NamedSharding(mesh, PartitionSpec("x", "y")), NamedSharding(mesh, PartitionSpec("y"))
    f = lamina.jit(lambda x, y: x @ y, in_shardings=(split, None), out_shardings=rows)
    e = round_trip(export.export(f)(X, X), vjp_order=1)
    assert e.nr_devices == 4 and e.in_shardings_hlo == ("{devices=[2,2]<=[4]}", "{replicated}")
    assert e.in_shardings_jax(mesh)[0] == split and e.out_shardings_jax(mesh) == (rows,)
    y = e.call(X, X)
    assert np.array_equal(y, X @ X) and y.sharding == rows
    there = Mesh(np.array(lamina.devices()[4:]).reshape(2, 2), ("x", "y"))
    y = e.call(lamina.device_put(X, NamedSharding(there, PartitionSpec("x", "y"))), X)
    assert y.sharding == NamedSharding(there, PartitionSpec("y")) and np.array_equal(y, X @ X)
    assert np.array_equal(lamina.jit(lambda x: e.call(x, x) + 1)(X), X @ X + 1)
    assert np.array_equal(lamina.grad(lambda x: e.call(x, X).sum())(X), np.tile(X.sum(1), (4, 1)))
    dx, dy = e.vjp().call(X, X, X)
    assert np.array_equal(dx, X @ X.T) and dx.sharding == split and np.array_equal(dy, X.T @ X)
    with pytest.raises(ValueError, match="runs on 4 devices; the mesh has 1"):
        e.in_shardings_jax(Mesh(lamina.devices()[:1], "x"))


def test_shardings_of_keyword_arguments_are_exported():
    split = NamedSharding(Mesh(lamina.devices()[:4], "x"), PartitionSpec("x"))
    x, i = lamina.device_put(X, split), np.arange(4)
    e = round_trip(export.export(lamina.jit(lambda x, *, i: {"y": x + i, "i": i}))(x, i=i))
    assert e.nr_devices == 4
    found = e.call(X, i=i)
    assert np.array_equal(found["y"], X + i) and np.array_equal(found["i"], i)
    dx, di = e.vjp().call(X, i, np.zeros(4, lamina.dtypes.float0), X)
    assert np.array_equal(dx, X) and di.dtype == lamina.dtypes.float0


def test_export_for_too_many_devices_is_refused():
    e = export.export(lamina.jit(lambda x: x, in_shardings=NamedSharding(Mesh(lamina.devices(), "x"), PartitionSpec())))(X)
    more = e._replace(nr_devices=99)
    with pytest.raises(ValueError, match="exported for 99 devices; there are 8"):
        more.call(X)


@pytest.mark.parametrize("f", [
    lambda x: lamina.pmap(lambda x: x + lax.psum(x, "i"), "i")(x) * 2,
    lambda x: lamina.vmap(lambda x: lax.pmean(x, "i") - x, axis_name="i")(x),
    lambda x: lax.scan(lambda c, r: (c * 0.5 + r, lax.cond(r[0] > 4, jnp.sin, jnp.cos, c)), x[0], x),
    lambda x: lax.while_loop(lambda c: c.sum() < 1000, lambda c: c + x, x),
    lambda x: lamina.grad(lambda x: lamina.checkpoint(jnp.sin)(x).sum())(x),
    lambda x: lamina.lax.with_sharding_constraint(x * 2, NamedSharding(Mesh(lamina.devices()[:2], "x"), PartitionSpec("x"))),
    lambda x: lamina.random.normal(lamina.random.key(3), x.shape) + x,
    lambda x: lamina.scipy.special.gammaln(x + 1) + jnp.linalg.inv(x + 9 * jnp.eye(4)),
    lambda x: lax.map(lambda r: jnp.sort(r)[::-1], x),
])
def test_export_of_all_kinds_of_programs(f):
    e = round_trip(export.export(lamina.jit(f))(X))
    for got, want in zip(*map(lamina.tree.leaves, (e.call(X), f(X)))):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_export_of_typed_keys():
    f = lamina.jit(lambda k: lamina.random.uniform(k[1], (3,)))
    e = round_trip(export.export(f)(lamina.random.split(lamina.random.key(0))))
    keys = lamina.random.split(lamina.random.key(7))
    assert [a.str_long() for a in e.in_avals] == ["key<fry>[2]"]
    assert np.array_equal(e.call(keys), lamina.random.uniform(keys[1], (3,)))


def test_other_names_of_the_export_module():
    import lamina.experimental.export as older
    assert older.export is lamina.export.export and lamina.experimental.export.symbolic_shape is export.symbolic_shape
