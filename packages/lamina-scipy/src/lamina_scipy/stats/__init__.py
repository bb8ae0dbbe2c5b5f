"""Probability distributions, each a module of functions as in `scipy.stats`, and what summarises samples."""
from lamina_numpy.extend import publish as _publish

from .._stats.kde import gaussian_kde
from .._stats.ranks import mode, rankdata, sem

_MODULES = ("bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gennorm", "geom",
            "gumbel_l", "gumbel_r", "laplace", "logistic", "multinomial", "multivariate_normal", "nbinom", "norm", "pareto",
            "poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy")
__all__ = ["gaussian_kde", "mode", "rankdata", "sem", *_MODULES]

_publish(globals(), dict.fromkeys(_MODULES, ""))
