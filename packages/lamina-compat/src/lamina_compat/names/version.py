"""`jax.version`: the release whose interface is offered."""
from typing import Any

from .._importer import installed_version

__all__ = ["__version__", "__version_info__"]


def __getattr__(name: str) -> Any:
    # The version may change while the program runs, with a second call of `as_jax`.
    version = installed_version()
    if name in ("__version__", "_version"):
        return version
    if name == "__version_info__":
        return tuple(map(int, version.split(".")))
    if name in ("_minimum_jaxlib_version", "_minimum_jaxlib_version_info"):
        return "0.10.2" if name == "_minimum_jaxlib_version" else (0, 10, 2)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
