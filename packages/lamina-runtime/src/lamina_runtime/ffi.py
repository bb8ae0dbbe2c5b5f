"""Register compiled functions of other libraries as FFI targets: header directory, capsules, registration."""
from __future__ import annotations

import ctypes
from typing import Any

from lamina_lowering.extend import ffi_lowering

from . import _jaxlib

__all__ = ["ffi_lowering", "include_dir", "pycapsule", "register_ffi_target"]


def include_dir() -> str:
    """Return the directory of XLA's C++ headers, for building FFI functions.

    >>> include_dir().endswith("include")
    True
    """
    return _jaxlib.include_dir()


def pycapsule(funcptr: Any) -> object:
    """Wrap a function of a library loaded with ctypes in a capsule, for `register_ffi_target`.

    Args:
      funcptr: the function, or its address.
    Returns:
      The capsule.
    Raises:
      TypeError: `funcptr` is neither a ctypes function nor an address.

    >>> type(pycapsule(ctypes.CDLL(None).abs)).__name__
    'PyCapsule'
    """
    make = ctypes.pythonapi.PyCapsule_New
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
    try:
        if isinstance(funcptr, (str, bytes)):  # ctypes would use the address of the text
            raise ctypes.ArgumentError
        address = funcptr if isinstance(funcptr, int) else ctypes.cast(funcptr, ctypes.c_void_p).value
    except ctypes.ArgumentError:
        raise TypeError(f"pycapsule: expected a function of a library loaded with ctypes; got "
                        f"{type(funcptr).__name__}") from None
    if not address:
        raise TypeError("pycapsule: expected a function of a library loaded with ctypes; got a null pointer")
    return make(address, b"xla._CUSTOM_CALL_TARGET", None)


def register_ffi_target(name: str, fn: object, platform: str = "cpu", api_version: int = 1) -> None:
    """Register a compiled function with XLA, as the target of `ffi_lowering(name)`.

    Args:
      name: name of the target.
      fn: capsule of the function, see `pycapsule`; or a dict from the names of its stages to their capsules.
      platform: 'cpu', 'cuda' or 'rocm'.
      api_version: 1 for handlers of XLA's FFI; 0 for functions of the older interface.
    Raises:
      TypeError: `name` is not a string, or `fn` is not a capsule.
      ValueError: the platform is unknown, or another function has the name.

    >>> register_ffi_target("kernel", None)
    Traceback (most recent call last):
    TypeError: register_ffi_target: fn must be a capsule, as pycapsule(function) gives it, or a dict of them; got ...
    """
    call = "register_ffi_target"
    if not isinstance(name, str):
        raise TypeError(f"{call}: name must be a string; got {type(name).__name__}: {name!r:.60}")
    if not isinstance(fn, dict) and type(fn).__name__ != "PyCapsule":
        raise TypeError(f"{call}: fn must be a capsule, as pycapsule(function) gives it, or a dict of them; got "
                        f"{type(fn).__name__}: {fn!r:.60}")
    known = {"cpu": "cpu", "cuda": "CUDA", "gpu": "CUDA", "rocm": "ROCM"}
    if platform not in known:
        raise ValueError(f"{call}: platform must be one of {', '.join(known)}; got {platform!r}")
    try:
        _jaxlib.xc.register_custom_call_target(name, fn, platform=known[platform], api_version=api_version)
    except _jaxlib.JaxRuntimeError as e:
        raise ValueError(f"{call}: {name!r} cannot be registered: {e}") from e
