"""Sharded arrays, over several devices in any order, give the same results as on one device.

By default each primitive with one sample, sharded one way. `LAMINA_LAWS=20` and more: all samples, each dimension of each
operand, all orders of devices and tiles.
"""
from __future__ import annotations

import itertools
import os
import zlib

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
import splitting
from lamina import lax
from lamina_ir import MissingRuleError, prims
from lamina_ir.testing.samples import samples_of
from lamina_lowering import lowering_rules

FULL = int(os.environ.get("LAMINA_LAWS", "3")) >= 20
# A sharding constraint names its own devices; it is tested in test_shardings.py of lamina-runtime.
OPS = [p for p in prims.ALL if samples_of(p) and not p.axis_params and not p.effectful and p in lowering_rules
       and p.name not in ("xla_pmap", "sharding_constraint") and p.family != "maps"]
ORDERS = list(itertools.product(splitting.ORDERS, splitting.ORDERS))


def cases(prim):
    """Yield (sample, its sharded operands, message for a failure)."""
    found = [(sample, i, dim, orders) for sample in samples_of(prim) for i, dim in splitting.shardable_dimensions(sample)
             for orders in (ORDERS if FULL else ORDERS[1:])]
    if not FULL and found:
        found = [found[zlib.crc32(prim.name.encode()) % len(found)]]
    for sample, i, dim, orders in found:
        args = splitting.shard_operand(sample, i, dim, *orders)
        if args is not None:
            params = '' if prim.subprograms else sample.params
            yield sample, args, f"{sample.id} {params}, operand {i} split along {dim}, {orders}"


@pytest.mark.parametrize("prim", OPS, ids=str)
def test_primitive_on_sharded_operands(prim):
    for sample, args, what in cases(prim):
        splitting.check_forward(sample, args, what)


WITH_GRADIENT = [p for p in OPS if any(r.differentiable for r in samples_of(p))
                 and (FULL or p.family not in ("elementwise", "special"))]


@pytest.mark.parametrize("prim", WITH_GRADIENT, ids=str)
def test_gradient_on_sharded_operands(prim):
    for sample, args, what in cases(prim):
        if sample.differentiable:
            try:
                splitting.check_backward(sample, args, what, alone=FULL)
            except MissingRuleError:
                return


@pytest.mark.parametrize("rows", [8, 16])
def test_reversal_of_a_sharded_array(rows):
    x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6)
    y = lamina.device_put(x, splitting.placement(x.shape, 0))
    for back in (y[::-1], jnp.flip(y, 0), lamina.jit(lambda v: v[::-1])(y)):
        np.testing.assert_array_equal(np.asarray(back), x[::-1])
        np.testing.assert_array_equal([np.asarray(r) for r in back], x[::-1])
        np.testing.assert_array_equal(np.asarray(back[1]), x[::-1][1])
        assert repr(back) == repr(jnp.asarray(x[::-1]))
        np.testing.assert_array_equal(np.asarray(lamina.device_put(x, back.sharding)), x)
        np.testing.assert_array_equal(np.asarray(back + 1), x[::-1] + 1)
        np.testing.assert_array_equal(np.asarray(lamina.pmap(lambda r: r * 2)(back[:8])), x[::-1][:8] * 2)


def test_gradient_of_a_reversal():
    x = np.arange(8.0, dtype=np.float32)
    w = np.arange(1.0, 9.0, dtype=np.float32)
    y = lamina.device_put(x, splitting.placement(x.shape, 0))
    got = lamina.grad(lambda v: (v[::-1] * w).sum())(y)
    np.testing.assert_array_equal(np.asarray(got), w[::-1])


@pytest.mark.parametrize("config", [((-1, -2, 1), (0, 0, 0)), ((-3, 0, 0), (1, -1, 2)), ((2, -3, 0), (-6, 6, 0))])
def test_negative_padding_of_a_sharded_array(config):
    x = np.arange(48.0, dtype=np.float32).reshape(8, 6)
    y = lamina.device_put(x, splitting.placement(x.shape, 0))
    want = np.asarray(lax.pad(x, np.float32(7), config))
    np.testing.assert_array_equal(np.asarray(lax.pad(y, np.float32(7), config)), want)
    np.testing.assert_array_equal(np.asarray(lamina.jit(lambda v: lax.pad(v, np.float32(7), config))(y)), want)


def test_operands_on_several_devices():
    x = np.arange(48.0, dtype=np.float32).reshape(8, 6)
    y = lamina.pmap(lambda r: r)(x)
    np.testing.assert_array_equal(np.asarray(y[0] + y[1]), x[0] + x[1])
    np.testing.assert_array_equal(np.asarray(y.mean(0) + y[0]), x.mean(0) + x[0])
    np.testing.assert_array_equal(np.asarray(sum(y)), x.sum(0))
    np.testing.assert_array_equal(np.asarray(jnp.stack(list(y))), x)
    total, each = lax.scan(lambda c, r: (c + r, c * r), y[0], y)
    np.testing.assert_array_equal(np.asarray(total), x.sum(0) + x[0])
    assert not y[3].committed and y[3].device == lamina.devices()[3]
