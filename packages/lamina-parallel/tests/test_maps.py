"""Equations that map several axes: values, derivatives, batches and residuals, on the NumPy evaluator."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad, hessian, jacfwd, jacrev, jvp, vjp
from lamina_batching import vmap
from lamina_ir import (ProgramError, ShapeError, check, config, dce, evaluate_spmd, parse, partial_eval, prims, shaped, trees,
                       walk)
from lamina_ir._core.axis_binding import member_shape
from lamina_tracing import lax, make_jaxpr
from lamina_tracing.extend import AxisFrame, bind, extend_axis_env, stage, typeof

import lamina_parallel  # noqa: F401  (fills the tables)

X, W = np.array([1, 2, 4, 8], np.float32), np.float32(3)


def at(*names):
    return prims.Indexed(names)


def block(*names):
    return prims.Split(names)


def map_members(fun, sizes, ins, outs, prim=prims.xmap_p):
    """Return `fun`, a function of one member, mapped over these axes."""
    table = dict(sizes)

    def call(*args):
        avals = []
        for a, entry in zip(args, ins):
            aval, names = typeof(a), [name for kind in entry if kind for name in kind.names]
            member = shaped(member_shape(entry, aval.shape, table), aval.dtype)
            avals.append(member.with_varying_axes(aval.varying_axes | {*names}))
        with extend_axis_env(*[AxisFrame(*axis) for axis in sizes]):
            closed, outer = stage(lambda *xs: list(fun(*xs)), avals)
        entries = (*[(None,) * typeof(o).ndim for o in outer], *ins)
        if prim is prims.xmap_p:
            params = dict(axis_sizes=tuple(sizes), axis_resources=(), loops=(), mesh=None, backend=None, in_axes=entries,
                          out_axes=tuple(outs))
        else:
            mesh = tuple(zip(*sizes))
            params = dict(mesh=(*mesh, tuple(range(int(np.prod(mesh[1]))))), auto=(), in_specs=entries, out_specs=tuple(outs))
        found = bind(prim, *outer, *args, donated_invars=(), here=(), name="f", call_jaxpr=closed, **params)
        return found[0] if len(outs) == 1 else found

    return call


def square_sum(x, w):
    return [lax.psum((w * x) * (w * x), "b")]


loss = map_members(square_sum, [("b", 4)], [(at("b"),), ()], [()])


def positional(x, w):
    return lax.reduce_sum((w * x) * (w * x), (0,))


def assert_same(a, b):
    (one, tree), (two, other) = trees.tree_flatten(a), trees.tree_flatten(b)
    assert tree == other
    for x, y in zip(one, two):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def test_gradients_match_the_positional_function():
    x, w = grad(loss, (0, 1))(X, W)
    assert x.tolist() == [18, 36, 72, 144] and float(w) == 510
    for derivative in (hessian, lambda f, n: jacrev(jacrev(f, n), n), lambda f, n: jacfwd(jacfwd(f, n), n)):
        assert_same(derivative(loss, (0, 1))(X, W), derivative(positional, (0, 1))(X, W))
    assert_same(jvp(loss, (X, W), (X, W)), jvp(positional, (X, W), (X, W)))
    with config.replicated_counts_once(True):
        x, w = grad(loss, (0, 1))(X, W)
        assert x.tolist() == [18, 36, 72, 144] and float(w) == 510


def test_batch_axis_is_added_to_every_entry():
    xs, ws = np.stack([X, X + 1]), np.array([3, 2], np.float32)
    assert_same(vmap(loss, (0, None))(xs, W), vmap(positional, (0, None))(xs, W))
    assert_same(vmap(grad(loss, (0, 1)), (None, 0))(X, ws), vmap(grad(positional, (0, 1)), (None, 0))(X, ws))
    assert_same(vmap(loss, axis_name="b")(xs, ws), vmap(positional)(xs, ws))  # the inner axis of that name shadows the outer


def test_shared_residual_is_stored_once():
    def member(x, w):
        return [lax.dot(lax.sin(w), x)]

    f = map_members(member, [("b", 4)], [(at("b"), None), (None, None)], [(None, at("b"))])
    x, w = np.arange(12, dtype=np.float32).reshape(4, 3), np.eye(3, dtype=np.float32)
    program = make_jaxpr(lambda x, w, ct: vjp(lambda w: f(x, w), w)[1](ct))(x, w, np.ones((3, 4), np.float32))
    check(program)
    assert program.eqns[0].outvars[1].aval.shape == (3, 3)  # one cos(w) for all members
    assert_same(vjp(lambda w: f(x, w), w)[1](np.ones((3, 4), np.float32)),
         vjp(lambda w: lax.dot(lax.sin(w), x.T), w)[1](np.ones((3, 4), np.float32)))


def test_blocks_of_a_mesh_are_split_and_joined():
    def f(x, w):  # a block of two rows of x, and all of w
        return [lax.psum(x * x, "x"), x * lax.broadcast_in_dim(w, x.shape, (1,)) + lax.axis_index("y").astype(np.float32)]

    run = map_members(f, [("x", 2), ("y", 2)], [(block("x"), None), (block("y"),)], [(None, None), (block("x"), block("y"))],
                 prims.shard_map_p)
    x, w = np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(4, dtype=np.float32)
    total, product = run(x, w)
    assert np.array_equal(total, x[:2] ** 2 + x[2:] ** 2)
    assert np.array_equal(product, np.tile(x, 2) * w + np.repeat(np.arange(2), 2))

    def plain(x, w):
        wide = lax.concatenate([x, x], 1)
        return [lax.slice(x * x, (0, 0), (2, 2)) + lax.slice(x * x, (2, 0), (4, 2)),
                wide * lax.broadcast_in_dim(w, (4, 4), (1,))]

    cts = [np.ones((2, 2), np.float32), np.arange(16, dtype=np.float32).reshape(4, 4)]
    assert_same(vjp(lambda *a: list(run(*a)), x, w)[1](cts), vjp(plain, x, w)[1](cts))


def test_result_axis_that_the_value_lacks_repeats_it():
    f = map_members(lambda x: [lax.psum(x, "b"), x], [("b", 4), ("c", 2)], [(at("b"),)], [(at("b"), at("c")), (at("c", "b"),)])
    total, pairs = f(X)
    assert np.array_equal(total, np.full((4, 2), 15)) and np.array_equal(pairs, np.tile(X, 2))
    assert_same(vjp(lambda x: f(x)[0], X)[1](np.ones((4, 2), np.float32)), (np.full(4, 8, np.float32),))
    with config.replicated_counts_once(True):
        assert_same(vjp(lambda x: f(x)[0], X)[1](np.ones((4, 2), np.float32)), (np.full(4, 8, np.float32),))


def test_passes_read_the_bound_axes():
    program = make_jaxpr(lambda x, w: grad(loss, (0, 1))(x, w))(X, W)
    check(program)
    assert not program.jaxpr.axis_names and parse(str(program)).jaxpr.axis_names == frozenset()
    small, used = dce(program, [True, False])
    assert len(small.eqns) == 2 and used == [True, True]
    two = partial_eval(make_jaxpr(loss)(X, W), [False, True])
    check(two.known), check(two.unknown)
    wide = parse("{ lambda ; a:f32[2]. let b:f32[2] c:f32[] = xmap[ axis_sizes=(('i', 2), ('j', 3)) "
                 "call_jaxpr={ lambda ; d:f32[]. let e:f32[] = psum[axes=('j', 'k') axis_index_groups=None] d in (e, e) } "
                 "in_axes=((Indexed(names=('i',)),),) name=f out_axes=((Indexed(names=('i',)),), ()) ] a in (b, c) }")
    assert wide.jaxpr.axis_names == {"k"}
    found = evaluate_spmd(wide, [("k", 2)], [[np.array([1, 2], np.float32), np.array([10, 20], np.float32)]])
    assert [v.tolist() for v in found[0]] == [[33, 66]] * 2
    inner, = [e.params["call_jaxpr"] for e in walk(wide) if e.primitive is prims.xmap_p]
    assert inner.in_avals[0].varying_axes == {"i"}  # not in the text: the types are inferred


def test_named_shape_of_traced_values():
    seen = []
    map_members(lambda x, w: seen.append((x.named_shape, w.named_shape, lax.psum(x, "c").named_shape)) or [x * w],
           [("b", 4), ("c", 2)], [(at("b"), at("c")), (at("c"),)], [(at("b"), at("c"))])(np.ones((4, 2), np.float32), X[:2])
    assert seen == [({"b": 4, "c": 2}, {"c": 2}, {"b": 4})]


@pytest.mark.parametrize(("ins", "outs", "message"), [
    ([(at("z"),)], [()], "must be mapped along the axes it binds"),
    ([(at("b"), None)], [()], "must fit"),
    ([(at("b", "b"),)], [()], "must name each axis at most once"),
])
def test_invalid_axis_entries_are_refused(ins, outs, message):
    with pytest.raises(ShapeError, match=message):
        prims.xmap_p.infer(typeof(X), axis_sizes=(("b", 4),), in_axes=tuple(ins), out_axes=tuple(outs),
                           call_jaxpr=parse("{ lambda ; a:f32[]. let  in (a,) }"))


def test_params_of_the_wrong_kind_are_refused():
    program = make_jaxpr(loss)(X, W)
    text = str(program).replace("axis_sizes=(('b', 4),)", "axis_sizes=4")
    with pytest.raises(ProgramError, match="axis_sizes must be a tuple of pairs"):
        check(parse(text))
