"""The names of `lamina_lowering` that this package uses. It is imported when the first program is lowered.

Modules that are loaded by `import lamina_runtime` take these names from here, as `lowering.lower`.
"""
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lamina_ir import Primitive
from lamina_tracing.extend import hide_frames_of

if TYPE_CHECKING:
    from lamina_lowering import instruction_lines, lower, merged_rules, xla_computation
    from lamina_lowering.extend import ProgramRule, expand_primitives

__all__ = ["ProgramRule", "changed_rules", "expand_primitives", "instruction_lines", "lower", "merged_rules", "xla_computation"]

_EXTENSION = frozenset(("ProgramRule", "expand_primitives"))


def changed_rules(platform: str) -> frozenset[Primitive]:
    """Return the primitives whose lowering rule on a platform was not defined by the package of the rules."""
    extension = import_module("lamina_lowering.extend")
    return frozenset(extension.lowering_rules.changed | extension.platform_rules(platform).changed)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, extension = import_module("lamina_lowering"), import_module("lamina_lowering.extend")
    # User-facing tracebacks and source lines skip the frames of the package, or of the plugin in its place.
    hide_frames_of(home.lower.__code__.co_filename.rsplit("/", 2)[0] + "/")
    globals().update({shown: getattr(extension if shown in _EXTENSION else home, shown) for shown in __all__
                      if shown != "changed_rules"})
    return globals()[name]
