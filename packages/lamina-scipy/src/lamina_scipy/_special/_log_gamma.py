"""log |gamma| in float32, from one logarithm to the right of 0 and two to the left, correct to a few units in the last place.

With a = |x|, from 2.5 up it is Stirling's formula. Between 0.7 and 2.5 it is a polynomial around the nearer zero, 1 or
2, times the distance from it, so that the digits near these zeros stay. Below, it is that of a + 1 less log a. To the
left of 0 it is computed by reflection.
"""
from __future__ import annotations

import math

import lamina_numpy as lnp
import numpy as np

from .._util import horner

__all__ = ["DIGAMMA", "NARROW_STIRLING", "STIRLING", "gammaln1p_float32", "gammaln_float32"]

# B(2k) / (2k (2k - 1)) of Stirling's series, DLMF 5.11.1, and -B(2k) / (2k) of digamma's, 5.11.2, from the highest k down.
STIRLING = (-3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
DIGAMMA = (3617 / 8160, -1 / 12, 691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)

# Fitted with Lawson's weights, from the highest power down; their largest relative errors are 3e-9, 2e-9 and 2e-11, that of
# the last 4e-10 in what is added.
# log gamma(1 + z) / z for z from -0.3 to 0.5
_AT_ONE = (-0.0458825417, 0.103739537, -0.122803618, 0.12752424, -0.14321669, 0.169343581, -0.207407933, 0.270587514,
           -0.400685444, 0.82246698, -0.577215665)
# log gamma(2 + z) / z for z from -0.5 to 0.5
_AT_TWO = (0.0, 0.0, -0.000269850633, 0.000569821469, -0.00117784233, 0.0028790568, -0.00738742713, 0.0205816019,
           -0.0673522188, 0.322467019, 0.422784335)
# sin(pi r) / (pi r) by powers of r^2, for r up to 0.5
_SINE = (-0.00223522405, 0.0261162053, -0.190747623, 0.811742171, -1.64493406, 1.0)
# a times what Stirling's formula lacks (DLMF 5.11.1), by powers of 1 / a^2, for a from 2.5 up
NARROW_STIRLING = (-0.000396455991, 0.000773162221, -0.0027769383, 0.0833333238)
_REST = np.float32(0.5 * math.log(2 * math.pi) - 0.5)


def gammaln1p_float32(z):
    """log gamma(1 + z) of a float32 array for z from -0.3 to 1.5."""
    one = z < 0.5
    t = lnp.where(one, z, z - 1.0)
    p = lnp.where(one, np.float32(_AT_ONE[0]), np.float32(_AT_TWO[0]))
    for c, d in zip(_AT_ONE[1:], _AT_TWO[1:]):
        p = p * t + lnp.where(one, np.float32(c), np.float32(d))
    return t * p


def gammaln_float32(x):
    """log |gamma| of a float32 array."""
    a = lnp.abs(x)
    small = a < 0.7
    near, log_a, v = gammaln1p_float32(lnp.where(small, a, a - 1.0)), lnp.log(a), 1.0 / a
    far = (a - 0.5) * (log_a - 1.0) + (horner(v * v, NARROW_STIRLING) * v + _REST)
    raised = lnp.where(a < 2.5, near, far)  # of a + 1 where a is small
    # gamma(-a) gamma(a) = -pi / (a sin(pi a)); r is the distance from the nearest pole
    r = lnp.abs(a - lnp.round(a))
    left = -raised - lnp.log(r * horner(r * r, _SINE) * lnp.where(small, 1.0, a))
    return lnp.where(x < 0, lnp.where(r > 0, left, np.inf), lnp.where(small, near - log_a, raised))
