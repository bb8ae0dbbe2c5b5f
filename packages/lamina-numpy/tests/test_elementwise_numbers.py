"""Division, powers and special functions where they are hard: zeros, infinities, subnormal numbers, derivatives at a point."""
from __future__ import annotations

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_ir import config
from lamina_tracing import jit

VALUES = np.float32([0.0, -0.0, 1, -1, 4, -4, 5.5, -5.5, np.inf, -np.inf, np.nan, 3, 1e30, 1e-30])
X, Y = (v.ravel() for v in np.meshgrid(VALUES, VALUES))
HOW = pytest.mark.parametrize("how", [lambda f: f, jit], ids=["eager", "jit"])


@HOW
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "divmod"])
def test_division_of_floats_is_numpys(how, name):
    with np.errstate(all="ignore"):
        want = getattr(np, name)(X, Y)
    np.testing.assert_array_equal(np.asarray(how(getattr(jnp, name))(X, Y)), np.asarray(want))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_division_by_zero_has_the_sign_of_the_quotient(dtype):
    with config.enable_x64(True):
        got = jnp.floor_divide(jnp.array([1.0, -1.0, 0.0], dtype), jnp.array(0.0, dtype))
    np.testing.assert_array_equal(np.asarray(got, np.float64), [np.inf, -np.inf, np.nan])


@HOW
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_integer_powers_wrap_as_numpys(how, dtype):
    rng = np.random.RandomState(0)
    info = np.iinfo(dtype)
    x = np.concatenate([[0, 1, 2, 3, 0, 3, 2], rng.randint(info.min, info.max, 20, np.int64)]).astype(dtype)
    y = np.concatenate([[64, 64, 64, 64, 0, 100, 31], rng.randint(0, 100, 20)]).astype(dtype)
    got = how(jnp.power)(x, y)
    assert got.dtype == dtype
    np.testing.assert_array_equal(np.asarray(got), x ** y)


def test_whole_numbers_to_negative_powers_are_0_but_for_1():
    got = jnp.power(jnp.array([0, 1, -1, -1, 2, 5]), jnp.array([-1, -3, -3, -2, -1, -40]))
    np.testing.assert_array_equal(np.asarray(got), [0, 1, -1, 1, 0, 0])


def test_powers_of_a_python_number_are_as_strong_as_the_array():
    powers = 2 ** jnp.arange(10)
    assert not powers.weak_type and (powers + np.int8(1)).dtype == np.int32
    assert (2 ** jnp.arange(4, dtype=jnp.int8)).dtype == np.int8
    assert jnp.power(jnp.asarray(2), jnp.asarray(3)).weak_type


def test_i0_under_both_widths_and_its_slope():
    x = np.array([-30.0, -3.75, -1, 0, 1e-3, 3.75, 10, 60])
    np.testing.assert_allclose(np.asarray(jnp.i0(x.astype(np.float32))), np.i0(x), rtol=2e-6)
    with config.enable_x64(True):
        np.testing.assert_allclose(np.asarray(jnp.i0(x)), np.i0(x), rtol=1e-14)
        for at in (3.0, 3.75, 4.5, -3.75):
            slope = (np.i0(at + 1e-5) - np.i0(at - 1e-5)) / 2e-5
            np.testing.assert_allclose(float(grad(jnp.i0)(at)), slope, rtol=1e-8)


@pytest.mark.parametrize("at", [0.0, 1e-4, 0.2, 0.3183, 0.3184, 1.0, -2.5])
def test_derivatives_of_sinc_of_every_order(at):
    """Derivative k of sin(z) / z is the integral of s**k cos(s z + k pi / 2) over s in [0, 1]."""
    s = (np.arange(20000) + 0.5) / 20000
    f = jnp.sinc
    with config.enable_x64(True):
        for k in range(6):
            want = np.pi ** k * np.mean(s ** k * np.cos(s * np.pi * at + k * np.pi / 2))
            np.testing.assert_allclose(float(f(at)), want, rtol=1e-6, atol=2e-6)
            f = grad(f)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_mantissa_and_exponent_of_subnormal_numbers(dtype):
    info = np.finfo(dtype)
    x = np.array([0.0, -0.0, 1, -3.25, info.max, info.tiny, info.smallest_subnormal, -info.smallest_subnormal * 5,
                  info.tiny / 2, np.inf, -np.inf], dtype)
    with config.enable_x64(True):
        for how in (lambda f: f, jit):
            mantissa, exponent = how(jnp.frexp)(x)
            want = np.frexp(x)
            np.testing.assert_array_equal(np.asarray(mantissa)[:9], want[0][:9])
            np.testing.assert_array_equal(np.asarray(exponent)[:9], want[1][:9])
            np.testing.assert_array_equal(np.asarray(mantissa)[9:], x[9:])


def test_mantissa_and_exponent_of_bfloat16():
    mantissa, exponent = jnp.frexp(jnp.array([0.15625, -40.0], jnp.bfloat16))
    np.testing.assert_array_equal(np.asarray(mantissa, np.float32), [0.625, -0.625])
    np.testing.assert_array_equal(np.asarray(exponent), [-2, 6])
