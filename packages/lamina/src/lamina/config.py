"""The settings of all rooms, as `lamina.config` and as `from lamina.config import config`: an object that stands in for this
module, which would hide them."""
import sys

from . import _packages as _packages
from lamina_ir import config

sys.modules[__name__] = config
