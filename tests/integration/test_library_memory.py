"""Memory of library functions in XLA's report, in multiples of the operand's size; and NaNs."""
import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.scipy.special import logsumexp

X = np.random.default_rng(0).standard_normal((200, 500), dtype=np.float32)
LARGE = np.tile(X, (2, 1))  # `top_k` copies a single row of less than 512 KiB


def relative_memory(f, *args):
    """Return the size of temporaries and results, in multiples of the first operand."""
    report = jax.jit(f).lower(*args).compile().memory_analysis()
    return (report.temp_size_in_bytes + report.output_size_in_bytes) / args[0].nbytes


@pytest.mark.parametrize(("f", "most"), [
    (jnp.sort, 1), (lambda x: jnp.sort(x, 0), 1), (lambda x: jnp.sort(x, None), 1),
    (jnp.median, 1), (lambda x: jnp.quantile(x, 0.3, axis=1), 1), (lambda x: lax.top_k(x, 8)[0], 0.1),
    (lambda x: lax.top_k(x.reshape(-1), 8), 0.2), (lambda x: jax.nn.softmax(x * 2), 2), (lambda x: logsumexp(x, axis=0), 0),
    (jax.nn.log_softmax, 1), (lambda x: jnp.exp(x - x.max(1, keepdims=True)).sum(1), 0)])
def test_no_copy_of_the_operand(f, most):
    assert relative_memory(f, LARGE) < most + 0.05


@pytest.mark.parametrize(("draw", "most"), [(lambda key: jax.random.gamma(key, 2.5, (20_000,)), 19.25),
                                            (lambda key: jax.random.beta(key, 2.5, 1.5, (20_000,)), 37)])
def test_random_draws_need_one_state_and_the_next_keys(draw, most):
    assert relative_memory(lambda x: draw(jax.random.PRNGKey(0)), np.zeros(20_000, np.float32)) < most + 0.05


def test_attention_stores_scores_once():
    q = X[:, :64].copy()
    assert relative_memory(lambda q: jax.nn.softmax(q @ q.T / 8) @ q, q) < (200 * 200 + 2 * 200 * 64) / (200 * 64) + 0.05
