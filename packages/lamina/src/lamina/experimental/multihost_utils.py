"""`lamina.experimental.multihost_utils`: what several processes do together, from `lamina_runtime.multihost_utils`."""
from lamina_runtime.multihost_utils import *
from lamina_runtime.multihost_utils import __all__ as __all__
