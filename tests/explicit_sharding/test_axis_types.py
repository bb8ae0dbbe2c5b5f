"""Functions with other types of mesh axes: `auto_axes` and `explicit_axes`; and meshes with axes of both types."""
import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.errors import ShardingTypeError
from lamina.sharding import (AbstractMesh, AxisType, NamedSharding, PartitionSpec as P, auto_axes, explicit_axes, reshard,
                             set_mesh, use_abstract_mesh)

VALUE = np.arange(64, dtype=np.float32).reshape(8, 8) / 64


def make(kinds):
    return lamina.make_mesh((4, 2), ("x", "y"), axis_types=kinds)


@pytest.fixture
def explicit():
    mesh = make(AxisType.Explicit)
    with set_mesh(mesh):
        yield lamina.device_put(VALUE, NamedSharding(mesh, P("x", "y")))


@pytest.fixture
def auto():
    mesh = make(AxisType.Auto)
    with set_mesh(mesh):
        yield lamina.device_put(VALUE, NamedSharding(mesh, P("x", "y")))


@pytest.fixture
def mixed():
    mesh = make((AxisType.Explicit, AxisType.Auto))
    with set_mesh(mesh):
        yield lamina.device_put(VALUE, NamedSharding(mesh, P("x", "y")))


def type_of(x):
    return str(lamina.typeof(x))


@pytest.mark.parametrize("wrap", [lambda f: f, lamina.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("axes, inside", [("x", "float32[8,8@y]"), ("y", "float32[8@x,8]"), (("x", "y"), "float32[8,8]"),
                                          (None, "float32[8,8]")])
def test_auto_axes_of_some_axes(explicit, wrap, axes, inside):
    seen = []

    def product(v):
        seen.append(type_of(v))
        return v @ v

    found = wrap(auto_axes(product, axes=axes, out_sharding=P("x", "y")))(explicit)
    assert type_of(found) == "float32[8@x,8@y]" and seen == [inside]
    np.testing.assert_allclose(found, VALUE @ VALUE, rtol=1e-6)


def test_other_axes_stay_explicit_in_auto_axes(explicit):
    f = auto_axes(lambda v: jnp.sort(v, 0), axes="y", out_sharding=P("x", "y"))
    with pytest.raises(ShardingTypeError, match="sort: dimension 0, which is sorted, must not be sharded"):
        f(explicit)
    assert type_of(auto_axes(lambda v: jnp.sort(v, 1), axes="y", out_sharding=P("x", "y"))(explicit)) == "float32[8@x,8@y]"
    with pytest.raises(ValueError, match="axes must be None or Explicit axes of the mesh"):
        auto_axes(lambda v: v, axes="z", out_sharding=P())(explicit)


def test_gradient_through_auto_axes(explicit):
    f = auto_axes(lambda v: v @ v, axes="y", out_sharding=P("x", "y"))
    for wrap in (lambda g: g, lamina.jit):
        found = wrap(lamina.grad(lambda v: f(v).sum()))(explicit)
        assert type_of(found) == "float32[8@x,8@y]"
        np.testing.assert_allclose(found, lamina.grad(lambda v: (v @ v).sum())(jnp.array(VALUE)), rtol=1e-5)


def test_repeated_calls_are_traced_once(explicit):
    calls = []

    def f(v):
        calls.append(1)
        return v * 2

    g = auto_axes(f, out_sharding=P("x", "y"))
    for _ in range(3):
        g(explicit)
    assert len(calls) == 1
    h = explicit_axes(f, in_sharding=P("x", "y"))
    with set_mesh(make(AxisType.Auto)):
        for _ in range(3):
            h(VALUE)
    assert len(calls) == 2


@pytest.mark.parametrize("wrap", [lambda f: f, lamina.jit], ids=["eager", "jit"])
def test_explicit_axes(auto, wrap):
    seen = []

    def f(v):
        seen.append(type_of(v))
        seen.append(type_of(v.sum(1)))
        return jnp.sin(v)

    found = wrap(explicit_axes(f, in_sharding=P("x", "y")))(auto)
    assert seen == ["float32[8@x,8@y]", "float32[8@x]"] and type_of(found) == "float32[8,8]"
    assert found.sharding.mesh.axis_types == (AxisType.Auto,) * 2 and found.sharding.spec == P("x", "y")
    np.testing.assert_allclose(found, np.sin(VALUE), rtol=1e-6)
    with pytest.raises(ShardingTypeError, match="contracted dimensions"):
        wrap(explicit_axes(lambda v: v @ v, in_sharding=P("x", "y")))(auto)
    np.testing.assert_allclose(wrap(lamina.grad(lambda v: explicit_axes(f, in_sharding=P("x", "y"))(v).sum()))(auto),
                               np.cos(VALUE), rtol=1e-6)
    np.testing.assert_allclose(wrap(lamina.vmap(explicit_axes(jnp.sin, in_sharding=P("y"))))(auto), np.sin(VALUE), rtol=1e-6)


def test_explicit_axes_of_one_axis(auto):
    seen = []
    f = explicit_axes(lambda v, w: seen.append(type_of(v)) or v @ w, axes="x", in_sharding=(P("x"), P()))
    np.testing.assert_allclose(f(auto, auto), VALUE @ VALUE, rtol=1e-6)
    assert seen == ["float32[8@x,8]"]
    with pytest.raises(ValueError, match="in_sharding: .*'y' has the type AxisType.Auto"):
        explicit_axes(lambda v: v, axes="x", in_sharding=P("y"))(auto)
    with pytest.raises(TypeError, match="in_sharding must be given"):
        explicit_axes(lambda v: v)(auto)
    with pytest.raises(ShardingTypeError, match="uses a traced value"):
        lamina.jit(lambda u: explicit_axes(lambda v: v + u, in_sharding=P("x"))(u))(auto)


def test_explicit_axes_inside_auto_axes(explicit):
    seen = []
    inner = explicit_axes(lambda w: seen.append(type_of(w)) or w * 2, axes="x", in_sharding=P("x"))
    found = auto_axes(lambda v: inner(v), out_sharding=P("x", "y"))(explicit)
    assert type_of(found) == "float32[8@x,8@y]" and seen == ["float32[8@x,8]"]
    np.testing.assert_array_equal(found, VALUE * 2)


def test_constraints_over_mixed_axes(mixed):
    f = lamina.jit(lambda v: lax.with_sharding_constraint(v, P(None, "y")))
    found = f(mixed)
    assert type_of(found) == "float32[8@x,8]"
    np.testing.assert_array_equal(found, VALUE)
    with pytest.raises(ValueError, match="expected a spec of Auto axes"):
        lamina.jit(lambda v: lax.with_sharding_constraint(v, P("x")))(mixed)
    assert type_of(lamina.jit(lambda v: reshard(v, P(None, "x")))(mixed)) == "float32[8,8@x]"
    for f in (lambda v: reshard(v, P("y")), lamina.jit(lambda v: reshard(v, NamedSharding(mixed.sharding.mesh, P("x", "y"))))):
        with pytest.raises(ValueError, match="reshard: out_shardings: .*'y' has the type AxisType.Auto"):
            f(mixed)


@pytest.mark.parametrize("fun, spec", [
    (lambda v: v + 1, ("x", "y")), (lambda v: v.T + 1, ("y", "x")), (lambda v: v.sum(0), ("y",)), (lambda v: v @ v, ("x", "y")),
    (lamina.grad(lambda v: jnp.sin(v).sum()), ("x", "y")), (lambda v: jnp.ones((8, 8)), (None, None)),
    (lambda v: lax.with_sharding_constraint(v, P("y")), (("x", "y"), None)), (lambda v: reshard(v, P()), (None, "y")),
    (lambda v: reshard(v, P(None, "x")), (None, "x"))])
def test_results_keep_auto_axes(mixed, fun, spec):
    f = lamina.jit(fun)
    for _ in range(2):
        found = f(mixed)
        assert found.sharding == NamedSharding(mixed.sharding.mesh, P(*spec)) and found.sharding.spec == P(*spec)
    assert type_of(found) == type_of(lamina.eval_shape(fun, mixed))
    np.testing.assert_allclose(found, fun(mixed), rtol=1e-6)


def test_eager_results_keep_auto_axes(mixed):
    for found in (jnp.sin(mixed), mixed * 2, mixed.T.T):
        assert found.sharding.spec == P("x", "y") and type_of(found) == "float32[8@x,8]"


MESH = AbstractMesh((4, 2), ("x", "y"), AxisType.Explicit)
STRUCT = lamina.ShapeDtypeStruct((8, 8), np.float32, sharding=NamedSharding(MESH, P("x", "y")))


def test_programs_are_traced_for_an_abstract_mesh():
    seen = []
    with use_abstract_mesh(MESH):
        found = lamina.eval_shape(lambda v: seen.append(type_of(v)) or v.sum(0), STRUCT)
        assert found.sharding == NamedSharding(MESH, P("y")) and isinstance(found.sharding, NamedSharding)
        assert type_of(found) == "float32[8@y]" and seen == ["float32[8@x,8@y]"]
        assert lamina.eval_shape(lambda v: reshard(v, P("y")), STRUCT).sharding.spec == P("y", None)
        assert lamina.eval_shape(lambda: jnp.zeros((8, 8), out_sharding=P("x"))).sharding.spec == P("x", None)
        assert lamina.eval_shape(lamina.grad(lambda v: jnp.sin(v).sum()), STRUCT).sharding.spec == P("x", "y")
        with pytest.raises(ShardingTypeError, match="contracted dimensions"):
            lamina.make_jaxpr(lambda v: v @ v)(STRUCT)
        with pytest.raises(ValueError, match="traced for an abstract mesh has no devices"):
            jnp.zeros((8, 8), out_sharding=P("x"))
    # The mesh of an argument is enough.
    assert lamina.eval_shape(lambda v: v.T, STRUCT).sharding == NamedSharding(MESH, P("y", "x"))
    with pytest.raises(TypeError, match="the sharding of a ShapeDtypeStruct"):
        lamina.jit(lambda v: v * 2).lower(STRUCT)
