"""`jax.lib`: jaxlib's modules under their older paths."""
from importlib import import_module as _import_module

version_str: str = _import_module("jaxlib").__version__
__version__ = version_str
version: tuple[int, ...] = tuple([int(part) for part in version_str.split(".")[:3] if part.isdigit()])

__all__ = ["version", "version_str"]
