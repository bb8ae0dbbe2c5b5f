"""Collectives over axes mapped by vmap, without a runtime."""
import itertools

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import UnboundAxisError, evaluate_spmd, prims
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES, per_device
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import bind

SAMPLES = [s for p in prims.ALL if p.family == "collectives" for s in samples_of(p)]
X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_collectives_over_vmap_axis_equal_evaluation_on_devices(sample, wrap, last):
    def fun(*xs):
        out = bind(sample.prim, *xs, **sample.params)
        return out if sample.prim.multiple else (out,)

    each = per_device(sample)
    wanted = evaluate_spmd(make_jaxpr(fun, axis_env=[*zip(AXES.names, AXES.sizes)])(*sample.args), AXES, each)
    xs = [np.stack(x).reshape(*AXES.sizes, *x[0].shape) for x in each]
    ins = (0,) * len(xs)
    if last:  # the examples along the last axis
        xs, ins = [np.moveaxis(x, 1, -1) for x in xs], (-1,) * len(xs)
    got = wrap(vmap(vmap(fun, ins, axis_name="j", axis_size=2), axis_name="i", axis_size=4))(*xs)
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(g).reshape(8, *w[0].shape), np.stack(w), rtol=1e-6)


@pytest.mark.parametrize("names", list(itertools.permutations(["i", "j"])) + [("i",), ("j",)])
def test_axis_index_of_several_axes_is_row_major(names):
    got = vmap(vmap(lambda x: bind(prims.axis_index_p, axis_name=names), axis_name="j"), axis_name="i")(X)
    sizes = {"i": 4, "j": 3}
    grids = dict(zip("ij", np.indices((4, 3))))
    wanted = np.ravel_multi_index([grids[n] for n in names], [sizes[n] for n in names])
    np.testing.assert_array_equal(np.asarray(got), wanted)


def test_collectives_of_values_independent_of_axis():
    assert np.asarray(vmap(lambda x: lax.psum(np.float32(2), "i") + x, axis_name="i")(X))[0].tolist() == [8, 9, 10]
    assert np.asarray(vmap(lambda: lax.axis_index("i"), axis_name="i", axis_size=3)()).tolist() == [0, 1, 2]


def test_inner_axis_shadows_outer_axis_of_equal_name():
    both = vmap(lambda row: lax.psum(row, "i") + vmap(lambda x: lax.psum(x, "i"), axis_name="i")(row), axis_name="i")
    np.testing.assert_array_equal(both(X), X.sum(0) + X.sum(1, keepdims=True))
    np.testing.assert_array_equal(jit(both)(X), X.sum(0) + X.sum(1, keepdims=True))


def test_unbound_axis_error_lists_bound_names():
    with pytest.raises(UnboundAxisError, match="'k' is not bound; bound here: 'i'"):
        vmap(lambda x: lax.psum(x, "k"), axis_name="i")(X)


@pytest.mark.parametrize("name", [0, True, np.int32(1)])
def test_integer_axis_name_is_rejected(name):
    with pytest.raises(TypeError, match="cannot name a mapped axis"):
        vmap(lambda x: x, axis_name=name)(X)


@pytest.mark.parametrize("call,words", [
    (lambda v: lax.psum_scatter(v, "i"), "psum_scatter: axis 0 .* the size of the mapped axis 'i', 4; got float32.3"),
    (lambda v: lax.all_to_all(v, "i", 0, 0), "all_to_all: axis 0 .* the size of the mapped axis 'i', 4; got float32.3"),
    (lambda v: lax.psum_scatter(v, "i", tiled=True), "must be a multiple of the size of the mapped axis 'i', 4"),
    (lambda v: lax.all_to_all(v, "i", 0, 0, tiled=True, axis_index_groups=[[0, 1], [2, 3]]),
     "multiple of the size of a group of the mapped axis 'i', 2"),
    (lambda v: lax.pmax(lax.convert_element_type(v, "complex64"), "i"), "pmax: complex numbers have no order"),
    (lambda v: lax.pargmin(lax.convert_element_type(v, "complex64"), "i"), "pargmin: complex numbers have no order"),
    (lambda v: lax.pswapaxes(lax.broadcast(v, (7,)), "i", 0), "pswapaxes: axis 0 .* size of the mapped axis"),
    (lambda v: lax.psum_scatter(lax.gt(v, 0.0), "i", tiled=True), "psum_scatter: expected numbers"),
])
def test_collective_type_rules_apply_to_examples(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        vmap(call, axis_name="i")(X)


def test_collectives_over_no_axis_are_local():
    got = vmap(lambda v: (lax.axis_index(()), lax.psum(v, ()), lax.pbroadcast(v, (), 0), lax.pargmax(v, ())), axis_name="i",
               out_axes=(None, 0, 0, 0))(X)
    assert got[0] == 0 and np.array_equal(got[1], X) and np.array_equal(got[2], X) and not np.asarray(got[3]).any()
