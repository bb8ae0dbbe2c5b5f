"""Type aliases for annotations inside this package; `lamina_ir.typing` has the general ones."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function

__all__ = ["AnyTrace", "ArgSelection", "AttributeTable", "AxisGroups", "CacheTable", "CompilerOptions", "KeyPath",
           "MappedAxis", "Outputs", "SourceState", "Stage", "StagedFunctionInfo", "StaticKey", "Unchecked"]

# The result of a primitive: a value, or a tuple of values if the primitive has several results.
Outputs: TypeAlias = Any
# A `Trace`. Subclasses in other packages have further attributes, which the code that handles their tracers uses.
AnyTrace: TypeAlias = Any
# `trace_state.source`: a `Source`, a `UserRuleSource`, `NOWHERE`, or None. See source_lines.py.
SourceState: TypeAlias = Any
# A transformed function, for errors: (call, function, tree of its arguments or None, positions that are not in the tree).
StagedFunctionInfo: TypeAlias = "tuple[str, Function, PyTreeDef | None, Collection[int]]"
# Key of the static arguments of a call: (position or name, type, value) of each.
StaticKey: TypeAlias = tuple[tuple["int | str", type, Any], ...]
# Positions or names of arguments as the caller gives them: one, several, or None. Not checked yet.
ArgSelection: TypeAlias = Any
# The cache of one function: key -> cached value. The module that owns the cache knows the type of the values.
CacheTable: TypeAlias = dict[Any, Any]
# Settings of XLA by name: booleans, numbers and strings.
CompilerOptions: TypeAlias = dict[str, Any]
# The path of a leaf in a tree: `DictKey`, `SequenceKey`, `GetAttrKey` or a key of a registered class for each level.
KeyPath: TypeAlias = tuple[Any, ...]
# A mapped axis with `size` and `name`, such as the `BatchAxis` of `lamina_batching`.
MappedAxis: TypeAlias = Any
# A stage of compilation, defined by the runtime: a traced or lowered function.
Stage: TypeAlias = Any
# Methods, operators and properties to install on a class, by name.
AttributeTable: TypeAlias = dict[str, Any]
# `axis_index_groups`: the member numbers of each group; None for one group of all members.
AxisGroups: TypeAlias = "Sequence[Sequence[int]] | None"
# An argument as the caller gave it: the function that takes it checks it, and its error names what was given.
Unchecked: TypeAlias = Any
