"""Type aliases for annotations: names of the values that signatures pass around.

Python's types cannot describe several of them: a tracer gets its methods from a hook, a tree is any nesting of
containers, devices belong to the runtime. Those are `Any` under a name that says what is meant. `lamina_tracing` adds
`Array`, `ArrayLike` and `DTypeLike` for user programs.

>>> def scale(x: Value, params: Params) -> Value:
...     return x * params["factor"]
"""
from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

__all__ = ["AxisName", "CacheKey", "Device", "Function", "Leaf", "MapEntry", "Outputs", "ParamValue", "Params",
           "Sharding", "StaticValue", "Tree", "Value"]

# An operand or a result of an equation: NumPy array, scalar, array of a runtime, tracer, PRNG key array.
Value: TypeAlias = Any
# The result of a primitive: a value, or a sequence of values if the primitive has several results.
Outputs: TypeAlias = Any
# Nested containers (`lamina_ir.trees`): arguments, results, or settings with one leaf per argument.
Tree: TypeAlias = Any
# A leaf of a tree: an array, a number, or any object of a class that is not registered as a node.
Leaf: TypeAlias = Any
# The value of one equation parameter, of the type that the primitive declares.
ParamValue: TypeAlias = Any
# Equation parameters by name.
Params: TypeAlias = dict[str, Any]
# How a map splits one operand or result: the number of the mapped dimension or None, or a tuple with an `Indexed`, a
# `Split` or None for each dimension.
MapEntry: TypeAlias = Any
# The name of a mapped axis.
AxisName: TypeAlias = Hashable
# A static argument or another compile-time constant; hashable if it is part of a cache key.
StaticValue: TypeAlias = Any
# A key of a cache. Equal keys mean interchangeable entries.
CacheKey: TypeAlias = Hashable
# A device of the runtime.
Device: TypeAlias = Any
# The placement of an array on devices: a sharding of the runtime, or a `Placement`.
Sharding: TypeAlias = Any
# A Python function of any signature.
Function: TypeAlias = Callable[..., Any]
