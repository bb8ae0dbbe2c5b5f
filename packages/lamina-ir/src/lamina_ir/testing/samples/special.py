"""Samples of the incomplete gamma and beta functions: on both sides of each switch of formulas, and at the
boundaries."""
import numpy as np

from ... import prims as p
from ..sampling import positives, sample

_A = np.array([0.2, 0.7, 1.0, 2.5, 2.5, 7.0, 30.0, 30.0, 0.5], np.float32)
_X = np.array([0.1, 3.0, 0.5, 2.4, 2.7, 20.0, 25.0, 33.0, 0.02], np.float32)
for _p in (p.igamma_p, p.igammac_p, p.igamma_grad_a_p, p.random_gamma_grad_p):
    sample(_p, _A, _X)
    sample(_p, positives(2, 3), positives())
    sample(_p, positives(), positives())
    sample(_p, positives(3, dtype="bfloat16"), positives(3, dtype="bfloat16"))
for _p in (p.igamma_p, p.igammac_p):
    sample(_p, np.array([1, 2, -1, 1, np.nan], np.float32), np.array([0, np.inf, 1, -1, 1], np.float32))
sample(p.regularized_incomplete_beta_p, np.array([0.5, 2.0, 10.0, 0.3, 30.0], np.float32),
       np.array([0.5, 5.0, 3.0, 4.0, 20.0], np.float32), np.array([0.2, 0.1, 0.9, 0.6, 0.55], np.float32))
sample(p.regularized_incomplete_beta_p, positives(), positives(3), np.float32(0.4))
sample(p.regularized_incomplete_beta_p, np.array([1, 2, -1, 1, 2], np.float32),
       np.array([1, 2, 1, 1, np.nan], np.float32), np.array([0, 1, 0.5, 2, 0.5], np.float32))
