"""Compare the results of a compiled equation with those of its NumPy evaluation on the same operands.

Both start from equal operands, so only the rounding of this one equation separates them. The tolerance depends on the
primitive:

1. Moves of data, comparisons and integers must be equal.
2. Arithmetic that IEEE 754 defines may differ by some units in the last place, since compilers contract operations.
3. Sums of terms may differ relative to the sum of the absolute values of the terms, in any order of summation.
4. Other functions use the tolerance of their dtype, which the tests of all primitives use.
5. An operand may be more precise than its type shows, because compilers leave out roundings between operations that
   they join. So a result is right if operands that differ by their rounding explain it.
6. Results that are not unique (signs of eigenvectors, draws of a device's generator) are not compared.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from lamina_ir import Eqn, dtypes

__all__ = ["Evaluate", "differing_elements", "is_compared", "is_roughly_different"]

# Evaluates an equation with `change(k, a)` in place of each operand `a`, the k-th one.
Evaluate = Callable[[Callable[[int, np.ndarray], np.ndarray]], Sequence[np.ndarray]]

# As in `lamina_ir.testing.tolerance`, which production code does not import.
_TOLERANCE = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 2e-5, "float64": 1e-11, "complex64": 4e-5, "complex128": 1e-11}
_NARROW_TOLERANCE = 0.13  # types of 8 bits and less
_NOT_UNIQUE = frozenset("eig eigh geqrf hessenberg householder_product lu qr schur svd tridiagonal rng_uniform "
                        "select_and_gather_add platform_index".split())
_MOVES = frozenset(("shape", "sorting", "random_keys"))
_EXACT = frozenset("dynamic_slice dynamic_update_slice gather scatter copy select stop_gradient name optimization_barrier "
                   "sharding_constraint to_memory reduce_max reduce_min cummax cummin reduce_window_max reduce_window_min "
                   "all_gather all_to_all ppermute pmax pmin max min neg abs sign floor ceil round real imag conj complex "
                   "bitcast_convert_type nextafter scatter_max scatter_min clamp".split())
_ARITHMETIC = frozenset("add sub mul div square sqrt convert_element_type reduce_precision rem integer_pow".split())
_SUMS = frozenset("reduce_sum cumsum dot_general conv_general_dilated reduce_window_sum psum psum_scatter scatter_add "
                  "select_and_scatter_add".split())
# Relative to the largest element: the condition of the matrix, or of a pole, multiplies the rounding.
_SLACK = {"cholesky": 1e3, "triangular_solve": 1e3, "solve": 1e3, "tridiagonal_solve": 1e3, "slogdet": 1e3, "linear_solve": 1e3,
          "fft": 10, "lgamma": 30, "digamma": 30, "tan": 30, "pow": 10, "erf_inv": 30, "polygamma": 100, "zeta": 100,
          "reduce_prod": 10, "cumprod": 10, "reduce_window_prod": 10, "scatter_mul": 10, "rsqrt": 1}


def is_compared(eqn: Eqn) -> bool:
    """Return whether the results of an equation are unique, and computed from its operands alone."""
    prim = eqn.primitive
    return not (prim.effectful or prim.name in _NOT_UNIQUE or prim.family == "callbacks")


def _tolerance(dtype: np.dtype) -> float:
    return _TOLERANCE.get(dtype.name, _NARROW_TOLERANCE)


def _widen(a: np.ndarray) -> np.ndarray:
    return a.astype(np.complex128 if dtypes.is_complex(a.dtype) else np.float64)


def _distance(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return |actual - expected|; 0 for equal infinities and two NaNs, infinity if only one is finite."""
    a, b = _widen(actual), _widen(expected)
    with np.errstate(all="ignore"):
        distance = np.abs(a - b)
        same = (a == b) | np.isnan(a) & np.isnan(b)
    distance[same] = 0.0
    # A NaN distance has one NaN, or infinities of different signs.
    return np.where(np.isnan(distance), np.inf, distance)


def differing_elements(eqn: Eqn, operands: Sequence[np.ndarray], actual: np.ndarray, expected: np.ndarray, index: int,
                       evaluate: Evaluate) -> np.ndarray | None:
    """Return a mask of the elements of a result that rounding does not explain; None if there are none.

    Args:
      eqn: the equation, without nested programs.
      operands: its operands.
      actual, expected: result `index` of the compiled program and of NumPy.
      index: the position of the result.
      evaluate: evaluates the equation with NumPy on other operands.
    """
    bad = _beyond_limit(eqn, operands, actual, expected, index, evaluate)
    if bad is not None:
        bad &= ~_is_explained(operands, actual, expected, index, evaluate)
    return bad if bad is not None and bad.any() else None


def _is_explained(operands: Sequence[np.ndarray], actual: np.ndarray, expected: np.ndarray, index: int,
                  evaluate: Evaluate) -> np.ndarray:
    """Return which elements operands explain that differ from the given ones by their rounding."""
    explained = np.zeros(actual.shape, bool)
    if not any(dtypes.is_inexact(a.dtype) for a in operands):
        return explained
    for signs in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
        def nudge(k: int, a: np.ndarray, signs: tuple[int, int] = signs) -> np.ndarray:
            if not dtypes.is_inexact(a.dtype):
                return a
            return (_widen(a) * (1 + 2 * signs[k % 2] * float(dtypes.finfo(a.dtype).eps))).astype(a.dtype)

        with np.errstate(all="ignore"):
            moved = np.asarray(evaluate(nudge)[index])
        if dtypes.is_inexact(actual.dtype):
            explained |= (_distance(np.atleast_1d(actual), np.atleast_1d(expected))
                          <= 2 * _distance(np.atleast_1d(moved), np.atleast_1d(expected))).reshape(actual.shape)
        else:
            explained |= moved == actual
    return explained


def _beyond_limit(eqn: Eqn, operands: Sequence[np.ndarray], actual: np.ndarray, expected: np.ndarray, index: int,
                  evaluate: Evaluate) -> np.ndarray | None:
    """Return a mask of the elements that differ by more than the rounding of the equation itself."""
    name, dtype = eqn.primitive.name, actual.dtype
    if not dtypes.is_inexact(dtype):
        bad = np.asarray(actual != expected)
        if bad.any() and name == "convert_element_type" and dtypes.is_inexact(operands[0].dtype):
            # Conversion of a float out of the range of the integer is undefined.
            limits = dtypes.iinfo(dtype) if dtypes.is_integer(dtype) else None
            wide = _widen(operands[0])
            bad &= np.isfinite(wide) & (True if limits is None else (wide.real > limits.min) & (wide.real < limits.max))
        if name in ("argmax", "argmin") and bad.any() and np.isnan(_widen(operands[0])).any():
            return None
        return bad if bad.any() else None
    distance = np.atleast_1d(_distance(np.atleast_1d(actual), np.atleast_1d(expected)))
    if not distance.any():
        return None
    limit = np.broadcast_to(_limit(eqn, operands, np.atleast_1d(expected), index, evaluate), distance.shape)
    bad = ~(distance <= limit)
    # Where NumPy is at the edge of the range, one of both may overflow.
    largest = float(dtypes.finfo(dtype).max)
    sizes = [np.abs(_widen(np.atleast_1d(x))) for x in (expected, actual)]
    bad &= ~((sizes[0] > 0.98 * largest) & (sizes[1] > 0.98 * largest))
    bad = bad.reshape(actual.shape)
    return bad if bad.any() else None


def _limit(eqn: Eqn, operands: Sequence[np.ndarray], expected: np.ndarray, index: int, evaluate: Evaluate) -> np.ndarray:
    """Return the largest distance that rounding explains, per element."""
    name, dtype = eqn.primitive.name, expected.dtype
    info = dtypes.finfo(dtype)
    size = np.abs(_widen(expected))
    tiny = float(info.smallest_normal)  # results below it may be flushed to 0
    if name in _EXACT or eqn.primitive.family in _MOVES:
        return np.full(size.shape, tiny)
    if name in _ARITHMETIC:
        ulps = 64 if name in ("integer_pow", "rem") else 8
        return ulps * float(info.eps) * size + tiny
    with np.errstate(all="ignore"):
        if name in _SUMS:
            terms = evaluate(lambda k, a: np.abs(a).astype(a.dtype) if dtypes.is_inexact(a.dtype) else a)[index]
            bound = np.abs(_widen(np.atleast_1d(terms))).reshape(size.shape)
            # The accumulator of half types may be wider in one of both.
            return np.nan_to_num(_tolerance(dtype) * bound, nan=np.inf, posinf=np.inf) + tiny
    finite = size[np.isfinite(size)]
    largest = float(finite.max()) if finite.size else 0.0
    slack = _SLACK.get(name, 100.0 if eqn.primitive.family in ("special", "factorizations", "solves") else 1.0)
    if slack > 1:
        return slack * _tolerance(dtype) * np.maximum(size, min(largest, 1.0) if slack < 100 else largest) + tiny
    return _tolerance(dtype) * (np.nan_to_num(size, nan=0, posinf=0) + 0.1 * min(largest, 1.0)) + tiny


def is_roughly_different(actual: np.ndarray, expected: np.ndarray, slack: float = 1.0) -> bool:
    """Return whether results of a whole program differ: by more than the tolerance of their dtype, times the largest element.

    Rounding errors of a program grow, so this only decides where a closer look is needed.

    Args:
      actual, expected: arrays of one type.
      slack: a factor of the tolerance.
    """
    if not dtypes.is_inexact(actual.dtype):
        return not np.array_equal(actual, expected)
    distance, size = _distance(np.atleast_1d(actual), np.atleast_1d(expected)), np.abs(_widen(np.atleast_1d(expected)))
    finite = size[np.isfinite(size)]
    return bool((distance > slack * _tolerance(actual.dtype) * (float(finite.max()) if finite.size else 0.0)).any())
