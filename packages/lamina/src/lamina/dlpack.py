"""`lamina.dlpack`: arrays from other libraries, by the DLPack protocol; they read ours by `__dlpack__`."""
from lamina_runtime import from_dlpack

__all__ = ["from_dlpack"]
