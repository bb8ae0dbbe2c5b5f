"""Solutions of chapter 11. They use the functions of the chapter, in transformer.py."""
import numpy as np

import lamina

lamina.config.update("num_cpu_devices", 8)
import lamina.numpy as jnp  # noqa: E402
from lamina import nn, random  # noqa: E402
from lamina.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402
from transformer import (  # noqa: E402
    LETTERS, POSITIONS, SPECS, attention, init, sequences, step, transformer)


def train(mesh, specs, steps):
    places = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    compiled_step = lamina.jit(step, out_shardings=(places, None))
    params, losses = lamina.device_put(init(random.key(0)), places), []
    for number in range(steps):
        batch = lamina.device_put(sequences(random.fold_in(random.key(1), number)), NamedSharding(mesh, P("data")))
        params, value = compiled_step(params, *batch)
        losses.append(float(value))
    return params, losses


# 1. All parameters have the empty spec: each device has a copy. The losses are the same up to rounding.
devices = np.array(lamina.devices()[:8])
params, losses = train(Mesh(devices, ("data",)), {name: P() for name in SPECS}, 60)
_, others = train(Mesh(devices.reshape(4, 2), ("data", "model")), SPECS, 10)
assert np.allclose(losses[:10], others, atol=1e-3)

# 2. The model reads 24 letters at once. Later positions do not influence earlier ones, so the rest may hold anything.
params = lamina.device_get(params)
best = lamina.jit(lambda params, letters: jnp.argmax(transformer(params, letters), axis=-1))
letters = np.zeros(POSITIONS, np.int32)
letters[:4] = [3, 1, 4, 1]
for position in range(4, POSITIONS):
    letters[position] = best(params, letters)[position - 1]
assert np.mean(letters == np.tile([3, 1, 4, 1], 6)) > 0.7, letters


# 3. The tables are shared, and each block has its own weights.
def block(params, x):
    x = x + attention(params, nn.standardize(x))
    return x + nn.gelu(nn.standardize(x) @ params["widen"]) @ params["narrow"]


def two_blocks(params, letters):
    x = params["letter"][letters] + params["place"]
    for weights in params["blocks"]:
        x = block(weights, x)
    return x @ params["letter"].T


def loss(params, letters, following):
    scores = lamina.vmap(two_blocks, in_axes=(None, 0))(params, letters)
    return -jnp.mean(jnp.sum(nn.one_hot(following, LETTERS) * nn.log_softmax(scores), axis=-1))


@lamina.jit
def deep_step(params, letters, following):
    value, grads = lamina.value_and_grad(loss)(params, letters, following)
    return lamina.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


first, second = init(random.key(0)), init(random.key(1))
inner = ("query", "key", "value", "join", "widen", "narrow")
deep = {"letter": first["letter"], "place": first["place"],
        "blocks": [{name: part[name] for name in inner} for part in (first, second)]}
values = []
for number in range(30):
    deep, value = deep_step(deep, *sequences(random.fold_in(random.key(1), number)))
    values.append(float(value))
assert values[-1] < 0.7 * values[0], values
