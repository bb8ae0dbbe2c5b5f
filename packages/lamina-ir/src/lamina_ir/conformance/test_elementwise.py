"""Elementwise primitives compared with NumPy and `math` in wide types; special functions with closed forms."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from lamina_ir import config, dtypes, evaluate_primitive, prims
from lamina_ir.testing import tolerance
from lamina_ir.testing.samples import samples_of


def each(fun: Any) -> Any:
    """Return a function of numbers as one of arrays."""
    return lambda *xs: np.vectorize(fun, otypes=[float])(*xs)


def bits(x: np.ndarray) -> int:
    return 8 * x.dtype.itemsize


def unsigned(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


def zeta(s: float, q: float) -> float:
    """Return the Hurwitz zeta function: 50 terms and the Euler-Maclaurin tail."""
    n = 50
    a = q + n
    tail = a ** (1 - s) / (s - 1) + a ** -s / 2 + s * a ** (-s - 1) / 12 - s * (s + 1) * (s + 2) * a ** (-s - 3) / 720
    return sum((q + k) ** -s for k in range(n)) + tail


def digamma(x: float) -> float:
    shift = sum(1 / (x + k) for k in range(60))
    y = x + 60
    return math.log(y) - 1 / (2 * y) - 1 / (12 * y * y) + 1 / (120 * y ** 4) - shift


def erf_inv(y: float) -> float:
    low, high = -6.0, 6.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return low


def bessel(order: int) -> Any:
    """Return exp(-|x|) I_n(x), by its integral over a half circle."""
    def value(x: float) -> float:
        angle = (np.arange(4000) + 0.5) * np.pi / 4000
        return float(np.mean(np.exp(x * np.cos(angle) - abs(x)) * np.cos(order * angle)))
    return each(value)


def lgamma(x: float) -> float:
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


def rounded(x: np.ndarray, *, rounding_method: Any) -> np.ndarray:
    return np.rint(x) if int(rounding_method) == 1 else np.trunc(x + np.copysign(0.5, x))


def shifted(direction: str) -> Any:
    def shift(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = np.broadcast_arrays(x, y)
        n = bits(x)
        out = []
        for a, b in zip(x.reshape(-1).tolist(), unsigned(np.ascontiguousarray(y)).reshape(-1).tolist()):
            low = a % 2 ** n
            value = {"left": low << b if b < n else 0, "logical": low >> b if b < n else 0,
                     "arithmetic": a >> min(b, n)}[direction]
            value %= 2 ** n
            out.append(value - 2 ** n if x.dtype.kind == "i" and value >= 2 ** (n - 1) else value)
        return np.array(out, x.dtype).reshape(x.shape)
    return shift


def recast(x: np.ndarray, *, new_dtype: Any) -> np.ndarray:
    ratio = x.dtype.itemsize / np.dtype(new_dtype).itemsize
    x = np.ascontiguousarray(x)
    if ratio == 1:
        return x.view(new_dtype)
    return x[..., None].view(new_dtype) if ratio > 1 else x.view(new_dtype)[..., 0]


def converted(x: np.ndarray, *, new_dtype: Any, weak_type: bool) -> np.ndarray:
    new = np.dtype(new_dtype)
    if np.iscomplexobj(x) and new.kind != "c":
        x = x.real
    if new.kind in "iu" and dtypes.is_inexact(x.dtype):  # saturate; NaN becomes zero
        ends = np.iinfo(new)
        whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        return np.array([min(max(int(v), ends.min), ends.max) if np.isfinite(v) else ends.max if v > 0 else ends.min
                         for v in whole.reshape(-1)], new).reshape(x.shape)
    return x != 0 if new.kind == "b" else x.astype(new)


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Divide towards zero; an integer divided by zero is all ones."""
    if x.dtype.kind not in "iu":
        return x / y
    x, y = np.broadcast_arrays(x, y)
    pairs = zip(x.reshape(-1).tolist(), y.reshape(-1).tolist())
    return np.array([-1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]).astype(
        x.dtype).reshape(x.shape)


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the remainder with the sign of `x`; for integers, x rem 0 is x."""
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y))) if x.dtype.kind in "iu" else np.fmod(x, y)


# primitive -> its definition on arrays in the widest dtype of their kind
WIDE = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "add": np.add, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "bessel_i0e": bessel(0), "bessel_i1e": bessel(1),
    "cbrt": np.cbrt, "ceil": np.ceil, "clamp": lambda lo, x, hi: np.minimum(np.maximum(x, lo), hi),
    "complex": lambda x, y: x + 1j * y, "conj": np.conj, "copy": lambda x: x, "cos": np.cos, "cosh": np.cosh,
    "digamma": each(digamma), "eq": np.equal, "erf": each(math.erf), "erf_inv": each(erf_inv), "erfc": each(math.erfc),
    "exp": np.exp, "exp2": lambda x: 2.0 ** x, "expm1": np.expm1, "floor": np.floor, "ge": np.greater_equal, "gt": np.greater,
    "imag": np.imag, "integer_pow": lambda x, *, y: x ** float(y) if y < 0 else x ** y, "is_finite": np.isfinite,
    "le": np.less_equal, "lgamma": each(lgamma), "log": np.log, "log1p": np.log1p, "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "lt": np.less, "max": np.maximum, "min": np.minimum, "mul": np.multiply, "ne": np.not_equal, "neg": np.negative,
    "polygamma": each(lambda n, x: (-1) ** (n + 1) * math.factorial(int(n)) * zeta(n + 1, x) if n else digamma(x)),
    "pow": np.power, "real": np.real, "round": rounded, "rsqrt": lambda x: 1 / np.sqrt(x),
    "select": lambda p, t, f: np.where(p, t, f), "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "square": lambda x: x * x,
    "stop_gradient": lambda x: x, "sub": np.subtract, "tan": np.tan, "tanh": np.tanh, "zeta": each(zeta),
}
# primitive -> its definition on arrays of the given dtype
EXACT = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "clz": lambda x: np.array([bits(x) - int(v).bit_length() for v in unsigned(x).reshape(-1)], x.dtype).reshape(x.shape),
    "population_count": lambda x: np.array([int(v).bit_count() for v in unsigned(x).reshape(-1)], x.dtype).reshape(x.shape),
    "shift_left": shifted("left"), "shift_right_logical": shifted("logical"), "shift_right_arithmetic": shifted("arithmetic"),
    "nextafter": np.nextafter, "bitcast_convert_type": recast, "convert_element_type": converted,
    "rem": remainder, "div": quotient,
    "sign": lambda x: x / np.where(x == 0, 1, np.abs(x)) if np.iscomplexobj(x) else np.sign(x),
}


def widest(x: np.ndarray) -> np.ndarray:
    if not dtypes.is_inexact(x.dtype):
        return x
    return x.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64)


def cases(table: Any) -> list[Any]:
    return [s for name in table for s in samples_of(getattr(prims, f"{name}_p"))]


def agree(got: Any, want: Any, coarse: float = 0.0) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    tol = max(10 * tolerance(got.dtype), coarse)
    np.testing.assert_allclose(widest(got), widest(want.astype(got.dtype)), rtol=tol, atol=tol)


@pytest.mark.parametrize("sample", cases(WIDE), ids=lambda s: s.id)
def test_primitive_equals_wide_numpy_expression(sample):
    with np.errstate(all="ignore"):
        want = WIDE[sample.prim.name](*map(widest, sample.args), **sample.params)
        agree(evaluate_primitive(sample.prim, sample.args, sample.params), want)


@pytest.mark.parametrize("sample", cases(EXACT), ids=lambda s: s.id)
def test_primitive_equals_numpy_expression_of_same_dtype(sample):
    with np.errstate(all="ignore"):
        want = EXACT[sample.prim.name](*sample.args, **sample.params)
        agree(evaluate_primitive(sample.prim, sample.args, sample.params), want)


@pytest.mark.parametrize("name", sorted({**WIDE, **EXACT}))
def test_every_primitive_of_the_tables_has_samples(name):
    assert samples_of(getattr(prims, f"{name}_p"))


def run(name: str, *args: Any, **params: Any) -> np.ndarray:
    with config.enable_x64(True):
        return np.asarray(evaluate_primitive(getattr(prims, f"{name}_p"), args, params))


def test_reduce_precision_rounds_to_nearest():
    x = np.float32([1.0, 1.0625, 1.09375, 1.1875, 3.3, -3.3, 1e30, 0.0])
    np.testing.assert_array_equal(run("reduce_precision", x, exponent_bits=8, mantissa_bits=3),
                                  np.float32([1, 1, 1.125, 1.25, 3.25, -3.25, 2.0 ** 99 * 1.625, 0]))
    large = run("reduce_precision", np.float32([70000, 1.5]), exponent_bits=5, mantissa_bits=10)
    np.testing.assert_array_equal(large, [np.inf, 1.5])


X = np.array([1e-3, 0.1, 0.9, 1.5, 4.0, 30.0])
ONE = np.ones_like(X)


def test_incomplete_gamma_functions_equal_closed_forms():
    np.testing.assert_allclose(run("igamma", ONE, X), -np.expm1(-X), rtol=1e-12)
    np.testing.assert_allclose(run("igammac", 3 * ONE, X), np.exp(-X) * (1 + X + X * X / 2), rtol=1e-10)
    np.testing.assert_allclose(run("igammac", ONE / 2, X), [math.erfc(math.sqrt(x)) for x in X], rtol=1e-10)
    a, h = 2.5 * ONE, 1e-5
    derivatives = (run("igamma", a + h, X) - run("igamma", a - h, X)) / (2 * h)
    np.testing.assert_allclose(run("igamma_grad_a", a, X), derivatives, rtol=1e-5, atol=1e-8)
    # along the sample's derivative the distribution function is constant
    step = h * run("random_gamma_grad", a, X)
    np.testing.assert_allclose(run("igamma", a + h, X + step), run("igamma", a - h, X - step), rtol=1e-6, atol=1e-9)


def test_incomplete_beta_function_equals_closed_forms():
    x = np.array([0.0, 1e-3, 0.2, 0.5, 0.9, 1.0])
    one = np.ones_like(x)
    np.testing.assert_allclose(run("regularized_incomplete_beta", one, 3 * one, x), 1 - (1 - x) ** 3, rtol=1e-10)
    np.testing.assert_allclose(run("regularized_incomplete_beta", 2.5 * one, one, x), x ** 2.5, rtol=1e-10)
