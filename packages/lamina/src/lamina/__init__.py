"""lamina: composable transformations of NumPy-like programs, for one device or many. It only re-exports names.

>>> import lamina
>>> lamina.grad(lamina.numpy.tanh)(0.2)
Array(0.961043, dtype=float32, weak_type=True)
"""
import typing as _typing
from importlib import import_module as _import_module

from ._version import __version__  # before the packages: it checks their versions

from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_ir.layers import layers, use
from lamina_ir.layers import pause_gc as _pause_gc

if _typing.TYPE_CHECKING:
    from . import (ad_checkpoint as ad_checkpoint, as_jax as as_jax, compilation_cache as compilation_cache, config as config,
                   custom_batching as custom_batching, custom_derivatives as custom_derivatives, custom_transpose as
                   custom_transpose, debug as debug, distributed as distributed, dlpack as dlpack, dtypes as dtypes, errors as
                   errors, example_libraries as example_libraries, experimental as experimental, export as export, extend as
                   extend, flatten_util as flatten_util, image as image, launch as launch, lax as lax, lib as lib, memory as
                   memory, monitoring as monitoring, nn as nn, numpy as numpy, ops as ops, parallel as parallel, profiler as
                   profiler, random as random, ref as ref, replay as replay, scipy as scipy, sharding as sharding,
                   stages as stages, test_util as test_util, tools as tools, tree as tree, tree_util as tree_util,
                   typing as typing)
    from ._packages import *
    from .experimental.serialize_executable import load_compiled
    from lamina_see import max_compiles, see
    from .ref import Ref, ds, empty_ref, free_ref, freeze, new_ref

__all__ = ["Array", "Device", "NamedSharding", "P", "Ref", "ShapeDtypeStruct", "Shard", "__version__", "ad_checkpoint",
           "allow_f16_reductions", "as_jax", "block_until_ready", "check_tracer_leaks", "checking_leaks", "checkpoint",
           "checkpoint_policies", "clear_caches", "closure_convert", "compilation_cache", "config", "copy_to_host_async",
           "custom_batching", "custom_derivatives", "custom_gradient", "custom_jvp", "custom_transpose", "custom_vjp",
           "debug", "debug_bounds", "debug_infs", "debug_key_reuse", "debug_nans", "default_backend", "default_device",
           "default_matmul_precision", "default_prng_impl", "device_count", "device_get", "device_put",
           "device_put_replicated", "device_put_sharded", "devices", "disable_jit", "disable_x64", "distributed", "dlpack",
           "ds", "dtypes", "effects_barrier", "empty_ref", "enable_checks", "enable_custom_prng",
           "enable_custom_vjp_by_custom_transpose", "enable_x64", "ensure_compile_time_eval", "errors", "eval_shape",
           "example_libraries", "experimental", "explain_cache_misses", "export", "extend", "flatten_util", "float0",
           "free_ref", "freeze", "fwd_and_bwd", "get_abstract_mesh", "get_mesh", "grad", "hessian", "host_count", "host_id",
           "host_ids", "image", "jacfwd", "jacobian", "jacrev", "jax2tf_associative_scan_reductions", "jit", "jvp", "launch",
           "lax", "layers", "legacy_prng_key", "lib", "linear_transpose", "linearize", "live_arrays", "load_compiled",
           "local_device_count",
           "local_devices", "log_compiles", "make_array_from_callback", "make_array_from_process_local_data",
           "make_array_from_single_device_arrays", "make_jaxpr", "make_mesh", "max_compiles", "memory", "monitoring",
           "named_call",
           "named_scope", "new_ref", "nn", "no_execution", "no_tracing", "numpy", "numpy_dtype_promotion",
           "numpy_rank_promotion", "ops", "parallel", "pmap", "print_environment_info", "process_count", "process_index",
           "process_indices", "profiler", "pure_callback", "random", "ref", "remat", "replay", "reshard", "scipy", "see",
           "set_mesh",
           "shard_map", "sharding", "smap", "softmax_custom_jvp", "spmd_mode", "stages", "test_util", "thread_guard",
           "threefry_partitionable", "tools", "transfer_guard", "transfer_guard_device_to_device",
           "transfer_guard_device_to_host", "transfer_guard_host_to_device", "tree", "tree_flatten", "tree_leaves",
           "tree_map", "tree_structure", "tree_unflatten", "tree_util", "typeof", "typing", "use", "use_abstract_mesh",
           "value_and_grad", "vjp", "vmap", "wait_for_optimized", "xla_computation"]

# Modules, imported when asked for; that of the packages with the first name that is none of these.
_ON_DEMAND = frozenset(("_packages", "ad_checkpoint", "as_jax", "compilation_cache", "config", "custom_batching",
                       "custom_derivatives", "custom_transpose", "debug", "distributed", "dlpack", "dtypes", "errors",
                       "example_libraries", "experimental", "export", "extend", "flatten_util", "image", "launch", "lax",
                       "lib", "memory", "monitoring", "nn", "numpy", "ops", "parallel", "profiler", "random", "ref", "replay",
                       "scipy", "sharding",
                       "stages", "test_util", "tools", "tree", "tree_util", "typing"))

# Settings as blocks, found by name where the others are. Of these only no_execution and no_tracing change something here.
allow_f16_reductions: _typing.Any
enable_custom_vjp_by_custom_transpose: _typing.Any
jax2tf_associative_scan_reductions: _typing.Any
no_execution: _typing.Any
no_tracing: _typing.Any
softmax_custom_jvp: _typing.Any
spmd_mode: _typing.Any
thread_guard: _typing.Any
_FLAGS = frozenset(("allow_f16_reductions", "enable_custom_vjp_by_custom_transpose", "jax2tf_associative_scan_reductions",
                    "no_execution", "no_tracing", "softmax_custom_jvp", "spmd_mode", "thread_guard"))

_import_quickly = _pause_gc(_import_module)  # a tenth of the time of importing the packages was garbage collection

# Names of the module `ref`, which few programs need.
_REFERENCES = frozenset(("Ref", "ds", "empty_ref", "free_ref", "freeze", "new_ref"))

# Names of lamina_see, which few programs need.
_REPORTS = frozenset(("max_compiles", "see"))


if not _typing.TYPE_CHECKING:  # to checkers a name that is not listed is a mistake
    def __getattr__(name: str) -> _typing.Any:
        if name in _ON_DEMAND:
            # `import lamina` is to be quick, and to leave the choice of layers open
            return _import_quickly(f"{__name__}.{name}")
        if name in _REFERENCES:
            return getattr(__getattr__("ref"), name)
        if name in _REPORTS:
            return getattr(_import_module("lamina_see"), name)
        if name == "load_compiled":
            # Not all packages, so that a first result comes sooner.
            _import_quickly("lamina_numpy")
            return _import_quickly("lamina_runtime.serialize_executable").load_compiled
        if name in _FLAGS:
            return getattr(__getattr__("config"), name)
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        packages = __getattr__("_packages")  # what stands for a layer is chosen until then: `lamina.use`
        globals().update({shown: getattr(packages, shown) for shown in packages.__all__})
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_FLAGS})


_explain_absent_names(globals())
