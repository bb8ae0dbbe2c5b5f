"""`lamina.debug`: looking into running programs, from `lamina_tracing.debug`; pictures, from `lamina_runtime.visualizing`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime.visualizing import inspect_array_sharding, visualize_array_sharding, visualize_sharding
from lamina_tracing.debug import *
from lamina_tracing.debug import __all__ as _values

__all__ = [*_values, "inspect_array_sharding", "visualize_array_sharding", "visualize_sharding"]

_explain_absent_names(globals())
