"""Every primitive, on every sample: a batch equals its NumPy evaluation example by example."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import MissingRuleError, evaluate_primitive, prims
from lamina_ir.testing.samples import canonicalize_results, samples_of
from lamina_tracing.extend import bind

from lamina_batching.conformance.reference_loop import check

# Collectives are tested over named axes; the rule of maps over devices is in the layer that has such maps.
# How several keys of the device's generator draw together is up to the implementation: a loop, or one draw.
SAMPLES = [s for p in prims.ALL if p.family != "collectives" and p.name not in ("xla_pmap", "rng_bit_generator")
           for s in samples_of(p) if s.args]
# A user's computation may start from a value that is not neutral: batches of those may be rejected.
MAY_REFUSE = ("reduce", "reduce_window")


def another(prim: Any, x: np.ndarray, i: int, rng: np.random.Generator) -> np.ndarray:
    """Return example i, a variant of `x`: matrices stay well conditioned, integers (indices) are unchanged."""
    if not i or x.dtype.kind in "iu":
        return x
    if prim.family == "factorizations":
        return (np.flip(x) if i % 2 else x) * np.asarray(1 + i / 4, x.dtype)
    return rng.permutation(x.reshape(-1)).reshape(x.shape)


def patterns(n: int) -> list[tuple[bool, ...]]:
    """Return the batching patterns: each operand separately, and all of them."""
    return sorted({tuple(i == j for j in range(n)) for i in range(n)} | {(True,) * n})


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_batched_primitive_equals_primitive_of_each_example(sample):
    prim, params = sample.prim, sample.params

    def fun(*xs: Any) -> Any:
        out = bind(prim, *xs, **params)
        return canonicalize_results(prim, out if prim.multiple else (out,), bind)

    def one(*xs: Any) -> Any:
        out = evaluate_primitive(prim, xs, params)
        return canonicalize_results(prim, out if prim.multiple else (out,))

    rng = np.random.default_rng(0)
    refused = 0
    for pattern, last in itertools.product(patterns(len(sample.args)), (False, True)):
        axes = [(x.ndim if last else 0) if on else None for x, on in zip(sample.args, pattern)]
        args = [x if axis is None else np.stack([another(prim, x, i, rng) for i in range(3)], axis)
                for x, axis in zip(sample.args, axes)]
        try:
            check(fun, one, args, axes)
        except MissingRuleError as e:
            assert prim.name in MAY_REFUSE and prim.name in str(e)
            refused += 1
    assert refused < 2 * len(patterns(len(sample.args))), "not one batch of it was made"


@pytest.mark.parametrize("sample", [s for p in prims.ALL for s in samples_of(p) if not s.args and p.family != "collectives"],
                         ids=lambda s: s.id)
def test_primitive_without_operands_is_equal_for_all_examples(sample):
    want = evaluate_primitive(sample.prim, (), sample.params)
    got = vmap(lambda x: bind(sample.prim, **sample.params), out_axes=None)(np.zeros(3, np.float32))
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("sample", samples_of(prims.rng_bit_generator_p), ids=lambda s: s.id)
def test_keys_of_device_generator_draw_for_each_example(sample, count):
    key = np.asarray(sample.args[0])
    keys = np.stack([key, key + np.asarray(1, key.dtype)])[:count]
    moved, bits = vmap(lambda k: tuple(bind(sample.prim, k, **sample.params)))(keys)
    assert np.shape(moved) == keys.shape and np.shape(bits) == (count, *sample.params["shape"])
    assert np.asarray(bits).dtype == sample.params["dtype"]
