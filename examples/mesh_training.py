"""An MLP trained on meshes, with the batch split over one axis and hidden units over another.

It uses only names of JAX: with `jax` for `lamina` in the imports, jax 0.10.2 prints the same losses.
Eight devices: XLA_FLAGS=--xla_force_host_platform_device_count=8.
"""
import numpy as np

import lamina as jax
import lamina.numpy as jnp
from lamina.experimental import mesh_utils
from lamina.sharding import Mesh, NamedSharding, PartitionSpec as P


def init(sizes, rng):
    return [{"w": (rng.normal(size=(m, n)) / np.sqrt(m)).astype(np.float32), "b": np.zeros(n, np.float32)}
            for m, n in zip(sizes[:-1], sizes[1:])]


def loss(params, batch):
    x, y = batch
    for layer in params[:-1]:
        x = jnp.maximum(x @ layer["w"] + layer["b"], 0)
    logits = x @ params[-1]["w"] + params[-1]["b"]
    logits = logits - jnp.max(logits, 1, keepdims=True)
    return -jnp.mean(jnp.sum(y * (logits - jnp.log(jnp.sum(jnp.exp(logits), 1, keepdims=True))), 1))


def train(shape, names, specs, batch_spec, steps=17):
    """Return the losses of all steps, and the shardings of the final parameters."""
    mesh = Mesh(mesh_utils.create_device_mesh(shape), names)
    rng = np.random.default_rng(0)
    places = [{k: NamedSharding(mesh, s) for k, s in layer.items()} for layer in specs]
    params = jax.device_put(init([16, 32, 32, 8], rng), places)

    def step(params, batch):
        value, g = jax.value_and_grad(loss)(params, batch)
        return jax.tree_util.tree_map(lambda p, g: p - 0.3 * g, params, g), value

    step = jax.jit(step, out_shardings=(places, None), donate_argnums=0)
    losses = []
    for _ in range(steps):
        x = rng.normal(size=(64, 16)).astype(np.float32)
        y = np.eye(8, dtype=np.float32)[(np.abs(x[:, :8]) + x[:, 8:]).argmax(1)]
        params, value = step(params, jax.device_put((x, y), NamedSharding(mesh, batch_spec)))
        losses.append(float(value))
    return losses, [p.sharding.spec for p in jax.tree_util.tree_leaves(params)]


def layers(*pairs):
    return [{"w": w, "b": b} for w, b in pairs]


WAYS = {
    "data": ((8,), ("data",), layers(*[(P(), P())] * 3), P("data")),
    "model": ((8,), ("model",), layers((P(None, "model"), P("model")), (P("model", None), P()), (P(None, "model"), P("model"))),
              P()),
    "both": ((4, 2), ("data", "model"), layers((P(None, "model"), P("model")), (P("model", None), P()), (P(), P())), P("data")),
}

if __name__ == "__main__":
    for name, way in WAYS.items():
        print(name, *[f"{v:.4f}" for v in train(*way)[0][::4]])
