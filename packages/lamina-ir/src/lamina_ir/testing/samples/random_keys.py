"""Samples of the random_keys family."""
from __future__ import annotations

import numpy as np

from ..._types import dtypes
from ... import prims
from ..sampling import sample, uints

for _words in (uints(2), uints(3, 2), uints(0, 2), uints(2, 2, 2)):
    sample(prims.random_wrap_p, _words, impl="fry")
_FRY = dtypes.key_type("fry")
for _shape in ((), (3,), (2, 2)):
    _keys = np.arange(2 * int(np.prod(_shape)), dtype=np.uint32).view(_FRY).reshape(_shape)
    sample(prims.random_unwrap_p, _keys, use="data")
