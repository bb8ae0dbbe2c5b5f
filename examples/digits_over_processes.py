"""Train on handwritten digits on all devices of all processes, and on one device, with the same results.

usage: python -m lamina.launch -n 2 --devices 4 examples/digits_over_processes.py [--epochs N] [--keep FOLDER]

With `--keep` a checkpoint is saved after each epoch, and training continues from the last one: in any number of
processes, on any number of devices that divides 240, the batch size.
"""
from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import lamina
import lamina.numpy as jnp
from lamina import lax, random
from lamina.experimental import checkpointing

TRAIN, BATCH, RATE = 1440, 240, 0.5


def scores(params: Any, x: Any) -> Any:
    (w, b), (v, c) = params
    return jnp.tanh(x @ w + b) @ v + c


def loss(params: Any, x: Any, y: Any) -> Any:
    """Return the mean cross-entropy."""
    s = scores(params, x)
    s = s - lax.stop_gradient(s.max(1, keepdims=True))
    return jnp.mean(jnp.log(jnp.exp(s).sum(1)) - jnp.take_along_axis(s, y[:, None], 1)[:, 0])


def step(params: Any, x: Any, y: Any, average: Any = lambda v: v) -> tuple[Any, Any]:
    value, grads = average(lamina.value_and_grad(loss)(params, x, y))
    return lamina.tree_map(lambda p, g: p - RATE * g, params, grads), value


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--keep", help="folder of checkpoints")
    options = parser.parse_args(argv)
    lamina.distributed.initialize()
    n, here, me = lamina.device_count(), lamina.local_device_count(), lamina.process_index()
    images, labels = load_digits(return_X_y=True)
    x, y = (images / 16).astype(np.float32), labels.astype(np.int32)
    one, two = random.split(random.PRNGKey(0))
    params = [(random.normal(one, (64, 32)) / 8, jnp.zeros(32)), (random.normal(two, (32, 10)) / 6, jnp.zeros(10))]
    alone, first = params, 0
    if options.keep and checkpointing.steps(options.keep):
        params, alone, first = checkpointing.load(options.keep, like=(params, alone, first))

    def averaged(params: Any, x: Any, y: Any) -> Any:
        return step(params, x, y, lambda v: lax.pmean(v, "devices"))

    over_all = lamina.pmap(averaged, axis_name="devices", in_axes=(None, 0, 0), out_axes=None)
    on_one = lamina.jit(step)
    for epoch in range(first, options.epochs):
        order = np.random.default_rng(epoch).permutation(TRAIN).reshape(-1, BATCH)
        for batch in order:
            mine = batch.reshape(n, -1)[me * here:(me + 1) * here]  # one row per device of this process
            params, value = over_all(params, x[mine], y[mine])
            alone, value_alone = on_one(alone, x[batch], y[batch])
        if options.keep:
            checkpointing.save(options.keep, (params, alone, epoch + 1), epoch + 1, keep=2)
        if me == 0:
            print(f"epoch {epoch + 1}: loss {float(value):.5f}, on one device {float(value_alone):.5f}", flush=True)
    accuracy = float((scores(params, x[TRAIN:]).argmax(1) == y[TRAIN:]).mean())
    difference = max(float(jnp.abs(p - q).max()) for p, q in zip(lamina.tree_leaves(params), lamina.tree_leaves(alone)))
    assert difference < 1e-3, difference
    if me == 0:
        print(f"{n} devices in {lamina.process_count()} processes: accuracy {accuracy:.3f} on {len(x) - TRAIN} images never "
              f"seen; largest difference of the weights {difference:.1e}")


if __name__ == "__main__":
    main()
