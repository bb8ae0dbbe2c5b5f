"""Division, powers and special functions where they are hard: zeros, infinities, subnormal numbers, derivatives at a point."""
from __future__ import annotations

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_ir import DTypeError, ShapeDtypeStruct, config
from lamina_numpy.ops import segment_sum
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


@HOW
def test_a_python_float_to_powers_that_are_an_array_is_as_strong_as_they_are(how):
    for base, powers in ((0.5, jnp.arange(3)), (1j, jnp.arange(3, dtype=jnp.uint8)), (2, jnp.array([True])), (True, 3)):
        assert not how(jnp.power)(base, powers).weak_type
    assert how(jnp.power)(0.5, True).weak_type and how(jnp.power)(0.5, 2).weak_type
    assert (0.5 ** jnp.arange(3) * jnp.ones(3, "bfloat16")).dtype == np.float32


def test_i0_under_both_widths_and_its_derivative():
    x = np.array([-30.0, -3.75, -1, 0, 1e-3, 3.75, 10, 60])
    np.testing.assert_allclose(np.asarray(jnp.i0(x.astype(np.float32))), np.i0(x), rtol=2e-6)
    with config.enable_x64(True):
        np.testing.assert_allclose(np.asarray(jnp.i0(x)), np.i0(x), rtol=1e-13)
        for at in (3.0, 3.75, 4.5, -3.75):
            derivative = (np.i0(at + 1e-5) - np.i0(at - 1e-5)) / 2e-5
            np.testing.assert_allclose(float(grad(jnp.i0)(at)), derivative, rtol=1e-8)


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


@HOW
def test_parts_of_numbers_have_their_sign_and_infinities_no_fraction(how):
    x = np.float32([1.5, -1.5, -1, 0, -0.0, np.inf, -np.inf, np.nan, 1e10, -7])
    for got, want in zip(how(jnp.modf)(x), np.modf(x)):
        np.testing.assert_array_equal(np.asarray(got), want)
        np.testing.assert_array_equal(np.signbit(np.asarray(got))[:7], np.signbit(want)[:7])
    derivative = grad(lambda v: jnp.modf(v)[0])
    assert [float(derivative(v)) for v in (2.0, 0.0, 1.5, np.inf)] == [1, 1, 1, 0]


@HOW
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_products_with_powers_of_two_are_exact_and_neither_overflow_nor_vanish_on_the_way(how, dtype):
    limits = np.finfo(dtype)
    rng = np.random.RandomState(0)
    x = np.concatenate([[0, np.inf, -np.inf, np.nan, 1, limits.max, limits.tiny], rng.randn(30)]).astype(dtype)
    x, n = np.repeat(x, 40), np.tile(rng.randint(-2500, 2500, 40), len(x))
    with config.enable_x64(True), np.errstate(all="ignore"):
        for exponents in (n, n // 10, n // 100, n.astype("int8"), n.astype("uint8"), n * 800_000):
            got, want = np.asarray(how(jnp.ldexp)(x, exponents)), np.ldexp(x, exponents.astype("int32"))
            plain = ~(np.abs(want) < limits.tiny) | (want == 0)  # backends may take subnormal numbers for 0
            assert got.dtype == dtype
            np.testing.assert_array_equal(got[plain & (want != 0)], want[plain & (want != 0)])
            assert (np.abs(got[want == 0]) == 0).all()
    assert float(grad(jnp.ldexp)(0.0, 3)) == 8


@HOW
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_spacing_is_numpys_down_to_the_smallest_numbers(how, dtype):
    limits = np.finfo(dtype)
    x = np.array([0, 1, -1, 3, limits.tiny, 5 * limits.tiny, -1e-37, 1e30, limits.max, np.inf, np.nan], dtype)
    with config.enable_x64(True), np.errstate(all="ignore"):
        got, want = np.asarray(how(jnp.spacing)(x)), np.spacing(x)
    np.testing.assert_array_equal(got.view(f"int{limits.bits}")[:-2], want.view(f"int{limits.bits}")[:-2])
    assert np.isnan(got[-2:]).all()


def test_floats_without_a_known_layout_are_refused():
    with pytest.raises(DTypeError, match="frexp: expected float16.*float8_e5m2"):
        jnp.frexp(jnp.float8_e5m2(1))


@pytest.mark.parametrize("name", ["copysign", "heaviside", "signbit", "i0", "trunc", "modf"])
def test_complex_numbers_are_refused_by_the_function_that_was_called(name):
    args = (1j, 2.0) if name in ("copysign", "heaviside") else (1j,)
    with pytest.raises(DTypeError, match=f"^{name}: expected real numbers; got complex64"):
        getattr(jnp, name)(*args)


def test_gcd_with_the_lowest_integer_is_positive():
    assert int(jnp.gcd(jnp.int32(-2 ** 31), 5)) == 1 and int(jnp.gcd(5, jnp.int32(-2 ** 31))) == 1


def test_bits_of_booleans_are_counted():
    np.testing.assert_array_equal(np.asarray(jnp.bitwise_count(np.array([True, False]))), [1, 0])


@pytest.mark.parametrize("name", ["isposinf", "isneginf"])
def test_a_place_for_the_result_is_refused(name):
    with pytest.raises(NotImplementedError, match=f"{name}: out= is not supported"):
        getattr(jnp, name)(np.ones(2), np.ones(2))


LONG = np.arange(3000, dtype=np.float32) / 3000


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name, call, want", [
    ("median", lambda x: jnp.median(x), .5), ("quantile", lambda x: jnp.quantile(x, .9, method="lower"), .9),
    ("percentile", lambda x: jnp.percentile(x[::100], 30), .29), ("nanmedian", lambda x: jnp.nanmedian(x), .5),
    ("bincount", lambda x: jnp.bincount(np.zeros(3000, int), x), 1499.5),
    ("round", lambda x: jnp.round(x[0] + 1.05, 2), 1.05),
    ("segment_sum", lambda x: segment_sum(x, np.zeros(3000, int)), 1499.5),
    ("reduce", lambda x: jnp.logaddexp.reduce(0 * x), 8.006367567650246),
    ("accumulate", lambda x: jnp.logaddexp.accumulate(0 * x)[-1], 8.006367567650246),
    ("reduceat", lambda x: jnp.add.reduceat(x, np.array([0])), 1499.5),
    ("linspace", lambda x: jnp.linspace(x[0] - 3, x[0] + 10, 300)[69], 0.0),
    ("geomspace", lambda x: jnp.geomspace(x[0] + 1, 200, 5)[3], 53.182958969449885),
    ("logspace", lambda x: jnp.logspace(x[0] - 2, 2, 5)[4], 100.0), ("sinc", lambda x: jnp.sinc(x[0] + 2.5), .12732395),
    ("i0", lambda x: jnp.i0(x[0] + 12), 18948.925349296308), ("cov", lambda x: jnp.cov(x + 8), np.var(LONG, ddof=1)),
    ("polyval", lambda x: jnp.polyval(jnp.array([1, -3, 2.015625], x.dtype), x[0] + 1), .015625),
    ("average", lambda x: jnp.average(x[:5] + 1, weights=np.arange(5, dtype=np.int8)), 1.001),
    ("interp", lambda x: jnp.interp(x[0] + 1.5, jnp.array([1, 2.], x.dtype), jnp.array([-10, 10.25], x.dtype)), .125)])
def test_half_precision_is_rounded_once(name, call, want, dtype):
    got = call(jnp.asarray(LONG, dtype))
    assert got.dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(np.ravel(got).astype(float), want, rtol=2.0 ** (-8 if dtype == "bfloat16" else -10), atol=2e-3)


def test_ldexp_by_booleans_and_variance_in_whole_numbers():
    np.testing.assert_array_equal(np.asarray(jnp.ldexp(1.5, np.array([True, False]))), [3, 1.5])
    assert float(jnp.var(np.arange(5), dtype=int)) == 2.0


def test_polyfit_in_the_dtype_of_its_points():
    x = jnp.arange(5, dtype="bfloat16")
    for fit in (jnp.polyfit, jit(lambda x, y, n: jnp.polyfit(x, y, n), static_argnums=2)):
        got = fit(x, 2 * x - 1, 1)
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got.astype(np.float32), [2, -1], atol=1e-2)


def test_derivative_of_i0_is_i1_for_tiny_numbers_too():
    with config.enable_x64(True):
        np.testing.assert_allclose(grad(jnp.i0)(1e-300), 5e-301, rtol=1e-14)
        np.testing.assert_allclose(grad(jnp.i0)(-2.0), -1.5906368546373291, rtol=1e-14)
        np.testing.assert_allclose(grad(grad(jnp.i0))(0.0), 0.5, rtol=1e-14)


@HOW
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_frexp_of_subnormal_numbers_is_numpys(how, dtype):
    with config.enable_x64(True):
        info = np.finfo(dtype)
        x = np.array([info.smallest_subnormal, -info.tiny / 3, info.tiny, -0.0, info.max, np.inf], dtype)
        for got, wanted in zip(how(jnp.frexp)(x), np.frexp(x), strict=True):
            np.testing.assert_array_equal(np.asarray(got), wanted)


@pytest.mark.parametrize("dtype, is_complex", [("complex64", True), ("float32", False), ("int8", False)])
def test_complex_dtypes_are_recognized_without_data(dtype, is_complex):
    s = ShapeDtypeStruct((2, 3), dtype)
    assert jnp.iscomplexobj(s) is is_complex
    assert jnp.isrealobj(s) is not is_complex


def test_scalar_types_are_real_or_complex():
    assert jnp.iscomplexobj(jnp.complex64) and not jnp.iscomplexobj(jnp.float32) and jnp.isrealobj(jnp.float32)
    with pytest.raises(TypeError, match="iscomplexobj: expected an array"):
        jnp.iscomplexobj(np.float32)
