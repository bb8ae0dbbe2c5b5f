"""The work of a map: the function runs once, each primitive is bound once, shared values are computed once."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import prims, walk
from lamina_tracing import lax, make_jaxpr

pytestmark = pytest.mark.cost


def count(closed, name):
    return sum(e.primitive.name == name for e in walk(closed))


def test_function_runs_once_for_any_size():
    shapes = []
    vmap(lambda x: shapes.append(np.shape(x)) or x)(np.zeros((1000, 2), np.float32))
    assert shapes == [(2,)]


@pytest.mark.parametrize("size", [1, 100])
def test_batched_primitive_is_one_primitive(size):
    def chain(x, y):
        return lax.reduce_sum(lax.mul(lax.sin(x), lax.exp(y)), (0,))

    closed = make_jaxpr(vmap(chain))(*[np.ones((size, 3), np.float32)] * 2)
    assert {name: count(closed, name) for name in ("sin", "exp", "mul", "reduce_sum")} == dict.fromkeys(
        ("sin", "exp", "mul", "reduce_sum"), 1)
    assert len(list(walk(closed))) < 10


def test_unbatched_values_are_computed_once():
    closed = make_jaxpr(vmap(lambda x, y: lax.add(x, lax.sin(y)), in_axes=(0, None)))(np.ones(50, np.float32), np.float32(1))
    sine, = [e for e in walk(closed) if e.primitive is prims.sin_p]
    assert sine.outvars[0].aval.shape == ()


def test_batched_product_does_not_repeat_shared_operand():
    closed = make_jaxpr(vmap(lax.dot, in_axes=(0, None)))(np.ones((5, 7), np.float32), np.ones((7, 3), np.float32))
    product, = [e for e in walk(closed) if e.primitive is prims.dot_general_p]
    assert sorted(product.outvars[0].aval.shape) == [3, 5]
    assert all(np.prod(v.aval.shape) <= 35 for v in product.invars)


def test_equal_in_and_out_axes_need_no_transpose():
    closed = make_jaxpr(vmap(lambda x: lax.sin(x), in_axes=1, out_axes=1))(np.ones((3, 5), np.float32))
    assert [e.primitive.name for e in walk(closed)] == ["sin"]


def test_batch_of_loops_with_equal_length_is_one_loop():
    def fun(x):
        return lax.scan(lambda c, v: (lax.add(c, v), c), np.float32(0), x)[0]

    closed = make_jaxpr(vmap(fun))(np.ones((20, 6), np.float32))
    assert [e.params["length"] for e in walk(closed) if e.primitive is prims.scan_p] == [6]
