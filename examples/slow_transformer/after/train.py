"""The training of a small transformer, with the faults of ../before repaired.

Each document repeats eight words. The model learns to predict the next word.
"""
import numpy as np

import lamina as jax
import lamina.numpy as jnp
from lamina import nn

WORDS, FEATURES, HEADS, LAYERS, HIDDEN = 4096, 64, 4, 2, 256
BATCH, LONGEST, STEPS, LEARNING_RATE = 8, 256, 12, 0.3


def init(rng):
    def draw(*shape):
        return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

    layers = [{"project": draw(FEATURES, 3 * FEATURES), "mix": draw(FEATURES, FEATURES), "widen": draw(FEATURES, HIDDEN),
               "narrow": draw(HIDDEN, FEATURES)} for _ in range(LAYERS)]
    return {"word": 8 * draw(WORDS, FEATURES), "place": draw(LONGEST, FEATURES), "layers": layers}


def attention(layer, x):
    batch, positions, _ = x.shape
    q, k, v = jnp.split((x @ layer["project"]).reshape(batch, positions, HEADS, -1), 3, axis=-1)
    scores = jnp.einsum("bphs,bqhs->bhpq", q, k) / np.sqrt(q.shape[-1])
    weights = nn.softmax(jnp.where(np.tri(positions, dtype=bool), scores, -1e9))
    return jnp.einsum("bhpq,bqhs->bphs", weights, v).reshape(x.shape) @ layer["mix"]


def transformer(params, words):
    x = params["word"][words] + params["place"][:words.shape[1]]
    for layer in params["layers"]:
        x = x + attention(layer, nn.standardize(x))
        x = x + nn.gelu(nn.standardize(x) @ layer["widen"]) @ layer["narrow"]
    return nn.standardize(x)


def judge(table, x, following):
    """Return the log-likelihood of each following word, and whether it is one of the five most likely words."""
    scores = x @ table.T
    chances = nn.log_softmax(scores)
    likelihood = jnp.sum(nn.one_hot(following, WORDS) * chances, axis=-1)
    right = jnp.take_along_axis(scores, following[..., None], axis=-1)
    return likelihood, jnp.sum(scores > right, axis=-1) < 5


def loss(params, words):
    """Return the mean loss and the share of words among the best five; word 0 is padding."""
    x, following = transformer(params, words[:, :-1]), words[:, 1:]
    judge_document = jax.checkpoint(lambda document: judge(params["word"], *document))
    likelihood, hits = jax.lax.map(judge_document, (x, following))
    return -jnp.mean(likelihood, where=following > 0), jnp.mean(hits, where=following > 0)


@jax.jit(donate_argnames="params")
def step(params, words):
    (value, hits), grads = jax.value_and_grad(loss, has_aux=True)(params, words)
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads), value, hits


def batches(rng):
    """Yield batches of documents, each filled up to a multiple of 64 words."""
    for _ in range(STEPS):
        lengths = rng.integers(LONGEST // 2, LONGEST, BATCH)
        words = np.zeros((BATCH, -(-lengths.max() // 64) * 64), np.int32)
        for row, length in zip(words, lengths):
            row[:length] = np.resize(WORDS ** rng.random(8), length)  # words of small numbers are frequent
        yield words


def main():
    rng = np.random.default_rng(0)
    params = jax.device_put(init(rng))
    for number, words in enumerate(batches(rng)):
        params, value, hits = step(params, words)
        if number % 4 == 3:
            print(f"step {number + 1}: loss {value:.2f}, {hits:.0%} of the words among the best five")


if __name__ == "__main__":
    main()
