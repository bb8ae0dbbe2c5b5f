"""Type aliases for annotations inside this package; `lamina_ir.typing` has the general ones."""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

__all__ = ["Avals", "AxisNames", "DTypeSpec", "IndexGroups", "Json", "KeyEntry", "KeyPath", "NodeData", "Number", "Observer",
           "Operand", "OptionValue", "OptionWatcher", "ProgramSpec", "RunProgram", "ShapeSpec", "TreeBackend", "TypeSpec"]

# The types of the results of a primitive: a ShapedArray, or a sequence of them if it has several results.
Avals: TypeAlias = Any
# One axis name, or a tuple or list of them.
AxisNames: TypeAlias = Hashable | Sequence[Hashable]
# Groups of indices along mapped axes, as the caller gives them: nested lists, tuples or an array; None: no groups.
IndexGroups: TypeAlias = Any
# A shape as the caller gives it: a sequence of ints. Not checked yet.
ShapeSpec: TypeAlias = Any
# A dtype as the caller gives it: a name, a `numpy.dtype`, a type, a scalar-type object or an array.
DTypeSpec: TypeAlias = Any
# A type as the caller gives it: text, a ShapedArray, anything with a shape and a dtype, or a shape.
TypeSpec: TypeAlias = Any
# A program as the caller of a builder gives it: a ClosedJaxpr, a Jaxpr without constants, or a function.
ProgramSpec: TypeAlias = Any
# Evaluates a nested program: called with (program, operands), and with the AxisEnv if it runs on several devices.
RunProgram: TypeAlias = Callable[..., Any]
# An operand as the caller of a builder gives it: a variable, a literal, an array or a number.
Operand: TypeAlias = Any
# A Python number whose dtype is not known yet.
Number: TypeAlias = bool | int | float | complex
# Data of the module `json`: dicts, lists, strings, numbers, booleans and None.
Json: TypeAlias = Any
# The value of a setting: a bool, an int, a float, a string, None, or a value that its check accepts.
OptionValue: TypeAlias = Any
# Called with (value, is_local) when a setting changes.
OptionWatcher: TypeAlias = Callable[[OptionValue, bool], None]
# Auxiliary data of a tree node, which its class defines: the keys of a dict, the type of a namedtuple, ...
NodeData: TypeAlias = Any
# A step of a path: `DictKey`, `SequenceKey`, `GetAttrKey`, `FlattenedIndexKey`, or a key of a registered class.
KeyEntry: TypeAlias = Any
# The path of a node in a tree: `DictKey`, `SequenceKey`, `GetAttrKey` or a key of a registered class for each level.
KeyPath: TypeAlias = tuple[KeyEntry, ...]
# What flattens trees: `PythonBackend`, or an object with its methods, such as a registry of jaxlib.
TreeBackend: TypeAlias = Any
# Called with (eqn, operands, results) after each equation. Operands and results have one array per device.
Observer: TypeAlias = Callable[..., None]
