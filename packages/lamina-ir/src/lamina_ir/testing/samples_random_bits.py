"""Samples of the random_bits family."""
from __future__ import annotations

from .. import prims
from .samples import sample, uints

sample(prims.threefry2x32_p, uints(), uints(), uints(2, 3), uints(2, 3))
sample(prims.threefry2x32_p, uints(3), uints(3), uints(3), uints())
sample(prims.threefry2x32_p, uints(), uints(), uints(), uints())
