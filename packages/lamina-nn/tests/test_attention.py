"""Attention, compared with the formula in NumPy, with each of its arguments; shapes and dtypes that do not fit."""
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import DTypeError, ShapeError
from lamina_tracing import jit

import lamina_nn as nn

B, T, S, N, H = 2, 5, 4, 4, 3
RNG = np.random.default_rng(0)
Q, K, V = (RNG.normal(size=(B, n, N, H)).astype(np.float32) for n in (T, S, S))
BIAS, MASK = RNG.normal(size=(1, N, T, S)).astype(np.float32), RNG.random((B, 1, T, S)) > 0.4


def compute_with_numpy(q, k, v, bias=0, mask=True, scale=H ** -0.5, is_causal=False, query_seq_lengths=None,
                       key_value_seq_lengths=None, local_window_size=None):
    """In 64 bits, with a loop over each head and query."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    bias, mask = (np.broadcast_to(x, (B, N, T, S)) for x in (bias, mask))
    left, right = local_window_size if isinstance(local_window_size, tuple) else (local_window_size,) * 2
    out, sums = np.zeros((B, T, N, H)), np.zeros((B, T, N))
    for b, i, n in np.ndindex(B, T, N):
        g = n // (N // k.shape[2])
        scores = scale * k[b, :, g] @ q[b, i, n] + bias[b, n, i]
        j = np.arange(S)
        ok = mask[b, n, i] & (j <= i if is_causal else True)
        ok = ok & (j < (S if key_value_seq_lengths is None else key_value_seq_lengths[b]))
        ok = ok & ((i - j <= left) & (j - i <= right) if local_window_size is not None else True)
        weights = np.where(ok, np.exp(scores), 0) if ok.any() else np.ones(S)
        sums[b, i, n] = np.log(weights.sum())
        if query_seq_lengths is None or i < query_seq_lengths[b]:
            out[b, i, n] = weights @ v[b, :, g] / weights.sum()
    return out, sums


CASES = [{}, {"is_causal": True}, {"scale": 0.3}, {"bias": BIAS}, {"bias": BIAS[:, :1, :1]}, {"mask": MASK},
         {"mask": MASK[0, 0], "is_causal": True}, {"query_seq_lengths": [3, 5], "key_value_seq_lengths": np.array([0, 2])},
         {"local_window_size": 2}, {"local_window_size": (1, 0)}, {"local_window_size": (0, 2), "is_causal": True}]


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case) or "plain")
def test_values(case, groups):
    k, v = K[:, :, :groups], V[:, :, :groups]
    want, sums = compute_with_numpy(Q, k, v, **case)
    got, found = nn.dot_product_attention(Q, k, v, return_residual=True, **case)
    np.testing.assert_allclose(got, want, 2e-5, 2e-6)
    if np.abs(found).max() < 1e30:  # elsewhere there is a query without keys
        np.testing.assert_allclose(found, sums, 2e-5, 2e-6)
    small = nn.dot_product_attention(*(x.astype(np.float16) for x in (Q, k, v)), **case)
    assert small.dtype == np.float16
    np.testing.assert_allclose(np.asarray(small, np.float64), want, 1e-2, 1e-2)


def test_without_a_batch_and_mapped():
    want = np.asarray(nn.dot_product_attention(Q, K, V, is_causal=True))
    alone = lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(alone(Q[1], K[1], V[1]), want[1], 1e-6)
    np.testing.assert_allclose(jit(vmap(alone))(Q, K, V), want, 1e-5, 1e-6)


def test_what_may_not_be_attended_to_has_no_derivative():
    lengths = {"query_seq_lengths": [3, 5], "key_value_seq_lengths": [2, 4]}
    loss = lambda q, k, v: (nn.dot_product_attention(q, k, v, **lengths) ** 2).sum()
    q, k, v = (np.asarray(g) for g in grad(loss, (0, 1, 2))(Q, K, V))
    assert not q[0, 3:].any() and q[0, :3].all() and not k[0, 2:].any() and not v[0, 2:].any() and v[1].all()
    assert all(np.isfinite(g).all() for g in (q, k, v))


@pytest.mark.parametrize("error, words, change", [
    (DTypeError, "one dtype", {"value": V.astype(np.float16)}), (ShapeError, "expected query", {"key": K[..., :2]}),
    (ShapeError, "heads of query", {"query": Q[:, :, :3]}), (DTypeError, "mask must be boolean", {"mask": BIAS}),
    (ShapeError, "mask must broadcast", {"mask": MASK[:, :, :3]}), (ShapeError, "bias must broadcast", {"bias": BIAS[:, :3]}),
    (DTypeError, "query_seq_lengths must be integers", {"query_seq_lengths": [2.0, 3.0]}),
    (ShapeError, "one length for each", {"key_value_seq_lengths": [1]}),
    (TypeError, "a pair of ints", {"local_window_size": (1, 2, 3)}), (ValueError, "'cudnn'", {"implementation": "cudnn"})])
def test_what_does_not_go_together(error, words, change):
    with pytest.raises(error, match=f"^dot_product_attention: .*{words}"):
        nn.dot_product_attention(**{"query": Q, "key": K, "value": V, **change})
