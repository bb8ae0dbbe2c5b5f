"""Former public names of this package. Each works for one minor version and warns when it is used."""
from __future__ import annotations

from typing import Any

from typing_extensions import deprecated

from ._maps.global_view import global_view
from ._maps.lower_xmaps import lower_xmaps
from ._mesh.partition_spec import format_placement, parse_mesh, partition_spec_from_tiles, tiles_from_partition_spec

__all__ = [
    "mesh_in_text", "placed", "placement_text", "seen_whole", "spec_of", "tiles_for"]

@deprecated("use parse_mesh")
def mesh_in_text(*args: Any, **kwargs: Any) -> Any: return parse_mesh(*args, **kwargs)

@deprecated("use lower_xmaps")
def placed(*args: Any, **kwargs: Any) -> Any: return lower_xmaps(*args, **kwargs)

@deprecated("use format_placement")
def placement_text(*args: Any, **kwargs: Any) -> Any: return format_placement(*args, **kwargs)

@deprecated("use global_view")
def seen_whole(*args: Any, **kwargs: Any) -> Any: return global_view(*args, **kwargs)

@deprecated("use partition_spec_from_tiles")
def spec_of(*args: Any, **kwargs: Any) -> Any: return partition_spec_from_tiles(*args, **kwargs)

@deprecated("use tiles_from_partition_spec")
def tiles_for(*args: Any, **kwargs: Any) -> Any: return tiles_from_partition_spec(*args, **kwargs)
