"""The normal distribution in several dimensions."""
from __future__ import annotations

import math

import lamina_numpy as lnp
from lamina_ir import ShapeError
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import ignore_strict_promotion, public_api
from lamina_numpy.extend import publish as _publish
from lamina_tracing import Array, ArrayLike
from lamina_tracing.extend import typeof
from lamina_tracing.lax.factorizations import triangular_solve

from ..._util import promote_separately
from ..._stats.distribution import exp_or_nan

__all__ = ["logpdf", "pdf"]

_PARAMETERS = docstring_entries("""
    x: real array `[..., n]`: the points.
    mean: real array `[..., n]`, or a number for all.
    cov: real array `[..., n, n]`, symmetric and positive definite; a number is multiplied by the identity matrix. If
      `mean` is a number too, n is 1 and `x` has no axis for it.
    TypeError: an argument is neither an array nor a number.
    DTypeError: an argument is complex.
    ShapeError: the shapes do not fit.
    """)


@ignore_strict_promotion
def _compute_log(call, x, mean, cov, allow_singular=None, last=lambda log: log):
    """`last` of the logarithm, in the dtype that this is computed in."""
    if allow_singular is not None:
        raise NotImplementedError(f"{call}: allow_singular is not supported; add a small multiple of the identity to `cov`")
    final, (x, mean, cov) = promote_separately(call, x, mean, cov)
    if not typeof(mean).shape and not typeof(cov).shape:
        y = x - mean
        value = -0.5 * y * y / cov - 0.5 * (math.log(2 * math.pi) + lnp.log(cov))
        return lnp.astype(last(value), final)
    n = typeof(mean).shape[-1] if typeof(mean).shape else typeof(cov).shape[-1]
    if not typeof(cov).shape:
        cov = cov * lnp.eye(n, dtype=typeof(cov).dtype)
    shapes = [typeof(v).shape for v in (x, mean, cov)]
    if len(shapes[2]) < 2 or shapes[2][-2:] != (n, n) or not shapes[0] or shapes[0][-1] != n:
        raise ShapeError(f"{call}: expected x [..., n], mean [..., n], cov [..., n, n]; got {', '.join(map(str, shapes))}")
    y = x - mean
    batch = lnp.broadcast_shapes(typeof(y).shape[:-1], shapes[2][:-2])
    root = lnp.linalg.cholesky(lnp.broadcast_to(cov, (*batch, n, n)) if len(shapes[2]) > 2 else cov)
    y = lnp.broadcast_to(y, (*batch, n))
    if len(shapes[2]) > 2:
        white = triangular_solve(root, y[..., None], left_side=True, lower=True)[..., 0]
    else:
        white = triangular_solve(root, lnp.reshape(y, (-1, n)), left_side=False, lower=True, transpose_a=True)
        white = lnp.reshape(white, (*batch, n))
    half_log_det = lnp.sum(lnp.log(lnp.diagonal(root, axis1=-2, axis2=-1)), -1)
    return lnp.astype(last(-0.5 * lnp.sum(white * white, -1) - 0.5 * n * math.log(2 * math.pi) - half_log_det), final)


@public_api("allow_singular", entries=_PARAMETERS)
def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density of the normal distribution in several dimensions.

    Args:
      {x, mean, cov}
      allow_singular: must be None.
    Returns:
      Float array `[...]`; NaN where cov is not positive definite.
    Raises:
      {TypeError, DTypeError, ShapeError}
      NotImplementedError: `allow_singular` is given.

    Source: meaning of `scipy.stats.multivariate_normal.logpdf`; by a Cholesky factor.

    >>> logpdf(np.zeros(2), np.zeros(2), np.eye(2))
    Array(-1.837877, dtype=float32)
    """
    return _compute_log("multivariate_normal.logpdf", x, mean, cov, allow_singular)


@public_api(entries=_PARAMETERS)
def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density of the normal distribution in several dimensions.

    Args: {x, mean, cov}
    Returns:
      Float array `[...]`; NaN where cov is not positive definite.
    Raises: {TypeError, DTypeError, ShapeError}

    Source: meaning of `scipy.stats.multivariate_normal.pdf`; by a Cholesky factor.

    >>> pdf(np.zeros(2), np.zeros(2), np.eye(2))
    Array(0.15915495, dtype=float32)
    """
    return _compute_log("multivariate_normal.pdf", x, mean, cov, None, exp_or_nan)


_publish(globals())
