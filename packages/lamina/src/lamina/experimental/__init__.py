"""`lamina.experimental`: names that people look for here."""
from lamina_runtime import compilation_cache
from lamina_tracing import disable_x64, enable_x64, io_callback

__all__ = ["compilation_cache", "disable_x64", "enable_x64", "io_callback"]
