"""Rows of `jvp_rules` and `transpose_rules`: those added for new ops, and those put in another's place, are what is done."""
from __future__ import annotations

import functools

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, linear_transpose, linearize, vjp
from lamina_autodiff.extend import is_linear, jvp_rules, def_elementwise_jvp, transpose_rules
from lamina_ir import MissingRuleError, Primitive, prims
from lamina_tracing import jit, lax
from lamina_tracing.extend import bind

pytestmark = pytest.mark.rows

X, ONE = np.float32(0.5), np.float32(1)
WAYS = {"jvp": lambda f: lambda x: jvp(f, (x,), (ONE,))[1], "linearize": lambda f: lambda x: linearize(f, x)[1](ONE),
        "vjp": lambda f: lambda x: vjp(f, x)[1](ONE)[0], "grad": grad, "jit of grad": lambda f: jit(grad(f))}


def new_op(name, **facts):
    return Primitive(name, infer=lambda *xs: xs[0], numpy=lambda x, *_: x * np.float32(2), family="elementwise", **facts)


@pytest.mark.parametrize("way", WAYS)
def test_a_new_op_is_differentiated_by_its_row(way):
    op = new_op(f"slope_of_contract_{way.replace(' ', '_')}")
    jvp_rules.define(op, lambda primals, tangents: (bind(op, primals[0]), lax.mul(tangents[0], 7.0)))
    assert float(WAYS[way](functools.partial(bind, op))(X)) == 7


def test_a_slope_is_a_row():
    op = new_op("slopes_of_contract", elementwise=True)
    def_elementwise_jvp(op, lambda x, ans: lax.mul(ans, 10.0))
    assert float(grad(functools.partial(bind, op))(X)) == 10


def test_a_linear_op_needs_no_forward_row():
    op = new_op("linear_of_contract", linear_in=(0,))
    transpose_rules.define(op, lambda ct, x: lax.mul(ct, 2.0) if is_linear(x) else None)
    f = functools.partial(bind, op)
    assert float(jvp(f, (X,), (ONE,))[1]) == 2 and float(grad(f)(X)) == 2 and float(linear_transpose(f, X)(ONE)[0]) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_row_in_anothers_place_is_obeyed_while_it_stands(way):
    made = WAYS[way](lax.sin)
    np.testing.assert_allclose(float(made(X)), np.cos(0.5), rtol=1e-6)
    with jvp_rules.override(prims.sin_p, lambda primals, tangents: (lax.sin(primals[0]), lax.mul(tangents[0], 7.0))):
        assert float(made(X)) == 7
    np.testing.assert_allclose(float(made(X)), np.cos(0.5), rtol=1e-6)


def test_a_hole_is_refused_in_its_own_words():
    op = new_op("hole_of_contract")
    jvp_rules.declare_missing(op, "nobody knows it")
    with pytest.raises(MissingRuleError, match="hole_of_contract.*nobody knows it"):
        grad(functools.partial(bind, op))(X)
