"""Whether the runtime is installed. Without it, reports have facts of the program only."""
from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

__all__ = ["has_runtime"]


@lru_cache(maxsize=1)
def has_runtime() -> bool:
    """Return whether lamina-runtime and jaxlib are installed."""
    return find_spec("lamina_runtime") is not None and find_spec("jaxlib") is not None
