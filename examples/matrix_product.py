"""A matrix product in which each device holds only its share.

usage: python -m lamina.launch -n 2 --devices 4 examples/matrix_product.py

Each device has some rows of `a` and some columns of `b`. The columns are sent around the ring of devices. Each device
multiplies them with its rows, and has its rows of the product after all steps.
"""
from __future__ import annotations

from typing import Any

import numpy as np

import lamina
import lamina.numpy as jnp
from lamina import lax
from lamina.experimental import multihost_utils


def product(rows: Any, columns: Any) -> Any:
    """Return the device's rows of the product."""
    n, me = lax.axis_size("ring"), lax.axis_index("ring")

    def step(columns: Any, k: Any) -> tuple[Any, Any]:
        return lax.ppermute(columns, "ring", [(i, (i + 1) % n) for i in range(n)]), rows @ columns

    _, blocks = lax.scan(step, columns, jnp.arange(n))  # block k: columns of device me - k
    return jnp.concatenate(list(blocks[(me - jnp.arange(n)) % n]), axis=1)


def main() -> None:
    lamina.distributed.initialize()
    n, here, me = lamina.device_count(), lamina.local_device_count(), lamina.process_index()
    mine = slice(me * here, (me + 1) * here)
    size, inner = 48 * n, 100
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((size, inner), (inner, size)))
    rows, columns = a.reshape(n, -1, inner)[mine], np.stack(np.split(b, n, axis=1))[mine]  # those of this process

    multiply = lamina.pmap(product, axis_name="ring")
    found = np.asarray(multiply(rows, columns)).reshape(-1, size)
    alone = np.asarray(lamina.jit(jnp.matmul)(a, b))  # on one device
    share = slice(me * len(found), (me + 1) * len(found))
    assert np.allclose(found, alone[share], atol=1e-4)
    whole = multihost_utils.process_allgather(found, tiled=True)
    assert np.allclose(whole, alone, atol=1e-4)

    def energy(rows: Any, columns: Any) -> Any:
        return jnp.sum(product(rows, columns) ** 2)

    grads = lamina.pmap(lamina.grad(energy, argnums=1), axis_name="ring")(rows, columns)
    expected = np.stack(np.split(np.asarray(lamina.jit(lamina.grad(lambda b: jnp.sum((a @ b) ** 2)))(b)), n, axis=1))[mine]
    assert np.allclose(grads, expected, rtol=1e-3, atol=1e-1)
    if me == 0:
        print(f"[{size}, {inner}] times [{inner}, {size}] on {n} devices in {lamina.process_count()} processes")
        print(f"a device holds {rows[0].size} + {columns[0].size} numbers, and makes {found.size // here}")
        print(f"largest difference from one device: {np.abs(whole - alone).max():.1e}; of the gradients, relative: "
              f"{np.abs(grads - expected).max() / np.abs(expected).max():.1e}")


if __name__ == "__main__":
    main()
