"""Extension API for runtimes.

It contains the spec that `pmap` passes to the active dispatcher, and conversions between meshes and tiles.
`lower_xmaps` rewrites the `xmap` equations of a program before it is compiled. `global_view` is the context in which
functions of global arrays are traced.

`sharding_rules` is the table of the rules over `Explicit` mesh axes: `rule(operation)` returns the mesh axes of each
dimension of the result, or a list of them for each result.

A dispatcher reads the attributes of `PmapSpec` that `lamina_tracing.extend.CallSpec` declares."""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from ._mesh.array_shardings import ArrayShardings, TypeSharding, set_array_shardings
from ._mesh.mesh import mesh_in_scope
from ._mesh.partition_spec import (check_explicit_spec, explicit_spec, format_placement, parse_mesh, partition_spec_from_tiles,
                                   spec_entries, spec_from_entries, tiles_from_partition_spec)
from ._maps.lower_xmaps import lower_xmaps
from ._maps.pmap import PmapSpec
from ._maps.global_view import global_view

__all__ = ["ArrayShardings", "PmapSpec", "TypeSharding", "add_sharding_types", "check_explicit_spec", "explicit_spec",
           "format_placement", "global_view", "lower_xmaps", "mesh_in_scope", "parse_mesh",
           "partition_spec_from_tiles", "set_array_shardings", "sharding_rules", "spec_entries", "spec_from_entries",
           "tiles_from_partition_spec"]

if TYPE_CHECKING:
    from ._deprecated import *
    from ._explicit.analyze import add_sharding_types
    from ._explicit.table import sharding_rules
else:
    __getattr__ = deprecated_getattr(__name__, {"add_sharding_types": "_explicit.analyze",
                                                "sharding_rules": "_explicit.table"})
