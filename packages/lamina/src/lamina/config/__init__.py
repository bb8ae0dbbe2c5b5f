"""Settings of all packages, as `lamina.config` and as `from lamina.config import config`: an object that replaces this
module in `sys.modules`."""
import sys

from .. import _packages as _packages
from lamina_ir import config

sys.modules[__name__] = config
