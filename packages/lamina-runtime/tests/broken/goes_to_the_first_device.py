"""Values are put on the first device, whichever was asked for."""
from lamina_runtime import stock
from lamina_runtime.stock import *

__contract__ = 1


def device_put(x, device=None, **options):
    return stock.device_put(x, devices()[0] if isinstance(device, Device) else device, **options)
