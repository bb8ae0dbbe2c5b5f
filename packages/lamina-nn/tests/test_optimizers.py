"""Optimizers: five steps of each as JAX 0.4.30 takes them, frozen; schedules, states as trees, refusals, what differs."""
import inspect
import json
from pathlib import Path

import lamina_numpy as lnp
import lamina_tracing
import ml_dtypes
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import ShapeError, dtypes, trees
from lamina_tracing import jit, lax, make_jaxpr

from lamina_nn import optimizers

NUMBERS = json.loads(Path(__file__).with_name("optimizer_numbers.json").read_text())


def make_optimizers(O):
    """Name -> optimizer, of a module like `optimizers`."""
    exponential, pieces = O.exponential_decay(.1, 10, .9), O.piecewise_constant([1, 3], [.1, .05, .01])
    return {
        "sgd": O.sgd(.1), "sgd, exponential": O.sgd(exponential), "sgd, pieces": O.sgd(pieces),
        "momentum": O.momentum(.1, .9), "momentum, polynomial": O.momentum(O.polynomial_decay(.1, 4, .01, 2.), mass=.5),
        "nesterov": O.nesterov(.1, .9), "nesterov, inverse": O.nesterov(O.inverse_time_decay(.1, 2, .5), .5),
        "adagrad": O.adagrad(.1), "adagrad, stairs": O.adagrad(O.inverse_time_decay(.1, 2, .5, True), momentum=.5),
        "rmsprop": O.rmsprop(.1), "rmsprop, others": O.rmsprop(exponential, .8, 1e-3),
        "rmsprop_momentum": O.rmsprop_momentum(.1), "rmsprop_momentum, others": O.rmsprop_momentum(pieces, .8, 1e-4, .7),
        "adam": O.adam(.1), "adam, others": O.adam(exponential, .8, .9, .1), "adamax": O.adamax(.1),
        "adamax, others": O.adamax(lambda i: .1 / (i + 1), .8, .9, .1), "sm3": O.sm3(.1), "sm3, others": O.sm3(pieces, .3)}


def make_parameters(dtype="float32"):
    """Parameters, and gradients of five steps; some are 0."""
    rng = np.random.default_rng(0)

    def tree():
        return {"a": np.round(rng.normal(size=(2, 3)), 2).astype(dtype),
                "b": [np.round(rng.normal(size=()), 2).astype(dtype), np.round(rng.normal(size=(2, 1, 3)), 2).astype(dtype)]}
    params, gradients = tree(), [tree() for _ in range(5)]
    gradients[0]["a"][0, 1] = 0
    gradients[1] = trees.tree_map(np.zeros_like, params)
    return params, gradients


def run_steps(optimizer, params, gradients):
    init, update, get_params = optimizer
    state = init(params)
    for i, g in enumerate(gradients):
        state = update(i, g, state)
    return get_params(state)


def numbers_of(tree):
    return np.concatenate([np.asarray(x, np.float64).ravel() for x in trees.tree_leaves(tree)])


@pytest.mark.parametrize("name", make_optimizers(optimizers))
def test_frozen_steps(name):
    optimizer = make_optimizers(optimizers)[name]
    params, gradients = make_parameters()
    got = run_steps(optimizer, params, gradients)
    np.testing.assert_allclose(numbers_of(got), NUMBERS[name], rtol=1e-5, atol=2e-6)
    assert [x.dtype for x in trees.tree_leaves(got)] == [np.float32] * 3

    # a traced step in a loop, states as what it carries
    init, update, get_params = optimizer
    stacked = trees.tree_map(lambda *leaves: np.stack(leaves), *gradients)
    carried = jit(lambda p, gs: get_params(lax.scan(
        lambda state, now: (update(now[0], now[1], state), None), init(p), (np.arange(5), gs))[0]))(
            trees.tree_map(lnp.asarray, params), stacked)
    np.testing.assert_allclose(numbers_of(carried), NUMBERS[name], rtol=1e-5, atol=2e-6)

    # many at once
    both = vmap(lambda p: get_params(update(0, gradients[0], init(p))))(trees.tree_map(lambda x: np.stack([x, x + 1]), params))
    np.testing.assert_allclose(both["a"][0], get_params(update(0, gradients[0], init(params)))["a"], atol=1e-6)


@pytest.mark.parametrize("name", make_optimizers(optimizers))
def test_a_quadratic_gets_smaller(name):
    init, update, get_params = make_optimizers(optimizers)[name]

    def loss(p):
        return sum(((x - 0.5) ** 2).sum() for x in trees.tree_leaves(p))
    state = init(make_parameters()[0])
    first = loss(get_params(state))
    step = jit(lambda i, state: update(i, grad(loss)(get_params(state)), state))
    for i in range(10):
        state = step(i, state)
    assert loss(get_params(state)) < 0.98 * first


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", make_optimizers(optimizers))
def test_half_precision(name, dtype):
    params, gradients = make_parameters(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    got = run_steps(make_optimizers(optimizers)[name], *trees.tree_map(lnp.asarray, (params, gradients)))
    np.testing.assert_allclose(numbers_of(got), NUMBERS[name], atol=0.05 if dtype == "bfloat16" else 6e-3)
    if "pieces" not in name and name not in ("rmsprop_momentum, others", "sm3, others"):  # steps of these are of float32
        assert {str(x.dtype) for x in trees.tree_leaves(got)} == {dtype}


def test_strict_settings():
    params, gradients = trees.tree_map(lnp.asarray, make_parameters())
    with lamina_tracing.numpy_rank_promotion("raise"), lamina_tracing.numpy_dtype_promotion("strict"):
        for name, (init, update, get_params) in make_optimizers(optimizers).items():
            if ", " not in name:
                got = get_params(jit(update)(lnp.int32(3), gradients[0], init(params)))
                assert {x.dtype for x in trees.tree_leaves(got)} == {np.dtype(np.float32)}, name
        optimizers.clip_grads(gradients[0], 0.1)


def test_derivatives_pass_through_training():
    def last(size):
        return run_steps(optimizers.adam(size), np.ones(3, np.float32), [np.float32([1, 2, -3])] * 3).sum()
    assert abs(grad(last)(0.1) + 3) < 1e-4  # steps of adam are of the size's length where the gradient stays
    hand = grad(lambda size: run_steps(optimizers.momentum(size, 0.5), 1.0, [1.0, 1.0]))(0.1)
    assert abs(hand + 2.5) < 1e-6


def test_states():
    params, gradients = make_parameters()
    adam = optimizers.adam(0.1)
    assert isinstance(adam, optimizers.Optimizer) and adam._fields == ("init_fn", "update_fn", "params_fn")
    state = adam.update_fn(0, gradients[0], adam.init_fn(params))
    assert isinstance(state, optimizers.OptimizerState) and len(trees.tree_leaves(state)) == 9
    assert isinstance(state.packed_state, tuple) and [len(s) for s in state.packed_state] == [3, 3, 3]
    assert isinstance(trees.tree_map(lambda x: x, state), optimizers.OptimizerState)
    assert trees.tree_structure(state) == trees.tree_structure(adam.init_fn(params))
    assert trees.tree_structure(state) != trees.tree_structure(optimizers.adagrad(.1).init_fn({"a": params["a"]}))
    unpacked = optimizers.unpack_optimizer_state(state)
    assert list(unpacked) == ["a", "b"] and isinstance(unpacked["b"][1], optimizers.JoinPoint)
    np.testing.assert_array_equal(unpacked["a"].subtree[0], state.packed_state[0][0])
    assert repr(optimizers.JoinPoint((1, 2))) == "JoinPoint((1, 2))"
    again = optimizers.pack_optimizer_state(unpacked)
    assert trees.tree_structure(again) == trees.tree_structure(state)
    np.testing.assert_array_equal(numbers_of(again), numbers_of(state))
    assert adam.init_fn(()).packed_state == () and adam.params_fn(adam.init_fn(())) == ()


def test_sm3_keeps_a_vector_for_each_axis():
    init, update, get_params = optimizers.sm3(0.1)
    state = jit(init)(np.ones((4, 5, 6), np.float32))
    assert [x.shape for x in state.packed_state[0][2:]] == [(4,), (5,), (6,)]
    assert jit(get_params)(jit(init)(2.0)) == 2.0 and get_params(update(0, 1.0, init(2.0))).shape == ()
    assert get_params(update(0, np.ones((0, 3), np.float32), init(np.ones((0, 3), np.float32)))).shape == (0, 3)


def test_optimizers_of_ones_own():
    @optimizers.optimizer
    def averaged(step_size, *, share=0.5):
        """Descent whose parameters are an average."""
        def update(i, g, state):
            x, mean = state
            x = x - step_size * g
            return x, share * mean + (1 - share) * x
        return (lambda x: (x, x)), update, (lambda state: state[1])
    assert averaged.__name__ == "averaged" and averaged.__doc__ == "Descent whose parameters are an average."
    init, update, get_params = averaged(1.0, share=0.75)
    assert get_params(update(0, {"w": 1.0}, init({"w": 3.0}))) == {"w": 2.75}

    @optimizers.optimizer
    def growing():
        return (lambda x: x), (lambda i, g, x: (x, x)), (lambda x: x)
    with pytest.raises(TypeError, match="growing: update: the state of an array keeps its tree"):
        growing().update_fn(0, 1.0, growing().init_fn(1.0))


def test_schedules():
    O = optimizers
    rows = {"constant": [.5, .5, .5], "exponential": [.5, .45, .5 * .9 ** 3], "inverse": [.5, .5 / 1.9, .5 / 3.7],
            "stairs": [.5, .5 / 1.9, .5 / 3.7], "polynomial": [.5, .2, .1], "pieces": [1, .5, .1]}
    schedules = {"constant": O.constant(.5), "exponential": O.exponential_decay(.5, 10, .9),
                 "inverse": O.inverse_time_decay(.5, 10, .9), "stairs": O.inverse_time_decay(.5, 10, .9, staircase=True),
                 "polynomial": O.polynomial_decay(.5, 20, .1, 2.), "pieces": O.piecewise_constant([3, 10], [1., .5, .1])}
    for name, schedule in schedules.items():
        for run in (schedule, jit(schedule)):
            np.testing.assert_allclose([run(i) for i in (0, 10, 30)], rows[name], rtol=1e-6)
    assert [float(schedules["pieces"](i)) for i in (2, 3, 4, 10, 11)] == [1, 1, .5, .5, np.float32(.1)]
    assert schedules["stairs"](19) == schedules["stairs"](10)
    f = schedules["constant"]
    assert O.make_schedule(f) is f and O.make_schedule(np.array(.1))(3) == .1


def test_norms_and_clipping():
    g = {"a": np.float32([3, 4]), "b": np.float32(12)}
    assert optimizers.l2_norm(g) == 13 and optimizers.l2_norm(()) == 0 and optimizers.l2_norm(np.array([3, 4])) == 5
    np.testing.assert_allclose(numbers_of(optimizers.clip_grads(g, 1.)), np.array([3, 4, 12]) / 13, rtol=1e-6)
    assert numbers_of(optimizers.clip_grads(g, 13.)).tolist() == [3, 4, 12]
    np.testing.assert_allclose(optimizers.clip_grads(np.array([3, 4]), 1), [.6, .8], rtol=1e-6)
    assert optimizers.clip_grads(np.zeros(2), 0.).tolist() == [0, 0]
    assert optimizers.l2_norm(np.array([3 + 4j])) == 5 and optimizers.l2_norm(np.array([3 + 4j])).dtype == np.float32
    np.testing.assert_allclose(optimizers.clip_grads(np.array([3 + 4j]), 1.), [.6 + .8j], rtol=1e-6)
    large = np.full(3, 300, np.float16)  # its squares are too large for its dtype, its length is not
    assert abs(float(optimizers.l2_norm(large)) - 519.6) < 0.3 and optimizers.l2_norm(large).dtype == np.float16
    np.testing.assert_allclose(optimizers.clip_grads(large, 1.), np.full(3, 3 ** -.5), rtol=1e-3)
    mixed = optimizers.clip_grads([np.ones(2, np.float16), np.ones(2, np.float32)], 1.)
    assert [x.dtype for x in mixed] == [np.float16, np.float32]
    assert np.isnan(optimizers.clip_grads(np.array([np.nan, 1.]), 1.)).all()
    np.testing.assert_allclose(grad(optimizers.l2_norm)(np.float32([3, 4])), [.6, .8], rtol=1e-6)
    np.testing.assert_allclose(jit(optimizers.clip_grads)(np.float32([3, 4]), 2.5), [1.5, 2], rtol=1e-6)


def test_signatures():
    for name, want in {
            "sgd": "step_size", "momentum": "step_size mass", "nesterov": "step_size mass", "adagrad": "step_size momentum",
            "rmsprop": "step_size gamma eps", "rmsprop_momentum": "step_size gamma eps momentum", "adam": "step_size b1 b2 eps",
            "adamax": "step_size b1 b2 eps", "sm3": "step_size momentum", "optimizer": "opt_maker",
            "exponential_decay": "step_size decay_steps decay_rate",
            "inverse_time_decay": "step_size decay_steps decay_rate staircase", "constant": "step_size",
            "polynomial_decay": "step_size decay_steps final_step_size power", "piecewise_constant": "boundaries values",
            "make_schedule": "scalar_or_schedule", "clip_grads": "grad_tree max_norm", "l2_norm": "tree",
            "pack_optimizer_state": "marked_pytree", "unpack_optimizer_state": "opt_state", "JoinPoint": "subtree",
            "Optimizer": "init_fn update_fn params_fn", "OptimizerState": "packed_state tree_def subtree_defs"}.items():
        assert " ".join(inspect.signature(getattr(optimizers, name)).parameters) == want, name


def test_a_step_is_one_small_program():
    """Nothing of the trees is left in it."""
    init, update, _ = optimizers.sgd(0.1)
    assert len(make_jaxpr(lambda g, s: update(0, g, s))(1.0, init(1.0)).eqns) == 2


@pytest.mark.parametrize("call, error, words", [
    (lambda o: o.adam(.1).update_fn(0, {"a": 1.}, o.adam(.1).init_fn({"a": 1., "b": 1.})), TypeError,
     "adam: update: the gradients form another tree than the parameters"),
    (lambda o: o.sgd(.1).update_fn(0, [1.], o.sgd(.1).init_fn((1.,))), TypeError, "sgd: update"),
    (lambda o: o.sgd(.1).update_fn(0, np.ones(2), np.ones(2)), TypeError, "expected the OptimizerState .* got ndarray"),
    (lambda o: o.adam(.1).params_fn({"a": 1.}), TypeError, "adam: get_params: expected the OptimizerState"),
    (lambda o: o.unpack_optimizer_state(3), TypeError, "unpack_optimizer_state: expected the OptimizerState"),
    (lambda o: o.pack_optimizer_state({"a": 1.}), TypeError, "every leaf must be a JoinPoint; got float"),
    (lambda o: o.sgd(.1).update_fn(0, np.ones((2, 1)), o.sgd(.1).init_fn(np.ones(()))), ShapeError,
     r"sgd: update: a gradient has the shape of its parameters; got \(2, 1\), expected \(\)"),
    (lambda o: o.sgd(.1).update_fn(0, np.zeros(2, dtypes.float0), o.sgd(.1).init_fn(np.arange(2))), TypeError,
     "sgd: update: parameters of int(32|64) have no gradient"),
    (lambda o: o.sm3(.1).update_fn(0, np.ones((2, 3)), o.sm3(.1).init_fn(np.ones((2, 2)))), ShapeError, "sm3: update"),
    (lambda o: o.adam("fast"), TypeError, "adam: a step size must be a number or a function of the step; got str"),
    (lambda o: o.sgd(np.ones(3)), TypeError, r"sgd: a step size .* got float(32|64)\[3\]"),
    (lambda o: o.constant("a"), TypeError, "constant: step_size must be a number; got 'a'"),
    (lambda o: o.exponential_decay(.1, "a", 1), TypeError, "exponential_decay: decay_steps must be a number"),
    (lambda o: o.piecewise_constant([3, 10], [1., .5]), ValueError, r"piecewise_constant: .* got shapes \(2,\)"),
    (lambda o: o.piecewise_constant([[3]], [[1., .5]]), ValueError, "piecewise_constant: expected vectors"),
    (lambda o: o.optimizer(3), TypeError, "optimizer: opt_maker"),
    (lambda o: o.l2_norm({"a": "b"}), TypeError, "l2_norm"),
])
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call(optimizers)
