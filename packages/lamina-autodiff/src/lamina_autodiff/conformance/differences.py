"""References for the tests: central differences of functions of NumPy arrays, and inner products of trees."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes, trees


def host(x: Any) -> np.ndarray:
    """Convert a value to the widest dtype of its kind."""
    a = np.asarray(x)
    if a.dtype == dtypes.float0:
        return np.zeros(a.shape)
    return a.astype(np.complex128 if dtypes.is_complex(a.dtype) else np.float64)


def inner(a: Any, b: Any) -> float:
    """Return the real inner product of two trees: complex numbers count as pairs of reals."""
    pairs = list(zip(trees.tree_leaves(a), trees.tree_leaves(b), strict=True))
    return float(sum(np.real(np.sum(host(x) * host(y))) for x, y in pairs))


def noise(rng: np.random.Generator, like: Any) -> np.ndarray:
    """Return a random tangent: values of moderate size, so that a wrong factor is noticed; float0 for integers."""
    a = np.asarray(like)
    if not dtypes.is_inexact(a.dtype):
        return np.zeros(a.shape, dtypes.float0)

    def draw() -> Any:
        return rng.uniform(0.5, 1.5, a.shape) * rng.choice((-1.0, 1.0), a.shape)

    return np.asarray(draw() + 1j * draw() if dtypes.is_complex(a.dtype) else draw(), a.dtype)


def differences(one: Callable[..., Any], point: Sequence[Any], direction: Sequence[Any],
                eps: float) -> list[np.ndarray]:
    """Return the directional derivative of `one`, a function of NumPy arrays that returns a list."""
    def at(sign: float) -> Any:
        moved = [x if t.dtype == dtypes.float0 else np.asarray(np.asarray(x) + sign * eps * t, np.asarray(x).dtype)
                 for x, t in zip(point, direction)]
        return one(*moved)

    return [(host(up) - host(down)) / (2 * eps) for up, down in zip(at(1.0), at(-1.0), strict=True)]
