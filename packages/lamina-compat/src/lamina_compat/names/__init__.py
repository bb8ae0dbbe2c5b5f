"""Names of JAX that lamina does not show under the same path: one module for each module of JAX.

`jax.a.b` reads `lamina_compat.names.a.b` first, then `lamina.a.b`.
"""
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._vocabulary import make_jaxpr as make_jaxpr


def __getattr__(name: str) -> Any:
    if name == "make_jaxpr":  # loaded when it is used: it imports lamina
        from .._vocabulary import make_jaxpr as found  # noqa: PLC0415
        globals()[name] = found
        return found
    raise AttributeError(f"module 'lamina' has no attribute {name!r}", name=name)
