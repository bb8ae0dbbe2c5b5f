"""Names of the default implementation, for the facade and for plugins: `from lamina_export._default import *`."""
from .disabled_checks import DisabledSafetyCheck
from .symbolic_dim import InconclusiveDimensionOperation, SymbolicDim, is_symbolic_dim, symbolic_dim_bounds
from .exported import CALLING_CONVENTION, Exported, default_export_platform, deserialize
from .export import export
from .serialization import register_namedtuple_serialization, register_pytree_node_serialization
from .symbolic_scope import SymbolicScope, symbolic_args_specs, symbolic_shape
from ._version import __version__

__all__ = ["DisabledSafetyCheck", "Exported", "InconclusiveDimensionOperation", "SymbolicDim", "SymbolicScope", "__version__",
           "default_export_platform", "deserialize", "export", "is_symbolic_dim",
           "maximum_supported_calling_convention_version", "minimum_supported_calling_convention_version",
           "register_namedtuple_serialization", "register_pytree_node_serialization", "symbolic_args_specs",
           "symbolic_dim_bounds", "symbolic_shape"]

maximum_supported_calling_convention_version = minimum_supported_calling_convention_version = CALLING_CONVENTION
