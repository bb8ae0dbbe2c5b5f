"""Type aliases for annotations inside this package; `lamina_ir.typing` has the general ones."""
from __future__ import annotations

from typing import Any, TypeAlias

from lamina_ir.prims import Indexed, Split
from lamina_ir.typing import AxisName, Device

__all__ = ["AxisBinding", "Entries", "Entry", "MeshParam", "Outputs"]

# The `axis_binding` of a region signature, whose class lamina_ir does not export.
AxisBinding: TypeAlias = Any
# For each dimension of an array the mesh axes over which it is split.
Entries: TypeAlias = tuple[tuple[AxisName, ...], ...]
# How each dimension of an array is mapped or split; None for a dimension that is neither.
Entry: TypeAlias = tuple["Indexed | Split | None", ...]
# A mesh as equation parameter: (axis names, axis sizes, devices).
MeshParam: TypeAlias = tuple[tuple[AxisName, ...], tuple[int, ...], tuple[Device, ...]]
# The result of a primitive or of a rule: a value, or a sequence of values if there are several.
Outputs: TypeAlias = Any
