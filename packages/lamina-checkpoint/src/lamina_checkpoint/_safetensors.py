"""Read and write safetensors files: the length of a header, a header in JSON, and the data of all arrays."""
from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes
from lamina_ir.typing import Value

from ._stores import CheckpointError, check_name

__all__ = ["load_safetensors", "save_safetensors"]

# Names of the format's specification. It has none for complex128, and for integers of two and four bits.
_NAMES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
          "int64": "I64", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
          "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "complex64": "C64"}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_MAX_HEADER_BYTES = 100_000_000  # as the specification requires of readers
_METADATA = "__metadata__"


def save_safetensors(path: str | os.PathLike[str], arrays: Mapping[str, Value], *,
                     metadata: Mapping[str, str] | None = None) -> None:
    """Save arrays by name in a safetensors file. The file is replaced atomically.

    Args:
      path: the file.
      arrays: NumPy arrays and lamina arrays, by name. Arrays of other trees: flatten them into names first.
      metadata: strings by name, stored in the file; None: none.
    Raises:
      TypeError: a name or a metadata entry is not a string, or a value is not an array.
      ValueError: a name is `__metadata__`.
      DTypeError: the format has no name for a dtype.

    >>> import numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> save_safetensors(path, {"w": np.float32([1, 2])})
    >>> load_safetensors(path)
    {'w': array([1., 2.], dtype=float32)}
    """
    name = check_name("save_safetensors", path)
    header, values = _make_header("save_safetensors", arrays, metadata)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{name}.{os.urandom(4).hex()}"
    try:
        with open(temporary, "xb") as f:
            f.write(len(text).to_bytes(8, "little") + text)
            for x in values:
                value = np.ascontiguousarray(x).reshape(-1)
                f.write(value.astype(value.dtype.newbyteorder("<"), copy=False).view(np.uint8).data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, name)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _make_header(call: str, arrays: Mapping[str, Value],
                 metadata: Mapping[str, str] | None) -> tuple[dict[str, Any], list[Value]]:
    """Return (header, the arrays in the order of their data)."""
    header: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(x, str) for pair in metadata.items() for x in pair):
            raise TypeError(f"{call}: metadata must be strings by name; got {dict(metadata)!r:.100}")
        header[_METADATA] = dict(metadata)
    offset, values = 0, []
    # Larger items first, so that all arrays are aligned to their items.
    for key, x in sorted(arrays.items(), key=lambda item: -getattr(getattr(item[1], "dtype", None), "itemsize", 1)):
        if not isinstance(key, str):
            raise TypeError(f"{call}: names must be strings; got {type(key).__name__}: {key!r:.60}")
        if key == _METADATA:
            raise ValueError(f"{call}: the name {_METADATA!r} is reserved; pass metadata=")
        dtype = getattr(x, "dtype", None)
        if dtype is None or not hasattr(x, "shape"):
            raise TypeError(f"{call}: {key!r} must be an array; got {type(x).__name__}: {x!r:.60}")
        found = _NAMES.get(dtype.name) if isinstance(dtype, np.dtype) else None
        if found is None:
            raise DTypeError(f"{call}: {key!r} has dtype {dtype}, for which safetensors has no name")
        size = math.prod(x.shape) * dtype.itemsize
        header[key] = {"dtype": found, "shape": list(x.shape), "data_offsets": [offset, offset + size]}
        offset += size
        values.append(x)
    return header, values


def load_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Load the arrays of a safetensors file as NumPy arrays, by name.

    Args:
      path: the file.
    Returns:
      The arrays. They are read-only maps of the file, so that only what is used is read.
    Raises:
      FileNotFoundError: the file does not exist.
      CheckpointError: it is not a safetensors file, is truncated, or has a dtype that NumPy lacks.
    """
    call, name = "load_safetensors", check_name("load_safetensors", path)
    with open(name, "rb") as f:
        total = os.fstat(f.fileno()).st_size
        length = int.from_bytes(f.read(8), "little")
        if total < 8 or length > min(total - 8, _MAX_HEADER_BYTES):
            raise CheckpointError(f"{call}: {name} is truncated, or not a safetensors file")
        text = f.read(length)
    begin = 8 + length
    try:
        header = json.loads(text)
        header.pop(_METADATA, None)
        entries = [(key, entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"]) for key, entry in header.items()]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CheckpointError(f"{call}: the header of {name} is damaged") from None
    data = np.memmap(name, np.uint8, "r") if total > begin else np.zeros(0, np.uint8)
    found = {}
    for key, kind, shape, first, last in entries:
        if kind not in _DTYPES:
            raise CheckpointError(f"{call}: {key!r} in {name} has dtype {kind!r}, which is not supported")
        dtype = dtypes.as_dtype(_DTYPES[kind])
        if not 0 <= first <= last <= total - begin or last - first != math.prod(shape) * dtype.itemsize:
            raise CheckpointError(f"{call}: {key!r} in {name} is truncated or damaged: bytes {first} to {last} of "
                                  f"{total - begin} for shape {shape} of {kind}")
        raw = np.asarray(data[begin + first:begin + last])
        found[key] = raw.view(dtype).reshape(shape) if raw.size else np.zeros(shape, dtype)
    return found
