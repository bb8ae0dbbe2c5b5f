"""Random numbers from keys: the same key gives the same numbers, on every device and under every transformation."""
from lamina_tracing.extend import hide_frames_of as _hide_frames_of
from ._bits import bits
from ._continuous import (cauchy, double_sided_maxwell, exponential, gumbel, laplace, logistic, lognormal, maxwell,
                          pareto, rayleigh, triangular, wald, weibull_min)
from ._discrete import bernoulli, categorical, geometric, rademacher, randint
from ._keys import PRNGKey, fold_in, key, key_data, split, wrap_key_data
from ._normal import normal, truncated_normal, uniform
from ._shuffles import choice, permutation, shuffle
from ._version import __version__

__all__ = ["PRNGKey", "__version__", "bernoulli", "bits", "categorical", "cauchy", "choice", "double_sided_maxwell",
           "exponential", "fold_in", "geometric", "gumbel", "key", "key_data", "laplace", "logistic", "lognormal",
           "maxwell", "normal", "pareto", "permutation", "rademacher", "randint", "rayleigh", "shuffle", "split",
           "triangular", "truncated_normal", "uniform", "wald", "weibull_min", "wrap_key_data"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
