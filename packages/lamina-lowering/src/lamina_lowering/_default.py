"""Default implementation of this package, re-exported by `__init__`; plugins import its names: `from
lamina_lowering._default import *`."""
from lamina_ir.layers import deprecated_getattr as _deprecated_getattr
from ._version import __version__
from ._emit.formats import (as_dot_graph, as_hlo_text, as_portable_artifact, as_serialized_hlo_module_proto,
                            xla_computation)
from ._emit.module import Lowered, lower
from ._emit.source_map import SourceLine, instruction_lines
from ._emit.rule_tables import lowering_rules, platform_rules, merged_rules

__all__ = ["Lowered", "SourceLine", "__version__", "as_dot_graph", "as_hlo_text", "as_portable_artifact",
           "as_serialized_hlo_module_proto", "instruction_lines", "lower", "lowering_rules", "merged_rules",
           "platform_rules", "xla_computation"]

__getattr__ = _deprecated_getattr(__package__ or "")
