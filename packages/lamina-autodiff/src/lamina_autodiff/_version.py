"""The version, set by `hatch version`, and the neighbours it works with, as tools/check_ranges.py writes them."""
from lamina_ir import needs as _needs

__version__ = "0.1.0"

_needs("lamina-autodiff", __version__, "lamina-ir>=0.1,<0.2", "lamina-tracing>=0.1,<0.2")
