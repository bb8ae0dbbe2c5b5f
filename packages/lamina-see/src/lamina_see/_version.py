"""The version, set by `hatch version`, and the required versions of sibling packages (`tools/check_ranges.py --write`)."""
from lamina_ir import require_versions as _needs

__version__ = "0.1.0"

_needs("lamina-see", __version__, "lamina-ir>=0.1,<0.2", "lamina-tracing>=0.1,<0.2")
