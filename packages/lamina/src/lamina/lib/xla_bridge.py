"""`lamina.lib.xla_bridge`: the platform behind the devices, from `lamina_runtime`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime import default_backend, device_count, devices, get_backend, local_device_count

__all__ = ["default_backend", "device_count", "devices", "get_backend", "local_device_count"]

_explain_absent_names(globals())
