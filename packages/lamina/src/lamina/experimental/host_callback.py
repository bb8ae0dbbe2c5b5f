"""`lamina.experimental.host_callback`: values shown to the host in the older spelling, from `lamina_runtime.host_callback`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_runtime.host_callback import *
from lamina_runtime.host_callback import __all__ as __all__
