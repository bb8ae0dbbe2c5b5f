"""The chi-squared distribution: the gamma distribution of half the degrees of freedom, twice as wide."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina_numpy.extend import publish as _publish

from . import gamma as _gamma
from .._stats.distribution import Distribution

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_distribution = Distribution("chi2", "the chi-squared distribution", df="real array, above 0: the degrees of freedom")


def _make_from_gamma(gamma_function: Callable[..., Any], example: str) -> Any:
    """Return the function of this distribution that corresponds to one of the gamma distribution."""
    def run(x, df, loc=0, scale=1):
        return gamma_function(x, 0.5 * df, loc, 2.0 * scale)
    run.__name__, run.__doc__ = gamma_function.__name__, f">>> {example}"
    return _distribution(run)


logpdf = _make_from_gamma(_gamma._logpdf,
                          "logpdf(np.array([1., -1.]), 2.)\nArray([-1.1931472,       -inf], dtype=float32)")
pdf = _make_from_gamma(_gamma._pdf, "pdf(np.array([1., -1.]), 2.)\nArray([0.30326533, 0.        ], dtype=float32)")
cdf = _make_from_gamma(_gamma._cdf, "cdf(np.array([1., -1.]), 2.)\nArray([0.39346933, 0.        ], dtype=float32)")
logcdf = _make_from_gamma(_gamma._logcdf,
                          "logcdf(np.array([1., -1.]), 2.)\nArray([-0.93275213,        -inf], dtype=float32)")
sf = _make_from_gamma(_gamma._sf, "sf(np.array([1., -1.]), 2.)\nArray([0.60653067, 1.        ], dtype=float32)")
logsf = _make_from_gamma(_gamma._logsf, "logsf(np.array([1., -1.]), 2.)\nArray([-0.5, 0. ], dtype=float32)")

_publish(globals())
