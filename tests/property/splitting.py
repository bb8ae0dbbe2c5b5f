"""Ops on arrays that are split over devices, in every way worth trying: for the laws of `test_splits.py`.

An operand is split along one dimension, over as many devices as divide it. The devices stand in several orders, and so do
the tiles among them: both are part of a placement, and the compiler changes the second as it likes.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lamina
import numpy as np
from lamina import lax
from lamina_ir import dtypes
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import Sample, canonicalize_results
from lamina_runtime import _jaxlib
from lamina_runtime._sharding import shardings
from lamina_tracing.extend import bind

ORDERS = {
    "as numbered": lambda n: range(n),
    "backwards": lambda n: range(n)[::-1],
    "rotated": lambda n: [(i + 1) % n for i in range(n)],
    "shuffled": lambda n: np.random.default_rng(n).permutation(n).tolist(),
}


def tiling(counts: tuple[int, ...], order: Any, copied: bool = False) -> Any:
    """The tile assignment that gives tile i (row by row) to device `order[i]`; `copied` makes the last count copies."""
    numbers = ",".join(map(str, counts)), ",".join(map(str, order))
    return _jaxlib.HloSharding.from_string("{devices=[%s]%s%s}" % (*numbers, " last_tile_dim_replicate" if copied else ""))


def placement(shape: tuple[int, ...], dim: int, devices: str = "as numbered", tiles: str = "as numbered",
              copies: int = 1) -> Any:
    """A placement of arrays of this shape split along `dim`, each part on `copies` devices; None where it cannot be."""
    every = lamina.devices()
    n = max(k for k in range(1, len(every) // copies + 1) if shape[dim] % k == 0) if shape[dim] else 1
    if n == 1:
        return None
    where = tuple(every[i] for i in ORDERS[devices](n * copies))
    counts = tuple(n if d == dim else 1 for d in range(len(shape))) + ((copies,) if copies > 1 else ())
    return shardings.gspmd_sharding(where, tiling(counts, ORDERS[tiles](n * copies), copies > 1))


def ways(row: Sample) -> Iterator[tuple[int, int]]:
    """(operand, dimension) of everything that can be split in a use of an op."""
    for i, a in enumerate(row.args):
        for dim, n in enumerate(np.shape(a)):
            if n > 1:
                yield i, dim


def placed(row: Sample, i: int, dim: int, devices: str, tiles: str) -> list[Any] | None:
    """The operands with the i-th split; those of its shape are split alike, so that two split ones meet too."""
    where = placement(np.shape(row.args[i]), dim, devices, tiles)
    if where is None:
        return None
    return [lamina.device_put(a, where) if np.shape(a) == np.shape(row.args[i]) else a for a in row.args]


def outcome(prim: Any, out: Any) -> list[Any]:
    return list(out) if prim.multiple else [out]


def check_read(x: Any, what: str) -> None:
    """Everything that reads an array sees the same numbers."""
    value = np.asarray(x)
    one = lamina.device_put(value)
    if value.dtype == dtypes.float0:
        return
    assert str(x) == str(one), what
    assert repr(x).replace(", weak_type=True", "") == repr(one), what
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), value[shard.index], err_msg=what)
    if value.ndim:
        for k, r in enumerate(x):
            np.testing.assert_array_equal(np.asarray(r), value[k], err_msg=f"row {k} by iteration: {what}")
        for k in {0, len(value) - 1} if len(value) else ():
            np.testing.assert_array_equal(np.asarray(x[k]), value[k], err_msg=f"row {k}: {what}")
        np.testing.assert_array_equal(np.asarray(lax.rev(x, (0,))), value[::-1], err_msg=f"reversed: {what}")
    for again in (lamina.device_put(value, x.sharding), lamina.device_put(x, lamina.devices()[-1])):
        np.testing.assert_array_equal(np.asarray(again), value, err_msg=f"put again: {what}")


def check_values(prim: Any, got: list[Any], want: list[Any], what: str, slack: float = 4.0) -> None:
    pairs = zip(canonicalize_results(prim, [np.asarray(x) for x in got]),
                canonicalize_results(prim, [np.asarray(x) for x in want]), strict=True)
    for a, b in pairs:
        assert_close(a, b, what=what, slack=slack)


def forward(row: Sample, args: list[Any], what: str) -> None:
    """Alone and jitted, an op gives what it gives on one device."""
    prim, params = row.prim, row.params
    want = outcome(prim, bind(prim, *row.args, **params))
    alone = outcome(prim, bind(prim, *args, **params))
    check_values(prim, alone, want, what)
    jitted = outcome(prim, lamina.jit(lambda *xs: bind(prim, *xs, **params))(*args))
    check_values(prim, jitted, want, f"under jit: {what}")
    check_read(alone[0], what)


def backward(row: Sample, args: list[Any], what: str, alone: bool) -> None:
    """So does its gradient, under jit and, if wanted, `alone`."""
    prim, params = row.prim, row.params
    chosen = [i for i, a in enumerate(row.args) if dtypes.is_inexact(np.asarray(a).dtype)]

    def pulled(xs: list[Any]) -> list[Any]:
        def f(*some: Any) -> Any:
            full = list(xs)
            for i, x in zip(chosen, some):
                full[i] = x
            return tuple(o for o in outcome(prim, bind(prim, *full, **params)) if dtypes.is_inexact(o.dtype))

        outs, back = lamina.vjp(f, *[xs[i] for i in chosen])
        rng = np.random.default_rng(0)
        return list(back(tuple(rng.normal(size=o.shape).astype(o.dtype) for o in outs)))

    want = [np.asarray(x) for x in pulled(list(row.args))]
    for got in [lamina.jit(lambda *xs: pulled(list(xs)))(*args)] + ([pulled(args)] if alone else []):
        for a, b in zip(got, want, strict=True):
            assert_close(np.asarray(a), b, what=f"gradient: {what}", slack=8.0)
