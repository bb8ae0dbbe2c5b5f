"""Default implementation of this package, re-exported by `__init__`; plugins import its names: `from
lamina_lowering._default import *`."""
from ._version import __version__
from .hlo import as_dot_graph, as_hlo_text, as_portable_artifact, as_serialized_hlo_module_proto, xla_computation
from .module import Lowered, lower
from .source_map import SourceLine, instruction_lines
from .tables import lowering_rules, platform_rules, rows

__all__ = ["Lowered", "SourceLine", "__version__", "as_dot_graph", "as_hlo_text", "as_portable_artifact",
           "as_serialized_hlo_module_proto", "instruction_lines", "lower", "lowering_rules", "platform_rules", "rows",
           "xla_computation"]
