"""Shardings given by a mesh and a spec: in `device_put`, `jit`, constraints, and on results."""
import copy
import pickle
import sys

import numpy as np
import pytest
from lamina_autodiff import custom_jvp, grad, jvp
from lamina_batching import vmap
from lamina_ir import ShapeDtypeStruct
from lamina_parallel import Mesh, PartitionSpec as P, pmap
from lamina_runtime import (GSPMDSharding, NamedSharding, PmapSharding, PositionalSharding, Sharding, SingleDeviceSharding,
                            cache_stats, device_put, devices, make_array_from_callback, make_array_from_process_local_data,
                            make_array_from_single_device_arrays)
from lamina_runtime._sharding.pmap_spec import Chunked, NoSharding, Replicated, ShardedAxis, ShardingSpec, Unstacked
from lamina_runtime._sharding.shardings import mapped_sharding, replicated_sharding, single_device_sharding
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import jaxpr_as_fun

ALL = tuple(devices())
GRID = np.array(ALL, object).reshape(4, 2)
MESH, TWIN = Mesh(GRID, ("x", "y")), Mesh(GRID, ("a", "b"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)
constrain = lax.with_sharding_constraint


def named(*entries, mesh=MESH):
    return NamedSharding(mesh, P(*entries))


def spec_of(x):
    """Return the mesh axis names and the spec of an array's sharding."""
    return x.sharding.mesh.axis_names, x.sharding.spec


@pytest.mark.parametrize("mesh", [MESH, TWIN, Mesh(GRID[::-1], ("x", "y"))])
def test_moved_arrays_have_the_names_of_their_new_sharding(mesh):
    x, names = device_put(X, named("x")), mesh.axis_names
    for spec in (P(None, names[1]), P(names[1], names[0]), P(names), P()):
        moved = device_put(x, NamedSharding(mesh, spec))
        assert spec_of(moved) == (names, spec) and moved.sharding == NamedSharding(mesh, spec)
        np.testing.assert_array_equal(moved, X)


def test_shards_are_on_the_devices_of_the_mesh():
    for grid in (GRID, GRID[::-1, ::-1], GRID.T.reshape(4, 2), GRID[[2, 0]]):
        mesh = Mesh(grid, ("x", "y"))
        n = mesh.shape["x"]
        x = device_put(X, named("x", "y", mesh=mesh))
        assert len(x.addressable_shards) == mesh.size
        for shard in x.addressable_shards:
            (i,), (j,) = np.nonzero(mesh.devices == shard.device)
            np.testing.assert_array_equal(shard.data, X[8 // n * i:8 // n * (i + 1), 4 * j:4 * j + 4])
        copies = device_put(X, named(None, "y", mesh=mesh))
        for shard in copies.addressable_shards:
            j = np.nonzero(mesh.devices == shard.device)[1][0]
            np.testing.assert_array_equal(shard.data, X[:, 4 * j:4 * j + 4])


def test_one_sharding_for_arrays_of_several_ranks():
    rows = named("x")
    for shape in ((4,), (8, 3), (4, 1, 2)):
        x = device_put(np.zeros(shape), rows)
        assert x.sharding == rows and spec_of(x) == (("x", "y"), P("x")) and hash(x.sharding) == hash(rows)
        assert rows.shard_shape(shape) == (shape[0] // 4, *shape[1:]) == x.addressable_shards[0].data.shape
        assert rows.devices_indices_map(shape) == {s.device: s.index for s in x.addressable_shards}
    assert device_put(3.0, named()).sharding.is_fully_replicated
    tree = device_put({"a": np.zeros(8), "b": np.zeros((8, 2))}, {"a": rows, "b": named(None, "y")})
    assert tree["b"].sharding.spec == P(None, "y")


def test_equivalent_shardings_are_equal():
    assert named("x") is named("x") and named("x") == named("x", None) == named(("x",)) == named("a", mesh=TWIN)
    assert len({named("x"), named("x", None), named("a", mesh=TWIN), mapped_sharding(ALL, 2, ((0, 4),), 2)}) == 1
    assert named("x") != named("y") and named("x") != named("x", "y") and named() == replicated_sharding(ALL)
    assert named("x") != named("x", mesh=Mesh(GRID[::-1], ("x", "y"))) and named("x") != "x"
    assert named("x").is_equivalent_to(named("x", None), 2) and not named("x").is_equivalent_to(named("y"), 2)
    assert repr(named("x", None)) == "NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=PartitionSpec('x', None))"
    for s in (named("x", None), device_put(X, named("x", "y")).sharding):
        for again in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s)):
            assert again == s and again.mesh == MESH and again.spec == s.spec
    x = pickle.loads(pickle.dumps(device_put(X, named("x"))))
    assert spec_of(x) == (("x", "y"), P("x"))
    np.testing.assert_array_equal(x, X)


def test_isinstance_of_sharding_classes():
    of = {NamedSharding: device_put(X, named("x")).sharding, SingleDeviceSharding: single_device_sharding(ALL[0]),
          PmapSharding: pmap(lambda r: r)(X).sharding, PositionalSharding: PositionalSharding(GRID)}
    for kind, s in of.items():
        assert isinstance(s, Sharding)
        assert [k for k in of if isinstance(s, k)] == [kind]
    assert isinstance(of[PmapSharding], GSPMDSharding) and not isinstance(of[NamedSharding], GSPMDSharding)
    assert not isinstance(3, NamedSharding) and isinstance(named(mesh=Mesh(ALL[:1], "d")), NamedSharding)
    assert not isinstance(named(mesh=Mesh(ALL[:1], "d")), SingleDeviceSharding)
    assert not hasattr(of[PmapSharding], "spec") and not hasattr(of[SingleDeviceSharding], "mesh")
    with pytest.raises(AttributeError, match="has no spec, because it was not made from a mesh"):
        of[PmapSharding].spec  # noqa: B018


@pytest.mark.parametrize("f, spec", [
    (lambda a: a + 1, P("x", "y")), (lambda a: a.T, P("y", "x")), (lambda a: lax.reduce_sum(a, (0,)), P("y")),
    (lambda a: lax.reduce_sum(a, (0, 1)), P()), (lambda a: lax.dot(a, a.T), P("x"))])
def test_results_have_the_axis_names_of_the_arguments(f, spec):
    """Also for two meshes of the same devices: both use one program and jaxlib's fast path."""
    x, y, g = device_put(X, named("x", "y")), device_put(X, named("a", "b", mesh=TWIN)), jit(f)
    other = {"x": "a", "y": "b"}
    twin = P(*[other.get(e) for e in spec])
    g(x), f(x)
    before = cache_stats()
    for _ in range(3):
        assert spec_of(g(y)) == (("a", "b"), twin) and spec_of(g(x)) == (("x", "y"), spec)
        assert spec_of(f(y)) == (("a", "b"), twin) and spec_of(f(x)) == (("x", "y"), spec)
    after = cache_stats()
    assert (after.misses, after.disk_hits) == (before.misses, before.disk_hits)
    np.testing.assert_allclose(g(y), f(X), rtol=1e-6)
    plain = device_put(X, mapped_sharding(ALL, 2, ((0, 4), (1, 2))))
    assert not hasattr(g(plain).sharding, "spec") and spec_of(g(x)) == (("x", "y"), spec)


def test_calls_with_equal_shardings_use_the_fast_path():
    f = jit(lambda a: a * 2)
    x, y = device_put(X, named("x", "y")), device_put(X, named("x", "y"))
    f(x)
    n = f._cache_size()
    for v in (x, y, f(x)):
        f(v)
    assert f._cache_size() == n
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(frame.f_code.co_name) if event == "call" else None)
    f(y)
    sys.setprofile(None)
    assert seen[:3] == ["guarded", "on_user_call", "call_inner"]  # a launch on several devices needs a lock
    assert "compile_and_run" not in seen
    f(device_put(X, named("a", "b", mesh=TWIN)))
    assert f._cache_size() == n + 1


def test_equivalent_sharding_moves_no_data():
    x = device_put(X, named("x", "y"))
    y = device_put(x, named("a", "b", mesh=TWIN))
    assert spec_of(y) == (("a", "b"), P("a", "b")) and spec_of(x) == (("x", "y"), P("x", "y"))
    where = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
    assert [s.data.unsafe_buffer_pointer() for s in y.addressable_shards] == where
    assert device_put(x, named("x", "y")) is x
    assert jit(lambda a: a, in_shardings=named("a", "b", mesh=TWIN))(x).sharding.spec == P("a", "b")
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


def test_jit_with_named_shardings():
    f = jit(lambda a, b: {"m": lax.dot(a, b), "s": lax.reduce_sum(a, (0, 1))}, in_shardings=(named("x"), None),
            out_shardings={"m": named(None, "y"), "s": None})
    for a in (X, device_put(X), device_put(X, named("x")), device_put(X, named("a", mesh=TWIN))):
        for _ in range(2):
            out = f(a, X)
            assert out["m"].sharding.spec == P(None, "y") and out["m"].sharding.mesh == MESH
            assert out["s"].sharding == named() and out["s"].sharding.spec == P()
            np.testing.assert_allclose(out["m"], X @ X)
    g = jit(lambda a: (a, a), out_shardings=(named("x", None), named("x")))
    assert [r.sharding.spec for r in g(X)] == [P("x", None), P("x")] == [r.sharding.spec for r in g(g(X)[0])]
    compiled = f.lower(ShapeDtypeStruct((8, 8), np.float32, sharding=named("x")), X).compile()
    assert compiled.input_shardings[0][0] == named("x") and compiled(X, X)["m"].sharding.spec == P(None, "y")
    asked = jit(lambda a: a + 1).lower(ShapeDtypeStruct((8, 8), np.float32, sharding=named("y"))).compile()
    assert asked.input_shardings[0][0] == named("y") and asked(device_put(X, named("y"))).sharding.spec == P("y")


def test_jit_of_one_function_with_two_meshes():
    def f(a):
        return a + 1

    one, two = jit(f, in_shardings=named("x"), out_shardings=named("x")), jit(
        f, in_shardings=named("a", mesh=TWIN), out_shardings=named("a", mesh=TWIN))
    for _ in range(2):
        assert spec_of(one(X)) == (("x", "y"), P("x")) and spec_of(two(X)) == (("a", "b"), P("a"))


@pytest.mark.parametrize("f", [
    lambda v: constrain(v, named("x", "y")), lambda v: constrain(v * 2, named("x", "y")) / 2,
    lambda v: lax.cond(v[0, 0] < 9, lambda v: constrain(v, named("x", "y")), lambda v: v, v),
    lambda v: jit(lambda v: constrain(v, named("x", "y")))(v),
    lambda v: vmap(lambda r: constrain(r, named("y")))(constrain(v, named("x"))),
    lambda v: constrain(v, P("x", "y")),
    lambda v: constrain(constrain(v, named(None, "y")), named("x", P.UNCONSTRAINED))])
def test_sharding_constraints_with_names(f):
    for v in (X, device_put(X), device_put(X, named("y"))):
        with MESH:
            y = jit(f)(v)
            assert y.sharding == named("x", "y") and spec_of(y) == (("x", "y"), P("x", "y"))
        np.testing.assert_array_equal(y, X)
    if f.__code__.co_names != ("constrain", "P"):
        assert spec_of(jit(f)(X)) == (("x", "y"), P("x", "y"))  # the constraint has its mesh


def test_derivatives_and_loops_through_constraints():
    def loss(w):
        def step(c, r):
            return constrain(c + r * r, named("x")), c[0]
        c, firsts = lax.scan(step, constrain(w[0], named("x")), w)
        return lax.reduce_sum(c * c, (0,)) + lax.reduce_sum(firsts, (0,))

    want = grad(lambda w: loss_plain(w))(X / 8)
    np.testing.assert_allclose(jit(grad(loss))(X / 8), want, rtol=1e-5)
    with MESH:
        np.testing.assert_allclose(jit(grad(lambda w: lax.reduce_sum(constrain(w, P("x", "y")) * w, (0, 1))))(X), 2 * X)


def loss_plain(w):
    c, firsts = lax.scan(lambda c, r: (c + r * r, c[0]), w[0], w)
    return lax.reduce_sum(c * c, (0,)) + lax.reduce_sum(firsts, (0,))


def test_specs_without_mesh_use_the_mesh_in_scope():
    f, g = jit(lambda a: constrain(a * 2, P("x"))), jit(lambda a: a + 1, in_shardings=P("x"), out_shardings=P(None, "x"))
    back = Mesh(GRID[::-1], ("x", "y"))
    for mesh in (MESH, back, MESH):
        with mesh:
            assert f(X).sharding == named("x", mesh=mesh) and f(X).sharding.mesh == mesh
            assert g(X).sharding == named(None, "x", mesh=mesh)
            assert device_put(X, P("y", "x")).sharding == named("y", "x", mesh=mesh)
            assert jit(lambda a: g(a))(device_put(X, P("x"))).sharding == named(None, "x", mesh=mesh)
    for call in (lambda: f(X), lambda: g(X), lambda: device_put(X, P("x"))):
        with pytest.raises(ValueError, match="no mesh is in scope.*`with mesh:`"):
            call()


def test_rule_traced_later_uses_the_mesh_of_its_block():
    @custom_jvp
    def square(x):
        return x * x

    square.defjvp(lambda primals, tangents: (primals[0] ** 2, constrain(2 * primals[0] * tangents[0], P("x"))))
    x = np.arange(8, dtype=np.float32)
    with MESH:
        program = jaxpr_as_fun(make_jaxpr(square)(x))

    def derivative():
        return jit(lambda x: jvp(lambda x: program(x)[0], (x,), (np.ones(8, np.float32),))[1])(x)

    assert spec_of(derivative()) == (("x", "y"), P("x"))
    with Mesh(np.array(ALL), ("x",)):
        assert derivative().sharding == named("x")
    np.testing.assert_array_equal(derivative(), 2 * x)


def test_constraint_on_lengths_that_do_not_divide():
    f = jit(lambda a: lax.reduce_sum(constrain(constrain(a * 2, named("x")), named("y")), (0,)))
    np.testing.assert_allclose(f(X[:, :7].T.reshape(7, 8)), 2 * X[:, :7].T.reshape(7, 8).sum(0))
    y = jit(lambda a: constrain(a * 2, named("x")))(X[:7])
    np.testing.assert_array_equal(y, 2 * X[:7])
    assert "of x=4,y=2" in str(make_jaxpr(lambda a: constrain(a, named("x")))(X))


def test_arrays_made_of_shards():
    made = make_array_from_callback((8, 8), named("x"), lambda index: X[index])
    assert spec_of(made) == (("x", "y"), P("x"))
    np.testing.assert_array_equal(made, X)
    again = make_array_from_single_device_arrays((8, 8), named("x"), [s.data for s in made.addressable_shards][::-1])
    assert spec_of(again) == (("x", "y"), P("x"))
    np.testing.assert_array_equal(again, X)
    local = make_array_from_process_local_data(named("x", "y"), X)
    assert spec_of(local) == (("x", "y"), P("x", "y"))
    np.testing.assert_array_equal(local, X)
    full = lax.full((8, 2), 3.0, sharding=named("x"))
    assert spec_of(full) == (("x", "y"), P("x"))


def test_mesh_of_one_device():
    one = named("d", mesh=Mesh(ALL[3:4], "d"))
    x = device_put(X, one)
    assert x.device == ALL[3] and spec_of(x) == (("d",), P("d")) and x.sharding == single_device_sharding(ALL[3])
    y = jit(lambda a: a + 1)(x)
    assert y.device == ALL[3] and spec_of(y) == (("d",), P()) and spec_of(x * 2)[0] == ("d",)
    np.testing.assert_array_equal(jit(lambda a: a, in_shardings=one)(X), X)


def test_sharding_methods():
    s = named("x", "y")
    assert s.device_set == {*ALL} and s.is_fully_addressable and not s.is_fully_replicated and s.memory_kind is None
    assert s.addressable_devices == {*ALL} and s.addressable_devices_indices_map((8, 8)) == s.devices_indices_map((8, 8))
    assert s.with_memory_kind("device") is s and s.num_devices == 8
    s.check_compatible_aval((8, 8))
    with pytest.raises(ValueError, match="dimension 1 .* length 3.*2 parts along 'y'"):
        s.check_compatible_aval((8, 3))
    with pytest.raises(ValueError, match="in the default memory of devices"):
        s.with_memory_kind("pinned_host")
    assert SingleDeviceSharding(ALL[2]) is single_device_sharding(ALL[2])
    assert GSPMDSharding(ALL, "{devices=[4,2]<=[8]}") is mapped_sharding(ALL, 2, ((0, 4), (1, 2)))
    assert GSPMDSharding(ALL, named("x")._to_xla_hlo_sharding(1)) == named("x")
    assert GSPMDSharding.get_replicated(ALL) == replicated_sharding(ALL)
    assert PmapSharding.default((8, 2)) is mapped_sharding(ALL, 2, ((0, 8),))
    assert PmapSharding.default((2, 4), 1, ALL[4:]) is mapped_sharding(ALL[4:], 2, ((1, 4),))


def test_sharding_classes_have_the_methods_of_instances():
    s = named("x")
    assert NamedSharding.shard_shape(s, (8, 2)) == (2, 2) and NamedSharding.spec.fget(s) == P("x")
    for kind in (NamedSharding, PositionalSharding, PmapSharding, GSPMDSharding, SingleDeviceSharding):
        assert callable(kind.devices_indices_map) and callable(kind.is_equivalent_to) and "index" not in dir(kind)
    for shape, dim, text in (((8, 2), 0, "Unstacked(8), NoSharding()"), ((3, 8), 1, "NoSharding(), Unstacked(8)")):
        sharding = PmapSharding.default(shape, dim)
        spec = sharding.sharding_spec
        assert repr(spec) == f"ShardingSpec(({text}), (ShardedAxis(axis=0),))"
        assert PmapSharding(sharding.devices, spec) is sharding
        assert [dict(zip(ALL, spec.indices(shape)))[d][dim] for d in ALL] == [*range(8)]
        with pytest.raises(ValueError, match="is for arrays with"):
            spec.indices((*shape[:dim], 16, *shape[dim + 1:]))
    nest = pmap(pmap(lambda x: (x, x.sum())))(np.ones((2, 4, 3)))
    rows = pmap(lambda x: pmap(lambda y: y)(x), out_axes=1)(np.ones((2, 4, 3)))
    for x, kinds in ((nest[0], (Unstacked(2), Unstacked(4), NoSharding())), (nest[1], (Unstacked(2), Unstacked(4))),
                     (rows, (Unstacked(4), Unstacked(2), NoSharding()))):
        spec = x.sharding.sharding_spec
        assert spec.sharding == kinds and spec.mesh_mapping == tuple(map(ShardedAxis, (0, 1) if x is not rows else (1, 0)))
        assert PmapSharding(x.sharding.devices, spec) == x.sharding
        for index, shard in zip(spec.indices(x.shape), sorted(x.addressable_shards, key=lambda s: s.device.id)):
            assert all(a.start == b for a, b, k in zip(shard.index, index, kinds) if type(k) is Unstacked)
    for copies in ((ShardedAxis(0), Replicated(4)), (Replicated(4), ShardedAxis(0)),
                   (Replicated(2), ShardedAxis(0), Replicated(2))):
        spec = ShardingSpec((NoSharding(), Unstacked(2)), copies)
        assert PmapSharding(ALL, spec).sharding_spec == spec
    for given, devices_of, message in ((ShardingSpec((Chunked((8,)),), (ShardedAxis(0),)), ALL, "Use NamedSharding for parts"),
                                     (ShardingSpec((Unstacked(8),), (ShardedAxis(0),)), ALL[:4], "is for 8 devices; got 4"),
                                     (ShardingSpec((Unstacked(8),), (Replicated(8),)), ALL, "ShardedAxis.k. once for each")):
        with pytest.raises(ValueError, match=message):
            PmapSharding(devices_of, given)
    assert not hasattr(mapped_sharding(ALL[::-1], 1, ((0, 8),)),
                       "mesh") and not hasattr(single_device_sharding(ALL[0]), "sharding_spec")
    assert PmapSharding.default((8,)).devices.tolist() == [*ALL] and hasattr(PositionalSharding, "replicate")
    assert not hasattr(SingleDeviceSharding, "spec")


def test_positional_shardings():
    s = PositionalSharding(ALL)
    assert s.shape == (8,) and s.ndim == 1
    x = device_put(X, s.reshape(4, 2))
    assert x.sharding == named("x", "y") and isinstance(x.sharding, PositionalSharding)
    assert device_put(X, s.reshape(4, 2).T).sharding == named("y", "x") and s.reshape(4, 2).T.shape == (2, 4)
    assert s.reshape(4, 2).transpose(1, 0) == s.reshape((4, 2)).T
    assert s.reshape(4, 2).replicate(0) == named(None, "y") and s.reshape(4, 2).replicate(0).shape == (1, 2)
    assert s.reshape(4, 2).replicate(1, keepdims=False) == named("x") and s.replicate() == named()
    assert s.reshape(4, 2).replicate(0).replicate(1).shape == (1, 1) and s.reshape(2, 2, 2).replicate((0, 2)).shape == (1, 2, 1)
    again = pickle.loads(pickle.dumps(s.reshape(4, 2)))
    assert again == s.reshape(4, 2) and again.shape == (4, 2)
    assert "PositionalSharding([[{cpu:0, cpu:2, cpu:4, cpu:6}" in repr(s.reshape(4, 2).replicate(0))
    with pytest.raises(ValueError, match=r"the shape \(8,\) cannot become \(3, 2\)"):
        s.reshape(3, 2)
    with pytest.raises(ValueError, match="each of 2 axes once"):
        s.reshape(4, 2).transpose(0, 0)
    with pytest.raises(AttributeError, match="no attribute 'shape'"):
        named("x").shape  # noqa: B018


@pytest.mark.parametrize("call, error, message", [
    (lambda: named("z"), ValueError, "NamedSharding: .* names the axis 'z', which Mesh"),
    (lambda: named("x", "x"), ValueError, "names the axis 'x' .* twice"),
    (lambda: NamedSharding(MESH, ("x",)), TypeError, "spec: expected a PartitionSpec.*got tuple"),
    (lambda: NamedSharding(MESH, None), TypeError, "spec: expected a PartitionSpec.*got NoneType"),
    (lambda: NamedSharding(P("x"), MESH), TypeError, "mesh: expected a Mesh; got PartitionSpec"),
    (lambda: NamedSharding(MESH, P(), memory_kind="pinned_host"), ValueError, "memory_kind must be .*'pinned_host'"),
    (lambda: device_put(X[:7], named("x")), ValueError,
     r"device_put: dimension 0 .*\(7, 8\) has length 7.*4 devices evenly: .* 4 parts along 'x' of Mesh\('x': 4, 'y': 2\)"),
    (lambda: device_put(X, named(None, ("x", "y"), None)), ValueError, "has 3 entries.*the array has 2 dimensions"),
    (lambda: device_put(X, named(P.UNCONSTRAINED)), ValueError, "leaves dimension 0 to the compiler"),
    (lambda: jit(lambda p: p["w"], in_shardings=({"w": named("x")},))({"w": X[:6]}), ValueError,
     r"in_shardings for p\['w'\]: dimension 0 .* length 6.*along 'x'"),
    (lambda: jit(lambda a: {"s": a[:3]}, out_shardings=named("y"))(X), ValueError,
     r"out_shardings for output\['s'\]: dimension 0 .* length 3.*along 'y'"),
    (lambda: jit(lambda a: a, in_shardings=named("x", None, None))(X), ValueError, "in_shardings for a: .*has 3 entries"),
    (lambda: jit(lambda a: constrain(a, named("x", None, None)))(X), ValueError, "has 3 entries"),
    (lambda: jit(lambda a: a, in_shardings=named("x"))(device_put(X, named("y"))), ValueError,
     "a .*is committed to NamedSharding"),
    (lambda: jit(lambda a, b: a, in_shardings=(named("x"), named("x", mesh=Mesh(GRID[::-1], ("x", "y")))))(X, X), ValueError,
     "the same devices in one order"),
    (lambda: jit(lambda a, b: (a, b))(device_put(X, named("x")), device_put(X, named("x", mesh=Mesh(GRID[:2], ("x", "y"))))),
     ValueError, "committed to different devices"),
    (lambda: jit(lambda a: a).lower(ShapeDtypeStruct((7,), np.float32, sharding=named("x"))), ValueError, "lower: dimension 0"),
    (lambda: make_array_from_callback((7,), named("x"), lambda i: X), ValueError, "make_array_from_callback: dimension 0"),
    (lambda: GSPMDSharding(ALL[:4], "{devices=[8]<=[8]}"), ValueError, "is for 8 devices; got 4"),
    (lambda: GSPMDSharding(ALL, "{manual}"), ValueError, "expected a tile assignment"),
    (lambda: GSPMDSharding(ALL, 3), TypeError, "expected text as.*got int"),
    (lambda: SingleDeviceSharding(3), TypeError, "expected a device; got int"),
    (lambda: PmapSharding(ALL), TypeError, "PmapSharding.default"),
    (lambda: PmapSharding.default((3, 8), 0, ALL), ValueError, "has length 3; got 8 devices"),
    (lambda: PositionalSharding([3]), TypeError, "must be a device"),
])
def test_invalid_shardings_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
