"""Text and files."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes
from lamina_tracing import ArrayLike

from .._ground.conversion import asarray, put

__all__ = ["array_repr", "array_str", "load", "save", "savez"]

_BF16 = dtypes.as_dtype("bfloat16")
_VOID16 = np.dtype("V2")  # what `.npy` files call bfloat16, which NumPy does not know


def array_repr(arr: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
               suppress_small: bool | None = None) -> str:
    """The text `repr` shows."""
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return repr(arr)


def array_str(a: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
              suppress_small: bool | None = None) -> str:
    """The elements as text."""
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return str(a)


def _options(width: int | None, precision: int | None, suppress: bool | None) -> dict[str, Any]:
    given = {"linewidth": width, "precision": precision, "suppress": suppress}
    return {k: v for k, v in given.items() if v is not None}


def save(file: Any, arr: ArrayLike, allow_pickle: bool = False) -> None:
    """Write an array as a `.npy` file."""
    np.save(file, _raw(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Write several arrays as a `.npz` file."""
    named: dict[str, Any] = {name: _raw(value) for name, value in kwds.items()}
    np.savez(file, *map(_raw, args), **named)


def _raw(x: Any) -> np.ndarray:
    """The host's array; of element types that NumPy lacks, the bytes: of some it writes what it cannot read."""
    value = np.asarray(asarray(x))
    known = value.dtype.type.__module__ == "numpy"
    return value if known else value.view(f"V{value.dtype.itemsize}")


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array from a `.npy` file, or the mapping of a `.npz` file."""
    out = np.load(file, *args, **kwargs)
    if not isinstance(out, np.ndarray):
        return out
    if out.dtype == _VOID16:  # `.npy` has no name for it; of the element types of two bytes NumPy lacks only this one
        out = out.view(_BF16)
    elif out.dtype.kind == "V" and out.dtype.type is np.void:
        raise DTypeError(f"load: the file holds elements of {out.dtype.itemsize} byte(s) without a name, as `.npy` does of "
                         "small floats and integers. Read it with numpy.load(file).view(dtype), of the dtype it was saved in")
    return put(out)
