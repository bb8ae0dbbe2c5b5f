"""Layers: the parameters and results of JAX 0.4.30 for the same keys, frozen; shapes, refusals, and what differs on purpose."""
import inspect
import json
from pathlib import Path

import lamina_numpy as lnp
import lamina_random as random
import lamina_tracing
import ml_dtypes
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_autodiff.testing import check_grads
from lamina_batching import vmap
from lamina_ir import ShapeError, trees
from lamina_tracing import jit

from lamina_nn import stax

NUMBERS = json.loads(Path(__file__).with_name("stax_numbers.json").read_text())
KEY = random.PRNGKey(7)


def networks(S):
    """Name -> (layer, shape of its inputs), of a module like `stax`."""
    image, rows = (-1, 10, 11, 4), (-1, 7)
    block = S.serial(S.Conv(4, (3, 3), padding="SAME"), S.BatchNorm(), S.Relu, S.Conv(4, (3, 3), padding="SAME"), S.BatchNorm())
    residual = S.serial(S.FanOut(2), S.parallel(block, S.Identity), S.FanInSum, S.Relu)
    found = {
        "Dense": (S.Dense(3), (-1, 4)), "Dense of more axes": (S.Dense(3), (-1, 5, 4)),
        "Dense of other weights": (S.Dense(3, S.randn(.1), S.zeros), (-1, 4)), "Conv": (S.Conv(8, (3, 3)), image),
        "Conv same": (S.Conv(8, (3, 3), (2, 2), "SAME"), image), "Conv low": (S.Conv(8, (3, 2), (2, 3), "SAME_LOWER"), image),
        "Conv pairs": (S.Conv(8, (3, 3), padding=[(1, 2), (0, 0)]), image),
        "Conv of other weights": (S.Conv(8, (3, 3), W_init=S.randn(1.), b_init=S.ones), image),
        "GeneralConv": (S.GeneralConv(("NCHW", "OIHW", "NHWC"), 8, (3, 3)), (-1, 4, 10, 11)),
        "GeneralConv 1": (S.GeneralConv(("NCH", "HIO", "NHC"), 8, (3,), (2,)), (-1, 4, 10)),
        "GeneralConv 3": (S.GeneralConv(("NDHWC", "DHWIO", "NDHWC"), 2, (3, 2, 2), padding="SAME"), (-1, 4, 5, 6, 3)),
        "ConvTranspose": (S.ConvTranspose(8, (3, 2), (2, 3)), image),
        "ConvTranspose same": (S.ConvTranspose(8, (3, 2), (2, 3), "SAME"), image),
        "ConvTranspose pairs": (S.ConvTranspose(8, (3, 2), padding=[(1, 1), (0, 0)]), image),
        "Conv1DTranspose": (S.Conv1DTranspose(8, (3,), (2,)), (-1, 10, 4)),
        "GeneralConvTranspose": (S.GeneralConvTranspose(("HWNC", "IOHW", "CNHW"), 5, (3, 2), (2, 3), "SAME"), (10, 11, -1, 4)),
        "BatchNorm": (S.BatchNorm(), image), "BatchNorm 1": (S.BatchNorm(axis=(0, 1), center=False), (-1, 5, 6)),
        "BatchNorm 2": (S.BatchNorm(scale=False, epsilon=.1), image),
        "BatchNorm 3": (S.BatchNorm(center=False, scale=False, axis=0), (-1, 5)),
        "BatchNorm 4": (S.BatchNorm(beta_init=S.randn(1.), gamma_init=S.randn(1.)), image),
        "MaxPool": (S.MaxPool((2, 3)), image), "MaxPool same": (S.MaxPool((2, 3), (2, 2), "SAME"), image),
        "MaxPool spec": (S.MaxPool((2, 3), spec="NCHW"), (-1, 4, 10, 11)), "MaxPool 1": (S.MaxPool((2,)), (-1, 7, 3)),
        "SumPool": (S.SumPool((2, 3)), image), "SumPool spec": (S.SumPool((2, 3), (3, 1), "VALID", "CHWN"), (4, 10, 11, -1)),
        "AvgPool": (S.AvgPool((2, 3)), image), "AvgPool same": (S.AvgPool((2, 3), (2, 2), "SAME"), image),
        "AvgPool spec": (S.AvgPool((2, 3), padding="SAME", spec="NCHW"), (-1, 4, 10, 11)),
        "Flatten": (S.Flatten, image), "Dropout": (S.Dropout(.7), (-1, 9)), "Dropout test": (S.Dropout(.7, "test"), (-1, 9)),
        "classifier": (S.serial(S.Dense(16), S.Relu, S.Dropout(.5), S.Dense(8), S.Tanh, S.Dense(3), S.LogSoftmax), (-1, 6)),
        "residual": (S.serial(S.Conv(4, (3, 3), padding="SAME"), residual, residual, S.AvgPool((2, 2), (2, 2)), S.Flatten,
                              S.Dense(5), S.LogSoftmax), (-1, 8, 8, 3)),
        "concatenated": (S.serial(S.FanOut(3), S.parallel(S.Dense(3), S.serial(S.Dense(2), S.Dropout(.5)), S.Identity),
                                  S.FanInConcat()), (-1, 4)),
        "encoder": (S.serial(S.Dense(6), S.Relu, S.FanOut(2), S.parallel(S.Dense(3), S.serial(S.Dense(3), S.Softplus))),
                    (-1, 5)),
        "shape_dependent": (S.shape_dependent(lambda s: S.serial(S.Dense(s[-1] * 2), S.Relu)), (-1, 4))}
    for name in "Elu Exp Gelu Identity LeakyRelu LogSoftmax Relu Selu Sigmoid Softmax Softplus Tanh".split():
        found[name] = (getattr(S, name), rows)
    return found


NETWORKS = networks(stax)


def inputs_of(shape):
    return np.random.default_rng(0).normal(size=[2 if n == -1 else n for n in shape]).astype(np.float32)


def digest(x):
    """One number that the order of the others counts for."""
    x = np.asarray(x, np.float64).ravel()
    return float((x * np.cos(np.arange(x.size))).sum())


@pytest.mark.parametrize("name", NETWORKS)
def test_frozen_numbers(name):
    (init, apply), shape = NETWORKS[name]
    out_shape, params = init(KEY, shape)
    got = apply(params, inputs_of(shape), rng=random.PRNGKey(8))
    want = NUMBERS[name]
    assert str(out_shape) == want["shape"] and [str(x.shape) for x in trees.tree_leaves(got)] == want["shapes"]
    assert [str(p.shape) for p in trees.tree_leaves(params)] == want["parameter shapes"]
    np.testing.assert_allclose([digest(p) for p in trees.tree_leaves(params)], want["parameters"], rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose([digest(x) for x in trees.tree_leaves(got)], want["result"], rtol=2e-5, atol=3e-5)


@pytest.mark.parametrize("name", ["Dense", "Conv", "ConvTranspose", "MaxPool same", "AvgPool same", "Dropout", "concatenated"])
def test_derivatives_and_maps(name):
    (init, apply), shape = NETWORKS[name]
    _, params = init(KEY, shape)
    x = inputs_of(shape)

    def run(params, x):
        return apply(params, x, rng=KEY)
    if name != "MaxPool same":  # whose inputs nearly tie
        check_grads(run, (params, x), order=1, atol=3e-2, rtol=3e-2)
    np.testing.assert_allclose(jit(run)(params, x), run(params, x), rtol=2e-5, atol=1e-5)
    both = vmap(run, (None, 0))(params, np.stack([x, 2 * x]))
    np.testing.assert_allclose(both[1], run(params, 2 * x), rtol=2e-5, atol=1e-5)


def test_signatures():
    same = {"Dense": "out_dim W_init b_init", "BatchNorm": "axis epsilon center scale beta_init gamma_init",
            "Dropout": "rate mode",
            "GeneralConv": "dimension_numbers out_chan filter_shape strides padding W_init b_init",
            "Conv": "out_chan filter_shape strides padding W_init b_init", "MaxPool": "window_shape strides padding spec",
            "FanOut": "num", "FanInConcat": "axis", "serial": "layers", "parallel": "layers", "shape_dependent": "make_layer",
            "elementwise": "fun fun_kwargs"}
    same |= {"GeneralConvTranspose": same["GeneralConv"], "ConvTranspose": same["Conv"], "Conv1DTranspose": same["Conv"],
             "SumPool": same["MaxPool"], "AvgPool": same["MaxPool"]}
    for name, want in same.items():
        assert " ".join(inspect.signature(getattr(stax, name)).parameters) == want, name
    assert stax.randn is stax.normal and stax.glorot is stax.glorot_normal and stax.logsoftmax is stax.log_softmax


def test_pools():
    x = np.arange(12, dtype=np.int32).reshape(1, 3, 4, 1)
    assert stax.MaxPool((2, 2))[1]((), x)[0, :, :, 0].tolist() == [[5, 6, 7], [9, 10, 11]]
    assert stax.MaxPool((2,))[1]((), np.array([[[True], [False], [False]]])).tolist() == [[[True], [False]]]
    assert stax.AvgPool((2, 2))[1]((), x)[0, 0, :, 0].tolist() == [2.5, 3.5, 4.5]
    assert stax.MaxPool((2, 2), padding=[(1, 0), (0, 1)])[1]((), -x - 1.)[0, :, :, 0].tolist() == [
        [-1, -2, -3, -4], [-1, -2, -3, -4], [-5, -6, -7, -8]]
    padded = stax.AvgPool((2,), padding=[(1, 1)])
    assert padded[0](KEY, (-1, 4, 1)) == ((0, 5, 1), ())
    assert padded[1]((), x[:, 0])[0, :, 0].tolist() == [0, 0.5, 1.5, 2.5, 3]
    assert stax.SumPool((2, 2))[1]((), x.astype(np.float16)).dtype == np.float16
    bright = np.full((1, 3, 1), 200, np.uint8)
    assert stax.AvgPool((2,))[1]((), bright).tolist() == [[[200], [200]]]  # 400 is no uint8
    assert stax.AvgPool((2,))[1]((), np.array([[[True], [True], [False]]])).tolist() == [[[1], [0.5]]]
    assert stax.SumPool((2,))[1]((), np.array([[[True], [True], [False]]])).tolist() == [[[2], [1]]]
    finite = np.full((1, 3, 1), -2, ml_dtypes.float8_e4m3fn)  # without infinities
    assert np.asarray(stax.MaxPool((2,), padding="SAME")[1]((), finite), np.float32).tolist() == [[[-2]] * 3]


def test_batch_norm_along_any_axes():
    x = inputs_of((4, 3, 5))
    for axis in (0, 1, -1, (0, -1), (1, 2), [0, 1]):
        init, apply = stax.BatchNorm(axis, beta_init=stax.ones)
        shape, params = init(KEY, (4, 3, 5))
        taken = axis if isinstance(axis, int) else tuple(axis)
        want = (x - x.mean(taken, keepdims=True)) / np.sqrt(x.var(taken, keepdims=True) + 1e-5) + 1
        np.testing.assert_allclose(apply(params, x), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match="known sizes"):
        stax.BatchNorm(-1)[0](KEY, (-1, 3, 5))
    with pytest.raises(ShapeError, match="axis must name each axis once"):
        stax.BatchNorm((0, -3))[0](KEY, (4, 3, 5))
    with pytest.raises(ShapeError, match="BatchNorm"):
        stax.BatchNorm()[0](KEY, (4, 3))


def test_dropout():
    x = np.ones((200, 50), np.float32)
    kept = np.asarray(stax.Dropout(0.8)[1]((), x, rng=KEY))
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1.25)} and abs(kept.mean() - 1) < 0.02
    assert stax.Dropout(0.8, "eval")[1]((), x, rng=KEY) is x
    assert not stax.Dropout(0.0)[1]((), x, rng=KEY).any() and stax.Dropout(1)[1]((), x, rng=KEY).all()
    assert not np.isnan(grad(lambda x: stax.Dropout(0.0)[1]((), x, rng=KEY).sum())(x)).any()
    thin = vmap(lambda rate: (stax.Dropout(rate)[1]((), x, rng=KEY) > 0).mean())(lnp.array([0.25, 0.75]))
    np.testing.assert_allclose(thin, [0.25, 0.75], atol=0.02)
    with pytest.raises(ValueError, match="Dropout: apply needs a key"):
        stax.Dropout(0.5, "test")[1]((), x)
    with pytest.raises(ValueError, match="from 0 to 1; got 1.5"):
        stax.Dropout(1.5)


def test_strict_settings():
    params = stax.Dense(3)[0](KEY, (-1, 4))[1]
    with lamina_tracing.numpy_rank_promotion("raise"), lamina_tracing.numpy_dtype_promotion("strict"):
        assert stax.Dense(3)[1](params, inputs_of((2, 5, 4))).shape == (2, 5, 3)
        for name in ("residual", "classifier", "concatenated"):
            (init, apply), shape = NETWORKS[name]
            apply(init(KEY, shape)[1], inputs_of(shape), rng=KEY)


def test_each_layer_has_a_key_of_its_own():
    seen = []

    def recorded():
        return (lambda rng, shape: (shape, ())), lambda params, x, **kwargs: seen.append(kwargs) or x
    init, apply = stax.serial(recorded(), stax.parallel(*[recorded()] * 2), recorded())
    apply([(), ((), ()), ()], [1, 2], rng=KEY, train=True)
    assert len({tuple(np.asarray(k["rng"]).tolist()) for k in seen}) == 4 and all(k["train"] for k in seen)
    seen.clear()
    apply([(), ((), ()), ()], [1, 2])
    assert [k["rng"] for k in seen] == [None] * 4


def test_shapes_of_fans():
    concat = stax.FanInConcat
    assert concat(1)[0](KEY, [(2, 4, 5), (2, 3, 5)]) == ((2, 7, 5), ())
    assert concat(0)[0](KEY, [(-1, 4), (-1, 4)]) == ((-1, 4), ())
    total = stax.FanInSum[0]
    assert total(KEY, [(-1, 4), (-1, 4)]) == total(KEY, ((-1, 1), (-1, 4))) == total(KEY, [(-1, 4), (4,)]) == ((-1, 4), ())
    assert total(KEY, [(0, 4), (-1, 4)])[0] == (0, 4)  # a pool's batch with that of another layer
    assert stax.FanInSum[1]((), (np.ones(2), np.ones(1))).tolist() == [2, 2]
    for wrong in (lambda: total(KEY, [(-1, 4), (-1, 5)]), lambda: concat()[0](KEY, [(2, 4, 5), (2, 3, 5)]),
                  lambda: concat()[0](KEY, [(2, 4), (2, 3, 4)]), lambda: concat(5)[0](KEY, [(2, 4)])):
        with pytest.raises(ShapeError, match="FanIn"):
            wrong()
    for wrong in (lambda: total(KEY, []), lambda: stax.FanInSum[1]((), []), lambda: concat()[0](KEY, [])):
        with pytest.raises(ValueError, match="at least one"):
            wrong()


def test_nothing_is_left_out_in_silence():
    init, apply = stax.serial(stax.Dense(3), stax.Relu)
    params = init(KEY, (-1, 4))[1]
    with pytest.raises(ValueError, match="serial: params has one entry for each of 2 layers; got 1"):
        apply(params[:1], np.ones((1, 4)))
    init, apply = stax.parallel(stax.Dense(3), stax.Identity)
    with pytest.raises(ValueError, match="parallel: input_shape"):
        init(KEY, [(-1, 4)])
    with pytest.raises(ValueError, match="parallel: inputs"):
        apply(init(KEY, [(-1, 4)] * 2)[1], [np.ones((1, 4))] * 3)
    assert stax.serial()[0](KEY, (2,)) == ((2,), []) and stax.serial()[1]([], 5) == 5
    assert stax.parallel()[0](KEY, []) == ((), ()) and stax.parallel()[1]((), []) == []


@pytest.mark.parametrize("call, error, words", [
    (lambda: stax.serial(stax.Dense), TypeError, "layer 0 is the function Dense, which makes one"),
    (lambda: stax.parallel(stax.Relu, 3), TypeError, "parallel: a layer is a pair of functions .* layer 1 is 3"),
    (lambda: stax.shape_dependent(lambda s: 3)[0](KEY, (2,)), TypeError, "shape_dependent"),
    (lambda: stax.shape_dependent(3), TypeError, "shape_dependent: make_layer"),
    (lambda: stax.elementwise(3), TypeError, "elementwise: fun"),
    (lambda: stax.Dense(2.5), TypeError, "Dense: out_dim must be an integer; got float: 2.5"),
    (lambda: stax.Dense(-1), ValueError, "Dense: out_dim must not be negative"),
    (lambda: stax.Dense(3)[0](KEY, ()), ShapeError, "Dense"),
    (lambda: stax.Flatten[0](KEY, ()), ShapeError, "Flatten"),
    (lambda: stax.Conv(8, 3), TypeError, "Conv: filter_shape must be a sequence"),
    (lambda: stax.ConvTranspose(8, (3, 3), padding=3), TypeError, "ConvTranspose: padding is 'VALID'"),
    (lambda: stax.Conv(8, (3, 3), padding=[(1, 1)]), ShapeError, "Conv: padding must have a pair for each of 2"),
    (lambda: stax.MaxPool((3, 3), padding=[(0.5, 1)] * 2), TypeError, "MaxPool: padding"),
    (lambda: stax.Conv(8, (3,)), ShapeError, "one for each of 1 lengths in filter_shape"),
    (lambda: stax.Conv(8, (3, 3), (2,)), ShapeError, "strides has a positive length for each of 2 axes"),
    (lambda: stax.Conv(8, (3, 3))[0](KEY, (-1, 10, 4)), ShapeError, r"NHWC; got the shape \(-1, 10, 4\)"),
    (lambda: stax.Conv(8, (3, 3), padding="NONE")[0](KEY, (-1, 9, 9, 4)), ValueError, "NONE"),
    (lambda: stax.GeneralConv("NHWC", 8, (3, 3)), TypeError, "three words"),
    (lambda: stax.GeneralConv(("NHWC", "HWIO", "NHWD"), 8, (3, 3)), ShapeError, "dimension_numbers"),
    (lambda: stax.MaxPool(2), TypeError, "MaxPool: window_shape"),
    (lambda: stax.MaxPool((2, 0)), ShapeError, "positive"),
    (lambda: stax.SumPool((2, 2), (1,)), ShapeError, "SumPool: strides"),
    (lambda: stax.AvgPool((2, 2), spec="NHC"), ShapeError, "AvgPool: spec"),
    (lambda: stax.AvgPool((2, 2), padding=[(0, 0)]), ShapeError, "a pair for each of 2"),
    (lambda: stax.MaxPool((2, 2))[1]((), np.ones((3, 3, 1))), ShapeError, "inputs have 4 axes"),
    (lambda: stax.FanOut("2"), TypeError, "FanOut: num must be an integer"),
])
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
