"""Former place of the package `lamina-checkpoint`: its names, which warn when they are used."""
from __future__ import annotations

import warnings
from importlib import import_module

__all__ = ["CheckpointError", "latest", "load", "save", "steps"]  # served by __getattr__


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module("lamina_checkpoint"), name)
    except ModuleNotFoundError as e:
        if e.name != "lamina_checkpoint":
            raise
        raise ImportError("lamina_runtime.checkpointing has moved to the package lamina-checkpoint, which is not installed: "
                          "install it, or lamina[checkpoint]") from None
    warnings.warn(f"lamina_runtime.checkpointing.{name} is deprecated; use lamina_checkpoint.{name}", DeprecationWarning,
                  stacklevel=2)
    return value
