"""Long short-term memory: layers of cells that read sequences, in one direction or both, in cuDNN's layout of weights.

A cell has an input gate i, a forget gate f, an output gate o and a candidate g, in the order i, f, g, o. The four are
affine in an input x and a hidden state h. The next cell state is `c' = sigmoid(f) c + sigmoid(i) tanh(g)`, the next
hidden state `h' = sigmoid(o) tanh(c')`. Dicts of weights have a key for each pseudo-layer: `layer * directions +
direction`, the direction being 1 for the reverse one.
"""
from __future__ import annotations

import functools
import math
from typing import Any

import lamina_numpy as lnp
import lamina_random as random
from lamina_ir import ShapeError, dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_numpy.extend import to_inexact
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from . import sigmoid
from ._stax_conv_pool import check_size

__all__ = ["get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref", "unpack_lstm_weights"]

_LSTM = docstring_entries("""
    input_size: features of the inputs.
    hidden_size: features of the state of a layer, for each direction.
    num_layers: number of layers.
    bidirectional: whether each layer reads in both directions.
    x: float array `[batch, time, input_size]`.
    h_0, c_0: initial hidden states and cells `[pseudo-layers, batch, hidden_size]`.
    seq_lengths: integers `[batch]`: length of each sequence; elements after its end are not read. A length of 0 keeps
      the initial state.
    dropout: must be 0.
    states: Hidden states of the last layer `[batch, time, hidden_size]`, with both directions side by side
      `[..., 2 hidden_size]`, 0 after the end of a sequence; and hidden states and cells after the end, like `h_0` and
      `c_0`, dtypes included.
    """)


# --- weights -------------------------------------------------------------------------------------------------------
def _weight_shapes(call: str, input_size: int, hidden_size: int, num_layers: int,
                   bidirectional: bool) -> list[tuple[int, ...]]:
    """Shapes of `W_ih, W_hh, b_ih, b_hh` for each pseudo-layer."""
    x, h, n = (check_size(call, name, v) for name, v in (("input_size", input_size), ("hidden_size", hidden_size),
                                                        ("num_layers", num_layers)))
    ways = 2 if bidirectional else 1
    return [shape for k in range(n * ways) for shape in ((4 * h, x if k < ways else ways * h), (4 * h, h), (4 * h,), (4 * h,))]


@fill_docstring(_LSTM)
def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    """Return the number of weights of a network.

    Args: {input_size, hidden_size, num_layers, bidirectional}
    Returns:
      The length of the vector that `init_lstm_weight` gives.
    Raises:
      TypeError: a size is no integer.
      ValueError: a size is negative.

    Source: cuDNN's layout: a pseudo-layer has matrices `[4 hidden, in]`, `[4 hidden, hidden]` and two vectors `[4 hidden]`.

    >>> get_num_params_in_lstm(3, 4, num_layers=1, bidirectional=False)
    144
    """
    return sum(map(math.prod,
                   _weight_shapes("get_num_params_in_lstm", input_size, hidden_size, num_layers, bidirectional)))


@fill_docstring(_LSTM)
def init_lstm_weight(rng: ArrayLike, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Array:
    """Initial weights, uniform within one over the root of the hidden size.

    Args:
      rng: a key.
      {input_size, hidden_size, num_layers, bidirectional}
    Returns:
      Array of all weights `[n]`, in the default float dtype, as `unpack_lstm_weights` reads it.
    Raises:
      TypeError: a size is no integer.
      ValueError: a size is negative, or `hidden_size` is 0.

    Source: the initial weights of PyTorch's `LSTM`.

    >>> from lamina_random import PRNGKey
    >>> init_lstm_weight(PRNGKey(0), 3, 4, num_layers=2, bidirectional=True).shape
    (736,)
    """
    n = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    if not hidden_size:
        raise ValueError("init_lstm_weight: hidden_size must be positive; got 0")
    most = math.sqrt(1 / hidden_size)
    return random.uniform(rng, (n,), minval=-most, maxval=most)


@fill_docstring(_LSTM)
def unpack_lstm_weights(weights: ArrayLike, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool,
                        ) -> tuple[dict[int, Array], dict[int, Array], dict[int, Array], dict[int, Array]]:
    """The matrices and vectors in a vector of weights.

    Args:
      weights: `[n]`; both matrices of every pseudo-layer, then both vectors of each.
      {input_size, hidden_size, num_layers, bidirectional}
    Returns:
      Dicts `W_ih, W_hh, b_ih, b_hh` with a key for each pseudo-layer: matrices `[4 hidden, in]` for the inputs, `[4 hidden,
      hidden]` for the state, and the vectors `[4 hidden]` that belong to them.
    Raises:
      ShapeError: `weights` has another length.

    Source: cuDNN's layout.

    >>> W_ih, W_hh, b_ih, b_hh = unpack_lstm_weights(np.arange(144.), 3, 4, num_layers=1, bidirectional=False)
    >>> W_ih[0].shape, W_hh[0].shape, float(b_hh[0][0])
    ((16, 3), (16, 4), 128.0)
    """
    shapes = _weight_shapes("unpack_lstm_weights", input_size, hidden_size, num_layers, bidirectional)
    want, t = sum(map(math.prod, shapes)), typeof(weights)
    if t.shape != (want,):
        raise ShapeError(f"unpack_lstm_weights: expected weights of shape ({want},), as init_lstm_weight gives; "
                         f"got {t.str_long()}")
    found: tuple[dict[int, Array], ...] = ({}, {}, {}, {})
    at = 0
    for kinds in ((0, 1), (2, 3)):
        for k in range(len(shapes) // 4):
            for kind in kinds:
                shape = shapes[4 * k + kind]
                end = at + math.prod(shape)
                found[kind][k] = lnp.reshape(lax.slice(lnp.asarray(weights), (at,), (end,)), shape)
                at = end
    return found  # type: ignore[return-value]


# --- the network ---------------------------------------------------------------------------------------------------
def _run_direction(x: Any, h: Any, c: Any, weights: Any, valid: Any, precision: Any, reverse: bool) -> Any:
    """One layer in one direction: outputs `[time, batch, hidden]`, 0 where a sequence has ended, and the last state. The state
    stays where a sequence has ended: forwards it is then that of its end, in reverse it has not begun."""
    w_in, w_state, b_in, b_state = weights
    dot = functools.partial(lnp.matmul, precision=precision)
    all_inputs = dot(x, lnp.swapaxes(w_in, 0, 1)) + lnp.expand_dims(b_in + b_state, (0, 1))  # for all times at once

    def step(carry: Any, now: Any) -> Any:
        h, c = carry
        inputs, running = now
        i, f, g, o = lnp.split(inputs + dot(h, lnp.swapaxes(w_state, 0, 1)), 4, axis=-1)
        new_c = lnp.astype(sigmoid(f) * c + sigmoid(i) * lnp.tanh(g), typeof(c).dtype)
        new_h = lnp.astype(sigmoid(o) * lnp.tanh(new_c), typeof(h).dtype)
        return (lnp.where(running, new_h, h), lnp.where(running, new_c, c)), lnp.where(running, new_h, 0)
    (h, c), y = lax.scan(step, (h, c), (all_inputs, valid), reverse=reverse)
    return y, h, c


def _run_lstm(call: str, x: Any, h_0: Any, c_0: Any, weights: Any, seq_lengths: Any, input_size: int, hidden_size: int,
              num_layers: int, dropout: Any, bidirectional: bool, precision: Any = None) -> Any:
    ways = 2 if bidirectional else 1
    if dropout != 0:
        raise NotImplementedError(f"{call}: dropout must be 0, since there is no key to draw with; got {dropout}. Give each "
                                  "layer a call of its own and draw with lamina.random.bernoulli between them")
    t = typeof(x)
    if len(t.shape) != 3 or t.shape[2] != input_size:
        raise ShapeError(f"{call}: expected x of shape [batch, time, {input_size}]; got {t.str_long()}")
    batch, time = t.shape[:2]
    state: tuple[int, ...] = (num_layers * ways, batch, hidden_size)
    for name, value, want in (("h_0", h_0, state), ("c_0", c_0, state), ("seq_lengths", seq_lengths, (batch,))):
        if tuple(typeof(value).shape) != want:
            raise ShapeError(f"{call}: expected {name} of shape {want}; got {typeof(value).str_long()}")
    shapes = _weight_shapes(call, input_size, hidden_size, num_layers, bidirectional)
    for name, part, first in zip(("W_ih", "W_hh", "b_ih", "b_hh"), weights, range(4), strict=True):
        for k, shape in enumerate(shapes[first::4]):
            got = tuple(typeof(part[k]).shape) if k in part else None
            if got != shape:
                raise ShapeError(f"{call}: expected {name}[{k}] of shape {shape}; got {'none' if got is None else got}")
    if not dtypes.is_integer(typeof(seq_lengths).dtype):
        raise TypeError(f"{call}: expected seq_lengths of integers; got {typeof(seq_lengths).str_long()}")
    x, h_0, c_0 = (lnp.asarray(to_inexact(call, v)) for v in (x, h_0, c_0))
    valid = lnp.expand_dims(lnp.arange(time), (1, 2)) < lnp.expand_dims(seq_lengths, (0, 2))
    y = lnp.where(valid, lnp.swapaxes(x, 0, 1), 0)  # what is not read has no derivative either, were it NaN
    last_h, last_c = [], []
    for layer in range(num_layers):
        parts = []
        for k in range(layer * ways, (layer + 1) * ways):
            part, h, c = _run_direction(y, h_0[k], c_0[k], [w[k] for w in weights], valid, precision, k % ways == 1)
            parts.append(part)
            last_h.append(h)
            last_c.append(c)
        y = lnp.concatenate(parts, -1)
    return lnp.swapaxes(y, 0, 1), lnp.stack(last_h) if last_h else h_0, lnp.stack(last_c) if last_c else c_0


@fill_docstring(_LSTM)
def lstm(x: ArrayLike, h_0: ArrayLike, c_0: ArrayLike, weights: ArrayLike, seq_lengths: ArrayLike, input_size: int,
         hidden_size: int, num_layers: int, dropout: float, bidirectional: bool, precision: Any = None,
         ) -> tuple[Array, Array, Array]:
    """Long short-term memory, of a vector of weights, on every platform.

    Args:
      {x, h_0, c_0}
      weights: vector, as returned by `init_lstm_weight`.
      {seq_lengths, input_size, hidden_size, num_layers, bidirectional, dropout}
      precision: precision of the matrix products; None for the default.
    Returns: {states}
    Raises:
      ShapeError: an array has another shape.
      NotImplementedError: `dropout` is not 0.
      TypeError: a size is no integer, or a length of a sequence is none.

    Derivative: that of the formulas, of any order, in both modes.
    Source: Hochreiter and Schmidhuber, "Long short-term memory" (1997), with Gers's forget gate; layout of cuDNN.

    >>> from lamina_random import PRNGKey
    >>> weights = init_lstm_weight(PRNGKey(0), 3, 4, 1, False)
    >>> start = np.zeros((1, 2, 4), np.float32)
    >>> y, h, c = lstm(np.ones((2, 5, 3), np.float32), start, start, weights, np.array([5, 2]), 3, 4, 1, 0., False)
    >>> y.shape, h.shape, bool((y[1, 1] == h[0, 1]).all()), float(abs(y[1, 2:]).max())
    ((2, 5, 4), (1, 2, 4), True, 0.0)
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return _run_lstm("lstm", x, h_0, c_0, parts, seq_lengths, input_size, hidden_size, num_layers, dropout,
                     bidirectional, precision)


@fill_docstring(_LSTM)
def lstm_ref(x: ArrayLike, h_0: ArrayLike, c_0: ArrayLike, W_ih: dict[int, Any], W_hh: dict[int, Any], b_ih: dict[int, Any],
             b_hh: dict[int, Any], seq_lengths: ArrayLike, input_size: int, hidden_size: int, num_layers: int, dropout: float,
             bidirectional: bool) -> tuple[Array, Array, Array]:
    """Long short-term memory, of matrices and vectors.

    Args:
      {x, h_0, c_0}
      W_ih, W_hh, b_ih, b_hh: dicts, as returned by `unpack_lstm_weights`.
      {seq_lengths, input_size, hidden_size, num_layers, bidirectional, dropout}
    Returns: {states}
    Raises:
      ShapeError: an array has another shape, or is not there.
      NotImplementedError: `dropout` is not 0.
      TypeError: a size is no integer.

    Source: Hochreiter and Schmidhuber, "Long short-term memory" (1997), with Gers's forget gate.

    >>> from lamina_random import PRNGKey
    >>> weights = unpack_lstm_weights(init_lstm_weight(PRNGKey(0), 3, 4, 1, True), 3, 4, 1, True)
    >>> start = np.zeros((2, 1, 4), np.float32)
    >>> lstm_ref(np.ones((1, 5, 3), np.float32), start, start, *weights, np.array([5]), 3, 4, 1, 0., True)[0].shape
    (1, 5, 8)
    """
    return _run_lstm("lstm_ref", x, h_0, c_0, (W_ih, W_hh, b_ih, b_hh), seq_lengths, input_size, hidden_size,
                     num_layers, dropout, bidirectional)
