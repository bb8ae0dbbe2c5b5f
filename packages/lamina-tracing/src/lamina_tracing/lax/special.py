"""Incomplete gamma and beta functions, elementwise; a Python number takes the dtype of the other operand."""
from __future__ import annotations

from lamina_ir import prims

from .._core.array import Array, ArrayLike
from .._diagnostics.argument_errors import rename_errors
from ._util.operands import bind, match_scalars, typeof

__all__ = ["betainc", "igamma", "igamma_grad_a", "igammac", "random_gamma_grad", "regularized_incomplete_beta"]


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized lower incomplete gamma function P(a, x), the probability that a gamma variable of shape
    `a` is below `x`.

    NaN for `a < 0`, `x < 0` and where both are 0. Derivatives with respect to both. Source: DLMF 8.2.4, 8.7.1, 8.9.2.

    >>> import numpy as np
    >>> igamma(np.float32(1), np.float32(2))
    Array(0.86466473, dtype=float32)
    """
    return bind(prims.igamma_p, *match_scalars(a, x))


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), accurate where it is small."""
    return bind(prims.igammac_p, *match_scalars(a, x))


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the derivative of `igamma(a, x)` with respect to `a`."""
    return bind(prims.igamma_grad_a_p, *match_scalars(a, x))


def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute dx/da at constant P(a, x), for a draw `x` of a gamma distribution of shape `a`.

    Source: implicit reparameterization, Figurnov, Mohamed and Mnih (2018).
    """
    return bind(prims.random_gamma_grad_p, *match_scalars(a, x))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized incomplete beta function I_x(a, b), the probability that a beta variable is below `x`.

    NaN for `a <= 0`, `b <= 0` or `x` outside [0, 1]. Derivative with respect to `x` only. Source: DLMF 8.17.2, 8.17.22.

    >>> import numpy as np
    >>> betainc(np.float32(1), np.float32(1), np.float32(0.25))
    Array(0.25, dtype=float32)
    """
    operands: list[ArrayLike] = [a, b, x]
    typed = next((v for v in operands if not isinstance(v, (bool, int, float))), None)
    if typed is not None:
        typeof(typed)
        operands = [match_scalars(v, typed)[0] for v in operands]
    return bind(prims.regularized_incomplete_beta_p, *operands)


regularized_incomplete_beta = rename_errors(betainc, "regularized_incomplete_beta")
