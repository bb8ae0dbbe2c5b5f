"""`jax._src.interpreters.xla`: the names of `jax.interpreters.xla`."""
from typing import Any

from ...interpreters import xla as _public


def __getattr__(name: str) -> Any:
    return getattr(_public, name)


def __dir__() -> list[str]:
    return dir(_public)
