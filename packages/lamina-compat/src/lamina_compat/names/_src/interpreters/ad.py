"""`jax._src.interpreters.ad`: the names of `jax.interpreters.ad`."""
from typing import Any

from ...interpreters import ad as _public


def __getattr__(name: str) -> Any:
    return getattr(_public, name)


def __dir__() -> list[str]:
    return dir(_public)
