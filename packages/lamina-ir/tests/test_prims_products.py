"""Types and evaluation of dot_general."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, prims, shaped
from lamina_ir.prims import Precision, as_precision

F32 = np.dtype("float32")


def infer(xs, ys, numbers, preferred=None, dtypes=(F32, F32)):
    return prims.dot_general_p.infer(shaped(xs, dtypes[0]), shaped(ys, dtypes[1]), dimension_numbers=numbers,
                                     precision=None, preferred_element_type=preferred)


def test_result_axes_are_batch_then_free():
    assert infer((7, 3, 4), (4, 5, 7), (((2,), (0,)), ((0,), (2,)))).shape == (7, 3, 5)


def test_contracted_axes_must_have_equal_sizes():
    with pytest.raises(ShapeError, match=r"contracted.*lhs float32\[8,3\] axis 1 \(3\), rhs .* axis 0 \(4\)"):
        infer((8, 3), (4, 5), (((1,), (0,)), ((), ())))


def test_axes_are_used_once():
    with pytest.raises(ShapeError, match="distinct"):
        infer((3, 3), (3, 3), (((1,), (0,)), ((1,), (1,))))


def test_mixed_dtypes_need_preferred_element_type():
    mixed = (F32, np.dtype("float16"))
    with pytest.raises(DTypeError, match="preferred_element_type"):
        infer((2, 3), (3, 2), (((1,), (0,)), ((), ())), dtypes=mixed)
    assert infer((2, 3), (3, 2), (((1,), (0,)), ((), ())), preferred=F32, dtypes=mixed).dtype == F32


def test_precision_names():
    assert as_precision("highest") == (Precision.HIGHEST, Precision.HIGHEST)
    assert as_precision((None, "high")) == (Precision.DEFAULT, Precision.HIGH)
    assert as_precision(None) is None
    with pytest.raises(ValueError, match="'best'"):
        as_precision("best")
