"""A network of named axes, trained on digits in six ways, which differ only in the resources of its axes.

Eight devices: XLA_FLAGS=--xla_force_host_platform_device_count=8.
"""
import numpy as np
from sklearn.datasets import load_digits

import lamina
import lamina.numpy as jnp
from lamina import nn, random
from lamina.experimental.maps import Mesh, SerialLoop, xmap

AXES = {"w": ["pixels", "hidden"], "b": ["hidden"], "v": ["hidden", "classes"], "c": ["classes"]}
WAYS = {
    "pure vmap": {},
    "data": {"batch": ("x", "y")},
    "model": {"hidden": ("x", "y")},
    "data and model": {"batch": "x", "hidden": "y"},
    "serial": {"batch": SerialLoop(5)},
    "serial and model": {"batch": SerialLoop(5), "hidden": ("x", "y")},
}


def loss(p, image, label):
    """Compute the loss for one position of every axis: `p["w"]` is one number here, and so is `image`."""
    hidden = nn.relu(jnp.einsum("{pixels},{pixels}->{}", image, p["w"]) + p["b"])
    logits = jnp.einsum("{hidden},{hidden}->{}", hidden, p["v"]) + p["c"]
    right = nn.one_hot(label, 10, axis="classes")
    return -jnp.mean(jnp.sum(right * nn.log_softmax(logits, axis="classes"), "classes"), "batch")


def init(hidden=64):
    keys = random.split(random.PRNGKey(0))
    normal = nn.initializers.he_normal()
    return {"w": normal(keys[0], (64, hidden)), "b": jnp.zeros(hidden), "v": normal(keys[1], (hidden, 10)), "c": jnp.zeros(10)}


def train(resources, steps=40, batch=240):
    """Return the losses of all steps, and the parameters."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    named = xmap(loss, in_axes=(AXES, ["batch", "pixels"], ["batch"]), out_axes={}, axis_resources=resources)
    step = lamina.jit(lamina.value_and_grad(named))
    params, losses = init(), []
    with Mesh(np.array(lamina.devices()[:8]).reshape(4, 2), ("x", "y")):
        for i in range(steps):
            rows = np.arange(i * batch, (i + 1) * batch) % len(images)
            value, grads = step(params, images[rows], labels[rows])
            params = lamina.tree.map(lambda a, g: a - 0.5 * g, params, grads)
            losses.append(float(value))
    return losses, params


if __name__ == "__main__":
    for name, resources in WAYS.items():
        losses, params = train(resources)
        shard = params["w"].addressable_shards[0].data.shape
        print(f"{name:17s}", *[f"{v:.4f}" for v in losses[::8]], f"  w on a device: {shard}")
