"""Samples: every primitive without regions has some, they are deterministic, and results match the type rules."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import aval_of, prims
from lamina_ir.testing import assert_close, tolerance
from lamina_ir.testing.samples import Sample, floats, samples_of


def test_sample_arrays_are_seeded():
    np.testing.assert_array_equal(floats(2, 3).make(7), floats(2, 3).make(7))
    assert floats(dtype="bfloat16").make(0).shape == () and floats(4).make(0).dtype == np.float32


@pytest.mark.parametrize("prim", [p for p in prims.ALL if p.family in ("elementwise", "random_bits")],
                         ids=lambda p: p.name)
def test_result_has_inferred_type(prim):
    rows = samples_of(prim)
    assert rows
    for row in rows:
        assert isinstance(row, Sample)
        out, got = prim.infer(*map(aval_of, row.args), **row.params), prim.numpy(*row.args, **row.params)
        for aval, value in zip(out if prim.multiple else (out,), got if prim.multiple else (got,), strict=True):
            assert type(value) is np.ndarray and value.shape == aval.shape and value.dtype == aval.dtype


def test_tolerances_and_closeness():
    assert tolerance("int32") == 0 and tolerance("float64") < tolerance("float32") < tolerance("bfloat16")
    assert_close(np.float32(1), np.float32(1 + 1e-6))
    with pytest.raises(AssertionError):
        assert_close(np.float32(1), np.float32(1.001))
    with pytest.raises(AssertionError, match="dtype"):
        assert_close(np.float32(1), np.float64(1))
