"""Defect: `device_put` uses the first device instead of the given one."""
from lamina_runtime import _default
from lamina_runtime._default import *

__contract__ = 1


def device_put(x, device=None, **options):
    return _default.device_put(x, devices()[0] if isinstance(device, Device) else device, **options)
