"""Rules added to `batching_rules` for new primitives, and overrides of existing rules, are used."""
from __future__ import annotations

import functools

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_batching.extend import batching_rules
from lamina_ir import MissingRuleError, Primitive, prims
from lamina_tracing import jit, lax
from lamina_tracing.extend import bind

pytestmark = pytest.mark.rules

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def new_op(name):
    return Primitive(name, infer=lambda x: x, numpy=lambda x: x * np.float32(2), family="elementwise")


def test_new_primitive_without_rule_is_rejected_by_name():
    with pytest.raises(MissingRuleError, match="lonely_of_conformance"):
        vmap(functools.partial(bind, new_op("lonely_of_conformance")))(X)


def test_new_primitive_is_batched_by_its_rule():
    op = new_op("doubled_of_conformance")
    batching_rules.define(op, lambda axis, args, dims: (bind(op, args[0]), dims[0]))
    np.testing.assert_array_equal(np.asarray(vmap(functools.partial(bind, op), in_axes=1)(X)), 2 * X.T)


def test_rule_receives_axis_and_batch_dimensions():
    seen = []
    op = new_op("recorded_of_conformance")

    def rule(axis, args, dims):
        seen.append((axis.size, axis.name, list(dims)))
        return bind(op, args[0]), dims[0]

    batching_rules.define(op, rule)
    vmap(functools.partial(bind, op), in_axes=1, axis_name="i")(X)
    assert seen == [(3, "i", [1])]


def test_overridden_rule_is_used_inside_block():
    mapped = vmap(lax.sin)
    staged = jit(lambda x: vmap(lax.sin)(x))
    with batching_rules.override(prims.sin_p, lambda axis, args, dims: (lax.neg(args[0]), dims[0])):
        np.testing.assert_array_equal(np.asarray(mapped(X)), -X)
        np.testing.assert_array_equal(np.asarray(staged(X)), -X)
    np.testing.assert_allclose(np.asarray(mapped(X)), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(staged(X)), np.sin(X), rtol=1e-6)
