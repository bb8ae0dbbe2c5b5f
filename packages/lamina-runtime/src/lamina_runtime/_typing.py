"""Type aliases for annotations: objects of jaxlib, whose types are not available to type checkers, and data that
several modules pass around. `lamina_ir.typing` has the general ones."""
from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Array", "CallObject", "Client", "CompilerOptions", "CoordinationClient",
           "DeviceList", "Executable", "HloTiles", "JaxlibCompileOptions", "JaxlibDevice",
           "JaxlibSharding", "JaxlibState", "LaunchReceipt", "LoweringRules", "MemoryStats", "Message", "Module",
           "OpSharding", "OptionPairs", "PjrtLayout", "ResultHandler", "SettingValue", "SignatureCache",
           "UserShardings", "XlaComputation"]

# --- objects of jaxlib --------------------------------------------------------------------------------------------
# An array of jaxlib (`_jaxlib.ArrayImpl`), with one or more shards.
Array: TypeAlias = Any
# A sharding of jaxlib: `_jaxlib.Sharding`.
JaxlibSharding: TypeAlias = Any
# A device of jaxlib: `_jaxlib.Device`.
JaxlibDevice: TypeAlias = Any
# A client of one platform: its devices, and the memory and threads that they use.
Client: TypeAlias = Any
# An immutable list of devices (`_jaxlib.DeviceList`).
DeviceList: TypeAlias = Any
# A compiled program, loaded on its devices.
Executable: TypeAlias = Any
# The C++ object that caches the calls of one function by signature (`_jaxlib.PjitFunction`).
CallObject: TypeAlias = Any
# The table of call objects in which they keep their entries (`_jaxlib.PjitFunctionCache`).
SignatureCache: TypeAlias = Any
# The object that makes the array of one result from its buffers.
ResultHandler: TypeAlias = Any
# The token of a launch with effects: ready when the effects have happened.
LaunchReceipt: TypeAlias = Any
# A tile assignment of jaxlib (`_jaxlib.HloSharding`).
HloTiles: TypeAlias = Any
# jaxlib's `CompileOptions`.
JaxlibCompileOptions: TypeAlias = Any
# A setting of jaxlib: `get_local`, `set_local`, `set_global`.
JaxlibState: TypeAlias = Any
# A connection to the coordination service of several processes.
CoordinationClient: TypeAlias = Any
# The memory layout of an array on a device.
PjrtLayout: TypeAlias = Any
# Bytes of the arguments, results and temporaries of an executable.
MemoryStats: TypeAlias = Any
# An HLO program before compilation (`XlaComputation`).
XlaComputation: TypeAlias = Any
# A sharding as XLA's protocol buffer.
OpSharding: TypeAlias = Any
# A module of jaxlib's MLIR bindings (`ir.Module`).
Module: TypeAlias = Any

# --- data ---------------------------------------------------------------------------------------------------------
# The user's options of the compiler by name: booleans, numbers and strings.
CompilerOptions: TypeAlias = dict[str, Any]
# The same as sorted (name, value) pairs, which are hashable.
OptionPairs: TypeAlias = tuple[tuple[str, "bool | int | float | str"], ...]
# The lowering rules of a platform, from `lamina_lowering.merged_rules`.
LoweringRules: TypeAlias = Any
# The value of a setting of `lamina_ir.config`: a bool, a number, a string or None.
SettingValue: TypeAlias = Any
# The shardings that the user gave for the arguments and results of a jitted function:
# `_dispatch.user_shardings.UserShardings`, which imports modules that pass it around.
UserShardings: TypeAlias = Any
# A message between processes, as JSON.
Message: TypeAlias = dict[str, Any]
