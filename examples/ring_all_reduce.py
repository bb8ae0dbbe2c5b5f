"""A sum over all devices, made of messages between neighbours.

usage: python -m lamina.launch -n 2 --devices 4 examples/ring_all_reduce.py

Each device cuts its vector into as many pieces as there are devices. The pieces go round twice: once to be added up, once to be
handed out. So a device sends two vectors' worth at most, however many devices there are.
"""
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import lamina
import lamina.numpy as jnp
from lamina import lax


def ring_sum(x: Any, axis: str) -> Any:
    """What `lax.psum(x, axis)` is, of vectors whose length the number of devices divides."""
    n, me = lax.axis_size(axis), lax.axis_index(axis)
    to_the_next = partial(lax.ppermute, axis_name=axis, perm=[(i, (i + 1) % n) for i in range(n)])
    pieces = x.reshape(n, -1)

    def add(k: Any, piece: Any) -> Any:  # what comes is of place me - 1 - k, the sum of k + 1 devices
        return to_the_next(piece) + pieces[(me - 1 - k) % n]

    def hand_out(k: Any, carry: Any) -> Any:  # what comes is the whole sum of place me - k
        piece, whole = carry
        piece = to_the_next(piece)
        return piece, whole.at[(me - k) % n].set(piece)

    piece = lax.fori_loop(0, n - 1, add, pieces[me])
    _, whole = lax.fori_loop(0, n - 1, hand_out, (piece, jnp.zeros_like(pieces).at[(me + 1) % n].set(piece)))
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

    slope = lamina.pmap(lamina.grad(partial(loss, ring_sum)), axis_name="ring")(every[mine])
    wanted = lamina.pmap(lamina.grad(partial(loss, lax.psum)), axis_name="ring")(every[mine])
    assert np.allclose(slope, wanted, atol=1e-3)
    if lamina.process_index() == 0:
        print(f"{n} devices in {lamina.process_count()} processes, vectors of {every.shape[1]} numbers")
        print(f"sum by the ring, by psum, on one device: {by_ring[0, 0]:.5f} {by_psum[0, 0]:.5f} {alone[0]:.5f}")
        print(f"largest difference: {np.abs(by_ring - alone).max():.1e}; of gradients through ring and psum: "
              f"{np.abs(slope - wanted).max():.1e}")


if __name__ == "__main__":
    main()
