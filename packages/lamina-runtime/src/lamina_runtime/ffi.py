"""For compiled functions of other libraries that programs call: where XLA's headers are, and capsules of functions."""
from __future__ import annotations

import ctypes
from typing import Any

from . import _jaxlib

__all__ = ["include_dir", "pycapsule"]


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
