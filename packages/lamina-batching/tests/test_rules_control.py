"""vmap of control flow compared with a loop over examples, and operands that stay unbatched."""
import numpy as np
import pytest
from lamina_batching import vmap
from lamina_batching.testing import check_vmap
from lamina_ir import MissingRuleError, ShapeDtypeStruct, prims, walk
from lamina_tracing import debug, io_callback, lax, make_jaxpr

XS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def names(fun, *args):
    return [e.primitive.name for e in walk(make_jaxpr(fun)(*args))]


def test_unbatched_predicate_runs_one_branch():
    def f(p, x):
        return vmap(lambda x: lax.cond(p, lambda x: lax.sin(x), lambda x: 1.0, x))(x)
    assert "cond" in names(f, True, XS[:, 0]) and "select" not in names(f, True, XS[:, 0])
    np.testing.assert_allclose(f(True, XS[:, 0]), np.sin(XS[:, 0]), rtol=1e-5)
    np.testing.assert_array_equal(f(False, XS[:, 0]), np.ones(4))


@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (None, 0)])
def test_switch_batches_index_and_operands(in_axes):
    index = np.array([0, 1, 2, 5]) if in_axes[0] == 0 else np.int32(1)
    x = XS if in_axes[1] == 0 else XS[0]
    check_vmap(lambda i, x: lax.switch(i, [lax.sin, lambda x: lax.mul(x, 2.0), lambda x: np.zeros(3, np.float32)], x),
               [index, x], in_axes)


@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (None, 0), (1, 1)])
def test_scan_batches_constants_and_inputs(in_axes):
    a = [XS if axis is not None else XS[0] for axis in in_axes]

    def f(w, xs):
        return lax.scan(lambda c, x: (lax.add(lax.mul(c, lax.reduce_sum(w, (0,))), x), lax.mul(c, x)), 1.0, xs)
    check_vmap(f, a, in_axes)


@pytest.mark.parametrize("max_iters", [None, 3])
def test_each_example_stops_at_its_own_condition(max_iters):
    def f(limit, x):
        return lax.while_loop(lambda c: lax.lt(c[0], limit), lambda c: (lax.add(c[0], 1), lax.mul(c[1], 2.0)), (0, x),
                              max_iters)
    for in_axes in ((0, 0), (0, None), (None, 0)):
        limit = np.array([0, 5, 2, 9]) if in_axes[0] == 0 else np.int64(4).astype(np.int32)
        check_vmap(f, [limit, XS[:, 0] if in_axes[1] == 0 else np.float32(1)], in_axes)


def test_unbatched_condition_stays_unbatched():
    def f(x):
        return lax.fori_loop(0, lax.add(np.int32(2), np.int32(1)), lambda i, c: lax.mul(c, 2.0), x)
    made = make_jaxpr(lambda n, x: vmap(lambda x: lax.fori_loop(0, n, lambda i, c: lax.mul(c, 2.0), x))(x))(3, XS)
    loop = next(e for e in walk(made) if e.primitive is prims.while_p)
    assert loop.params["cond_jaxpr"].eqns[0].primitive.name == "lt" and len(loop.params["cond_jaxpr"].eqns) == 1
    check_vmap(f, [XS], (0,))


def test_nested_vmap_of_loops():
    def f(x, n):
        return lax.scan(lambda c, k: (lax.while_loop(lambda d: lax.lt(d, n), lambda d: lax.add(d, x), c), c), 0.0,
                        None, length=2)[0]
    x, n = np.array([0.5, 1.0], np.float32), np.array([1.0, 3.0, 4.5], np.float32)
    got = vmap(lambda x: vmap(lambda n: f(x, n))(n))(x)
    np.testing.assert_allclose(got, [[f(a, b) for b in n] for a in x])


def test_map_in_batches_uses_vmap():
    assert "reshape" in names(lambda x: lax.map(lambda r: lax.reduce_sum(r, (0,)), x, batch_size=2), XS)
    np.testing.assert_allclose(lax.map(lambda r: lax.reduce_sum(r, (0,)), XS, batch_size=3), XS.sum(1), rtol=1e-5)


def test_effects_in_batched_branches_are_rejected():
    from lamina_ir import Primitive
    noise = Primitive("noise_for_test", infer=lambda x: x, numpy=lambda x: x, effectful=True, family="control")
    from lamina_batching.extend import batching_rules
    from lamina_tracing.extend import bind
    batching_rules.define(noise, lambda axis, args, dims: (bind(noise, args[0]), dims[0]))
    with pytest.raises(MissingRuleError, match="a branch calls `noise_for_test`: it would run all branches"):
        vmap(lambda p, x: lax.cond(p, lambda x: bind(noise, x), lambda x: x, x))(np.array([True, False]), XS[:2])


NAN_ROOTS = [(lambda x, w: lax.cond(lax.gt(x, 0.0), lambda x, w: lax.sqrt(lax.mul(x, w)), lambda x, w: lax.mul(x, 0.0), x, w)),
             (lambda x, w: lax.switch(lax.convert_element_type(lax.gt(x, 0.0), np.int32),
                                      [lambda x: lax.mul(x, 0.0), lambda x: lax.sqrt(lax.mul(x, w))], x)),
             (lambda x, w: lax.while_loop(lambda c: lax.gt(c, 1.0), lambda c: lax.sqrt(lax.sub(lax.mul(c, w), 1.0)), x,
                                          max_iters=5))]


@pytest.mark.parametrize("f", NAN_ROOTS)
@pytest.mark.parametrize("xs", [[-1.0, 4.0, 0.0], [-1.0, -2.0]])
def test_branch_not_taken_leaves_no_nan_in_derivatives(f, xs):
    grad = pytest.importorskip("lamina_autodiff").grad
    xs = np.array(xs, np.float32)
    by_x, by_w = grad(lambda x, w: lax.reduce_sum(vmap(f, (0, None))(x, w), (0,)), (0, 1))(xs, np.float32(2))
    alone = [grad(f, (0, 1))(x, np.float32(2)) for x in xs]
    np.testing.assert_allclose(by_x, [a for a, _ in alone], rtol=1e-5)
    np.testing.assert_allclose(by_w, sum(b for _, b in alone), rtol=1e-5)


def test_shared_operands_of_a_selected_branch_are_not_copied_per_example():
    w = np.ones((3, 5), np.float32)
    jaxpr = make_jaxpr(vmap(lambda p, x: lax.cond(p, lambda x: lax.dot(x, w), lambda x: np.zeros(5, np.float32), x)))(
        np.array([True] * 4), XS)
    assert max(v.aval.size for e in walk(jaxpr) for v in e.outvars) <= 20


def test_effects_in_loop_with_batched_condition_are_rejected():
    seen = []

    def counted(x):
        return io_callback(lambda v: (seen.append(float(v)), v + 1)[1], ShapeDtypeStruct((), "float32"), x)

    starts = np.array([0, 2], np.float32)
    for f in (lambda x: lax.while_loop(lambda c: c < 3.0, counted, x), lambda x: lax.while_loop(
            lambda c: counted(c) < 3.0, lambda c: c + 1.0, x)):
        with pytest.raises(MissingRuleError, match="test differs between examples .*io_callback.*lax.map"):
            vmap(f)(starts)
    assert not seen
    steps = vmap(lambda n: lax.fori_loop(0, 2, lambda _, c: counted(c), n))
    np.testing.assert_array_equal(steps(starts), starts + 2)
    assert sorted(seen) == [0, 1, 2, 3]
    np.testing.assert_array_equal(vmap(lambda x: lax.while_loop(
        lambda c: c < 3.0, lambda c: (debug.callback(lambda v: None, c), c + 1.0)[1], x))(starts), [3, 3])
