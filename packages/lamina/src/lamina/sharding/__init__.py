"""`lamina.sharding`: shardings of arrays over devices, from `lamina_runtime` and `lamina_parallel`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_parallel import (AbstractMesh, AxisType, Mesh, PartitionSpec, auto_axes, explicit_axes, get_abstract_mesh, get_mesh,
                             set_mesh, use_abstract_mesh)
from lamina_runtime import (GSPMDSharding, NamedSharding, PmapSharding, PositionalSharding, Sharding,
                            SingleDeviceSharding, make_single_device_sharding, reshard)
from lamina_runtime.visualizing import visualize

__all__ = ["AbstractMesh", "AxisType", "GSPMDSharding", "Mesh", "NamedSharding", "PartitionSpec", "PmapSharding",
           "PositionalSharding", "Sharding", "SingleDeviceSharding", "auto_axes", "explicit_axes", "get_abstract_mesh",
           "get_mesh", "make_single_device_sharding", "reshard", "set_mesh", "use_abstract_mesh", "visualize"]

_explain_absent_names(globals())
