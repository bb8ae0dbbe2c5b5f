"""The transformer of chapter 11, as a module for chapter 12.

It learns sequences that repeat a pattern of four letters: the next letter is the one three positions before.
"""
from __future__ import annotations

import lamina
import lamina.numpy as jnp
from lamina import nn, random
from lamina.sharding import PartitionSpec as P

LETTERS, POSITIONS, FEATURES, HEADS, SIZE, HIDDEN = 8, 24, 32, 4, 8, 64
SHAPES = {"letter": (LETTERS, FEATURES), "place": (POSITIONS, FEATURES),
          "query": (FEATURES, HEADS, SIZE), "key": (FEATURES, HEADS, SIZE),
          "value": (FEATURES, HEADS, SIZE), "join": (HEADS, SIZE, FEATURES),
          "widen": (FEATURES, HIDDEN), "narrow": (HIDDEN, FEATURES)}
SPECS = {"letter": P(), "place": P(),
         "query": P(None, "model"), "key": P(None, "model"),
         "value": P(None, "model"), "join": P("model"),
         "widen": P(None, "model"), "narrow": P("model")}


def init(key):
    keys = random.split(key, len(SHAPES))
    shapes = zip(keys, SHAPES.items())
    return {name: 0.2 * random.normal(k, shape) for k, (name, shape) in shapes}


def sequences(key, batch=32):
    pattern = random.randint(key, (batch, 4), 0, LETTERS)
    letters = jnp.tile(pattern, POSITIONS // 4 + 1)
    return letters[:, :POSITIONS], letters[:, 1:POSITIONS + 1]


def attention_weights(params, x):
    queries = jnp.einsum("pf,fhs->hps", x, params["query"])
    keys = jnp.einsum("pf,fhs->hps", x, params["key"])
    scores = jnp.einsum("hps,hqs->hpq", queries, keys) / SIZE ** 0.5
    is_earlier = jnp.tril(jnp.ones((POSITIONS, POSITIONS), bool))
    return nn.softmax(jnp.where(is_earlier, scores, -jnp.inf))


def attention(params, x):
    values = jnp.einsum("pf,fhs->hps", x, params["value"])
    mixed = jnp.einsum("hpq,hqs->hps", attention_weights(params, x), values)
    return jnp.einsum("hps,hsf->pf", mixed, params["join"])


def transformer(params, letters):
    x = params["letter"][letters] + params["place"]
    x = x + attention(params, nn.standardize(x))
    x = x + nn.gelu(nn.standardize(x) @ params["widen"]) @ params["narrow"]
    return x @ params["letter"].T


def loss(params, letters, following):
    scores = lamina.vmap(transformer, in_axes=(None, 0))(params, letters)
    right = nn.one_hot(following, LETTERS)
    return -jnp.mean(jnp.sum(right * nn.log_softmax(scores), axis=-1))


def step(params, letters, following):
    value, grads = lamina.value_and_grad(loss)(params, letters, following)
    return lamina.tree.map(lambda p, g: p - 0.5 * g, params, grads), value
