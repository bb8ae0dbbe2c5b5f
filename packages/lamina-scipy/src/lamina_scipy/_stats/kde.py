"""Densities estimated from samples by a sum of normal ones."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import lamina_numpy as lnp
from lamina_ir import DTypeError, ShapeError, dtypes, trees
from lamina_numpy.extend import ignore_strict_promotion, to_inexact
from lamina_numpy.special import logsumexp
from lamina_random import choice, normal, split
from lamina_tracing import Array, ArrayLike, ShapeLike
from lamina_tracing.extend import typeof
from lamina_tracing.lax.factorizations import triangular_solve

from .._special._normal import compute_ndtr

__all__ = ["gaussian_kde"]


@trees.register_pytree_node_class
class gaussian_kde:
    """A density estimated from samples: a normal one at each, all of one covariance.

    A tree of its arrays: it passes through `jit`, `vmap` and `grad`, and does not change.

    Args:
      dataset: real array `[d, n]` of n samples, `[n]` for d = 1; n above 1.
      bw_method: the width in standard deviations of the samples: "scott" (also None) or "silverman" for their rules, a
        number, or a function of the estimate that gives one.
      weights: real array `[n]`, none below 0; None for equal ones. They are divided by their sum.
    Attributes:
      dataset: the samples, `[d, n]`, of half precision in float32.
      weights: `[n]`, of sum 1.
      neff: how many equal samples would say as much: `1 / sum(weights**2)`.
      covariance: that of each of the normal densities, `[d, d]`.
      inv_cov: its inverse.
    Raises:
      TypeError: `dataset` is neither an array nor a number.
      DTypeError: it is complex.
      ShapeError: it has more than two axes, or one sample; `weights` has another length.
      ValueError: `bw_method` is none of these.

    Source: meaning of `scipy.stats.gaussian_kde`; Scott, "Multivariate density estimation" (1992).

    >>> estimate = gaussian_kde(np.array([0., 1., 2.]))
    >>> estimate.n, estimate.d, estimate.evaluate(np.array([1.])).shape
    (3, 1, (1,))
    """

    @ignore_strict_promotion
    def __init__(self, dataset: ArrayLike, bw_method: str | float | Callable[[Any], Any] | None = None,
                 weights: ArrayLike | None = None):
        data = lnp.atleast_2d(to_inexact("gaussian_kde", dataset))
        if typeof(data).dtype.itemsize < 4:  # factorisations have no half precision
            data = lnp.astype(data, lnp.float32)
        t = typeof(data)
        if dtypes.is_complex(t.dtype):
            raise DTypeError(f"gaussian_kde: expected real samples; got {t.str_long()}. Give real and imag as two rows")
        if len(t.shape) != 2 or t.shape[1] < 2:
            raise ShapeError(f"gaussian_kde: expected samples [d, n] or [n], n above 1; got shape {t.shape}")
        d, n = t.shape
        if weights is None:
            share = lnp.full(n, 1.0 / n, t.dtype)
        else:
            share = lnp.astype(to_inexact("gaussian_kde", weights), t.dtype)
            if typeof(share).shape != (n,):
                raise ShapeError(f"gaussian_kde: expected weights of shape ({n},), one per sample; got {typeof(share).shape}")
            share = share / lnp.sum(share)
        self.dataset, self.weights = data, share
        self.neff = 1.0 / lnp.sum(lnp.square(share))
        if bw_method is None or isinstance(bw_method, str) and bw_method == "scott":
            factor = lnp.power(self.neff, -1.0 / (d + 4))
        elif isinstance(bw_method, str) and bw_method == "silverman":
            factor = lnp.power(self.neff * (d + 2) / 4.0, -1.0 / (d + 4))
        elif isinstance(bw_method, str):
            raise ValueError(f"gaussian_kde: bw_method must be 'scott', 'silverman', a number or a function; got {bw_method!r}")
        else:
            factor = bw_method(self) if callable(bw_method) else bw_method  # type: ignore[assignment]  # a number
        gap = data - lnp.sum(data * share, 1, keepdims=True)
        spread = (gap * share) @ gap.T / (1.0 - lnp.sum(lnp.square(share)))
        self.covariance = spread * lnp.square(factor)
        self.inv_cov = lnp.linalg.inv(spread) / lnp.square(factor)

    def tree_flatten(self) -> tuple[tuple[Array, ...], None]:
        """Return the arrays of this estimate, and no auxiliary data."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """The estimate of these arrays."""
        made = object.__new__(cls)
        made.neff, made.dataset, made.weights, made.covariance, made.inv_cov = children
        return made

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return typeof(self.dataset).shape[0]

    @property
    def n(self) -> int:
        """The number of samples."""
        return typeof(self.dataset).shape[1]

    def _check_points(self, call: str, points: Any) -> Any:
        x = lnp.atleast_2d(to_inexact(f"gaussian_kde.{call}", points))
        shape = typeof(x).shape
        if shape[0] != self.d and shape == (1, self.d):
            x = x.T  # one point, as a vector
        elif len(shape) != 2 or shape[0] != self.d:
            raise ShapeError(f"gaussian_kde.{call}: expected points [{self.d}, m], as the samples have {self.d} dimensions; "
                             f"got shape {shape}")
        return x

    @ignore_strict_promotion
    def _log_densities(self, points: Any, centres: Any, covariance: Any) -> Any:
        """The logarithms of normal densities `[m, n]`, from each centre to each point."""
        d = lnp.result_type(points, centres, covariance)
        points, centres, covariance = (lnp.astype(v, d) for v in (points, centres, covariance))
        root = lnp.linalg.cholesky(covariance)
        x, y = (triangular_solve(root, v, left_side=True, lower=True) for v in (points, centres))
        square = lnp.sum(lnp.square(x[:, :, None] - y[:, None, :]), 0)
        return -0.5 * square - 0.5 * self.d * math.log(2 * math.pi) - lnp.sum(lnp.log(lnp.diagonal(root)))

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points `[d, m]` (or one, `[d]`): `[m]`."""
        return lnp.exp(self._log_densities(self._check_points("evaluate", points), self.dataset,
                                           self.covariance)) @ self.weights

    def __call__(self, points: ArrayLike) -> Array:
        """`evaluate`."""
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """`evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at points `[d, m]`: `[m]`, far out too."""
        each = self._log_densities(self._check_points("logpdf", x), self.dataset, self.covariance)
        return logsumexp(each, 1, self.weights)  # type: ignore[return-value]  # without signs it is one array

    @ignore_strict_promotion
    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times a normal one of mean `[d]` and covariance `[d, d]`."""
        centre = lnp.atleast_1d(lnp.squeeze(to_inexact("gaussian_kde.integrate_gaussian", mean)))
        spread = lnp.atleast_2d(to_inexact("gaussian_kde.integrate_gaussian", cov))
        if typeof(centre).shape != (self.d,) or typeof(spread).shape != (self.d, self.d):
            raise ShapeError(f"gaussian_kde.integrate_gaussian: expected mean ({self.d},) and cov ({self.d}, {self.d}); got "
                             f"{typeof(centre).shape} and {typeof(spread).shape}")
        return (lnp.exp(self._log_densities(centre[:, None], self.dataset, self.covariance + spread)) @ self.weights)[0]

    @ignore_strict_promotion
    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The share between two numbers, of an estimate of one dimension."""
        if self.d != 1:
            raise ValueError(f"gaussian_kde.integrate_box_1d: the samples must have one dimension; they have {self.d}")
        width = lnp.sqrt(self.covariance[0, 0])
        a, b = ((to_inexact("gaussian_kde.integrate_box_1d", v) - self.dataset[0]) / width for v in (low, high))
        # By the small tail.
        shares = lnp.where(a > 0, compute_ndtr(-a) - compute_ndtr(-b), compute_ndtr(b) - compute_ndtr(a))
        return lnp.sum(self.weights * shares)

    @ignore_strict_promotion
    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two estimates of the same dimension."""
        if other.d != self.d:
            raise ValueError(f"gaussian_kde.integrate_kde: both must have one dimension; they have {self.d} and {other.d}")
        each = self._log_densities(other.dataset, self.dataset, self.covariance + other.covariance)
        return other.weights @ lnp.exp(each) @ self.weights

    def integrate_box(self, low_bounds: ArrayLike, high_bounds: ArrayLike, maxpts: Any = None) -> Array:
        """Not there: only boxes of one dimension are, `integrate_box_1d`."""
        raise NotImplementedError("gaussian_kde.integrate_box: integrals over boxes of several dimensions are not supported; "
                                  "use integrate_box_1d for one")

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not there: an estimate does not change; make another with `bw_method=`."""
        raise NotImplementedError("gaussian_kde.set_bandwidth: an estimate is immutable; make another with bw_method=")

    @ignore_strict_promotion
    def resample(self, key: Any, shape: ShapeLike = ()) -> Array:
        """Samples of the density, `[d, *shape]`, drawn with a key of `lamina.random`."""
        pick, spread = split(key)
        at = choice(pick, self.n, shape, p=self.weights)
        shape = typeof(at).shape
        noise = normal(spread, (*shape, self.d), typeof(self.dataset).dtype)
        root = lnp.linalg.cholesky(self.covariance)
        return self.dataset[:, at] + lnp.moveaxis(noise @ root.T, -1, 0)
