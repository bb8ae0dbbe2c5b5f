"""Specs of incomplete gamma and beta functions."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Operands are floats of one dtype, of one shape or of rank 0, as of elementwise ops. P(a, x) is the integral of t^(a-1) e^-t
from 0 to x, over gamma(a).
"""

SPECS = [
    op("igamma_grad_a", "a x", "like a",
       "The derivative of P(a, x) by a. 0 for x = 0, and for infinite x. NaN for infinite a and finite x."),
    op("igamma", "a x", "like a",
       """P(a, x). NaN for negative a or x, and for a = x = 0. 0 for x = 0; 1 for infinite x, and for a = 0. NaN for
       infinite a and finite x."""),
    op("igammac", "a x", "like a",
       """1 - P(a, x), accurate if that is small. NaN for negative a or x, and for a = x = 0. 1 for x = 0; 0 for infinite
       x, and for a = 0. NaN for infinite a and finite x."""),
    op("random_gamma_grad", "a x", "like a",
       """The derivative of x by a at constant P(a, x): -(dP / da) / (dP / dx). dP / dx is x^(a-1) e^-x /
       gamma(a). 0 for x = 0, infinite for infinite x."""),
    op("regularized_incomplete_beta", "a b x", "like a",
       """The integral of t^(a-1) (1-t)^(b-1) from 0 to x, over that from 0 to 1. NaN unless a and b are positive and x in
       [0, 1]."""),
]
