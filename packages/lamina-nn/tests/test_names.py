"""Every function with an axis argument takes the name of a mapped axis, and is then the positional program, or says that it
takes positional axes only. The meanings are those of docs/how-to/names-as-axes.md."""
import inspect

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_batching import vmap
from lamina_ir import UnboundAxisError

import lamina_nn as nn

N = 4
X = np.round(np.random.default_rng(0).normal(size=(N, 3, 5)), 3).astype(np.float32)
REDUCTIONS = {"logsumexp": nn.logsumexp, "logmeanexp": nn.logmeanexp,
              "logsumexp of weights": lambda x, axis: nn.logsumexp(x, axis, lnp.cos(x) + 2),
              "logsumexp of some": lambda x, axis: nn.logsumexp(x, axis, where=x > -1)}
KEEP = {"softmax": nn.softmax, "log_softmax": nn.log_softmax, "standardize": nn.standardize,
        "softmax of some": lambda x, axis: nn.softmax(x, axis, where=x > -1)}
POSITIONAL = {"glu"}
BY_ITSELF = {"one_hot"}
CASES = [(f, axis, spread) for table, spread in ((REDUCTIONS, True), (KEEP, False)) for f in table.values()
         for axis in ("b", ("b", 0), (-1, "b"), ("b", 0, 1))]


def shift_axis(axis):
    if isinstance(axis, tuple):
        return tuple(shift_axis(a) for a in axis)
    return 0 if axis == "b" else axis if axis < 0 else axis + 1


def assert_close(got, want):
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def apply_to_whole(f, axis, spread):
    """The positional program on all positions."""
    def run(x):
        y = f(x, shift_axis(axis))
        return lnp.broadcast_to(y, (N, *y.shape)) if spread else y
    return run


@pytest.mark.parametrize("f, axis, spread", CASES)
def test_a_name_is_the_axis_it_maps(f, axis, spread):
    named, positional = vmap(lambda x: f(x, axis), axis_name="b"), apply_to_whole(f, axis, spread)
    want = positional(X)
    assert_close(named(X), want)
    weights = np.cos(np.arange(want.size, dtype=np.float32)).reshape(want.shape)
    assert_close(grad(lambda x: (named(x) * weights).sum())(X), grad(lambda x: (positional(x) * weights).sum())(X))
    assert_close(jvp(named, (X,), (np.sin(X),))[1], jvp(positional, (X,), (np.sin(X),))[1])


@pytest.mark.parametrize("f, axis, spread", CASES)
def test_a_value_without_the_name_is_the_same_at_each_position(f, axis, spread):
    got = vmap(lambda k: (k, f(lnp.asarray(X[0]), axis))[1], axis_name="b", out_axes=0)(np.arange(N))
    assert_close(got, apply_to_whole(f, axis, spread)(np.stack([X[0]] * N)))


def test_one_hot_along_a_name_is_each_positions_place():
    classes = np.array([2, 0, 3])
    got = vmap(lambda k: (k, nn.one_hot(classes, N, axis="b"))[1], axis_name="b", out_axes=0)(np.arange(N))
    assert_close(got, np.moveaxis(np.eye(N)[classes], -1, 0))


def test_glu_takes_positional_axes_only():
    with pytest.raises(TypeError, match="^glu: axis takes positional axes only, integers; got the name 'b'(?m:$)"):
        vmap(lambda x: nn.glu(x, "b"), axis_name="b")(X)


@pytest.mark.parametrize("name", ["logsumexp", "logmeanexp", "softmax", "log_softmax", "standardize", "one_hot"])
def test_an_unbound_axis_name_is_an_error(name):
    more = (3,) if name == "one_hot" else ()
    with pytest.raises(UnboundAxisError, match="axis name 'c' is not bound; bound here: 'b'"):
        vmap(lambda x: getattr(nn, name)(x, *more, axis="c"), axis_name="b")(X)


def test_every_function_with_an_axis_is_here():
    for name in nn.__all__:
        f = getattr(nn, name)
        if callable(f) and "axis" in inspect.signature(f).parameters:
            assert name in {*REDUCTIONS, *KEEP} | POSITIONAL | BY_ITSELF, f"what does axis of {name} mean by name?"
