"""The door for dispatchers, and for nobody else: what `pmap` hands to the dispatcher in force, and meshes in tiles.

Of `PmapSpec` a dispatcher reads what `lamina_tracing.extend.CallSpec` says.
"""
from .mesh import mesh_in_scope
from .partition_spec import mesh_in_text, placement_text, spec_of, tiles_for
from .pmap import PmapSpec

__all__ = ["PmapSpec", "mesh_in_scope", "mesh_in_text", "placement_text", "spec_of", "tiles_for"]
