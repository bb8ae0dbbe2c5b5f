"""`jax._src.public_test_util`: comparison of trees of arrays."""
from __future__ import annotations

import numpy as np
from lamina_ir import trees
from lamina_ir.typing import Tree
from lamina_tracing.extend import typeof

__all__ = ["check_close", "check_eq", "default_tolerance"]


def default_tolerance() -> dict[np.dtype, float]:
    """Return the tolerances of dtypes."""
    return {np.dtype(name): value for name, value in (
        ("bool", 0), ("int8", 0), ("int16", 0), ("int32", 0), ("int64", 0), ("uint8", 0), ("uint16", 0), ("uint32", 0),
        ("uint64", 0), ("float16", 1e-3), ("float32", 1e-6), ("float64", 1e-15), ("complex64", 1e-6), ("complex128", 1e-15))}


def check_close(xs: Tree, ys: Tree, atol: float | None = None, rtol: float | None = None, err_msg: str = "") -> None:
    """Raise AssertionError if two trees of arrays differ by more than the tolerances.

    >>> check_close({"a": 1.0}, {"a": 1.0 + 1e-9})
    """
    def check(x: object, y: object) -> None:
        tolerance = max([default_tolerance().get(typeof(v).dtype, 1e-2) for v in (x, y)])
        np.testing.assert_allclose(np.asarray(x, np.result_type(np.asarray(x), np.float32)), np.asarray(y),  # type: ignore[arg-type]
                                   atol=tolerance if atol is None else atol,
                                   rtol=tolerance if rtol is None else rtol, err_msg=err_msg)
    trees.tree_map(check, xs, ys)


def check_eq(xs: Tree, ys: Tree, err_msg: str = "") -> None:
    """Raise AssertionError if two trees of arrays are not equal."""
    trees.tree_map(lambda x, y: np.testing.assert_array_equal(np.asarray(x), np.asarray(y), err_msg=err_msg), xs, ys)
