"""Whole programs over `Explicit` mesh axes: derivatives, loops, ahead-of-time compilation, mixed meshes, refusals."""
import importlib
import pickle

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.errors import ShardingTypeError
from lamina.sharding import AxisType, NamedSharding, PartitionSpec as P, auto_axes, set_mesh

VALUE = np.arange(64, dtype=np.float32).reshape(8, 8) / 64


@pytest.fixture
def mesh():
    made = lamina.make_mesh((4, 2), ("x", "y"), axis_types=AxisType.Explicit)
    with set_mesh(made):
        yield made


def put(mesh, *spec):
    return lamina.device_put(VALUE, NamedSharding(mesh, P(*spec)))


def types(tree):
    return [str(lamina.typeof(x)) for x in lamina.tree_util.tree_leaves(tree)]


@pytest.mark.parametrize("wrap", [lambda f: f, lamina.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("fun, specs, wanted", [
    (lambda w, x: jnp.tanh(x @ w).sum(), [(None, "y"), ("x", None)], ["float32[8,8@y]", "float32[8@x,8]"]),
    (lambda w, x: (lamina.nn.softmax(x @ w, -1) ** 2).sum(), [(None, None), ("x", None)], ["float32[8,8]", "float32[8@x,8]"]),
    (lambda w, x: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3)[0].sum(), [(None, None), ("x", None)],
     ["float32[8,8]", "float32[8@x,8]"]),
    (lambda w, x: lamina.checkpoint(lambda w, x: jnp.tanh(x @ w))(w, x).sum(), [(None, "y"), ("x", None)],
     ["float32[8,8@y]", "float32[8@x,8]"]),
    (lambda w, x: lamina.nn.relu(w * x).sum(), [("x", "y"), ("x", None)], ["float32[8@x,8@y]", "float32[8@x,8]"]),
    (lambda w, x: jnp.einsum("ij,jk->ik", w, x, out_sharding=P("x", "y")).sum(), [("x", "y"), ("x", "y")],
     ["float32[8@x,8@y]", "float32[8@x,8@y]"])])
def test_cotangents_have_the_sharding_of_their_primals(mesh, wrap, fun, specs, wanted):
    found = wrap(lamina.grad(fun, (0, 1)))(*[put(mesh, *spec) for spec in specs])
    assert types(found) == wanted
    # The same function with replicated arguments.
    for g, w in zip(found, lamina.jit(lamina.grad(fun, (0, 1)))(put(mesh), put(mesh))):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def test_gradient_without_a_mesh_in_scope(mesh):
    x = put(mesh, "x", "y")
    with set_mesh(None):
        assert types(lamina.jit(lamina.grad(lambda v: jnp.sin(v @ VALUE).sum()))(x)) == ["float32[8@x,8@y]"]
        assert types(lamina.grad(lambda v: jnp.sin(v @ VALUE).sum())(x)) == ["float32[8@x,8@y]"]


def test_second_derivatives_and_vmap(mesh):
    x = put(mesh, "x", "y")
    twice = lamina.grad(lambda v: lamina.grad(lambda u: (u ** 3).sum())(v).sum())
    assert types((twice(x), lamina.jit(twice)(x))) == ["float32[8@x,8@y]"] * 2
    np.testing.assert_array_equal(twice(x), 6 * VALUE)
    rows = lamina.vmap(lamina.grad(lambda r: (r * r).sum()))
    assert types((rows(x), lamina.jit(rows)(x))) == ["float32[8@x,8@y]"] * 2
    assert types(lamina.vmap(lambda v: jnp.einsum("ij,jk->ik", v, v, out_sharding=P("x", None)))(jnp.ones((3, 8, 8)))) == [
        "float32[3,8@x,8]"]


@pytest.mark.parametrize("wrap", [lambda f: f, lamina.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("loop", [
    lambda v, c: lax.scan(lambda c, _: (c * v, None), c, None, length=2)[0],
    lambda v, c: lax.fori_loop(0, 2, lambda i, c: c * v, c),
    lambda v, c: lax.while_loop(lambda s: s[1] < 2, lambda s: (s[0] * v, s[1] + 1), (c, 0))[0],
    lambda v, c: lax.cond(v.sum() > 0, lambda a: a * v, lambda a: c, v)], ids=["scan", "fori_loop", "while_loop", "cond"])
def test_tangents_of_sharded_constants_have_their_sharding(mesh, wrap, loop):
    x, constant = put(mesh, "x", "y"), put(mesh, "x", "y") * 3
    found = wrap(lambda v: lamina.jvp(lambda u: loop(u, constant), (v,), (v,)))(x)
    assert types(found) == ["float32[8@x,8@y]"] * 2
    plain = lamina.jvp(lambda u: loop(u, jnp.array(VALUE) * 3), (jnp.array(VALUE),), (jnp.array(VALUE),))
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_arrays_and_structs_with_specs_are_arguments_of_eval_shape(mesh):
    struct = lamina.ShapeDtypeStruct((8, 8), np.float32, sharding=P("x", "y"))
    found = lamina.eval_shape(lambda v: {"sum": v.sum(0), "same": v}, struct)
    assert [s.sharding.spec for s in lamina.tree_util.tree_leaves(found)] == [P("x", "y"), P("y")]
    made = lamina.jit(lambda: jnp.ones((8, 8)), out_shardings=found["same"].sharding)()
    assert types(made) == ["float32[8@x,8@y]"]
    with set_mesh(None):  # the mesh of the argument is used
        assert lamina.eval_shape(lambda v: v.T, put(mesh, "x")).sharding.spec == P(None, "x")


def test_a_program_may_depend_on_the_sharding_of_an_argument(mesh):
    f = lamina.jit(lambda v: v * (2 if lamina.typeof(v).sharding.spec[0] == "x" else 3))
    for _ in range(2):
        np.testing.assert_array_equal(f(put(mesh, "x")), VALUE * 2)
        np.testing.assert_array_equal(f(put(mesh, "y")), VALUE * 3)


@pytest.mark.parametrize("wrap", [lambda f: f, lamina.jit, lambda f: lambda v: lamina.jvp(f, (v,), (v,))[0]],
                         ids=["eager", "jit", "jvp"])
def test_axes_are_manual_in_shard_map(mesh, wrap):
    seen = []

    def body(v):
        for x in (v, v + 1, jnp.ones(3)):
            found = lamina.typeof(x).sharding
            seen.append((found.spec, found.mesh.axis_types, str(lamina.typeof(x))))
        seen.append(lamina.sharding.get_abstract_mesh().axis_types)
        return lax.scan(lambda c, _: (seen.append(lamina.typeof(c).sharding.spec) or c * 2, None), v, None, length=2)[0]

    x, manual = put(mesh, "x", "y"), (AxisType.Manual,) * 2
    assert types(wrap(lamina.shard_map(body, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y")))(x)) == [
        "float32[8@x,8@y]"]
    assert seen[:5] == [*[(P(None, None), manual, "float32[2,4]")] * 2, (P(None), manual, "float32[3]"), manual, P(None, None)]
    seen.clear()
    outer = lamina.jit(lambda u: lamina.shard_map(lambda v: seen.append(lamina.typeof(u).sharding) or v, mesh=mesh,
                                                  in_specs=P("x"), out_specs=P("x"))(u))
    outer(put(mesh, "x"))
    assert seen == [None]  # a value from outside of the body


def test_ahead_of_time_compilation(mesh):
    x, f = put(mesh, "x", "y"), lamina.jit(lambda v: v.T * 2)
    assert types(f.lower(x).compile()(x)) == ["float32[8@y,8@x]"]
    struct = lamina.ShapeDtypeStruct((8, 8), np.float32, sharding=x.sharding)
    assert types(f.lower(struct).compile()(x)) == ["float32[8@y,8@x]"]
    with pytest.raises(ValueError, match="is committed to"):
        f.lower(x).compile()(put(mesh, "x"))
    with pytest.raises(ShardingTypeError, match="dot_general: contracted dimensions"):
        lamina.jit(lambda v: v @ v).lower(x)


def test_refusal_has_the_line_of_the_user(mesh):
    x = put(mesh, "x", "y")
    for f in (lambda v: v @ v, lamina.jit(lambda v: v @ v)):
        for _ in range(2):  # a refused call is refused again
            with pytest.raises(ShardingTypeError, match=r"float32\[8@x,8@y\] and float32\[8@x,8@y\].*test_programs.py:\d+"):
                f(x)


def test_failed_check_of_a_constraint_is_an_assertion_error(mesh):
    for f in (lambda v: lax.with_sharding_constraint(v, P("y")), lamina.jit(lambda v: lax.with_sharding_constraint(v, P("y")))):
        for kind in (AssertionError, ShardingTypeError):
            with pytest.raises(kind, match="expected PartitionSpec\\('y', None\\), got PartitionSpec\\('x', None\\)"):
                f(put(mesh, "x"))


def test_indexing_with_out_sharding_is_traced_once(mesh, monkeypatch):
    x, rows = put(mesh, "x", "y"), jnp.array([0, 1, 2, 3])
    calls = [lambda n: x.at[0:4].get(out_sharding=P("x")), lambda n: x.at[n].get(out_sharding=P("x")),
             lambda n: x.at[rows + n].get(out_sharding=P("x")), lambda n: x.at[n].set(2.0, out_sharding=P("x")),
             lambda n: x.at[np.arange(8) < 4].add(1.0, out_sharding=P("x"))]
    module, traced = importlib.import_module("lamina_tracing.lax._sharding.out_sharding"), []
    constrain_tree = module.constrain_tree
    monkeypatch.setattr(module, "constrain_tree", lambda *args: traced.append(args) or constrain_tree(*args))
    for f in calls:
        traced.clear()
        for n in range(4):
            f(n)
        assert len(traced) == 1
    np.testing.assert_array_equal(x.at[-2].get(out_sharding=P("x")), VALUE[-2])
    np.testing.assert_array_equal(x.at[20].get(out_sharding=P("x")), VALUE[7])
    np.testing.assert_array_equal(x.at[::2, 1:3].set(0.0, out_sharding=P("x")), jnp.array(VALUE).at[::2, 1:3].set(0.0))


def test_slices_of_traced_values_may_be_sharded(mesh):
    x = put(mesh, "x", "y")
    assert types(lamina.jit(lambda v: (v[:4], v[::2], v[:, 2:6]))(x)) == ["float32[4@x,8@y]"] * 2 + ["float32[8@x,4@y]"]
    assert types(lamina.grad(lambda v: v[:4].sum())(x)) == ["float32[8@x,8@y]"]
    with pytest.raises(ShardingTypeError, match="size 3, which is not divisible"):
        lamina.jit(lambda v: v[:3])(x)
    with pytest.raises(ShardingTypeError, match="a sliced dimension must not be sharded"):
        x[:4]


def test_repeated_calls_use_the_compiled_program(mesh):
    f = lamina.jit(lambda v: v + 1)
    for spec, wanted in [(("x",), 1), (("x",), 1), (("y",), 2), (("x",), 2)]:
        assert f(put(mesh, *spec)).sharding.spec == P(*spec, None) and f._cache_size() == wanted


def test_shard_map_and_pmap(mesh):
    x = put(mesh, "x", "y")
    double = lamina.shard_map(lambda v: v * lax.psum(1, "x"), mesh, P("x", "y"), P("x", "y"))
    assert types((double(x), lamina.jit(double)(x))) == ["float32[8@x,8@y]"] * 2
    np.testing.assert_array_equal(double(x), 4 * VALUE)
    with pytest.raises(ShardingTypeError, match="xla_pmap: has no sharding rule: pmap chooses its devices itself"):
        lamina.pmap(lambda v: v)(x)


def test_mixed_mesh():
    mesh = lamina.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    with set_mesh(mesh):
        x = put(mesh, "x", "y")
        assert types((x, x @ x, lamina.jit(lambda v: (v @ v) * 2)(x))) == ["float32[8@x,8]"] * 3
        np.testing.assert_allclose(x @ x, VALUE @ VALUE, rtol=1e-6)
        with pytest.raises(ValueError, match="'y' has the type AxisType.Auto"):
            jnp.einsum("ij,jk->ik", x, x, out_sharding=P("y"))


def test_arguments_of_two_meshes_are_refused(mesh):
    other = lamina.make_mesh((2, 4), ("x", "y"), axis_types=AxisType.Explicit)
    with pytest.raises(ShardingTypeError, match="arguments must be on one mesh"):
        put(mesh, "x") + put(other, "x")


def test_programs_on_other_devices_are_unchanged(mesh):
    f = lamina.grad(lambda v: (v @ v).sum())
    one = lamina.device_put(VALUE, lamina.devices()[3])
    auto = lamina.device_put(VALUE, NamedSharding(lamina.make_mesh((4, 2), ("x", "y")), P("x")))
    for g in (f, lamina.jit(f)):
        assert g(one).sharding == one.sharding and g(auto).sharding.mesh == auto.sharding.mesh


def test_iteration_and_copies(mesh):
    assert types(list(put(mesh, None, "y"))) == ["float32[8@y]"] * 8
    with pytest.raises(ShardingTypeError, match="dynamic_slice: dimension 0"):
        list(put(mesh, "x"))
    x = put(mesh, "x", "y")
    assert types(pickle.loads(pickle.dumps(x))) == ["float32[8@x,8@y]"]
    np.testing.assert_array_equal(np.asarray(x), VALUE)
    assert types(lamina.jit(lambda v: v + 1, donate_argnums=0)(put(mesh, "x"))) == ["float32[8@x,8]"]


def test_auto_axes_with_a_tree_of_shardings(mesh):
    x = put(mesh, "x", "y")
    f = auto_axes(lambda a, b: {"product": a @ b, "first": a})
    found = f(x, x, out_sharding={"product": P("x"), "first": P()})
    assert types(found) == ["float32[8,8]", "float32[8@x,8]"]
    np.testing.assert_allclose(found["product"], VALUE @ VALUE, rtol=1e-6)


def test_types_inside_jit_with_in_shardings(mesh):
    seen = []

    def f(v, w):
        seen.append(types((v, w, v + 1)))
        return v + 1

    given = NamedSharding(mesh, P("x", "y"))
    for in_shardings, args in [(given, (VALUE, VALUE)), ((P("x", "y"), P("x", "y")), (put(mesh, "x", "y"), VALUE)),
                               ([given, given], (VALUE, VALUE))]:
        assert types(lamina.jit(f, in_shardings=in_shardings)(*args)) == ["float32[8@x,8@y]"]
    assert seen == [["float32[8@x,8@y]"] * 3] * len(seen) and seen
    seen.clear()
    lamina.jit(f, in_shardings=(given, None))(VALUE, put(mesh, None, "y"))
    assert seen == [["float32[8@x,8@y]", "float32[8,8@y]", "float32[8@x,8@y]"]]
    with pytest.raises(ShardingTypeError, match="contracted dimensions"):
        lamina.jit(lambda v: lamina.typeof(v @ v) and v, in_shardings=given)(VALUE)


@pytest.mark.parametrize("wrap", [lambda f: f, lamina.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("fun", [
    lambda v: jnp.einsum("ij,ij,jk->ik", v, v, VALUE)[:, :1] * v,  # batch dimensions of a product, one not sharded
    lambda v: lax.cond(True, lambda a: a @ VALUE, lambda a: jnp.sin(a) @ VALUE, v) * v,  # residuals of one branch only
    lambda v: lax.cond(True, lambda a: a @ VALUE, lambda a: jnp.sin(a) @ VALUE, v) * v.sum(1)[:, None] + v],
    ids=["product", "cond", "sum"])
def test_cotangents_with_several_shardings(wrap, fun):
    mesh = lamina.make_mesh((4, 2), ("x", "y"), axis_types=AxisType.Explicit)
    f = lamina.grad(lambda v: (fun(v) ** 2).sum())
    with set_mesh(mesh):
        x = put(mesh, "y", None)
        found = wrap(f)(x)
    assert types(found) == ["float32[8@y,8]"]
    np.testing.assert_allclose(found, f(jnp.array(VALUE)), rtol=1e-4, atol=1e-5)
