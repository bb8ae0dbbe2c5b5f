"""`lamina.lib.xla_bridge`: the platform behind the devices, from `lamina_runtime`."""
from lamina_runtime import default_backend, device_count, devices, get_backend, local_device_count

__all__ = ["default_backend", "device_count", "devices", "get_backend", "local_device_count"]
