"""Names of the default implementation, for the facade and for plugins: `from lamina_random._default import *`."""
from lamina_tracing.extend import hide_frames_of as _hide_frames_of
from ._bits import bits
from ._continuous import (cauchy, double_sided_maxwell, exponential, gumbel, laplace, logistic, lognormal, maxwell,
                          pareto, rayleigh, triangular, wald, weibull_min)
from ._discrete import bernoulli, categorical, geometric, rademacher, randint
from ._gamma import ball, beta, chisquare, dirichlet, f, gamma, generalized_normal, loggamma, t
from . import _prng_registry as _prng_registry  # whose generators are known from then on
from ._gamma_primitive import random_gamma_p
from ._keys import PRNGKey, clone, fold_in, key, key_data, key_dtype, key_impl, split, wrap_key_data
from ._multivariate import multivariate_normal, orthogonal
from ._multinomial import multinomial
from ._named_axes import NamedShape
from ._normal import normal, truncated_normal, uniform
from ._counts import binomial, poisson
from ._permutation import choice, permutation, shuffle
from ._version import __version__

__all__ = ["NamedShape", "PRNGKey", "__version__", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy",
           "chisquare", "choice", "clone", "dirichlet", "double_sided_maxwell", "exponential", "f", "fold_in", "gamma",
           "generalized_normal", "geometric", "gumbel", "key", "key_data", "key_dtype", "key_impl", "laplace", "loggamma",
           "logistic", "lognormal", "maxwell", "multinomial", "multivariate_normal", "normal", "orthogonal", "pareto",
           "permutation", "poisson", "rademacher", "randint", "random_gamma_p", "rayleigh", "shuffle", "split", "t",
           "triangular", "truncated_normal", "uniform", "wald", "weibull_min", "wrap_key_data"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
