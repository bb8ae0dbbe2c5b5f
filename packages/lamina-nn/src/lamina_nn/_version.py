"""The version, set by `hatch version`, and the neighbours it works with, as tools/check_ranges.py writes them."""
from lamina_ir import require_versions as _needs

__version__ = "0.1.0"

_needs("lamina-nn", __version__,
       "lamina-autodiff>=0.1,<0.2",
       "lamina-ir>=0.1,<0.2",
       "lamina-numpy>=0.1,<0.2",
       "lamina-random>=0.1,<0.2",
       "lamina-tracing>=0.1,<0.2")
