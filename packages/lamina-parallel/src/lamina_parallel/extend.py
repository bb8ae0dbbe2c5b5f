"""The door for runtimes, and for nobody else: what `pmap` hands to the dispatcher in force, meshes in tiles, and `placed`,
which writes a program's maps of named axes in other ops before it is compiled, and the block in which functions of arrays over
several processes are staged.

Of `PmapSpec` a dispatcher reads what `lamina_tracing.extend.CallSpec` says.
"""
from .mesh import mesh_in_scope
from .partition_spec import mesh_in_text, placement_text, spec_of, tiles_for
from .placement import placed
from .pmap import PmapSpec
from .wholes import seen_whole

__all__ = ["PmapSpec", "mesh_in_scope", "mesh_in_text", "placed", "placement_text", "seen_whole", "spec_of", "tiles_for"]
