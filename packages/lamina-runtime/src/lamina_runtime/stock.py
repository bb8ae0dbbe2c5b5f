"""The default implementation of the package, re-exported by `__init__`.

A plugin that changes a few names starts with `from lamina_runtime._default import *`.
"""
from importlib import import_module
from typing import Any

from . import _jaxlib  # noqa: F401  first: it configures jaxlib
from lamina_lowering import lower
from lamina_tracing import slots
from lamina_tracing.extend import hide_frames_of, register_array_type

from ._jaxlib import Device, Sharding
from . import (array_methods, compilation_cache, debug, dispatcher, evaluator, forks, mesh_utils, ready_numbers, stages,
               trees_cpp)
from ._version import __version__
from .arrays import Array, Shard
from .assembling import (make_array_from_callback, make_array_from_process_local_data,
                         make_array_from_single_device_arrays)
from .backends import (default_backend, device_count, devices, get_backend, host_count, host_id, host_ids, live_arrays,
                       local_device_count, local_devices, lowering_platform, process_count, process_index, process_indices,
                       setup_tpu)
from .backends import default_device_option as default_device
from .compilers import XLACompiler, accepts, compiler, set_compiler
from .computation import xla_computation
from .compiling import CacheStats, cache_stats, clear_memory
from .disk_cache import cache_dir
from .effects import effects_barrier
from .environment import print_environment_info
from .backends import reset as clear_backends
from .evaluator import clear_caches
from .key_arrays import KeyArray
from .launches import Launch, unwatch_launches, watch_launches, watching_launches
from .mesh_utils import make_mesh
from .safe_launch import WINDOW
from .sharding_classes import GSPMDSharding, NamedSharding, PmapSharding, PositionalSharding, SingleDeviceSharding
from .transfer_counts import TransferCounts, transfer_counts
from .transfer_guards import (transfer_guard, transfer_guard_device_to_device, transfer_guard_device_to_host,
                              transfer_guard_host_to_device)
from .transfers import (block_until_ready, device_get, device_put, device_put_replicated, device_put_sharded,
                        from_dlpack)

__all__ = ["Array", "CacheStats", "Device", "GSPMDSharding", "Launch", "NamedSharding", "PmapSharding", "PositionalSharding",
           "Shard", "Sharding", "SingleDeviceSharding", "TransferCounts", "WINDOW", "XLACompiler", "__version__", "accepts",
           "block_until_ready", "cache_dir", "cache_stats", "checkpointing", "clear_backends", "clear_caches", "clear_memory",
           "compilation_cache", "compiler", "default_backend", "default_device", "device_count", "device_get", "device_put",
           "device_put_replicated", "device_put_sharded", "devices", "distributed", "dlpack", "effects_barrier", "ffi",
           "from_dlpack", "get_backend", "host_callback", "host_count", "host_id", "host_ids", "launch", "live_arrays",
           "local_device_count", "local_devices", "lowering_platform", "make_array_from_callback",
           "make_array_from_process_local_data", "make_array_from_single_device_arrays", "make_mesh", "memory_layouts",
           "mesh_utils", "multihost_utils", "pjit", "plans", "print_environment_info", "process_count", "process_index",
           "process_indices", "profiler", "set_compiler", "setup_tpu", "stages", "transfer_counts", "transfer_guard",
           "transfer_guard_device_to_device", "transfer_guard_device_to_host", "transfer_guard_host_to_device",
           "unwatch_launches", "visualizing", "watch_launches", "watching_launches", "xla_computation"]

for _file in (__file__, lower.__code__.co_filename):
    hide_frames_of(_file.rsplit("/", 1)[0] + "/")
trees_cpp.install()
register_array_type(Array)
register_array_type(KeyArray)
slots.operators.register_array_class(array_methods.OperatorTarget())  # type: ignore[arg-type]
slots.operators.register_array_class(array_methods.OperatorTarget(KeyArray))  # type: ignore[arg-type]
dispatcher.install()
evaluator.install()
debug.install()
forks.install()
ready_numbers.install()


def __getattr__(name: str) -> Any:
    if name in ("checkpointing", "distributed", "dlpack", "ffi", "host_callback", "launch", "memory_layouts", "multihost_utils",
                "pjit", "planning", "plans", "profiler", "visualizing"):
        return import_module(f"{__package__}.{name}")  # rarely used, so imported on demand
    raise AttributeError(f"module {__package__!r} has no attribute {name!r}")
