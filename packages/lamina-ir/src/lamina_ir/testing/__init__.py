"""Test helpers shared by all packages: sample inputs for each primitive, and one tolerance per dtype."""
from __future__ import annotations

from typing import Any

import numpy as np

from .._types import dtypes

__all__ = ["assert_close", "tolerance"]

_TOLERANCE = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 2e-5, "float64": 1e-11, "complex64": 4e-5,
              "complex128": 1e-11}


def tolerance(dtype: Any) -> float:
    """Return the relative and absolute tolerance between two computations of a value of this dtype; 0 for exact dtypes.

    >>> tolerance("float32")
    2e-05
    """
    d = dtypes.as_dtype(dtype)
    return _TOLERANCE.get(d.name, 0.13) if dtypes.is_inexact(d) else 0.0


def assert_close(actual: Any, expected: Any, *, slack: float = 1.0, what: str = "") -> None:
    """Fail unless shapes and dtypes are equal and values agree to `slack` times the dtype's tolerance.

    Args:
      actual: array, or anything `numpy.asarray` takes.
      expected: likewise.
      slack: factor on the tolerance, for results that add up many terms.
      what: prefix of the failure message.
    """
    a, e = np.asarray(actual), np.asarray(expected)
    assert a.shape == e.shape, f"{what}: shape {a.shape}, expected {e.shape}"
    assert a.dtype == e.dtype, f"{what}: dtype {a.dtype}, expected {e.dtype}"
    tol = slack * tolerance(a.dtype) if a.dtype != dtypes.float0 else 0.0
    if tol:
        wide = np.complex128 if dtypes.is_complex(a.dtype) else np.float64
        np.testing.assert_allclose(a.astype(wide), e.astype(wide), rtol=tol, atol=tol, err_msg=what)
    else:
        np.testing.assert_array_equal(a, e, err_msg=what)
