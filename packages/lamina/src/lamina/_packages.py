"""Names that `lamina` re-exports; the first access to one of them imports all packages."""
# The runtime comes first: it installs the hooks through which the other packages dispatch.
import lamina_runtime as _runtime
import lamina_numpy as _numpy  # gives arrays and traced values their operators and methods
from lamina_autodiff import (checkpoint, checkpoint_policies, closure_convert, custom_gradient, custom_jvp, custom_vjp,
                             fwd_and_bwd, grad, hessian, jacfwd, jacobian, jacrev, jvp, linear_transpose, linearize, remat,
                             value_and_grad, vjp)
from lamina_batching import vmap
from lamina_ir import ShapeDtypeStruct
from lamina_ir.dtypes import float0
from lamina_ir.trees import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from lamina_parallel import PartitionSpec as P
from lamina_parallel import get_abstract_mesh, get_mesh, pmap, set_mesh, shard_map, smap, use_abstract_mesh
from lamina_runtime import (Device, NamedSharding, Shard, block_until_ready, clear_caches, copy_to_host_async,
                            default_backend, default_device, device_count, device_get, device_put, device_put_replicated,
                            device_put_sharded, devices, effects_barrier, host_count, host_id, host_ids, live_arrays,
                            local_device_count, local_devices, make_array_from_callback, make_array_from_process_local_data,
                            make_array_from_single_device_arrays, make_mesh, print_environment_info, process_count,
                            process_index, process_indices, reshard, transfer_guard, transfer_guard_device_to_device,
                            transfer_guard_device_to_host, transfer_guard_host_to_device, wait_for_optimized, xla_computation)
from lamina_tracing import (Array, check_tracer_leaks, checking_leaks, debug_bounds, debug_infs, debug_key_reuse, debug_nans,
                            default_matmul_precision, default_prng_impl, disable_jit, disable_x64, enable_checks,
                            enable_custom_prng, enable_x64, ensure_compile_time_eval, eval_shape, explain_cache_misses, jit,
                            legacy_prng_key, log_compiles, make_jaxpr, named_call, named_scope, numpy_dtype_promotion,
                            numpy_rank_promotion, pure_callback, threefry_partitionable, typeof)

__all__ = ["Array", "Device", "NamedSharding", "P", "ShapeDtypeStruct", "Shard", "block_until_ready", "check_tracer_leaks",
           "checking_leaks", "checkpoint", "checkpoint_policies", "clear_caches", "closure_convert", "copy_to_host_async",
           "custom_gradient", "custom_jvp", "custom_vjp", "debug_bounds", "debug_infs", "debug_key_reuse", "debug_nans",
           "default_backend", "default_device", "default_matmul_precision", "default_prng_impl", "device_count", "device_get",
           "device_put", "device_put_replicated", "device_put_sharded", "devices", "disable_jit", "disable_x64",
           "effects_barrier", "enable_checks", "enable_custom_prng", "enable_x64", "ensure_compile_time_eval", "eval_shape",
           "explain_cache_misses", "float0", "fwd_and_bwd", "get_abstract_mesh", "get_mesh", "grad", "hessian", "host_count",
           "host_id", "host_ids", "jacfwd", "jacobian", "jacrev", "jit", "jvp", "legacy_prng_key", "linear_transpose",
           "linearize", "live_arrays", "local_device_count", "local_devices", "log_compiles", "make_array_from_callback",
           "make_array_from_process_local_data", "make_array_from_single_device_arrays", "make_jaxpr", "make_mesh",
           "named_call", "named_scope", "numpy_dtype_promotion", "numpy_rank_promotion", "pmap", "print_environment_info",
           "process_count", "process_index", "process_indices", "pure_callback", "remat", "reshard", "set_mesh", "shard_map",
           "smap", "threefry_partitionable", "transfer_guard", "transfer_guard_device_to_device",
           "transfer_guard_device_to_host", "transfer_guard_host_to_device", "tree_flatten", "tree_leaves", "tree_map",
           "tree_structure", "tree_unflatten", "typeof", "use_abstract_mesh", "value_and_grad", "vjp", "vmap",
           "wait_for_optimized", "xla_computation"]
