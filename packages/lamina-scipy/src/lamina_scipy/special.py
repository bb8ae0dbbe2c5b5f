"""Special functions, named as `scipy.special` names them."""
from lamina_numpy.extend import publish as _publish
from lamina_numpy.special import logsumexp

from ._special._bessels import bessel_jn, i0, i0e, i1, i1e
from ._special._xlogy import entr, expit, kl_div, logit, rel_entr, xlog1py, xlogy
from ._special._combinations import boxcox, boxcox1p, comb
from ._special._complex_log_gamma import loggamma
from ._special._faddeeva import dawsn, erfcx, wofz
from ._special._gammas import digamma, factorial, gamma, gammaln, gammasgn, multigammaln, poch
from ._special._gauss_hypergeometric import hyp2f1
from ._special._hypergeometric import hyp1f1
from ._special._incomplete import beta, betainc, betaln, gammainc, gammaincc
from ._special._exponential_integrals import exp1, expi, expn, spence
from ._special._legendre import lpmn, lpmn_values, sph_harm, sph_harm_y
from ._special._normal import erf, erfc, erfcinv, erfinv, log_ndtr, ndtr, ndtri
from ._special._owens_t import owens_t
from ._special._softmax import log_softmax, softmax
from ._special._trigonometric_integrals import fresnel, sici
from ._special._zetas import bernoulli, polygamma, zeta

__all__ = ["bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma",
           "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi", "expit", "expn", "factorial",
           "fresnel", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp1f1", "hyp2f1", "i0",
           "i0e", "i1", "i1e", "kl_div", "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp", "lpmn",
           "lpmn_values", "multigammaln", "ndtr", "ndtri", "owens_t", "poch", "polygamma", "rel_entr",
           "sici", "softmax", "spence", "sph_harm", "sph_harm_y", "wofz", "xlog1py", "xlogy", "zeta"]

_publish(globals())
