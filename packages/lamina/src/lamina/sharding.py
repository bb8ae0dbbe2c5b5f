"""`lamina.sharding`: shardings of arrays over devices, from `lamina_runtime` and `lamina_parallel`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_parallel import Mesh, PartitionSpec
from lamina_runtime import (GSPMDSharding, NamedSharding, PmapSharding, PositionalSharding, Sharding,
                            SingleDeviceSharding)
from lamina_runtime.visualizing import visualize

__all__ = ["GSPMDSharding", "Mesh", "NamedSharding", "PartitionSpec", "PmapSharding", "PositionalSharding", "Sharding",
           "SingleDeviceSharding", "visualize"]

_explain_absent_names(globals())
