"""Extension API for runtimes.

It contains the spec that `pmap` passes to the active dispatcher, conversions between meshes and tiles, `lower_xmaps`,
which rewrites the `xmap` equations of a program before it is compiled, and `global_view`, the context in which
functions of global arrays are traced.

A dispatcher reads the attributes of `PmapSpec` that `lamina_tracing.extend.CallSpec` declares."""
from .mesh import mesh_in_scope
from .partition_spec import mesh_in_text, placement_text, spec_of, tiles_for
from .placement import placed
from .pmap import PmapSpec
from .wholes import seen_whole

__all__ = ["PmapSpec", "mesh_in_scope", "mesh_in_text", "placed", "placement_text", "seen_whole", "spec_of", "tiles_for"]
