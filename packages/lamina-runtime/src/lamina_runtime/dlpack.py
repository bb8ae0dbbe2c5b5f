"""Exchange arrays with other libraries by DLPack capsules. Arrays also have the method `__dlpack__`."""
from __future__ import annotations

from typing import Any


import numpy as np
from lamina_ir import dtypes

from ._array.transfer import from_dlpack
from ._typing import Array

__all__ = ["SUPPORTED_DTYPES", "from_dlpack", "is_supported_dtype", "to_dlpack"]

# Scalar types, as `numpy.float32`: they have a `__name__`.
SUPPORTED_DTYPES = frozenset([
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64, np.complex64, np.complex128, dtypes.bfloat16.type])


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be exchanged.

    >>> is_supported_dtype("bfloat16"), is_supported_dtype("int4")
    (True, False)
    """
    return dtypes.as_dtype(dtype).type in SUPPORTED_DTYPES


def to_dlpack(x: Array, stream: object = None, src_device: Any = None, dl_device: Any = None, max_version: Any = None,
              copy: bool | None = None) -> object:
    """Return a DLPack capsule that shares the memory of an array. Newer libraries accept the array itself.

    Args:
      x: an array on one device.
      stream: as in `__dlpack__`.
      src_device: None, or the device of `x`.
      dl_device: None, or DLPack's (type, number) of the device of `x`.
      max_version: the newest version of DLPack that the consumer supports.
      copy: whether to copy the memory.
    Returns:
      The capsule.
    Raises:
      ValueError: `src_device` or `dl_device` is not the device of `x`.
      BufferError: `x` is on several devices.
      TypeError: `x` is not an array on a device.

    >>> from lamina_runtime import device_put
    >>> type(to_dlpack(device_put(1.0))).__name__
    'PyCapsule'
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "devices"):
        raise TypeError(f"to_dlpack: expected an array on a device; got {type(x).__name__}")
    if src_device is not None and {src_device} != x.devices():
        raise ValueError(f"to_dlpack: src_device must be the device of the array, {', '.join(map(str, x.devices()))}; "
                         f"got {src_device}")
    if dl_device is not None and tuple(map(int, dl_device)) != tuple(map(int, x.__dlpack_device__())):
        raise ValueError(f"to_dlpack: dl_device must be the device of the array, {x.__dlpack_device__()}; got "
                         f"{dl_device}. Move the array with device_put first")
    return x.__dlpack__(stream=stream, max_version=max_version, copy=copy)
