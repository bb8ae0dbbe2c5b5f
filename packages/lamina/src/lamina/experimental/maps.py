"""`lamina.experimental.maps`: the place of maps over meshes of named axes, of which there are none yet."""
from typing import NoReturn

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    hint = (": maps over meshes are not there yet. Name an axis with vmap(axis_name=...), or map over devices with pmap"
            if name in ("xmap", "Mesh", "mesh") else "")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
