"""A transformer block with named axes: attention is a softmax along `sources`, and one argument places the axes.

Every sequence repeats its own pattern, so the block must read the letter one period before to predict the next one.
Eight
devices: XLA_FLAGS=--xla_force_host_platform_device_count=8.
"""
import numpy as np

import lamina
import lamina.numpy as jnp
from lamina import lax, nn, random
from lamina.experimental.maps import Mesh, SerialLoop, xmap

SIZES = {"letters": 8, "positions": 24, "features": 32, "heads": 4, "size": 8, "hidden": 64}
AXES = {"letter": ["letters", "features"], "place": ["positions", "features"], "place of source": ["sources", "features"],
        "query": ["features", "heads", "size"], "key": ["features", "heads", "size"], "value": ["features", "heads", "size"],
        "join": ["heads", "size", "features"], "widen": ["features", "hidden"], "narrow": ["hidden", "features"]}
WAYS = {
    "pure vmap": {},
    "data": {"batch": ("x", "y")},
    "model": {"heads": "x", "hidden": ("x", "y")},
    "data and model": {"batch": "x", "heads": "y", "hidden": "y"},
    "positions": {"positions": ("x", "y")},
    "serial": {"batch": SerialLoop(4)},
}


def block(p, here, there):
    """Compute the features of one position, `here` of `positions`, `there` of `sources`: attention, then an MLP."""
    x, s = nn.standardize(here, "features"), nn.standardize(there, "features")
    query = jnp.einsum("{features},{features}->{}", x, p["query"])
    key = jnp.einsum("{features},{features}->{}", s, p["key"])
    value = jnp.einsum("{features},{features}->{}", s, p["value"])
    score = jnp.einsum("{size},{size}->{}", query, key) / np.sqrt(SIZES["size"]).astype(np.float32)
    earlier = lax.axis_index("sources") <= lax.axis_index("positions")
    weight = nn.softmax(score, axis="sources", where=earlier)
    mixed = jnp.einsum("{sources},{sources}->{}", weight, value)
    here = here + jnp.einsum("{heads,size},{heads,size}->{}", mixed, p["join"])
    hidden = nn.gelu(jnp.einsum("{features},{features}->{}", nn.standardize(here, "features"), p["widen"]))
    return here + jnp.einsum("{hidden},{hidden}->{}", hidden, p["narrow"])


def loss(p, letter, source, following):
    """Compute the loss of one letter in one sequence; `source` is the same letters along the axis `sources`."""
    def embed(letter, place):
        return jnp.einsum("{letters},{letters}->{}", nn.one_hot(letter, SIZES["letters"], axis="letters"), p["letter"]) + place
    out = block(p, embed(letter, p["place"]), embed(source, p["place of source"]))
    logits = jnp.einsum("{features},{features}->{}", out, p["letter"])
    right = nn.one_hot(following, SIZES["letters"], axis="letters")
    return -jnp.mean(jnp.sum(right * nn.log_softmax(logits, "letters"), "letters"), ("batch", "positions"))


def init(key):
    sizes = SIZES | {"sources": SIZES["positions"]}
    keys = random.split(key, len(AXES))
    return {name: random.normal(k, [sizes[a] for a in axes]) * 0.2 for k, (name, axes) in zip(keys, AXES.items())}


def sequences(rng, batch=32, period=4):
    letters = np.tile(rng.integers(0, SIZES["letters"], (batch, period)), SIZES["positions"] // period + 1)
    return letters[:, :SIZES["positions"]], letters[:, 1:SIZES["positions"] + 1]


def train(resources, steps=41):
    """Return the losses of all steps, and the parameters."""
    named = xmap(loss, in_axes=(AXES, ["batch", "positions"], ["batch", "sources"], ["batch", "positions"]), out_axes={},
                 axis_resources=resources)
    step = lamina.jit(lamina.value_and_grad(named))
    rng, params, losses = np.random.default_rng(0), init(random.PRNGKey(0)), []
    with Mesh(np.array(lamina.devices()[:8]).reshape(4, 2), ("x", "y")):
        for _ in range(steps):
            letters, following = sequences(rng)
            value, grads = step(params, letters, letters, following)
            params = lamina.tree.map(lambda a, g: a - 0.5 * g, params, grads)
            losses.append(float(value))
    return losses, params


if __name__ == "__main__":
    for name, resources in WAYS.items():
        losses, params = train(resources)
        print(f"{name:15s}", *[f"{v:.4f}" for v in losses[::8]])
