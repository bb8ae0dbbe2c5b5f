"""The door for dispatchers, and for nobody else: what `pmap` hands to the dispatcher in force.

Of it a dispatcher reads what `lamina_tracing.extend.CallSpec` says. Who gives up devices says so with `forget_devices`.
"""
from .pmap import PmapSpec, forget_devices

__all__ = ["PmapSpec", "forget_devices"]
