"""Warn once if 64-bit NumPy data are narrowed to 32 bits while no runtime is imported.

The default is 32 bits on every install, so that results do not depend on which packages are imported. Users who pass
float64 data to the NumPy-only install probably expect float64 results, so a warning points at their line.
"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np
from lamina_ir import ShapedArray, dtypes, register_aval, shaped
from lamina_ir.typing import Value

from .._core.source_lines import warn_user

__all__ = ["enable_x64_narrowing_warning", "reset_narrowing_warnings"]

_warned: set[np.dtype] = set()
_original_readers: dict[type, Any] = {}  # NumPy class -> the `aval_of` function that does not warn


def _of_numpy(x: Value) -> ShapedArray:
    dtype = dtypes.canonicalize(x.dtype)
    if dtype.itemsize < x.dtype.itemsize and x.dtype not in _warned:
        _warn(x, dtype)
    return shaped(x.shape, dtype, bool(getattr(x, "weak_type", False)))


def _fits(x: Value, dtype: np.dtype) -> bool:
    """Return whether all integers of `x` are in the range of the narrower dtype."""
    limits = np.iinfo(dtype)
    return not x.size or bool(np.min(x) >= limits.min and np.max(x) <= limits.max)


def _is_user_data(x: np.ndarray) -> bool:
    """Return whether this is data passed by the user, not a number computed inside lamina.

    NumPy implementations of primitives use float64 internally. A float64 scalar operand is usually a constant, but an
    argument of a transformation is data. Modules that read arguments define `_reads_arguments`.
    """
    frame = sys._getframe(4)  # the caller of `aval_of`
    while frame.f_back is not None and frame.f_code.co_name == "typeof":
        frame = frame.f_back
    return (frame.f_globals.get("__name__") != "lamina_ir._evaluate.evaluator"
            and (x.ndim > 0 or "_reads_arguments" in frame.f_globals))


def _warn(x: Value, dtype: np.dtype) -> None:
    plain = np.asarray(x)
    is_integer = plain.dtype.kind in "iu"
    if is_integer and _fits(plain, dtype) or not _is_user_data(plain):
        return
    _warned.add(x.dtype)
    what = f"{plain.dtype.name} {'data' if plain.ndim else 'numbers'} of NumPy's"
    how = (f"do not all fit into {dtype.name}, and wrap around" if is_integer
           else f"are computed with in 32 bits, as {dtype.name}")
    warn_user(f"{what} {how}. For 64 bits set lamina_ir.config.update('enable_x64', True), or use a block `with "
              f"lamina_tracing.enable_x64():`; for 32 bits use x.astype('{dtype.name}'). This warning is shown once.")


def enable_x64_narrowing_warning(on: bool) -> None:
    """Turn the warning, issued once per dtype, on or off."""
    for kind in (np.ndarray, np.generic):
        if on:
            before = register_aval(kind, _of_numpy)
            if before is not _of_numpy:
                _original_readers[kind] = before
        elif kind in _original_readers:
            register_aval(kind, _original_readers[kind])


def reset_narrowing_warnings() -> None:
    """Make every dtype warn again, as in a fresh process."""
    _warned.clear()
