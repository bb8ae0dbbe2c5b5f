"""Arrays for other libraries, and from them, by DLPack's capsules. They read ours by `__dlpack__` too."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes

from .transfers import from_dlpack

__all__ = ["SUPPORTED_DTYPES", "from_dlpack", "to_dlpack"]

SUPPORTED_DTYPES = frozenset([*map(np.dtype, ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                                              "float16", "float32", "float64", "complex64", "complex128")), dtypes.bfloat16])


def to_dlpack(x: Any, stream: Any = None, src_device: Any = None, dl_device: Any = None, max_version: Any = None,
              copy: bool | None = None) -> Any:
    """The capsule of an array, which shares its memory. Newer libraries take the array itself.

    Args:
      x: an array on one device.
      stream: as in `__dlpack__`.
      src_device: a device: where `x` lies, for code that says so.
      dl_device: (kind, number) of the device that the memory is to be on: that of `x`.
      max_version: the newest version of the protocol that the other side reads.
      copy: whether to hand out a copy.
    Returns:
      The capsule.
    Raises:
      ValueError: `src_device` or `dl_device` is another device than that of `x`.
      BufferError: `x` lies on several devices.
      TypeError: `x` is no array on a device.

    >>> from lamina_runtime import device_put
    >>> type(to_dlpack(device_put(1.0))).__name__
    'PyCapsule'
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "devices"):
        raise TypeError(f"to_dlpack: expected an array on a device; got {type(x).__name__}")
    if src_device is not None and {src_device} != x.devices():
        raise ValueError(f"to_dlpack: src_device: the array lies on {', '.join(map(str, x.devices()))}; got {src_device}")
    if dl_device is not None and tuple(map(int, dl_device)) != tuple(map(int, x.__dlpack_device__())):
        raise ValueError(f"to_dlpack: dl_device: the array lies on {x.__dlpack_device__()}; got {dl_device}. Move it by "
                         "device_put first")
    return x.__dlpack__(stream=stream, max_version=max_version, copy=copy)
