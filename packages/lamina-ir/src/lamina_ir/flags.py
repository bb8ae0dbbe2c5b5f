"""Flags that programs written for other jax-style systems set, and that choose between ways of which there is one here, and
the level of the log.

They are accepted, checked and kept; a value other than the default is answered once with a warning that names the flag and says
why it changes nothing. Loaded when such a flag is asked for.
"""
from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from .option import Option

__all__ = ["FLAGS"]

_PROFILE = "no profile guides the compiler"
_HOSTS = "each process compiles or loads its programs by itself"
_CALLBACK = "callbacks are operands of the compiled program on all platforms"
_LINES = "locations are numbers of equations, and source_map() says which lines those are"
_XMAP = "xmap with axis_resources is always written in a device's own view"
_TENSORFLOW = "nothing is converted to TensorFlow"
_PALLAS = "there are no Pallas kernels"
_LEVEL = "the compiler works at its one level; disable_most_optimizations and compiler_options change that"
_LEVELS = ("O0", "O1", "O2", "O3", "UNKNOWN")
_MEETING = "distributed.initialize says how long processes wait for one another"
_TLS = "processes meet over the coordinator's plain connection; keep it inside of a trusted network"
_TYPES = "types say nothing of the axes that a value varies over; set replicated_counts_once"
_ONE_WAY = "there is one way, and it has no other name"
_MUTABLE = "arrays never change"
_TRANSFER = "processes exchange arrays in programs over their devices"
_DEBUG = "set debug_nans, or ask debug.check in the program"
_MOCK = "devices are simulated with num_cpu_devices"

# Name -> (default, what it would choose, why there is nothing to choose, more arguments of `Option`).
FLAGS: dict[str, tuple[Any, str, str] | tuple[Any, str, str, dict[str, Any]]] = {
    "backend_target": ("", "where a remote backend runs", "devices are those of this machine; set platforms"),
    "xla_backend": ("", "an older name of backends", "set platforms or platform_name"),
    "bcoo_cusparse_lowering": (False, "sparse products by cuSPARSE", "there are no sparse arrays"),
    "compilation_cache_include_metadata_in_key": (
        False, "source lines are part of the disk cache's keys", "keys are made of the program as the compiler reads it"),
    "compiler_detailed_logging_min_ops": (10, "size from which compilations are logged in detail", "set log_compiles"),
    "cpu_collectives_implementation": (
        "gloo", "what carries collectives between processes on CPUs", "Gloo carries them",
        {"choices": ("gloo", "mpi", "none", "megascale"), "means": {None: "none", "": "none"}}),
    "cpu_enable_gloo_collectives": (True, "Gloo carries collectives between processes on CPUs", "Gloo always does"),
    "rocm_visible_devices": ("all", "which ROCm devices are used", "there is no ROCm client"),
    "custom_vjp_disable_shape_check": (
        False, "cotangents of a custom_vjp may have other shapes", "shapes of cotangents are always checked"),
    "debug_log_modules": ("", "modules whose log is shown", "the logger `lamina` shows what it says; set log_compiles",
                          {"means": {None: ""}}),
    "default_dtype_bits": ("64", "width of default dtypes in 64-bit mode", "defaults are as wide as enable_x64 says",
                           {"choices": ("32", "64"), "means": {32: "32", 64: "64"}}),
    "distributed_debug": (False, "log how processes meet", "errors of processes say what they waited for"),
    "dynamic_shapes": (False, "shapes that are known at run time only", "every shape is known when a program is staged"),
    "eager_pmap": (True, "pmap runs op by op under disable_jit", "pmap is one compiled program, also under disable_jit"),
    "enable_custom_vjp_by_custom_transpose": (False, "custom_vjp by custom_transpose", "custom_vjp has a way of its own"),
    "enable_memories": (False, "kinds of memory are part of types", "arrays lie in their device's default memory"),
    "enable_pgle": (False, "compile again by a profile", _PROFILE),
    "pgle_aggregation_percentile": (90, "which latencies a profile gives", _PROFILE),
    "pgle_profiling_runs": (3, "how many runs make a profile", _PROFILE),
    "experimental_unsafe_xla_runtime_errors": (False, "errors out of compiled programs", "use debug.check for those"),
    "export_calling_convention_version": (9, "version of exported programs", "saved programs have their own version"),
    "host_callback_inline": (False, "callbacks run at once on the CPU", _CALLBACK),
    "host_callback_legacy": (True, "the older way of callbacks", _CALLBACK),
    "host_callback_outfeed": (False, "callbacks by the outfeed", _CALLBACK),
    "host_callback_max_queue_byte_size": (256_000_000, "bytes that wait for callbacks", _CALLBACK),
    "include_full_tracebacks_in_locations": (True, "locations hold the whole stack", _LINES),
    "traceback_in_locations_limit": (10, "how many frames a location holds", _LINES),
    "hlo_source_file_canonicalization_regex": (None, "what is cut out of file names in locations",
                                               "locations hold no names of files", {"kind": str}),
    "log_checkpoint_residuals": (False, "log what checkpoint keeps", "ad_checkpoint.print_saved_residuals shows it"),
    "tracer_error_num_traceback_frames": (5, "frames in errors about traced values", "such errors name the user's line"),
    "pmap_no_rank_reduction": (False, "pmap's programs keep the mapped axis", "the compiled program is the same with it"),
    "pmap_shmap_merge": (False, "pmap is made of shard_map", "both are made of one placement"),
    "pprint_use_color": (True, "programs print in colour", "programs print as plain text"),
    "remat_opt_barrier": (True, "the compiler may not undo checkpoint", "it never may"),
    "serialization_version": (0, "version of exported programs", "saved programs have their own version"),
    "share_autotune_config_between_hosts": (False, "one process tunes kernels for all", _HOSTS),
    "share_binary_between_hosts": (False, "one process compiles for all", _HOSTS),
    "share_binary_between_hosts_timeout_ms": (1_200_000, "how long others wait for it", _HOSTS),
    "softmax_custom_jvp": (True, "softmax has a derivative of its own", "it always has"),
    "spmd_mode": ("allow_jit", "what eager operations may do with arrays of several processes",
                  "eager operations and jitted ones may do the same",
                  {"choices": ("allow_all", "allow_jit", "allow_pjit")}),
    "threefry_gpu_kernel_lowering": (False, "random bits by a kernel on GPUs", "the compiler makes the kernel"),
    "xla_profile_version": (0, "which profile the compiler reads", _PROFILE),
    "experimental_xmap_ensure_fixed_sharding": (False, "xmap fixes where values lie", _XMAP),
    "experimental_xmap_spmd_lowering": (False, "xmap is split by the partitioner", _XMAP),
    "experimental_xmap_spmd_lowering_manual": (False, "xmap is split by hand", _XMAP),
    "jax2tf_associative_scan_reductions": (False, "how scans are converted", _TENSORFLOW),
    "jax2tf_default_native_serialization": (True, "how programs are converted", _TENSORFLOW),
    "array_garbage_collection_guard": (
        "allow", "whether the cycle collector may free arrays", "arrays are freed by their last reference",
        {"choices": ("allow", "log", "fatal"), "means": {None: "allow"}}),
    "captured_constants_report_frames": (0, "frames shown of large constants", "nothing is said of constants"),
    "captured_constants_warn_bytes": (2_000_000_000, "size of constants that is warned of", "nothing is said of constants"),
    "compilation_cache_check_contents": (False, "the disk cache's files are compared", "files are checked by their digest"),
    "compilation_cache_expect_pgle": (False, "cached programs are guided by a profile", _PROFILE),
    "cpu_get_global_topology_timeout_minutes": (5, "how long processes wait for all devices", _MEETING),
    "cpu_get_local_topology_timeout_minutes": (2, "how long processes wait for their devices", _MEETING),
    "exec_time_optimization_effort": (0.0, "effort for fast programs", _LEVEL),
    "memory_fitting_effort": (0.0, "effort for programs that fit", _LEVEL),
    "memory_fitting_level": ("O2", "effort for programs that fit", _LEVEL, {"choices": _LEVELS}),
    "optimization_level": ("UNKNOWN", "effort for fast programs", _LEVEL, {"choices": _LEVELS}),
    "mock_gpu_topology": ("", "which GPUs are simulated", _MOCK),
    "oneapi_visible_devices": ("all", "which oneAPI devices are used", "there is no oneAPI client"),
    "pallas_enable_debug_checks": (False, "checks in kernels", _PALLAS),
    "pallas_use_mosaic_gpu": (True, "what compiles kernels", _PALLAS),
    "pallas_verbose_errors": (False, "how much errors of kernels say", _PALLAS),
    "persistent_cache_enable_xla_caches": (
        "xla_gpu_per_fusion_autotune_cache_dir", "which of XLA's caches are kept too", "the disk cache holds whole programs"),
    "remove_custom_partitioning_ptr_from_cache_key": (
        False, "pointers are no part of the disk cache's keys", "they never are"),
    "send_traceback_to_runtime": ("off", "lines in the runtime's errors", _LINES, {"choices": ("off", "on", "full")}),
    "use_direct_linearize": (True, "linearize by rules of its own", "it always runs the forward pass once"),
    "use_shardy_partitioner": (False, "programs are partitioned by Shardy", "programs are partitioned by GSPMD"),
    "check_static_indices": (False, "static indices out of bounds are errors", "indexing does with them as with any others"),
    "compiler_enable_remat_pass": (
        True, "the compiler computes again what does not fit", "compiler_options say what the compiler does"),
    "cross_host_transfer_socket_address": ("", "where a server of transfers listens", _TRANSFER),
    "cross_host_transfer_timeout_seconds": (None, "how long a transfer may take", _TRANSFER, {"kind": int}),
    "cross_host_transfer_transfer_size": (None, "bytes that are sent at a time", _TRANSFER, {"kind": int}),
    "cross_host_transport_addresses": ("", "by which addresses transfers go", _TRANSFER),
    "force_dcn_cross_host_transfers": (False, "transfers go by the network between hosts", _TRANSFER),
    "custom_vjp3": (False, "a newer form of custom_vjp", _ONE_WAY),
    "remat3": (False, "a newer form of checkpoint", _ONE_WAY),
    "scan3": (False, "a newer form of scan", _ONE_WAY),
    "debug_leaked_clients_on_clear_backends": (
        False, "clear_backends says who holds a client", "a client lives as long as one of its arrays"),
    "disallow_mesh_context_manager": (False, "a Mesh is no context manager", "a Mesh always is one"),
    "enable_preemption_service": (True, "processes hear that they will be ended", "a process that is ended counts as lost"),
    "enable_recoverability": (False, "processes survive the loss of others", "they always do"),
    "error_checking_behavior_divide": (
        "ignore", "what a division by zero does", _DEBUG, {"choices": ("ignore", "raise")}),
    "error_checking_behavior_nan": ("ignore", "what a NaN does", _DEBUG, {"choices": ("ignore", "raise")}),
    "error_checking_behavior_oob": (
        "ignore", "what an index out of bounds does", _DEBUG, {"choices": ("ignore", "raise")}),
    "export_ignore_forward_compatibility": (
        False, "exported programs are for this version", "saved programs have their own version"),
    "mosaic_allow_hlo": (False, "what kernels may hold", _PALLAS),
    "pallas_poison_buffers": (False, "memory of kernels begins as NaN", _PALLAS),
    "use_emit_pipeline_primitive": (False, "how kernels are fed", _PALLAS),
    "mutable_array_checks": (True, "checks of arrays that change", _MUTABLE),
    "refs_to_pins": (False, "arrays that change are pinned", _MUTABLE),
    "remove_size_one_mesh_axis_from_type": (False, "axes of one device are no part of types", "types say nothing of meshes"),
    "sort_devices_by_process_index": (True, "devices are ordered by their process", "they always are"),
    "source_url_schema": (None, "links to source lines in profiles", _LINES, {"kind": str}),
    "use_magma": ("auto", "MAGMA computes eigenvalues on GPUs", "eig is computed by LAPACK",
                  {"choices": ("auto", "on", "off")}),
    "use_simplified_jaxpr_constants": (False, "how programs hold constants", _ONE_WAY),
    "allow_f16_reductions": (True, "sums add 16-bit floats in their own width", "they are added up in 32 bits"),
    "accurate_erf_inv": (False, "erf_inv by more terms", "erf_inv is the compiler's own"),
    "auto_pcast": (True, "values are made to vary over axes where another does", _TYPES),
    "check_vma": (False, "types say over which axes a value varies", _TYPES),
    "check_proxy_envs": (True, "proxies in the environment are warned of", "no connection between processes takes a proxy"),
    "custom_jvp3": (False, "a newer form of custom_jvp", _ONE_WAY),
    "disable_bwd_checks": (False, "types of cotangents are not checked", "they always are"),
    "disable_vmap_shmap_error": (False, "vmap over a shard_map with spmd_axis_name", "vmap takes a shard_map as any function"),
    "distributed_verify_secure_credentials": (False, "certificates of the processes are checked", _TLS),
    "mtls_ca_file": (None, "whose certificates are trusted", _TLS, {"kind": str}),
    "mtls_cert_file": (None, "this process's certificate", _TLS, {"kind": str}),
    "mtls_key_file": (None, "this process's key", _TLS, {"kind": str}),
    "mtls_peer_uri_prefix": (None, "which processes are trusted", _TLS, {"kind": str}),
    "eager_constant_folding": (False, "operations on constants run while a function is traced",
                               "they are part of the program, and the compiler folds them; ensure_compile_time_eval runs them"),
    "embedded_constants_max_bytes": (32, "size up to which constants stand in the program", "the size is fixed"),
    "export_deserialize_expired_versions": (
        False, "exported programs of versions long gone are read", "saved programs have their own version"),
    "mosaic_unzip_debug_locations": (True, "how kernels say their lines", _PALLAS),
    "pallas_auto_assign_collective_ids": ("no", "who numbers the collectives of kernels", _PALLAS),
    "pallas_auto_assign_collective_ids_limit": (25, "how many collectives of kernels are numbered", _PALLAS),
    "ragged_dot_use_gpu_pallas_triton_lowering": (False, "ragged_dot by a kernel", _PALLAS),
    "ragged_dot_use_ragged_dot_instruction": (
        True, "ragged_dot is one instruction", "it is made of products that every platform has"),
    "raise_on_ppermute_sort_diff": (True, "orders of ppermute's pairs that older versions took are errors", _ONE_WAY),
    "remat_barrier_no_cotangents": (False, "what the compiler may not reorder in checkpoint", _ONE_WAY),
    "thread_guard": (False, "launches over several processes come from one thread",
                     "they are compared before they run, from whichever thread; see agreement"),
    "use_cpp_shard_args": (False, "arguments are placed by the runtime itself", "jaxlib places them where it can"),
    "use_hlo_logistic_lowering": (None, "the logistic function is one instruction", _ONE_WAY, {"kind": bool}),
    "use_rgv3": (True, "a newer form of groups of devices in programs", _ONE_WAY),
    "mock_num_gpu_processes": (0, "how many processes of GPUs are simulated", _MOCK),
    "mock_num_gpus": (1, "how many GPUs are simulated", _MOCK),
    "use_mock_gpu_client": (False, "GPUs are simulated", _MOCK)}
_BARE = ("check_vma", "eager_constant_folding", "experimental_xmap_", "jax2tf_", "mock_num_gpu",
         "use_mock_gpu_client")  # known without any prefix


def _make() -> None:
    for name, (default, about, reason, *more) in FLAGS.items():
        Option(name, default, help=about, inert=reason, env=name.upper() if name.startswith(_BARE) else "",
               **(more[0] if more else {}))


_make()


def _telling() -> Callable[[Any, bool], None]:
    """Tells the logger its level when it changes: until then it is the program's own."""
    said = "NOTSET"

    def tell(value: Any, is_local: bool) -> None:
        nonlocal said
        if not is_local and value != said:
            said = value
            logging.getLogger("lamina").setLevel(value)
    return tell


_NAMES = ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
Option("logging_level", "NOTSET", choices=_NAMES, means={name.lower(): name for name in _NAMES},
       help="the level of the logger `lamina`").watch(_telling())
