"""Derivatives of elementwise primitives at special points; samples are tested in test_every_op.py."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, vjp
from lamina_ir import MissingRuleError, config
from lamina_tracing import lax, make_jaxpr


@pytest.mark.parametrize(("f", "at", "wanted"), [
    (lambda x: lax.max(x, 0.0), 0.0, 0.5), (lambda x: lax.min(x, 1.0), 2.0, 0.0), (lax.abs, 0.0, 0.0),
    (lambda x: lax.clamp(0.0, x, 1.0), 1.0, 0.0), (lambda x: lax.clamp(0.0, x, 1.0), 0.5, 1.0),
    (lambda x: lax.pow(x, 0.0), 0.0, 0.0), (lambda x: lax.pow(2.0, x), 3.0, 8 * np.log(2)),
    (lambda x: lax.pow(x, 2), 3.0, 6.0), (lambda x: lax.integer_pow(x, 0), 3.0, 0.0),
    (lambda x: lax.integer_pow(x, -1), 2.0, -0.25), (lax.sqrt, 4.0, 0.25), (lambda x: lax.rem(7.5, x), 2.0, -3.0),
    (lax.floor, 1.5, 0.0), (lambda x: lax.convert_element_type(lax.convert_element_type(x, int), float), 1.5, 0.0)])
def test_derivative_at_a_point(f, at, wanted):
    np.testing.assert_allclose(grad(f)(at), wanted, rtol=1e-5)


def test_rank_0_operand_gets_summed_cotangent():
    x = np.arange(3, dtype=np.float32)
    for op, wanted in ((lax.add, 3.0), (lax.sub, 3.0), (lax.mul, 3.0)):
        out, pull = vjp(lambda s, op=op: op(s, x), np.float32(2))
        (ct,) = pull(np.ones(3, np.float32))
        assert ct.shape == () and float(ct) == wanted


def test_derivative_of_quotient_divides_once():
    x, y = np.array([1, 2, 3], np.float32), np.array([2, -4, 0.5], np.float32)

    def divisions(f):
        return sum(e.primitive.name == "div" for e in make_jaxpr(f)(x, y).jaxpr.eqns)

    assert divisions(lambda x, y: jvp(lax.div, (x, y), (y, x))) == 2  # the quotient itself is one of them
    assert divisions(lambda x, y: vjp(lax.div, x, y)[1](x)) == 2
    _, pull = vjp(lax.div, x, y)
    for got, wanted in zip(pull(x), (x / y, -x * x / (y * y))):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    for tangents in ((y, x), (y, 0 * x), (0 * y, x)):
        np.testing.assert_allclose(jvp(lax.div, (x, y), tangents)[1], tangents[0] / y - x / y**2 * tangents[1], rtol=1e-6)
    out, pull = vjp(lax.div, np.float32(6), y)
    np.testing.assert_allclose(pull(np.ones_like(out))[0], (1 / y).sum(), rtol=1e-6)


def test_complex_cotangents_are_not_conjugated():
    z = np.array([1 + 2j], np.complex64)
    _, pull = vjp(lax.real, z)
    assert pull(np.ones(1, np.float32))[0].tolist() == [1]
    _, pull = vjp(lax.imag, z)
    assert pull(np.ones(1, np.float32))[0].tolist() == [-1j]
    _, tangent = jvp(lax.abs, (np.array([3 + 4j], np.complex64),), (np.array([1j], np.complex64),))
    np.testing.assert_allclose(tangent, [0.8], rtol=1e-6)


def test_tangent_through_integers_is_zero():
    convert = lax.convert_element_type
    _, tangent = jvp(lambda x: convert(convert(x, np.int32), np.float32), (1.5,), (1.0,))
    assert float(tangent) == 0.0


def test_operand_without_derivative_is_reported():
    with pytest.raises(MissingRuleError, match="stop_gradient"):
        grad(lambda m: lax.polygamma(m, 2.0))(1.0)
    with pytest.raises(MissingRuleError, match="next"):
        grad(lambda x: lax.nextafter(x, 2.0))(1.0)


@pytest.mark.parametrize(("f", "at", "wanted"), [
    (lax.expm1, -40.0, 4.248354255291589e-18), (lax.expm1, 1.0, 2.718281828459045), (lax.tanh, 20.0, 1.6993417021166355e-17),
    (lax.tanh, -20.0, 1.6993417021166355e-17), (lax.tanh, 300.0, 1.0601586212017243e-260), (lax.tanh, 0.0, 1.0),
    (lax.logistic, 37.4, 5.719872877313073e-17), (lax.logistic, -37.4, 5.719872877313073e-17), (lax.logistic, 800.0, 0.0),
    (lax.logistic, -800.0, 0.0)])
def test_derivative_keeps_digits_that_the_result_has_lost(f, at, wanted):
    with config.enable_x64(True):
        np.testing.assert_allclose(grad(f)(at), wanted, rtol=1e-14)


@pytest.mark.parametrize(("f", "at", "second", "third"), [
    (lax.tanh, 0.0, 0.0, -2.0), (lax.tanh, 1e-9, -2e-9, -2.0), (lax.tanh, 20.0, -3.398683404233271e-17, 6.797366808466542e-17),
    (lax.logistic, 0.0, 0.0, -0.125), (lax.logistic, 1e-9, -1.25e-10, -0.125),
    (lax.logistic, 800.0, 0.0, 0.0), (lax.logistic, -800.0, 0.0, 0.0)])
def test_higher_derivatives_of_sigmoids_keep_digits(f, at, second, third):
    with config.enable_x64(True):
        np.testing.assert_allclose(grad(grad(f))(at), second, rtol=1e-14)
        np.testing.assert_allclose(grad(grad(grad(f)))(at), third, rtol=1e-14)
