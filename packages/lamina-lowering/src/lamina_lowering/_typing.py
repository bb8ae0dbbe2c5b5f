"""Type aliases for annotations: objects of jaxlib's MLIR bindings, which are imported only when a program is lowered.
"""
from __future__ import annotations

from typing import Any, TypeAlias

from lamina_ir import ShapedArray

__all__ = ["AttributeValue", "IrAttribute", "IrContext", "IrInsertionPoint", "IrLocation", "IrModule", "IrOperation",
           "IrRegion", "IrType", "IrValue", "KernelType", "MeshDims", "MlirModule", "ModuleBuilder", "OpResults",
           "XlaComputation"]

IrValue: TypeAlias = Any  # jaxlib.mlir.ir.Value
IrType: TypeAlias = Any  # jaxlib.mlir.ir.Type
IrAttribute: TypeAlias = Any  # jaxlib.mlir.ir.Attribute
IrOperation: TypeAlias = Any  # jaxlib.mlir.ir.Operation, or its OpView
IrModule: TypeAlias = Any  # jaxlib.mlir.ir.Module
IrContext: TypeAlias = Any  # jaxlib.mlir.ir.Context
IrInsertionPoint: TypeAlias = Any  # jaxlib.mlir.ir.InsertionPoint
IrLocation: TypeAlias = Any  # jaxlib.mlir.ir.Location
IrRegion: TypeAlias = Any  # jaxlib.mlir.ir.Region
MlirModule: TypeAlias = Any  # the Python module jaxlib.mlir.ir
XlaComputation: TypeAlias = Any  # jaxlib's XlaComputation: an HLO program before optimization
# The value of an attribute: an IrAttribute, or a bool, int, float, str, or sequence of ints or bools that is converted.
AttributeValue: TypeAlias = Any
# The result of an operation: an IrValue; a tuple of IrValues if it has several results or none.
OpResults: TypeAlias = Any
# The module under construction: `_emit.module._Build`, which imports the modules that use this alias.
ModuleBuilder: TypeAlias = Any
# The type of an operand or result of a compiled kernel, and whether it is a matrix, stored column by column.
KernelType: TypeAlias = tuple[ShapedArray, bool]
# For each dimension of a value, the mesh axes that split it.
MeshDims: TypeAlias = tuple[tuple[int, ...], ...]
