"""The default implementation of the package, re-exported by `__init__`.

A plugin that changes a few names starts with `from lamina_runtime._default import *`.
"""
from importlib import import_module
from typing import TYPE_CHECKING

from . import _jaxlib  # noqa: F401  first: it configures jaxlib
from lamina_ir.layers import deprecated_getattr as _deprecated_getattr
from lamina_tracing import hooks
from lamina_tracing.extend import hide_frames_of, register_array_type

from ._jaxlib import Device, Sharding
from ._array import methods, scalar_cache
from . import compilation_cache, mesh_utils
from ._debug import nan_checks
from ._dispatch import dispatcher, eager, stages
from ._execute import fork_safety
from ._jaxlib import pytree_registry
from ._version import __version__
from ._array.arrays import Array, Shard
from ._array.assemble import (make_array_from_callback, make_array_from_process_local_data,
                              make_array_from_single_device_arrays)
from ._backend.backends import (backends, default_backend, device_count, devices, get_backend, host_count, host_id, host_ids,
                                live_arrays, local_device_count, local_devices, lowering_platform, process_count,
                                process_index, process_indices, setup_tpu)
from ._backend.backends import default_device as get_default_device
from ._backend.backends import default_device_option as default_device
from ._compile.background import wait_for_optimized
from ._compile.compiler import XLACompiler, accepts, compiler, set_compiler
from ._dispatch.computation import xla_computation
from ._compile.executable_cache import CacheStats, cache_stats, clear_memory
from ._compile.disk_cache import cache_dir
from ._execute.effects import effects_barrier
from .environment import print_environment_info
from ._backend.backends import reset as clear_backends
from ._dispatch.eager import clear_caches
from ._array.key_array import KeyArray
from ._launch.observers import (Launch, unwatch_launches, unwrap_launches, watch_launches, watching_launches,
                                wrap_launches)
from .mesh_utils import make_mesh
from ._backend.launch_guards import WINDOW
from ._sharding.public_classes import (GSPMDSharding, NamedSharding, PmapSharding, PositionalSharding,
                                       SingleDeviceSharding, make_single_device_sharding)
from ._backend.transfer_counters import TransferCounts, transfer_counts
from ._backend.transfer_guard import (transfer_guard, transfer_guard_device_to_device, transfer_guard_device_to_host,
                                      transfer_guard_host_to_device)
from ._array.transfer import (block_until_ready, copy_to_host_async, device_get, device_put, device_put_replicated,
                              device_put_sharded, from_dlpack, reshard)

__all__ = ["Array", "CacheStats", "Device", "GSPMDSharding", "Launch", "NamedSharding", "PmapSharding", "PositionalSharding",
           "Shard", "Sharding", "SingleDeviceSharding", "TransferCounts", "WINDOW", "XLACompiler", "__version__", "accepts",
           "backends", "block_until_ready", "cache_dir", "cache_stats", "checkpointing", "clear_backends", "clear_caches",
           "clear_memory", "compilation_cache", "compiler", "copy_to_host_async", "default_backend", "default_device",
           "device_count", "device_get", "device_put", "device_put_replicated", "device_put_sharded", "devices",
           "dlpack", "effects_barrier", "ffi", "from_dlpack", "get_backend", "get_default_device",
           "host_callback", "host_count", "host_id", "host_ids", "layout", "live_arrays", "load_compiled",
           "local_device_count",
           "local_devices", "lowering_platform", "make_array_from_callback", "make_array_from_process_local_data",
           "make_array_from_single_device_arrays", "make_mesh", "make_single_device_sharding", "memory", "memory_layouts",
           "mesh_utils",
           "pjit", "plans", "print_environment_info", "process_count", "process_index", "process_indices",
           "profiler", "reshard", "serialize_executable", "set_compiler", "setup_tpu", "stages", "transfer_counts",
           "transfer_guard",
           "transfer_guard_device_to_device", "transfer_guard_device_to_host", "transfer_guard_host_to_device",
           "unwatch_launches", "unwrap_launches", "visualizing", "wait_for_optimized", "watch_launches",
           "watching_launches", "wrap_launches", "xla_computation"]

if TYPE_CHECKING:
    from .serialize_executable import load_compiled


def install_hooks() -> None:
    """Install this package in the hooks of the packages below. Done once, when this module is imported."""
    hide_frames_of(__file__.rsplit("/", 1)[0] + "/")  # user-facing tracebacks and source lines skip frames of this package
    pytree_registry.install()  # trees: lamina_ir.trees uses jaxlib's registry, which the C++ call path reads
    methods.install()  # arrays: methods and attributes of jaxlib's array class
    register_array_type(Array)  # tracing: these two classes are concrete arrays, so isinstance(x, Array) is true
    register_array_type(KeyArray)
    hooks.operators.register_array_class(methods.OperatorTarget())  # type: ignore[arg-type]  # operators: x + y, x[i], ...
    hooks.operators.register_array_class(methods.OperatorTarget(KeyArray))  # type: ignore[arg-type]
    dispatcher.install()  # calls: jit and pmap dispatch to XLA
    eager.install()  # evaluation: single primitives and programs run with XLA
    nan_checks.install()  # config.debug_nans and debug_infs: checks after each call
    fork_safety.install()  # os.fork: children compute with NumPy
    scalar_cache.install()  # operators: Python scalars next to an array come from the device's cache


install_hooks()

_deprecated = _deprecated_getattr(__package__ or "")


def __getattr__(name: str) -> object:
    if name in ("checkpointing", "dlpack", "ffi", "host_callback", "layout", "memory", "memory_layouts", "pjit", "plans",
                "profiler", "serialize_executable", "visualizing"):
        return import_module(f"{__package__}.{name}")  # rarely used, so imported on demand
    if name == "load_compiled":
        return import_module(f"{__package__}.serialize_executable").load_compiled
    return _deprecated(name)
