"""Rows of `batching_rules`: those added for new ops, and those put in another's place, are what a map does."""
from __future__ import annotations

import functools

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_batching.extend import batching_rules
from lamina_ir import MissingRuleError, Primitive, prims
from lamina_tracing import jit, lax
from lamina_tracing.extend import bind

pytestmark = pytest.mark.rows

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def new_op(name):
    return Primitive(name, infer=lambda x: x, numpy=lambda x: x * np.float32(2), family="elementwise")


def test_a_new_op_without_a_row_is_refused_by_name():
    with pytest.raises(MissingRuleError, match="lonely_of_contract"):
        vmap(functools.partial(bind, new_op("lonely_of_contract")))(X)


def test_a_new_op_is_mapped_by_its_row():
    op = new_op("doubled_of_contract")
    batching_rules.define(op, lambda axis, args, dims: (bind(op, args[0]), dims[0]))
    np.testing.assert_array_equal(np.asarray(vmap(functools.partial(bind, op), in_axes=1)(X)), 2 * X.T)


def test_a_row_is_told_of_the_axis_and_where_it_lies():
    seen = []
    op = new_op("told_of_contract")

    def row(axis, args, dims):
        seen.append((axis.size, axis.name, list(dims)))
        return bind(op, args[0]), dims[0]

    batching_rules.define(op, row)
    vmap(functools.partial(bind, op), in_axes=1, axis_name="i")(X)
    assert seen == [(3, "i", [1])]


def test_a_row_in_anothers_place_is_obeyed_while_it_stands():
    mapped = vmap(lax.sin)
    staged = jit(lambda x: vmap(lax.sin)(x))
    with batching_rules.override(prims.sin_p, lambda axis, args, dims: (lax.neg(args[0]), dims[0])):
        np.testing.assert_array_equal(np.asarray(mapped(X)), -X)
        np.testing.assert_array_equal(np.asarray(staged(X)), -X)
    np.testing.assert_allclose(np.asarray(mapped(X)), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(staged(X)), np.sin(X), rtol=1e-6)
