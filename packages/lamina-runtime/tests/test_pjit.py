"""`pjit`, the name of `jit` for programs over meshes."""
import numpy as np
import pytest
from lamina_parallel import PartitionSpec as P
from lamina_runtime import NamedSharding, device_put, devices, make_mesh
from lamina_runtime.pjit import AUTO, UNSPECIFIED, pjit
from lamina_tracing import lax

MESH = make_mesh((4, 2), ("x", "y"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def product(a, b):
    return {"m": lax.dot(a, b), "s": lax.reduce_sum(a, (0, 1))}


@pytest.mark.parametrize("options", [
    dict(in_shardings=(P("x"), P(None, "y")), out_shardings={"m": P("x", "y"), "s": P()}),
    dict(in_axis_resources=(P("x"), P(None, "y")), out_axis_resources={"m": P("x", "y"), "s": None}),
    dict(in_shardings=(NamedSharding(MESH, P("x")), P(None, "y")), out_axis_resources={"m": P("x", "y"), "s": None})])
def test_specs_use_the_mesh_in_scope(options):
    f = pjit(product, **options)
    back = make_mesh((4, 2), ("x", "y"), devices=devices()[::-1])
    for mesh in (MESH,) if isinstance(options.get("in_shardings", (0,))[0], NamedSharding) else (MESH, back, MESH):
        with mesh:
            for _ in range(2):
                out = f(X, X)
            assert out["m"].sharding == NamedSharding(mesh, P("x", "y")) and out["m"].sharding.mesh == mesh
            assert out["s"].sharding.is_fully_replicated and out["s"].sharding.spec == P()
            np.testing.assert_allclose(out["m"], X @ X)


def test_pjit_has_the_options_of_jit():
    assert repr(UNSPECIFIED) == "UNSPECIFIED" and pjit(lambda a: a, in_shardings=UNSPECIFIED)(X).shape == X.shape
    assert pjit(lambda a, n: a * n, static_argnums=1)(X, 2).sharding.num_devices == 1
    with MESH:
        f = pjit(lambda a: a + 1, in_axis_resources=None, out_axis_resources=P("y"), donate_argnums=0)
        x = device_put(X, P())
        with pytest.warns(UserWarning, match="divided over the devices"):
            assert f(x).sharding.spec == P("y") and x.is_deleted()

        @pjit
        def g(a):
            return lax.with_sharding_constraint(a, P("x"))

        assert g(X).sharding.spec == P("x") and "of x=4,y=2" in str(g.trace(X).jaxpr)


def test_invalid_options_are_refused():
    with pytest.raises(NotImplementedError, match="does not search for shardings"):
        AUTO(MESH)
    with pytest.raises(ValueError, match="give in_shardings or its former name in_axis_resources"):
        pjit(product, in_shardings=P(), in_axis_resources=P())
    with pytest.raises(ValueError, match="jit of `product`: in_shardings for a: .*no mesh is in scope"):
        pjit(product, in_shardings=(P("x"), None))(X, X)
