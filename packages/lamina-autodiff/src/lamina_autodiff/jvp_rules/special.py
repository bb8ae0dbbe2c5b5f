"""JVP rules of the incomplete gamma and beta functions: densities, and derivatives with respect to the parameter."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import full_like, one_like

from .._engine.rule_tables import def_elementwise_jvp
from .elementwise import _undefined

__all__: list[str] = []


def _density(a, x):
    """The gamma density x^(a-1) e^-x / Gamma(a) = dP(a, x)/dx.

    At x = 0 it is its limit: 0 for a > 1, 1 for a = 1, infinity for a < 1.
    """
    at_0 = lax.eq(x, 0.0)
    inside = lax.select(at_0, one_like(x), x)
    value = lax.exp(lax.sub(lax.sub(lax.mul(lax.sub(a, 1.0), lax.log(inside)), x), lax.lgamma(a)))
    low = lax.select(lax.eq(a, 1.0), one_like(a), full_like(a, float("inf")))
    limit = lax.select(lax.gt(a, 1.0), full_like(a, 0), low)
    return lax.select(at_0, limit, value)


def _gamma_sample_derivative(a, x, ans):
    """d ans / dx for ans = -P_a / p, where P(a, x) is the gamma distribution, P_a = dP/da and p = dP/dx its density.

    Since P_ax = p_a = p (log x - digamma(a)), it is digamma(a) - log x - ans p'/p with p'/p = (a - 1) / x - 1.
    """
    return lax.sub(lax.sub(lax.digamma(a), lax.log(x)), lax.mul(ans, lax.sub(lax.div(lax.sub(a, 1.0), x), 1.0)))


def _beta_density(a, b, x, ans):
    """The beta density x^(a-1) (1-x)^(b-1) / B(a, b), computed by logarithms."""
    logs = lax.add(lax.mul(lax.sub(a, 1.0), lax.log(x)), lax.mul(lax.sub(b, 1.0), lax.log1p(lax.neg(x))))
    norm = lax.sub(lax.lgamma(lax.add(a, b)), lax.add(lax.lgamma(a), lax.lgamma(b)))
    return lax.exp(lax.add(logs, norm))


def_elementwise_jvp(prims.igamma_p, lambda a, x, ans: lax.igamma_grad_a(a, x), lambda a, x, ans: _density(a, x))
def_elementwise_jvp(prims.igammac_p, lambda a, x, ans: lax.neg(lax.igamma_grad_a(a, x)),
                    lambda a, x, ans: lax.neg(_density(a, x)))
def_elementwise_jvp(prims.igamma_grad_a_p, _undefined("igamma_grad_a", "a"),
                    lambda a, x, ans: lax.mul(_density(a, x), lax.sub(lax.log(x), lax.digamma(a))))
def_elementwise_jvp(prims.random_gamma_grad_p, _undefined("random_gamma_grad", "a"), _gamma_sample_derivative)
def_elementwise_jvp(prims.regularized_incomplete_beta_p, _undefined("betainc", "a"), _undefined("betainc", "b"), _beta_density)
