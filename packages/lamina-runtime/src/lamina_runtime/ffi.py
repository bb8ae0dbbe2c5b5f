"""For compiled functions of other libraries that programs call: where XLA's headers are, and capsules of functions."""
from __future__ import annotations

import ctypes
from typing import Any

from lamina_lowering.extend import ffi_lowering

from . import _jaxlib

__all__ = ["ffi_lowering", "include_dir", "pycapsule", "register_ffi_target"]


def include_dir() -> str:
    """The folder of the headers that compiled functions are built with.

    >>> include_dir().endswith("include")
    True
    """
    return _jaxlib.include_dir()


def pycapsule(funcptr: Any) -> Any:
    """A capsule of a function of a library that ctypes has loaded, as the registration of custom calls takes it.

    Args:
      funcptr: the function, or its address.
    Returns:
      The capsule.
    Raises:
      TypeError: it is no function of a library and no address.

    >>> type(pycapsule(ctypes.CDLL(None).abs)).__name__
    'PyCapsule'
    """
    make = ctypes.pythonapi.PyCapsule_New
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
    try:
        if isinstance(funcptr, (str, bytes)):  # ctypes takes the address of the text
            raise ctypes.ArgumentError
        address = funcptr if isinstance(funcptr, int) else ctypes.cast(funcptr, ctypes.c_void_p).value
    except ctypes.ArgumentError:
        raise TypeError(f"pycapsule: expected a function of a library that ctypes has loaded; got "
                        f"{type(funcptr).__name__}") from None
    if not address:
        raise TypeError("pycapsule: expected a function of a library that ctypes has loaded; got a null pointer")
    return make(address, b"xla._CUSTOM_CALL_TARGET", None)


def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1) -> None:
    """Tell the compiler of a function of another library, which `ffi_lowering(name)` calls.

    Args:
      name: what it is to be called.
      fn: its capsule, see `pycapsule`; or a dict of the capsules of its stages, by their names.
      platform: where it runs: 'cpu', 'cuda' or 'rocm'.
      api_version: 1 for handlers of XLA's FFI; 0 for functions of the older interface.
    Raises:
      TypeError: `name` is no text.
      ValueError: the platform is not known, or the name is taken by another function.

    >>> register_ffi_target("kernel", None)
    Traceback (most recent call last):
    TypeError: register_ffi_target: fn must be a capsule, as pycapsule(function) gives it, or a dict of them; got NoneType: None
    """
    call = "register_ffi_target"
    if not isinstance(name, str):
        raise TypeError(f"{call}: name must be a text; got {type(name).__name__}: {name!r:.60}")
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
