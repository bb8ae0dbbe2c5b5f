"""`jax.core`: types, primitives, tracers and programs, as views of lamina's objects."""
from lamina_ir.layers import explain_absent_names
from lamina_tracing.lax import Token

from ..._array_classes import pytype_aval_mappings
from ..util import safe_map, safe_zip
from ._primitives import *
from ._primitives import __all__ as _primitives
from ._programs import *
from ._programs import __all__ as _programs
from ._tracers import *
from ._tracers import __all__ as _tracers
from ._types import *
from ._types import __all__ as _types

__all__ = [*_primitives, *_programs, *_tracers, *_types, "Token", "pytype_aval_mappings", "safe_map", "safe_zip", "typeof"]

typeof = shaped_abstractify
map, unsafe_map, zip, unsafe_zip = safe_map, map, safe_zip, zip

explain_absent_names(globals())
