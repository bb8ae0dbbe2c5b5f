"""lamina: composable transformations of NumPy-like programs, for one device or many. Names only; each is its home room's.

>>> import lamina
>>> lamina.grad(lamina.numpy.tanh)(0.2)
Array(0.961043, dtype=float32, weak_type=True)
"""
import sys as _sys
from importlib import import_module as _import_module
from typing import Any as _Any

from ._version import __version__  # before the rooms: it says which versions of them fit

# The runtime comes first: it fills the slots that what follows is dispatched through.
import lamina_runtime as _runtime
from lamina_autodiff import (checkpoint, checkpoint_policies, closure_convert, custom_gradient, custom_jvp, custom_vjp,
                             grad, hessian, jacfwd, jacobian, jacrev, jvp, linear_transpose, linearize, remat,
                             value_and_grad, vjp)
from lamina_batching import vmap
from lamina_ir import ShapeDtypeStruct, config
from lamina_ir.trees import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from lamina_parallel import pmap, shard_map
from lamina_runtime import (Device, NamedSharding, Shard, block_until_ready, clear_caches, default_backend, default_device,
                            device_count, device_get, device_put, device_put_replicated, device_put_sharded, devices,
                            effects_barrier, host_count, host_id, host_ids, live_arrays, local_device_count, local_devices,
                            make_array_from_callback, make_array_from_process_local_data, make_array_from_single_device_arrays,
                            make_mesh, print_environment_info, process_count, process_index, process_indices, transfer_guard,
                            transfer_guard_device_to_device, transfer_guard_device_to_host, transfer_guard_host_to_device,
                            xla_computation)
from lamina_tracing import (Array, check_tracer_leaks, checking_leaks, debug_bounds, debug_infs, debug_key_reuse, debug_nans,
                            default_matmul_precision, default_prng_impl, disable_jit, disable_x64, enable_checks,
                            enable_custom_prng, enable_x64, ensure_compile_time_eval, eval_shape, explain_cache_misses, jit,
                            legacy_prng_key, log_compiles, make_jaxpr, named_call, named_scope, numpy_dtype_promotion,
                            numpy_rank_promotion, pure_callback, threefry_partitionable)

from . import dtypes, lax, numpy, tree, tree_util

float0 = dtypes.float0
# A module of its own under this path would hide the settings: `import lamina.config` gives them too.
_sys.modules[f"{__name__}.config"] = config

__all__ = ["Array", "Device", "NamedSharding", "ShapeDtypeStruct", "Shard", "__version__", "ad_checkpoint",
           "block_until_ready", "check_tracer_leaks", "checking_leaks", "checkpoint", "checkpoint_policies", "clear_caches",
           "closure_convert", "compilation_cache", "config", "custom_batching", "custom_derivatives", "custom_gradient",
           "custom_jvp", "custom_transpose", "custom_vjp", "debug", "debug_bounds", "debug_infs", "debug_key_reuse",
           "debug_nans", "default_backend", "default_device", "default_matmul_precision", "default_prng_impl",
           "device_count", "device_get", "device_put", "device_put_replicated", "device_put_sharded", "devices",
           "disable_jit", "disable_x64", "distributed", "dlpack", "dtypes", "effects_barrier", "enable_checks",
           "enable_custom_prng", "enable_custom_vjp_by_custom_transpose", "enable_x64", "ensure_compile_time_eval",
           "errors", "eval_shape", "example_libraries", "experimental", "explain_cache_misses", "export", "extend",
           "flatten_util", "float0", "grad", "hessian", "host_count", "host_id", "host_ids", "image", "jacfwd", "jacobian",
           "jacrev",
           "jax2tf_associative_scan_reductions", "jit", "jvp", "launch", "lax", "legacy_prng_key", "lib",
           "linear_transpose", "linearize", "live_arrays", "local_device_count", "local_devices", "log_compiles",
           "make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays",
           "make_jaxpr", "make_mesh", "monitoring", "named_call", "named_scope", "nn", "numpy", "numpy_dtype_promotion",
           "numpy_rank_promotion", "ops", "parallel", "pmap", "print_environment_info", "process_count", "process_index",
           "process_indices", "profiler", "pure_callback", "random", "remat", "scipy", "shard_map", "sharding",
           "softmax_custom_jvp", "spmd_mode", "stages", "test_util", "threefry_partitionable", "tools", "transfer_guard",
           "transfer_guard_device_to_device", "transfer_guard_device_to_host", "transfer_guard_host_to_device", "tree",
           "tree_flatten", "tree_leaves", "tree_map", "tree_structure", "tree_unflatten", "tree_util", "typing",
           "value_and_grad", "vjp", "vmap", "xla_computation"]

# Modules that not every program needs, imported when asked for.
_ON_DEMAND = frozenset(("ad_checkpoint", "compilation_cache", "custom_batching", "custom_derivatives", "custom_transpose",
                        "debug", "distributed", "dlpack", "errors", "example_libraries", "experimental", "export", "extend",
                        "flatten_util", "image", "launch", "lib", "monitoring", "nn", "ops", "parallel", "profiler", "random",
                        "scipy", "sharding", "stages", "test_util", "tools", "typing"))

# Settings that change nothing here, found by name where the others are.
_FLAGS = frozenset(("enable_custom_vjp_by_custom_transpose", "jax2tf_associative_scan_reductions", "softmax_custom_jvp",
                    "spmd_mode"))

del _runtime


def __getattr__(name: str) -> _Any:
    if name in _ON_DEMAND:
        return _import_module(f"{__name__}.{name}")  # loaded when first asked for: `import lamina` is to be quick
    if name in _FLAGS:
        return getattr(config, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND, *_FLAGS})
