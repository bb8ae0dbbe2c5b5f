"""The door for dispatchers, and for nobody else: what `pmap` hands to the dispatcher in force.

Of it a dispatcher reads what `lamina_tracing.extend.CallSpec` says.
"""
from .pmap import PmapSpec

__all__ = ["PmapSpec"]
