"""Primitives on sharded arrays, in all relevant shardings, for `test_splits.py`.

An operand is sharded along one dimension, over as many devices as divide it. The devices have several orders, and so do the
tiles among them: both are part of a sharding, and the compiler may change the second.
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
    """Return the tile assignment that gives tile i (row by row) to device `order[i]`; `copied` makes the last count copies."""
    numbers = ",".join(map(str, counts)), ",".join(map(str, order))
    return _jaxlib.HloSharding.from_string("{devices=[%s]%s%s}" % (*numbers, " last_tile_dim_replicate" if copied else ""))


def placement(shape: tuple[int, ...], dim: int, devices: str = "as numbered", tiles: str = "as numbered",
              copies: int = 1) -> Any:
    """Return a sharding of arrays of this shape along `dim`, each shard on `copies` devices; None if impossible."""
    every = lamina.devices()
    n = max(k for k in range(1, len(every) // copies + 1) if shape[dim] % k == 0) if shape[dim] else 1
    if n == 1:
        return None
    where = tuple(every[i] for i in ORDERS[devices](n * copies))
    counts = tuple(n if d == dim else 1 for d in range(len(shape))) + ((copies,) if copies > 1 else ())
    return shardings.gspmd_sharding(where, tiling(counts, ORDERS[tiles](n * copies), copies > 1))


def shardable_dimensions(sample: Sample) -> Iterator[tuple[int, int]]:
    """Yield (operand, dimension) of every dimension of a sample that can be sharded."""
    for i, a in enumerate(sample.args):
        for dim, n in enumerate(np.shape(a)):
            if n > 1:
                yield i, dim


def shard_operand(sample: Sample, i: int, dim: int, devices: str, tiles: str) -> list[Any] | None:
    """Return the operands with the i-th sharded; operands of equal shape are sharded alike."""
    where = placement(np.shape(sample.args[i]), dim, devices, tiles)
    if where is None:
        return None
    return [lamina.device_put(a, where) if np.shape(a) == np.shape(sample.args[i]) else a for a in sample.args]


def outcome(prim: Any, out: Any) -> list[Any]:
    return list(out) if prim.multiple else [out]


def check_read(x: Any, what: str) -> None:
    """Check that every way of reading an array gives the same numbers."""
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
            np.testing.assert_array_equal(np.asarray(r), value[k], err_msg=f"element {k} by iteration: {what}")
        for k in {0, len(value) - 1} if len(value) else ():
            np.testing.assert_array_equal(np.asarray(x[k]), value[k], err_msg=f"element {k}: {what}")
        np.testing.assert_array_equal(np.asarray(lax.rev(x, (0,))), value[::-1], err_msg=f"reversed: {what}")
    for again in (lamina.device_put(value, x.sharding), lamina.device_put(x, lamina.devices()[-1])):
        np.testing.assert_array_equal(np.asarray(again), value, err_msg=f"put again: {what}")


def check_values(prim: Any, got: list[Any], want: list[Any], what: str, slack: float = 4.0) -> None:
    pairs = zip(canonicalize_results(prim, [np.asarray(x) for x in got]),
                canonicalize_results(prim, [np.asarray(x) for x in want]), strict=True)
    for a, b in pairs:
        assert_close(a, b, what=what, slack=slack)


def check_forward(sample: Sample, args: list[Any], what: str) -> None:
    """Check that a primitive gives the same as on one device, eagerly and jitted."""
    prim, params = sample.prim, sample.params
    want = outcome(prim, bind(prim, *sample.args, **params))
    alone = outcome(prim, bind(prim, *args, **params))
    check_values(prim, alone, want, what)
    jitted = outcome(prim, lamina.jit(lambda *xs: bind(prim, *xs, **params))(*args))
    check_values(prim, jitted, want, f"under jit: {what}")
    check_read(alone[0], what)


def check_backward(sample: Sample, args: list[Any], what: str, alone: bool) -> None:
    """Check the gradient likewise, under jit and, if `alone`, eagerly."""
    prim, params = sample.prim, sample.params
    chosen = [i for i, a in enumerate(sample.args) if dtypes.is_inexact(np.asarray(a).dtype)]

    def pulled(xs: list[Any]) -> list[Any]:
        def f(*some: Any) -> Any:
            full = list(xs)
            for i, x in zip(chosen, some):
                full[i] = x
            return tuple(o for o in outcome(prim, bind(prim, *full, **params)) if dtypes.is_inexact(o.dtype))

        outs, back = lamina.vjp(f, *[xs[i] for i in chosen])
        rng = np.random.default_rng(0)
        return list(back(tuple(rng.normal(size=o.shape).astype(o.dtype) for o in outs)))

    want = [np.asarray(x) for x in pulled(list(sample.args))]
    for got in [lamina.jit(lambda *xs: pulled(list(xs)))(*args)] + ([pulled(args)] if alone else []):
        for a, b in zip(got, want, strict=True):
            assert_close(np.asarray(a), b, what=f"gradient: {what}", slack=8.0)
