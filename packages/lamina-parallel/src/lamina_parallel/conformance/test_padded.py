"""`padded`: maps any number of members over any number of devices."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_autodiff import grad, vjp
from lamina_batching import vmap
from lamina_ir.testing import assert_close
from lamina_tracing import jit, lax

import lamina_parallel
from lamina_parallel import axis_index, padded, ppermute, psum

from lamina_parallel.conformance.backend import devices
from lamina_parallel.conformance.reference import on_axes

SIZES = [(1, 4), (3, 4), (4, 4), (5, 4), (5, 2), (7, 3), (2, 1), (6, 3)]


def rows_of(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)


@pytest.mark.parametrize("rows, places", SIZES)
def test_any_number_of_members_is_mapped(rows: int, places: int) -> None:
    x = rows_of(rows)
    f = padded(lambda x, w: (lax.sin(x) * w, lax.reduce_sum(x, (0,))), in_axes=(0, None), out_axes=(1, 0),
               devices=devices(places))
    for run in (f, jit(f)):
        wide, total = run(x, np.float32(2))
        assert_close(wide, (np.sin(x) * 2).T)
        assert_close(total, x.sum(1), slack=4)


COLLECTIVES = [("psum", {}), ("pmean", {}), ("pmax", {}), ("pmin", {}), ("all_gather", {}), ("pbroadcast", {"source": 0}),
               ("axis_index", {})]


@pytest.mark.collectives
@pytest.mark.parametrize("rows, places", [(3, 4), (5, 4), (5, 2)])
@pytest.mark.parametrize("name, params", COLLECTIVES, ids=[name for name, _ in COLLECTIVES])
def test_collectives_ignore_padding(name: str, params: dict[str, Any], rows: int, places: int) -> None:
    fun = getattr(lamina_parallel, name)
    x = rows_of(rows)
    f = padded(lambda v: fun("i") if name == "axis_index" else fun(v, "i", **params), "i", devices=devices(places))
    assert_close(f(x), on_axes(name, x, params), slack=4)


@pytest.mark.collectives
@pytest.mark.parametrize("rows, places", [(5, 4), (6, 4), (5, 2)])
def test_ppermute_uses_member_indices(rows: int, places: int) -> None:
    x = rows_of(rows)
    ring = padded(lambda v: ppermute(v, "i", [(j, (j + 1) % rows) for j in range(rows)]), "i", devices=devices(places))
    assert_close(ring(x), np.roll(x, 1, 0))


@pytest.mark.order
@pytest.mark.parametrize("rows, places", [(3, 4), (5, 2)])
def test_padding_does_not_affect_derivatives(rows: int, places: int) -> None:
    x = rows_of(rows)
    f = padded(lambda v, w: psum(lax.reduce_sum(lax.sin(v * w), (0,)), "i") * v, "i", in_axes=(0, None),
               devices=devices(places))
    total, derivative = np.sin(2 * x).sum(), np.cos(2 * x)
    gx, gw = vjp(f, x, np.float32(2))[1](np.ones_like(x))
    assert_close(gx, total + 2 * derivative * x.sum(), slack=20)
    assert_close(gw, np.float32((derivative * x).sum() * x.sum()), slack=20)
    loss = grad(lambda w: lax.reduce_sum(f(x, w), (0, 1)))
    assert_close(loss(np.float32(2)), np.float32((derivative * x).sum() * x.sum()), slack=20)


def test_padded_inside_and_outside_other_transformations() -> None:
    x = rows_of(5)
    stack = np.stack([x, 2 * x])
    f = padded(lambda v: v * axis_index("i").astype(np.float32), "i", devices=devices(2))
    wanted = x * np.arange(5, dtype=np.float32)[:, None]
    assert_close(vmap(f)(stack), np.stack([wanted, 2 * wanted]))
    assert_close(padded(vmap(lambda v: v * 2), devices=devices(2))(x), 2 * x)


def test_different_sizes_raise_value_error() -> None:
    with pytest.raises(ValueError, match="padded"):
        padded(lambda x, y: x + y, devices=devices(2))(rows_of(3), rows_of(5))
