"""`jax._src.interpreters.pxla`: the names of `jax.interpreters.pxla`."""
from typing import Any

from ...interpreters import pxla as _public


def __getattr__(name: str) -> Any:
    return getattr(_public, name)


def __dir__() -> list[str]:
    return dir(_public)
