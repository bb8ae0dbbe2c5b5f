"""The version, set by `hatch version`, and the required versions of sibling packages (`tools/check_ranges.py --write`)."""
from lamina_ir import require_versions as _needs

__version__ = "0.1.0"

_needs("lamina", __version__,
       "lamina-ir>=0.1,<0.2",
       "lamina-tracing>=0.1,<0.2",
       "lamina-autodiff>=0.1,<0.2",
       "lamina-batching>=0.1,<0.2",
       "lamina-parallel>=0.1,<0.2",
       "lamina-lowering>=0.1,<0.2",
       "lamina-runtime>=0.1,<0.2",
       "lamina-numpy>=0.1,<0.2",
       "lamina-random>=0.1,<0.2",
       "lamina-checkify>=0.1,<0.2",
       "lamina-pallas>=0.1,<0.2",
       "lamina-refs>=0.1,<0.2",
       "lamina-compat>=0.1,<0.2",
       "lamina-distributed>=0.1,<0.2",
       "lamina-export>=0.1,<0.2",
       "lamina-jet>=0.1,<0.2",
       "lamina-nn>=0.1,<0.2",
       "lamina-scipy>=0.1,<0.2",
       "lamina-see>=0.1,<0.2",
       "lamina-sparse>=0.1,<0.2")
