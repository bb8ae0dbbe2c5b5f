"""LSTM: the numbers of JAX 0.4.30's reference, frozen; ends of sequences, directions, derivatives and refusals."""
import json
from pathlib import Path

import lamina_random as random
import lamina_tracing
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_autodiff.testing import check_grads
from lamina_batching import vmap
from lamina_ir import ShapeError
from lamina_tracing import jit

from lamina_nn import rnn

NUMBERS = json.loads(Path(__file__).with_name("rnn_numbers.json").read_text())
CASES = [((3, 4, 1, False), (5, 3)), ((3, 4, 1, True), (5, 3)), ((3, 4, 2, True), (4, 2)), ((5, 2, 3, False), (1, 5))]


def digest(x):
    """One number that the order of the others counts for."""
    x = np.asarray(x, np.float64).ravel()
    return float((x * np.cos(np.arange(x.size))).sum())


def make_inputs(sizes, random):
    """x, h_0, c_0 for two sequences of length 5."""
    x = random.normal(random.PRNGKey(1), (2, 5, sizes[0]))
    h = random.normal(random.PRNGKey(5), (sizes[2] * (2 if sizes[3] else 1), 2, sizes[1]))
    return x, h, h * 0.5


def run(weights, x, h, c, lengths, sizes):
    return rnn.lstm(x, h, c, weights, np.array(lengths), *sizes[:3], 0.0, sizes[3])


@pytest.mark.parametrize("sizes, lengths", CASES)
def test_frozen_numbers(sizes, lengths):
    weights = rnn.init_lstm_weight(random.PRNGKey(3), *sizes)
    start = make_inputs(sizes, random)
    want = NUMBERS[str((sizes, lengths))]
    got = run(weights, *start, lengths, sizes)
    by_parts = rnn.lstm_ref(*start, *rnn.unpack_lstm_weights(weights, *sizes), np.array(lengths), *sizes[:3], 0.0, sizes[3])
    for found in (got, by_parts):
        np.testing.assert_allclose([digest(x) for x in found], want["result"], rtol=2e-5, atol=1e-5)
    derivatives = grad(lambda *args: sum((x ** 2).sum() for x in run(*args, lengths, sizes)), (0, 1, 2, 3))(weights, *start)
    np.testing.assert_allclose([digest(x) for x in derivatives], want["slopes"], rtol=1e-4, atol=1e-4)
    assert len(weights) == want["weights"] and abs(digest(weights) - want["weight digest"]) < 1e-4


def test_layout_of_weights():
    assert rnn.get_num_params_in_lstm(3, 4, 3, True) == 1184
    w_in, w_state, b_in, b_state = rnn.unpack_lstm_weights(np.arange(736.), 3, 4, 2, True)
    assert [(w_in[k].shape, float(w_in[k][0, 0])) for k in range(4)] == [
        ((16, 3), 0), ((16, 3), 112), ((16, 8), 224), ((16, 8), 416)]
    assert [float(w_state[k][0, 0]) for k in range(4)] == [48, 160, 352, 544]
    assert [float(b_in[k][0]) for k in range(4)] == [608, 640, 672, 704] and float(b_state[3][-1]) == 735


def test_elements_after_the_end_of_a_sequence_are_not_read():
    sizes, lengths = (3, 4, 2, True), (5, 2)
    weights = rnn.init_lstm_weight(random.PRNGKey(3), *sizes)
    x, h, c = (np.asarray(v) for v in make_inputs(sizes, random))
    bad = x.copy()
    bad[1, 2:] = np.nan
    y, last_h, last_c = run(weights, bad, h, c, lengths, sizes)
    alone = run(weights, x[1:, :2], h[:, 1:], c[:, 1:], (2,), sizes)
    np.testing.assert_allclose(y[1:, :2], alone[0], atol=1e-6)
    np.testing.assert_allclose(last_h[:, 1:], alone[1], atol=1e-6)
    np.testing.assert_allclose(last_c[:, 1:], alone[2], atol=1e-6)
    assert not np.asarray(y[1, 2:]).any()
    assert not np.isnan(grad(lambda w: run(w, bad, h, c, lengths, sizes)[0].sum())(weights)).any()


def test_a_sequence_of_no_length_leaves_the_state():
    sizes = (3, 4, 1, True)
    weights = rnn.init_lstm_weight(random.PRNGKey(3), *sizes)
    x, h, c = make_inputs(sizes, random)
    y, last_h, last_c = run(weights, x, h, c, (0, 9), sizes)
    assert not np.asarray(y[0]).any() and (last_h[:, 0] == h[:, 0]).all() and (last_c[:, 0] == c[:, 0]).all()
    np.testing.assert_allclose(y[1], run(weights, x, h, c, (0, 5), sizes)[0][1], atol=1e-6)


def test_derivatives_maps_and_programs():
    sizes, lengths = (2, 3, 1, True), (3, 2)
    weights = rnn.init_lstm_weight(random.PRNGKey(3), *sizes)
    x, h, c = make_inputs(sizes, random)
    x = x[:, :3]
    check_grads(lambda *args: run(*args, lengths, sizes), (weights, x, h, c), order=2, atol=5e-2, rtol=5e-2)
    apart = vmap(lambda x: run(weights, x, h, c, lengths, sizes)[0])(np.stack([x, 2 * x]))
    np.testing.assert_allclose(apart[1], run(weights, 2 * x, h, c, lengths, sizes)[0], atol=1e-6)
    compiled = jit(rnn.lstm, static_argnums=(5, 6, 7, 8, 9))
    np.testing.assert_allclose(compiled(x, h, c, weights, np.array(lengths), *sizes[:3], 0.0, True)[0],
                               run(weights, x, h, c, lengths, sizes)[0], atol=1e-6)


def test_dtypes_and_strict_settings():
    weights = np.asarray(rnn.init_lstm_weight(random.PRNGKey(3), 3, 4, 1, True))
    zero = np.zeros((2, 2, 4), np.float32)
    with lamina_tracing.numpy_rank_promotion("raise"), lamina_tracing.numpy_dtype_promotion("strict"):
        y, h, c = run(weights, np.ones((2, 5, 3), np.float32), zero, zero, (5, 2), (3, 4, 1, True))
    of_ints = run(weights, np.ones((2, 5, 3), np.int32), zero.astype(np.int32), zero, (5, 2), (3, 4, 1, True))
    for found, want in zip(of_ints, (y, h, c)):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, want, atol=1e-6)
    half = run(*[v.astype(np.float16) for v in (weights, np.ones((2, 5, 3)), zero, zero)], (5, 2), (3, 4, 1, True))
    assert {v.dtype for v in half} == {np.dtype(np.float16)}
    np.testing.assert_allclose(half[0], y, atol=3e-3)


def test_one_cell_by_hand():
    w = np.array([.1, -.2, .3, .4, .5, -.6, .7, .8, .01, .02, .03, .04, 0, 0, 0, .1], np.float32)
    x, h, c = 2.0, 0.5, -1.0
    i, f, g, o = (w[k] * x + w[4 + k] * h + w[8 + k] + w[12 + k] for k in range(4))
    cell = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    y, _, last = rnn.lstm(*[np.full((1, 1, 1), v, np.float32) for v in (x, h, c)], w, np.array([1]), 1, 1, 1, 0.0, False)
    np.testing.assert_allclose([last.item(), y.item()], [cell, np.tanh(cell) / (1 + np.exp(-o))], rtol=1e-6)


@pytest.mark.parametrize("change, error, words", [
    ({"dropout": 0.5}, NotImplementedError, "lstm: dropout must be 0"),
    ({"x": np.ones((2, 5, 4))}, ShapeError, r"expected x of shape \[batch, time, 3\]; got float32\[2,5,4\]|float64"),
    ({"h_0": np.ones((2, 2, 4))}, ShapeError, r"expected h_0 of shape \(1, 2, 4\)"),
    ({"c_0": np.ones((1, 2))}, ShapeError, r"expected c_0 of shape \(1, 2, 4\)"),
    ({"seq_lengths": np.array([5])}, ShapeError, r"expected seq_lengths of shape \(2,\)"),
    ({"weights": np.ones(143)}, ShapeError, r"expected weights of shape \(144,\)"),
    ({"seq_lengths": np.array([4.5, 5])}, TypeError, "seq_lengths of integers"),
    ({"hidden_size": 4.5}, TypeError, "hidden_size must be an integer"),
])
def test_refusals(change, error, words):
    args = {"x": np.ones((2, 5, 3)), "h_0": np.ones((1, 2, 4)), "c_0": np.ones((1, 2, 4)), "weights": np.ones(144),
            "seq_lengths": np.array([5, 5]), "input_size": 3, "hidden_size": 4, "num_layers": 1, "dropout": 0.0,
            "bidirectional": False}
    with pytest.raises(error, match=words):
        rnn.lstm(**(args | change))


def test_parts_that_are_not_there():
    parts = list(rnn.unpack_lstm_weights(np.ones(144, np.float32), 3, 4, 1, False))
    parts[2] = {}
    zero = np.zeros((1, 2, 4), np.float32)
    with pytest.raises(ShapeError, match=r"lstm_ref: expected b_ih\[0\] of shape \(16,\); got none"):
        rnn.lstm_ref(np.ones((2, 5, 3)), zero, zero, *parts, np.array([5, 5]), 3, 4, 1, 0.0, False)
    with pytest.raises(ValueError, match="hidden_size must be positive"):
        rnn.init_lstm_weight(random.PRNGKey(0), 3, 0, 1, False)
