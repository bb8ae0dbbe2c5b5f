"""Least squares for models written with NumPy, on lamina-autodiff alone.

A model is a function from parameters to residuals, written with NumPy functions such as `np.exp`, `@` and `np.where`.
Its Jacobian is `lamina_autodiff.jacfwd` of the same function, exact and in 64 bits.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from lamina_autodiff import jacfwd
from lamina_ir import config

__all__ = ["Fit", "fit", "spread"]
__version__ = "0.1.0"


class Fit(NamedTuple):
    """The result of a fit.

    Attributes:
      parameters: the minimum of the sum of squares.
      residuals: those of the model at the minimum.
      jacobian: derivatives of the residuals with respect to the parameters.
      converged: whether the last step was small.
      steps: the number of steps.
    """

    parameters: np.ndarray
    residuals: np.ndarray
    jacobian: np.ndarray
    converged: bool
    steps: int


def fit(model: Callable[[np.ndarray], np.ndarray], start: np.ndarray, *, steps: int = 100, tolerance: float = 1e-10) -> Fit:
    """Minimize the sum of squares of `model(parameters)`.

    Args:
      model: residuals `[m]` of parameters `[n]`, written with NumPy.
      start: the initial parameters.
      steps: the maximal number of steps.
      tolerance: a step is small if it is shorter than this, relative to the parameters.
    Raises:
      ValueError: `start` is not a vector, or there are fewer residuals than parameters.

    Source: K. Levenberg (1944), D. Marquardt (1963), damped by the diagonal.
    """
    p = np.array(start, np.float64)
    if p.ndim != 1:
        raise ValueError(f"fit: start must be a vector of parameters; got shape {p.shape}")
    with config.enable_x64(True):
        jacobian = jacfwd(model)
        r, damping = np.asarray(model(p), np.float64), 1e-3
        if r.shape[0] < p.shape[0]:
            raise ValueError(f"fit: {p.shape[0]} parameters need at least as many residuals; the model gives {r.shape[0]}")
        J = np.asarray(jacobian(p))
        for step in range(1, steps + 1):
            normal = J.T @ J
            move = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-30), -J.T @ r)
            tried = np.asarray(model(p + move), np.float64)
            if tried @ tried <= r @ r:
                p, r, damping = p + move, tried, damping / 5
                J = np.asarray(jacobian(p))
                if np.linalg.norm(move) <= tolerance * (1 + np.linalg.norm(p)):
                    return Fit(p, r, J, True, step)
            else:
                damping *= 4
                if damping > 1e12:
                    break
    return Fit(p, r, J, False, step)


def spread(found: Fit) -> np.ndarray:
    """Return the standard deviations of the parameters, from the residuals and the Jacobian at the minimum."""
    m, n = found.jacobian.shape
    variance = found.residuals @ found.residuals / max(m - n, 1)
    return np.sqrt(np.diag(variance * np.linalg.inv(found.jacobian.T @ found.jacobian)))
