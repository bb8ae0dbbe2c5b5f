"""Pipeline parallelism: a network with one layer per device, trained with microbatches.

usage: python -m lamina.launch -n 2 --devices 4 examples/pipeline.py

In each step every device applies its layer to the data of the previous device, and sends the result to the next one.
With m batches and n devices this takes m + n - 1 steps. The gradient is `lamina.grad` of it, which sends cotangents the
other way.
"""
from __future__ import annotations

from typing import Any

import numpy as np

import lamina
import lamina.numpy as jnp
from lamina import lax

WIDTH, BATCHES, ROWS = 32, 12, 8


def layer(w: Any, x: Any) -> Any:
    return jnp.tanh(x @ w)


def pipelined(w: Any, batches: Any) -> Any:
    """Run the pipeline on one device, with the weights of its layer. Only the last device has the results."""
    n, me = lax.axis_size("line"), lax.axis_index("line")

    def step(received: Any, t: Any) -> tuple[Any, Any]:
        x = jnp.where(me == 0, batches[jnp.minimum(t, len(batches) - 1)], received)
        y = layer(w, x)
        return lax.ppermute(y, "line", [(i, i + 1) for i in range(n - 1)]), y

    _, ys = lax.scan(step, jnp.zeros_like(batches[0]), jnp.arange(len(batches) + n - 1))
    return ys[n - 1:]


def loss(w: Any, batches: Any, targets: Any) -> Any:
    """Return the loss on the last device, 0 on the others; gradients come from the last device."""
    last = lax.axis_index("line") == lax.axis_size("line") - 1
    return jnp.where(last, jnp.mean((pipelined(w, batches) - targets) ** 2), 0.0)


def loss_alone(weights: Any, batches: Any, targets: Any) -> Any:
    """Return the same loss on one device."""
    for w in weights:
        batches = layer(w, batches)
    return jnp.mean((batches - targets) ** 2)


def main() -> None:
    lamina.distributed.initialize()
    n, here = lamina.device_count(), lamina.local_device_count()
    mine = slice(lamina.process_index() * here, (lamina.process_index() + 1) * here)
    rng = np.random.default_rng(0)
    weights = (rng.normal(size=(n, WIDTH, WIDTH)) / WIDTH ** 0.5).astype(np.float32)
    batches, targets = rng.normal(size=(2, BATCHES, ROWS, WIDTH)).astype(np.float32)

    step = lamina.pmap(lamina.value_and_grad(loss), axis_name="line", in_axes=(0, None, None))
    alone = lamina.jit(lamina.value_and_grad(loss_alone))
    sum_over_devices = lamina.pmap(lambda x: lax.psum(x, "line"), axis_name="line", out_axes=None)
    for _ in range(10):
        value, grads = step(weights[mine], batches, targets)
        value_alone, grads_alone = alone(weights, batches, targets)
        value = sum_over_devices(value)
        assert np.allclose(value, value_alone, atol=1e-5) and np.allclose(grads, grads_alone[mine], atol=1e-5)
        difference = np.abs(grads - grads_alone[mine]).max()
        weights = weights - 0.5 * np.asarray(grads_alone)
    if lamina.process_index() == 0:
        print(f"{n} layers on {n} devices in {lamina.process_count()} processes; {BATCHES} batches, {BATCHES + n - 1} steps")
        print(f"loss after 10 updates, pipelined and on one device: {float(value):.6f} {float(value_alone):.6f}")
        print(f"largest difference of the gradients: {difference:.1e}")


if __name__ == "__main__":
    main()
