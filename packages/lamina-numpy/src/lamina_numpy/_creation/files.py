"""Text and files."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_tracing import ArrayLike

from .._core.conversion import asarray, put

__all__ = ["array_repr", "array_str", "load", "save", "savez"]

_PRINTING = docstring_entries("""
    max_line_width: number of characters after which a line ends; None for NumPy's setting.
    precision: number of digits after the point; None for NumPy's setting.
    suppress_small: whether numbers close to 0 are printed as 0, without exponents; None for NumPy's setting.
    TypeError: a setting has another type than NumPy's.
    """)

_BF16 = dtypes.as_dtype("bfloat16")
_VOID16 = np.dtype("V2")  # what `.npy` files call bfloat16, which NumPy does not know


@fill_docstring(_PRINTING)
def array_repr(arr: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
               suppress_small: bool | None = None) -> str:
    """Return the `repr` of an array, with options.

    Args:
      arr: array, also a traced one, or any other object.
      {max_line_width, precision, suppress_small}
    Returns:
      A str, such as `array([1., 2.])` for arrays of NumPy.
    Raises: {TypeError}

    Source: meaning of `numpy.array_repr`.

    >>> array_repr(np.float32(1.5) * np.ones(2))
    'array([1.5, 1.5])'
    """
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return repr(arr)


@fill_docstring(_PRINTING)
def array_str(a: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
              suppress_small: bool | None = None) -> str:
    """Return the elements of an array as text.

    Args:
      a: array, or any other object; a traced array has no elements and is printed as its type.
      {max_line_width, precision, suppress_small}
    Returns:
      A str.
    Raises: {TypeError}

    Source: meaning of `numpy.array_str`.

    >>> array_str(np.array([1.234, 5.0]), precision=2)
    '[1.23 5.  ]'
    """
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return str(a)


def _options(width: int | None, precision: int | None, suppress: bool | None) -> dict[str, Any]:
    given = {"linewidth": width, "precision": precision, "suppress": suppress}
    return {k: v for k, v in given.items() if v is not None}


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True, fix_imports: bool = True) -> None:
    """An array written to a `.npy` file.

    Args:
      file: path, to which `.npy` is added where it is missing, or an open binary file.
      arr: array, number or list of numbers; known.
      allow_pickle, fix_imports: without meaning, as no array holds objects.
    Returns:
      None. Element types that NumPy does not have are written as bytes without a name, of which `load` knows bfloat16.
    Raises:
      OSError: the file cannot be written.
      ConcretizationError: `arr` is traced.
      TypeError: `arr` holds what is no number.

    Source: meaning of `numpy.save`.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(file, np.array([1, 2]))
    >>> np.load(io.BytesIO(file.getvalue()))
    array([1, 2], dtype=int32)
    """
    np.save(file, _raw(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Several arrays written to a `.npz` file.

    Args:
      file: path, to which `.npz` is added where it is missing, or an open binary file.
      args: arrays, numbers or lists of numbers, under the names `arr_0`, `arr_1` and so on; known.
      kwds: the same under names of their own.
    Returns:
      None. Element types that NumPy does not have are written as bytes without a name.
    Raises:
      OSError: the file cannot be written.
      ValueError: a name is that of an array without one.
      ConcretizationError: an array is traced.
      TypeError: an argument holds what is no number.

    Source: meaning of `numpy.savez`.

    >>> import io
    >>> file = io.BytesIO()
    >>> savez(file, x=np.array([1, 2]))
    >>> np.load(io.BytesIO(file.getvalue()))["x"]
    array([1, 2], dtype=int32)
    """
    named: dict[str, Any] = {name: _raw(value) for name, value in kwds.items()}
    np.savez(file, *map(_raw, args), **named)


def _raw(x: Any) -> np.ndarray:
    """The host's array; of element types that NumPy lacks, the bytes: of some it writes what it cannot read."""
    value = np.asarray(asarray(x))
    known = value.dtype.type.__module__ == "numpy"
    return value if known else value.view(f"V{value.dtype.itemsize}")


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """The array in a `.npy` file, or the arrays of a `.npz` file.

    Args:
      file: path, or an open binary file.
      args, kwargs: further arguments of `numpy.load`.
    Returns:
      Array of the shape and dtype that were saved, 64-bit ones narrowed outside of 64-bit mode; of a `.npz` file
      NumPy's mapping of names to NumPy arrays, which is to be closed.
    Raises:
      OSError: the file cannot be read.
      ValueError: it is no such file, or holds objects.
      DTypeError: it holds text, or elements without a name other than bfloat16.

    Source: meaning of `numpy.load`.

    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.array([1, 2]))
    >>> load(io.BytesIO(file.getvalue()))
    Array([1, 2], dtype=int32)
    """
    out = np.load(file, *args, **kwargs)
    if not isinstance(out, np.ndarray):
        return out
    if out.dtype == _VOID16:  # `.npy` has no name for it; of the element types of two bytes NumPy lacks only this one
        out = out.view(_BF16)
    elif out.dtype.kind == "V" and out.dtype.type is np.void:
        raise DTypeError(f"load: the file holds elements of {out.dtype.itemsize} byte(s) without a name, as `.npy` does of "
                         "small floats and integers. Read it with numpy.load(file).view(dtype), of the dtype it was saved in")
    return put(out)
