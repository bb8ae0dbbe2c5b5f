"""Complex functions on branch cuts, at signed zeros, infinities and NaNs, and for huge and tiny numbers, against NumPy.

NumPy follows C99 Annex G. Each function is evaluated with NumPy and compiled with XLA. `DIFFERENCES` lists where the
results differ from NumPy's on purpose.
"""
from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_ir import config, evaluate
from lamina_tracing import make_jaxpr

PARTS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 1e30, -1e30, 40.0, -40.0,
         800.0, -800.0)
NAMES = ("absolute", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "conjugate", "cos", "cosh",
         "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "sign", "sin", "sinh", "sqrt", "square",
         "tan", "tanh")
DTYPES = ("complex64", "complex128")
HOW = ("evaluated", "compiled")


def _points(dtype: str) -> np.ndarray:
    """Return all pairs of PARTS, and random numbers of all sizes and on the axes."""
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.product(PARTS, PARTS))).T
    sizes = 10.0 ** rng.uniform(-30, 30, (2, 200)) * rng.choice([-1, 1], (2, 200))
    near = rng.uniform(-3, 3, (2, 200))
    real, imag = np.concatenate([pairs, sizes, near, near * [[0.0], [1.0]], near * [[1.0], [-0.0]]], axis=1)
    z = np.empty(real.shape, dtype)
    z.real, z.imag = real, imag
    return z


def _either(test: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda z: test(z.real) | test(z.imag)


# name -> where the results differ from NumPy's, and why
DIFFERENCES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "exp2": (lambda z: np.abs(z.imag) > 30, "the evaluator computes in complex128; NumPy rounds y log(2) to the dtype"),
    "expm1": (lambda z: ~np.isfinite(z) | (z.real > 80) | (np.abs(z) < 1e-18),
              "NumPy multiplies overflowed exponentials by a zero sine, which gives NaN; here it is exp(z) - 1. For tiny z"
              " the real part is negative and underflows to -0"),
    "log1p": (lambda z: np.abs(z) < 0.1, "NumPy adds 1 first, which loses digits"),
    "square": (lambda z: (np.maximum(np.abs(z.real), np.abs(z.imag)) > 1e18) | (np.abs(z.real) < 1e-18)
               | (np.abs(z.imag) < 1e-18), "NumPy's products of the parts overflow and underflow before they are subtracted"),
    "reciprocal": (lambda z: (z == 0) | _either(np.isinf)(z), "NumPy gives NaN for 0 and for infinite numbers"),
    "sign": (lambda z: np.isinf(z.real) & np.isnan(z.imag) | np.isnan(z.real) & np.isinf(z.imag), "differs by NumPy's version"),
}


@functools.cache
def _results(dtype: str, how: str) -> dict[str, np.ndarray]:
    z = _points(dtype)
    with config.enable_x64(True), np.errstate(all="ignore"):
        program = make_jaxpr(lambda x: [getattr(jnp, name)(x) for name in NAMES])(z)
        if how == "evaluated":
            return dict(zip(NAMES, evaluate(program, z), strict=True))
        testing = pytest.importorskip("lamina_lowering.testing")
        lowering = pytest.importorskip("lamina_lowering")
        return dict(zip(NAMES, testing.run_lowered(lowering.lower(program), z), strict=True))


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if np.iscomplexobj(x) else [x]


def _matches(got: np.ndarray, want: np.ndarray, others_nan: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return whether one part of the results is equal, with sign, or close relative to `size`.

    If the other part is NaN, C99 leaves signs of zeros and infinities open.
    """
    info = np.finfo(want.dtype)
    same_sign = np.signbit(got) == np.signbit(want)
    exact = np.isnan(got) & np.isnan(want) | (got == want) & (same_sign | others_nan)
    exact |= np.isinf(got) & np.isinf(want) & others_nan
    # Compiled programs flush subnormal numbers to zero.
    tolerance = np.where(np.isfinite(size), 16 * info.eps * size, 0) + info.tiny
    both_zero = (got == 0) & (want == 0)
    return exact | np.isfinite(got) & np.isfinite(want) & ~both_zero & (np.abs(got - want) <= tolerance)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("dtype", DTYPES)
def test_log1p_of_small_complex_numbers_keeps_digits(dtype, how):
    z, got = _points(dtype), _results(dtype, how)["log1p"]
    small = np.abs(z) < 1e-4
    z = z[small].astype(np.complex128)
    np.testing.assert_allclose(got[small], z * (1 - z * (1 / 2 - z * (1 / 3 - z / 4))), rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", HOW)
def test_complex_function_is_numpys_at_edges(how, dtype, name):
    z, got = _points(dtype), _results(dtype, how)[name]
    with np.errstate(all="ignore"):
        want = getattr(np, name)(z)
        assert got.dtype == want.dtype
        nan = [np.isnan(part) for part in _parts(want)]
        size = functools.reduce(np.maximum, [np.where(np.isfinite(part), np.abs(part), 0) for part in _parts(want)])
        ok = np.ones(z.shape, bool)
        for part, (g, w) in enumerate(zip(_parts(got), _parts(want), strict=True)):
            ok &= _matches(g, w, nan[1 - part] if len(nan) > 1 else np.zeros(z.shape, bool), size)
        if name in DIFFERENCES:
            ok |= DIFFERENCES[name][0](z)
    assert ok.all(), [(z[i], got[i], want[i]) for i in np.nonzero(~ok)[0][:5]]


def _pairs(values: tuple[float, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    parts = np.array(list(itertools.product(values, repeat=4))).T
    x, y = np.empty(parts.shape[1], dtype), np.empty(parts.shape[1], dtype)
    x.real, x.imag, y.real, y.imag = parts
    return x, y


@functools.cache
def _of_pairs(name: str, values: tuple[float, ...], dtype: str, how: str) -> np.ndarray:
    x, y = _pairs(values, dtype)
    with config.enable_x64(True), np.errstate(all="ignore"):
        program = make_jaxpr(getattr(jnp, name))(x, y)
        if how == "evaluated":
            return evaluate(program, x, y)[0]
        testing = pytest.importorskip("lamina_lowering.testing")
        return testing.run_lowered(pytest.importorskip("lamina_lowering").lower(program), x, y)[0]


_FINITE = (0.0, -0.0, 0.5, -1.0, 3.0, 1e-15, -1e15)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", HOW)
def test_complex_quotients_are_numpys(how, dtype):
    x, y = _pairs(_FINITE, dtype)
    got, nonzero = _of_pairs("divide", _FINITE, dtype, how), y != 0
    want = x[nonzero] / y[nonzero]
    assert (np.abs(got[nonzero] - want) <= 4 * np.finfo(dtype).eps * np.abs(want)).all()
    assert not np.isfinite(got[~nonzero]).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", HOW)
def test_complex_powers_are_numpys(how, dtype):
    """Signs of zero differ: a real exponent scales both parts of log(x) here, which NumPy multiplies by an imaginary 0."""
    values = (0.0, -0.0, 0.5, -1.0, 3.0, 40.0)
    x, y = _pairs(values, dtype)
    got = _of_pairs("power", values, dtype, how)
    with np.errstate(all="ignore"):
        want = x ** y
        inside = ((x != 0) | (y.real > 0) | (y == 0)) & np.isfinite(want) & (np.abs(want) > 1e-30)
        assert inside.sum() > 900
        limit = 4 * np.finfo(dtype).eps * (1 + np.abs(y * np.log(np.where(x == 0, 1, x)))) * np.abs(want)
        assert (np.abs(got - want)[inside] <= limit[inside]).all()
    on_cut = (x == complex(-1, -0.0)) & (y == 0.5) & np.signbit(x.imag)
    np.testing.assert_allclose(got[on_cut], -1j, atol=1e-6)
