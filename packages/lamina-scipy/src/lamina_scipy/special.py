"""Special functions, named as `scipy.special` names them."""
from lamina_numpy.extend import publish as _publish
from lamina_numpy.special import logsumexp

from ._special._bessels import bessel_jn, i0, i0e, i1, i1e
from ._special._xlogy import entr, expit, kl_div, logit, rel_entr, xlog1py, xlogy
from ._special._gammas import digamma, factorial, gamma, gammaln, gammasgn, multigammaln, poch
from ._special._hypergeometric import hyp1f1
from ._special._incomplete import beta, betainc, betaln, gammainc, gammaincc
from ._special._exponential_integrals import exp1, expi, expn, spence
from ._special._legendre import lpmn, lpmn_values, sph_harm
from ._special._normal import erf, erfc, erfinv, log_ndtr, ndtr, ndtri
from ._special._zetas import bernoulli, polygamma, zeta

__all__ = ["bernoulli", "bessel_jn", "beta", "betainc", "betaln", "digamma", "entr", "erf", "erfc", "erfinv", "exp1", "expi",
           "expit", "expn", "factorial", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp1f1", "i0", "i0e", "i1",
           "i1e", "kl_div", "log_ndtr", "logit", "logsumexp", "lpmn", "lpmn_values", "multigammaln", "ndtr", "ndtri", "poch",
           "polygamma", "rel_entr", "spence", "sph_harm", "xlog1py", "xlogy", "zeta"]

_publish(globals())
