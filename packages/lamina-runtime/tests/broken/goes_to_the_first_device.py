"""Values are put on the first device, whichever was asked for."""
from lamina_runtime import _default
from lamina_runtime._default import *

__contract__ = 1


def device_put(x, device=None, **options):
    return _default.device_put(x, devices()[0] if isinstance(device, Device) else device, **options)
