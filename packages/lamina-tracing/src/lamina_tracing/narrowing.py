"""64-bit data of NumPy's where no runtime is in the process: that they are computed with in 32 bits is said, once.

The default is 32 bits on every install, so that a result does not depend on which rooms are imported. People who bring float64
data to the NumPy-only install come from programs that computed in float64, and are told at their line.
"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np
from lamina_ir import ShapedArray, dtypes, register_aval, shaped

from .lines import warn_user

__all__ = ["forget_told", "tell_of_narrowing"]

_told: set[np.dtype] = set()
_plain: dict[type, Any] = {}  # how types are read without telling


def _of_numpy(x: Any) -> ShapedArray:
    dtype = dtypes.canonical(x.dtype)
    if dtype.itemsize < x.dtype.itemsize and x.dtype not in _told:
        _tell(x, dtype)
    return shaped(x.shape, dtype, bool(getattr(x, "weak_type", False)))


def _fits(x: Any, dtype: np.dtype) -> bool:
    """Whether whole numbers stay as they are in the narrower type."""
    limits = np.iinfo(dtype)
    return not x.size or bool(np.min(x) >= limits.min and np.max(x) <= limits.max)


def _is_users(x: np.ndarray) -> bool:
    """Whether this is data that a user brought, and no number from inside of our own rooms.

    The meanings of ops go through float64 where they please. A float64 scalar beside an array is one of many constants; an
    argument of a transformation is data. Rooms mark the modules that read arguments with `_reads_arguments`.
    """
    frame = sys._getframe(4)  # whoever asked for the type, by `aval_of`
    while frame.f_back is not None and frame.f_code.co_name == "typeof":
        frame = frame.f_back
    return frame.f_globals.get("__name__") != "lamina_ir.evaluator" and (x.ndim > 0 or "_reads_arguments" in frame.f_globals)


def _tell(x: Any, dtype: np.dtype) -> None:
    plain = np.asarray(x)
    whole = plain.dtype.kind in "iu"
    if whole and _fits(plain, dtype) or not _is_users(plain):
        return
    _told.add(x.dtype)
    what = f"{plain.dtype.name} {'data' if plain.ndim else 'numbers'} of NumPy's"
    how = f"do not all fit into {dtype.name}, and wrap around" if whole else f"are computed with in 32 bits, as {dtype.name}"
    warn_user(f"{what} {how}. For 64 bits set lamina_ir.config.update('enable_x64', True), or use a block `with "
              f"lamina_tracing.enable_x64():`; where 32 are meant, x.astype('{dtype.name}') says so. This is said once.")


def tell_of_narrowing(on: bool) -> None:
    """Tell from now on, once for each dtype, or no longer."""
    for kind in (np.ndarray, np.generic):
        if on:
            before = register_aval(kind, _of_numpy)
            if before is not _of_numpy:
                _plain[kind] = before
        elif kind in _plain:
            register_aval(kind, _plain[kind])


def forget_told() -> None:
    """Tell again, as in a fresh process."""
    _told.clear()
