"""Run a lowered program on jaxlib's CPU client without a runtime. It is compiled for each call; for tests and
inspection."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir.extend import Tiles
from lamina_ir.typing import Tree

from .. import _jaxlib

__all__ = ["run_lowered"]


def run_lowered(lowered: Any, *args: Tree) -> list[np.ndarray] | list[list[np.ndarray]]:
    """Compile a lowered program and run it on CPU devices.

    Args:
      lowered: from `lower(..., platform="cpu")`.
      *args: arrays, one per argument of the program; with several replicas a sequence of such arrays, one per replica.
    Returns:
      The results; with several replicas a list of them per replica.
    """
    lowered.module.operation.verify()
    place = lowered.placement
    replicas, partitions = place.grid
    rows = [list(args)] if replicas == 1 else [[a[r] for a in args] for r in range(replicas)]
    rows = [[*lowered.const_args, *(a for a, kept in zip(row, lowered.used_args, strict=True) if kept)]
            for row in rows]
    if partitions > 1:
        ins = [Tiles()] * len(lowered.const_args) + [t or Tiles() for t, k in zip(
            place.in_tiles or (None,) * len(lowered.used_args), lowered.used_args) if k]
        parts = [_split(np.asarray(x, a.dtype), t, partitions) for x, t, a in zip(rows[0], ins, lowered.in_avals)]
        rows = [[p[d] for p in parts] for d in range(partitions)]
    _jaxlib.register_kernel_libraries(lowered.needs)
    code = lowered.module if lowered.host_functions else lowered.bytecode()
    outs, tiles = _jaxlib.run_on_cpu(code, place.grid, lowered.shardy, rows, lowered.in_avals, lowered.host_functions,
                                    len(lowered.out_avals))
    if partitions > 1:
        texts = tiles or ["{replicated}"] * len(lowered.out_avals)
        return [_join([own[k] for own in outs], Tiles.parse(t), a.shape)
                for k, (t, a) in enumerate(zip(texts, lowered.out_avals))]
    return outs[0] if replicas == 1 else outs


def _tile_slices(tiles: Tiles, shape: tuple[int, ...]) -> dict[int, tuple[slice, ...]]:
    """Return device -> the slices of its tile."""
    sizes = [n // k for n, k in zip(shape, tiles.counts)]
    return {int(device): tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, sizes))
            for at, device in np.ndenumerate(tiles.positions())}


def _split(x: np.ndarray, tiles: Tiles, devices: int) -> list[np.ndarray]:
    if tiles.is_replicated:
        return [np.array(x) for _ in range(devices)]  # a copy each: no two devices may share memory
    places = _tile_slices(tiles, x.shape)
    return [x[places[d]] for d in range(devices)]


def _join(parts: list[np.ndarray], tiles: Tiles, shape: tuple[int, ...]) -> np.ndarray:
    if tiles.is_replicated:
        return parts[0]
    out = np.empty(shape, parts[0].dtype)
    for device, where in _tile_slices(tiles, shape).items():
        out[where] = parts[device]
    return out
