"""A ring all-reduce: a sum over all devices by messages to the next device.

usage: python -m lamina.launch -n 2 --devices 4 examples/ring_all_reduce.py

Each device splits its vector into one piece per device. The pieces are sent around the ring twice: once to be summed,
once to distribute the sums. So a device sends at most twice the size of a vector, for any number of devices.
"""
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import lamina
import lamina.numpy as jnp
from lamina import lax


def ring_sum(x: Any, axis: str) -> Any:
    """Compute `lax.psum(x, axis)` of vectors whose length is divisible by the number of devices."""
    n, me = lax.axis_size(axis), lax.axis_index(axis)
    send_to_next = partial(lax.ppermute, axis_name=axis, perm=[(i, (i + 1) % n) for i in range(n)])
    pieces = x.reshape(n, -1)

    def add(k: Any, piece: Any) -> Any:  # received: piece me - 1 - k, summed over k + 1 devices
        return send_to_next(piece) + pieces[(me - 1 - k) % n]

    def distribute(k: Any, carry: Any) -> Any:  # received: the complete sum of piece me - k
        piece, whole = carry
        piece = send_to_next(piece)
        return piece, whole.at[(me - k) % n].set(piece)

    piece = lax.fori_loop(0, n - 1, add, pieces[me])
    _, whole = lax.fori_loop(0, n - 1, distribute, (piece, jnp.zeros_like(pieces).at[(me + 1) % n].set(piece)))
    return whole.reshape(x.shape)


def main() -> None:
    lamina.distributed.initialize()
    n, here = lamina.device_count(), lamina.local_device_count()
    mine = slice(lamina.process_index() * here, (lamina.process_index() + 1) * here)
    every = np.random.default_rng(0).normal(size=(n, 1000 * n)).astype(np.float32)  # row i is device i's vector

    ring = lamina.pmap(lambda x: ring_sum(x, "ring"), axis_name="ring")
    psum = lamina.pmap(lambda x: lax.psum(x, "ring"), axis_name="ring")
    alone = lamina.jit(lambda rows: rows.sum(0))(every)  # on one device
    by_ring, by_psum = np.asarray(ring(every[mine])), np.asarray(psum(every[mine]))
    assert np.allclose(by_ring, alone, atol=1e-4) and np.allclose(by_psum, alone, atol=1e-4)

    def loss(sum_of: Any, x: Any) -> Any:
        return jnp.sum(jnp.sin(sum_of(x, "ring")) * x)

    grads = lamina.pmap(lamina.grad(partial(loss, ring_sum)), axis_name="ring")(every[mine])
    expected = lamina.pmap(lamina.grad(partial(loss, lax.psum)), axis_name="ring")(every[mine])
    assert np.allclose(grads, expected, atol=1e-3)
    if lamina.process_index() == 0:
        print(f"{n} devices in {lamina.process_count()} processes, vectors of {every.shape[1]} numbers")
        print(f"sum by the ring, by psum, on one device: {by_ring[0, 0]:.5f} {by_psum[0, 0]:.5f} {alone[0]:.5f}")
        print(f"largest difference: {np.abs(by_ring - alone).max():.1e}; of gradients through ring and psum: "
              f"{np.abs(grads - expected).max():.1e}")


if __name__ == "__main__":
    main()
