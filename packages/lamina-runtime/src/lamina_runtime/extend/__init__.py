"""Extension API: arrays from and to host memory by shard, and messages between processes, for packages that store arrays.

`read_shard` and `array_from_host` move one shard. `blocks_of_array` and `own_blocks` list the parts of an array that
devices hold. `begin_gather` and `GatherSeries` exchange small JSON values between all processes.
"""
from .._array.arrays import aligned_empty
from .._array.host_shards import (Block, array_from_host, blocks_of_array, is_array, own_blocks, placement, read_shard)
from .._array.key_array import KeyArray
from .._launch.process_group import GatherSeries, HostGather, begin_gather

__all__ = ["Block", "GatherSeries", "HostGather", "KeyArray", "aligned_empty", "array_from_host", "begin_gather",
           "blocks_of_array", "is_array", "own_blocks", "placement", "read_shard"]
