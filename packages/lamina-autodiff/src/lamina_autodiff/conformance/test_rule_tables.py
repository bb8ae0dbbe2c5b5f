"""Rules added to `jvp_rules` and `transpose_rules` for new primitives, and overrides of existing rules, are used."""
from __future__ import annotations

import functools

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, linear_transpose, linearize, vjp
from lamina_autodiff.extend import is_linear, jvp_rules, def_elementwise_jvp, transpose_rules
from lamina_ir import MissingRuleError, Primitive, prims
from lamina_tracing import jit, lax
from lamina_tracing.extend import bind

pytestmark = pytest.mark.rules

X, ONE = np.float32(0.5), np.float32(1)
WAYS = {"jvp": lambda f: lambda x: jvp(f, (x,), (ONE,))[1], "linearize": lambda f: lambda x: linearize(f, x)[1](ONE),
        "vjp": lambda f: lambda x: vjp(f, x)[1](ONE)[0], "grad": grad, "jit of grad": lambda f: jit(grad(f))}


def new_op(name, **facts):
    return Primitive(name, infer=lambda *xs: xs[0], numpy=lambda x, *_: x * np.float32(2), family="elementwise", **facts)


@pytest.mark.parametrize("way", WAYS)
def test_new_primitive_is_differentiated_by_its_rule(way):
    op = new_op(f"derivative_of_conformance_{way.replace(' ', '_')}")
    jvp_rules.define(op, lambda primals, tangents: (bind(op, primals[0]), lax.mul(tangents[0], 7.0)))
    assert float(WAYS[way](functools.partial(bind, op))(X)) == 7


def test_elementwise_jvp_is_a_rule():
    op = new_op("elementwise_of_conformance", elementwise=True)
    def_elementwise_jvp(op, lambda x, ans: lax.mul(ans, 10.0))
    assert float(grad(functools.partial(bind, op))(X)) == 10


def test_linear_primitive_needs_no_jvp_rule():
    op = new_op("linear_of_conformance", linear_in=(0,))
    transpose_rules.define(op, lambda ct, x: lax.mul(ct, 2.0) if is_linear(x) else None)
    f = functools.partial(bind, op)
    assert float(jvp(f, (X,), (ONE,))[1]) == 2 and float(grad(f)(X)) == 2 and float(linear_transpose(f, X)(ONE)[0]) == 2


@pytest.mark.parametrize("way", WAYS)
def test_overridden_rule_is_used_inside_block(way):
    made = WAYS[way](lax.sin)
    np.testing.assert_allclose(float(made(X)), np.cos(0.5), rtol=1e-6)
    with jvp_rules.override(prims.sin_p, lambda primals, tangents: (lax.sin(primals[0]), lax.mul(tangents[0], 7.0))):
        assert float(made(X)) == 7
    np.testing.assert_allclose(float(made(X)), np.cos(0.5), rtol=1e-6)


def test_missing_rule_error_has_recorded_reason():
    op = new_op("missing_of_conformance")
    jvp_rules.declare_missing(op, "no derivative known")
    with pytest.raises(MissingRuleError, match="missing_of_conformance.*no derivative known"):
        grad(functools.partial(bind, op))(X)
