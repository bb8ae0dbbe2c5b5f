"""Text and files."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes
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
    np.save(file, np.asarray(asarray(arr)), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Write several arrays as a `.npz` file."""
    named: dict[str, Any] = {name: np.asarray(asarray(value)) for name, value in kwds.items()}
    np.savez(file, *(np.asarray(asarray(a)) for a in args), **named)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array from a `.npy` file, or the mapping of a `.npz` file."""
    out = np.load(file, *args, **kwargs)
    if not isinstance(out, np.ndarray):
        return out
    return put(out.view(_BF16) if out.dtype == _VOID16 else out)
