"""Values that may differ between the members of a mapped axis: results declared replicated, branches and loops with
collectives, gradients summed over shared values."""
import numpy as np
import pytest
from lamina_autodiff import checkpoint, grad, linear_transpose, vjp
from lamina_batching import vmap
from lamina_parallel import pmap
from lamina_tracing import jit, lax, make_jaxpr

X = np.arange(1.0, 5.0, dtype=np.float32)
GROUPS = [[0, 1], [2, 3]]


def over_i(f, **more):
    return pmap(f, axis_name="i", **more)


def add_up(v):
    return lax.scan(lambda c, a: (lax.add(c, lax.psum(v, "i")), None), np.float32(0), np.zeros(3, np.float32))[0]


def late(v):  # the third iteration is the first that reads a varying value
    def step(c, _):
        return (c[1], c[2], v), None
    zero = np.float32(0)
    return lax.scan(step, (zero, zero, zero), np.zeros(3, np.float32))[0][0]


@pytest.mark.parametrize("f", [lambda v: lax.psum(v, "i"), lambda v: lax.pmax(v, "i"), lambda v: lax.all_gather(v, "i"),
                               add_up, checkpoint(lambda v: lax.sin(lax.psum(v, "i"))), jit(lambda v: lax.psum(v, "i")),
                               lambda v: np.float32(3), lambda v: lax.psum(lax.axis_index("i"), "i")])
def test_replicated_results_are_returned_once(f):
    np.testing.assert_allclose(over_i(f, out_axes=None)(X), np.asarray(over_i(f)(X))[0], rtol=1e-6)


@pytest.mark.parametrize("f", [lambda v: v, lambda v: lax.sin(v), lambda v: lax.axis_index("i"), late, jit(lambda v: v),
                               lambda v: lax.psum(v, "i", axis_index_groups=GROUPS), lambda v: lax.ppermute(v, "i", [(0, 1)]),
                               lambda v: lax.cond(lax.gt(v, np.float32(2)), lambda: 1.0, lambda: 2.0)])
@pytest.mark.parametrize("outer", [lambda f: f, jit])
def test_varying_result_with_out_axes_none_is_refused(f, outer):
    with pytest.raises(ValueError, match="out_axes is None for output, but it may differ"):
        outer(over_i(f, out_axes=None))(X)


def test_out_axes_none_with_one_member():
    assert float(over_i(lambda v: v, out_axes=None)(X[:1])) == 1


def test_outer_axis_is_checked_separately():
    rows = X.reshape(2, 2)
    inner = pmap(lambda v: lax.psum(v, "j"), axis_name="j", out_axes=None)
    np.testing.assert_array_equal(over_i(inner)(rows), rows.sum(1))
    for name in ("j", "i"):  # another name, and one that shadows the outer axis
        inner = pmap(lambda v: lax.psum(v, name), axis_name=name, out_axes=None)
        with pytest.raises(ValueError, match="may differ"):
            over_i(inner, out_axes=None)(rows)


def big(v):
    return lax.gt(v, np.float32(2))


HANGS = {
    "cond": lambda v: lax.cond(big(v), lambda a: lax.psum(a, "i"), lambda a: a, v),
    "cond, by position": lambda v: lax.cond(lax.gt(lax.axis_index("i"), np.int32(1)), lambda a: lax.psum(a, "i"), lambda a: a,
                                            v),
    "cond in jit": jit(lambda v: lax.cond(big(v), lambda a: lax.psum(a, "i"), lambda a: a, v)),
    "cond in scan": lambda v: lax.scan(lambda c, _: (lax.cond(big(c), lambda a: lax.psum(a, "i"), lambda a: a, c), None), v,
                                       np.zeros(2, np.float32))[0],
    "switch": lambda v: lax.switch(lax.axis_index("i"), [lambda a: lax.ppermute(a, "i", [(0, 1)]), lambda a: a], v),
    "while": lambda v: lax.while_loop(lambda c: lax.lt(c, np.float32(9)), lambda c: lax.add(c, lax.psum(v, "i")), v),
    "while, in its test": lambda v: lax.while_loop(lambda c: lax.lt(lax.add(c, lax.psum(v, "i")), lax.mul(v, v)),
                                                   lambda c: lax.add(c, np.float32(1)), v),
}


@pytest.mark.parametrize("how", HANGS)
def test_collective_in_varying_control_flow_is_refused(how):
    message = "while: the number of iterations" if "while" in how else "cond: which branch runs"
    with pytest.raises(ValueError, match=message + " may differ between the members of the mapped axis 'i', but `p"):
        over_i(HANGS[how])(X)


def test_collective_in_uniform_control_flow_is_allowed():
    def f(v):
        v = lax.cond(big(lax.psum(v, "i")), lambda a: lax.psum(a, "i"), lambda a: a, v)
        return lax.while_loop(lambda c: lax.lt(lax.pmax(c, "i"), np.float32(50)), lambda c: lax.add(c, lax.psum(v, "i")), v)
    np.testing.assert_array_equal(over_i(f)(X), [50] * 4)
    alone = over_i(lambda v: lax.while_loop(lambda c: lax.lt(c, np.float32(4)), lambda c: lax.add(c, c), v))
    np.testing.assert_array_equal(alone(X), [4, 4, 6, 4])


def loss(w, x):
    return lax.mul(lax.mul(w, x), lax.mul(w, x))


W = np.float32(2)
BY_W, BY_X = 2 * W * X**2, 2 * W**2 * X
gradient = grad(loss, (0, 1), reduce_axes=("i",))


@pytest.mark.parametrize("mapper", [vmap, pmap])
def test_gradients_of_shared_values_are_summed(mapper):
    def over(f, *args, **more):
        return mapper(f, axis_name="i", **more)(*args)

    total = [BY_W.sum()] * 4
    for got, want in [
            (over(gradient, W, X, in_axes=(None, 0)), (total, BY_X)),
            (over(gradient, np.full(4, W), X), (BY_W, BY_X)),
            (over(lambda w, x: gradient(lax.pmax(w, "i"), x), np.full(4, W), X), (total, BY_X)),
            (over(lambda w, x: vjp(loss, w, x, reduce_axes=("i",))[1](np.float32(1)), W, X, in_axes=(None, 0)), (total, BY_X)),
            (over(lambda x: (gradient(W, x)[0], x), X), (total, X)),
            (over(lambda w: linear_transpose(lambda a: lax.mul(a, W), w, reduce_axes=("i",))(np.float32(1)), W, in_axes=None,
                  axis_size=4), ([8] * 4,))]:
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-6)


@pytest.mark.parametrize("mapper", [vmap, pmap])
def test_jitted_gradient_sums_over_shared_values(mapper):
    for got, want in zip(mapper(jit(gradient), axis_name="i", in_axes=(None, 0))(W, X), ([BY_W.sum()] * 4, BY_X)):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_argument_of_unknown_origin_is_varying():
    by_w = make_jaxpr(lambda w, x: gradient(w, x)[0], axis_env=[("i", 4)])(W, W)
    assert [a.varying_axes for a in by_w.in_avals] == [{"i"}] * 2 and by_w.out_avals[0].varying_axes == {"i"}
    assert "psum" not in str(by_w)


def test_error_about_varying_result_names_its_source_line():
    def f(v):
        total = lax.psum(v, "i")
        each = lax.mul(v, total)
        return {"loss": total, "rows": (total, each)}

    message = r"output\['rows'\]\[1\], but it may differ .* mul at .*test_varying_axes.py:\d+ \(f\)"
    with pytest.raises(ValueError, match=message):
        over_i(f, out_axes=None)(X)
    with pytest.raises(ValueError, match="output, but .*: it is an argument that is mapped"):
        over_i(lambda v: v, out_axes=None)(X)
    with pytest.raises(ValueError, match="out_axes is None for output"):  # also for a map without axis_name
        pmap(lambda v: v, out_axes=None)(X)
    assert pmap(lambda v, w: w, in_axes=(0, None), out_axes=None)(X, W) == W
