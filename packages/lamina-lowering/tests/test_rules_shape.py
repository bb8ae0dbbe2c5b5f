"""Lowering of primitives that move elements: empty arrays and negative padding."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import prims
from lamina_lowering.testing import check_lowering

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(("prim", "args", "params"), [
    (prims.pad_p, (X, np.float32(9)), dict(padding_config=((-2, 1, 2), (1, -3, 0)))),
    (prims.pad_p, (X.reshape(3, 2, 2), np.float32(9)), dict(padding_config=((1, 0, 0), (0, 0, 0), (0, 0, 0)))),
    (prims.pad_p, (X.reshape(2, 2, 3, 1), np.float32(9)), dict(padding_config=((0, 0, 1), (0, 0, 0), (-1, 2, 0), (0, 0, 0)))),
    (prims.pad_p, (X, np.float32(9)), dict(padding_config=((0, 0, 0), (0, 0, 0)))),
    (prims.pad_p, (X[:0], np.float32(9)), dict(padding_config=((1, 1, 0), (0, 0, 0)))),
    (prims.slice_p, (X,), dict(start_indices=(1, 0), limit_indices=(1, 4), strides=None)),
    (prims.concatenate_p, (X[:0], X), dict(dimension=0)),
    (prims.broadcast_in_dim_p, (X[:, :1],), dict(shape=(3, 0), broadcast_dimensions=(0, 1))),
    (prims.reshape_p, (X,), dict(new_sizes=(2, 6), dimensions=(1, 0))),
    (prims.rev_p, (X > 3,), dict(dimensions=(1,)))])
def test_shape_primitive_matches_numpy(prim, args, params):
    check_lowering(prim, args, params)
