"""Extension API: arrays from and to host memory by shard, messages between processes, and compiled programs.

`read_shard` and `array_from_host` move one shard. `blocks_of_array` and `own_blocks` list the parts of an array that
devices hold; `whole_value` returns all of an array. `begin_gather` and `GatherSeries` exchange small JSON values between all
processes.

`watching_compilations` reports each compilation. `compiled_program` returns the program of a compiled call,
`compile_variant` compiles a changed one for the same devices, and `parse_collectives` lists the collectives of its text.
`prepare_program` returns a staged program as it is lowered. `plan_array` describes the placement of one array.
`set_memory_explainer` adds text to errors of exhausted memory.
"""
from .._array.arrays import aligned_empty
from .._array.host_shards import (Block, array_from_host, blocks_of_array, is_array, own_blocks, placement, read_shard,
                                  whole_value)
from .._array.key_array import KeyArray
from .._backend.memory_errors import MemoryRequest, set_memory_explainer
from .._dispatch.stages import compiled_program
from .._execute.executable import CompiledProgram, compile_variant, prepare_program
from .._launch.observers import Compilation, watching_compilations
from .._launch.process_group import GatherSeries, HostGather, begin_gather
from .._placement.build_plan import plan_array
from .._placement.hlo_collectives import CollectiveInstruction, parse_collectives

__all__ = ["Block", "CollectiveInstruction", "Compilation", "CompiledProgram", "GatherSeries", "HostGather", "KeyArray",
           "MemoryRequest", "aligned_empty", "array_from_host", "begin_gather", "blocks_of_array", "compile_variant",
           "compiled_program", "is_array", "own_blocks", "parse_collectives", "placement", "plan_array", "prepare_program",
           "read_shard", "set_memory_explainer", "watching_compilations", "whole_value"]
