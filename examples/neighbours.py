"""Nearest neighbours among rows that are split over devices: each device finds its own, and these are merged.

Eight devices: XLA_FLAGS=--xla_force_host_platform_device_count=8.
"""
import numpy as np
from sklearn.datasets import load_digits

import lamina
import lamina.numpy as jnp
from lamina import lax, nn
from lamina.experimental.maps import Mesh, SerialLoop, xmap

K, PARTS, KNOWN = 5, 8, 1200
WAYS = {
    "pure vmap": {},
    "rows over devices": {"part": ("x", "y")},
    "rows and queries over devices": {"part": "x", "query": "y"},
    "rows over devices, serial queries": {"part": ("x", "y"), "query": SerialLoop(3)},
}


def classify(query, rows, labels):
    """Return the majority class of the K nearest rows, for one query and one part of the rows; the same in all
    parts."""
    near, at = lax.top_k(-jnp.sum((rows - query) ** 2, axis=1), K)
    near, kinds = lax.all_gather((near, labels[at]), "part")  # K of each part, not all rows
    _, at = lax.top_k(near.ravel(), K)
    votes = jnp.sum(nn.one_hot(kinds.ravel()[at], 10), axis=0)
    return jnp.argmax(votes)


def main(resources):
    """Return the predicted and the true classes of the last images of the digits."""
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.float32)
    rows = lamina.device_put(images[:KNOWN].reshape(PARTS, -1, 64)), labels[:KNOWN].reshape(PARTS, -1)
    named = xmap(classify, in_axes=(["query", ...], ["part", ...], ["part", ...]), out_axes=["query"], axis_resources=resources)
    with Mesh(np.array(lamina.devices()[:8]).reshape(4, 2), ("x", "y")):
        return named(images[KNOWN:KNOWN + 480], *rows), labels[KNOWN:KNOWN + 480]


if __name__ == "__main__":
    for name, resources in WAYS.items():
        found, right = main(resources)
        print(f"{name:36s} {(np.asarray(found) == right).mean():.4f} right")
