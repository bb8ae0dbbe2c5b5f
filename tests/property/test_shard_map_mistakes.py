"""Errors of `shard_map`, and debugging of its programs."""
from __future__ import annotations

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import jit, lax, pmap, shard_map
from lamina.sharding import Mesh, NamedSharding
from lamina.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices
DEVICES = np.array(lamina.devices())
MESH, PAIR = Mesh(DEVICES.reshape(4, 2), ("x", "y")), Mesh(DEVICES[:2], "x")
X = np.zeros((8, 4), np.float32)


def same(v):
    return v


def over(ins, outs, fun=same, mesh=MESH, **options):
    return shard_map(fun, mesh, ins, outs, **options)


inner = over(P("x"), P("x"))
VALUE_ERRORS = {
    "length": (lambda: over(P("x"), P("x"))(X[:6]), r"v, float32\[6,4\], has length 6 along dimension 0, .* 'x' of size 4"),
    "lengths": (lambda: over(P(("x", "y")), P())({"a": X[:4]}), r"v\['a'\].* axes 'x' of size 4 and 'y' of size 2"),
    "name": (lambda: over(P("z"), P())(X), r"in_specs for v: PartitionSpec\('z',\) names the axis 'z', which Mesh"),
    "twice": (lambda: over(P("x", "x"), P())(X), "twice"),
    "entries": (lambda: over(P(None, None, "x"), P())(X), r"has 3 entries, .*; float32\[8,4\] has 2 dimensions"),
    "entries of a result": (lambda: over(P("x"), P("x"), lambda v: v.sum())(X), "out_specs for output: .* has 0 dimensions"),
    "no mesh": (lambda: over(P("x"), P("x"), mesh=None)(X), "no mesh is given, and none is in scope"),
    "differs": (lambda: over(P("x"), P(None, "y"))(X), "out_specs for output leaves out the mesh axis 'x'"),
    "differs by an op": (lambda: over(P("x"), P(), jnp.sin)(X), r"sin at .* gives it. Make it the same"),
    "result": (lambda: over(P("x"), (P("x"),), lambda v: (v, v))(X), "out_specs must be a prefix of the result"),
    "count": (lambda: over((P("x"), P("x")), P("x"))(X), "in_specs has an entry for each argument; .* for 1 argument"),
    "argument": (lambda: over(({"a": P()},), P())({"b": X}), r"in_specs\[0\] must be a prefix of argument `v`"),
    "left open": (lambda: over(P(P.UNCONSTRAINED), P())(X), "leaves a dimension to the compiler"),
    "auto": (lambda: over(P("x"), P(), auto={"x"})(X), "names the axis 'x', which is left to the compiler"),
    "unknown auto": (lambda: over(P("x"), P(), auto={"z"}), "auto names the axis 'z'"),
    "unknown axis_names": (lambda: over(P("x"), P(), axis_names={"z"}), "axis_names names the axis 'z'"),
    "in itself": (lambda: over(P("x"), P("x"), lambda v: inner(v))(X), "the axis 'x' is already bound by an enclosing map"),
    "in a pmap": (lambda: pmap(lambda v: inner(v))(np.zeros((2, 8))), "shard_map of `same` at .* is inside of pmap"),
    "a pmap in it": (lambda: over(P("x"), P("x"), lambda v: pmap(same)(v))(X), "`same` at .* is inside of shard_map"),
    "two sets of devices": (lambda: jit(lambda v: over(P("x"), P("x"), mesh=PAIR)(inner(v)))(X), "All meshes of a program"),
    "more rows": (lambda: jit(lambda v: pmap(same)(over(P("x"), P("x"), mesh=PAIR)(v)))(X), "the pmaps inside take 8 devices"),
}
TYPE_ERRORS = {
    "mesh": (lambda: over(P(), P(), mesh=[1]), "mesh: expected a Mesh"),
    "spec": (lambda: over("x", P()), "in_specs: expected a PartitionSpec"),
    "spec inside": (lambda: over(P(), {"a": ("x",)}), r"out_specs\['a'\]\[0\]: expected a PartitionSpec"),
    "none": (lambda: over(None, P())(X), "expected a PartitionSpec; got None"),
    "keyword": (lambda: over(P("x"), P("x"))(v=X), "in_specs are by position; got the keyword arguments v"),
    "function": (lambda: over(P(), P(), 3), "expected a function"),
    "no specs": (lambda: shard_map(same, MESH), "give both in_specs and out_specs"),
    "text": (lambda: over(P("x"), P("x"))("text"), "v: "),
    "result": (lambda: over(P("x"), P("x"), lambda v: "text")(X), "the function returned str"),
    "names": (lambda: over(P(), P(), auto="x"), "auto: expected a set of names"),
}


@pytest.mark.parametrize("name", VALUE_ERRORS)
def test_mismatched_arguments_are_refused(name):
    with pytest.raises(ValueError, match=VALUE_ERRORS[name][1]):
        VALUE_ERRORS[name][0]()


@pytest.mark.parametrize("name", TYPE_ERRORS)
def test_arguments_of_wrong_type_are_refused(name):
    with pytest.raises(TypeError, match=TYPE_ERRORS[name][1]):
        TYPE_ERRORS[name][0]()


def test_check_rep_false_accepts_unproved_replication():
    x = np.arange(8, dtype=np.int32)
    for option in ({"check_rep": False}, {"check_vma": False}):
        out = over(P("x"), P(), lambda v: lax.all_gather(lax.psum_scatter(jnp.tile(v, 4), "x", tiled=True), "x", tiled=True),
                   **option)(x)
        assert np.array_equal(out, np.tile(x.reshape(4, 2).sum(0), 4)) and out.sharding.spec == P()


def test_debug_nans_names_the_device():
    mesh = Mesh(DEVICES[[3, 1, 2, 0, 7, 5, 6, 4]].reshape(4, 2), ("x", "y"))
    f = over(P("x"), P("x"), lambda v: jnp.log(v - 3.5), mesh)
    for run in (f, jit(lambda v: f(v) * 2)):
        with lamina.debug_nans(True), pytest.raises(FloatingPointError, match="`log`.* on device cpu:3, at index 0 of "):
            run(np.array([0, 9, 9, 9, 9, 9, 9, 9], np.float32))


def test_callbacks_and_donation_in_shard_map():
    x = np.arange(8, dtype=np.float32)
    kind = lamina.ShapeDtypeStruct((2,), x.dtype)
    f = over(P("x"), P("x"), lambda v: lamina.pure_callback(lambda a: np.asarray(a) * 2, kind, v))
    assert np.array_equal(f(x), 2 * x) and np.array_equal(jit(lambda x: f(x) + 1)(x), 2 * x + 1)
    given = lamina.device_put(x, NamedSharding(MESH, P("x")))
    assert np.array_equal(jit(over(P("x"), P("x"), lambda v: v + 1), donate_argnums=0)(given), x + 1) and given.is_deleted()
