"""Flags of other jax-style systems that have no effect here, and `logging_level`.

They choose between alternatives of which this system has only one. They are accepted, checked and stored. A value other
than the default causes one warning, which names the flag and the reason. Loaded when such a flag is first used.
"""
from __future__ import annotations

import logging

from .option import Option
from .._typing import OptionValue, OptionWatcher

__all__ = ["FLAGS"]

_PROFILE = "no profile guides the compiler"
_HOSTS = "each process compiles or loads its programs by itself"
_CALLBACK = "callbacks are operands of the compiled program on all platforms"
_LINES = "locations are equation numbers; source_map() maps them to source lines"
_XMAP = "xmap with axis_resources is always lowered to a per-device program"
_TENSORFLOW = "nothing is converted to TensorFlow"
_PALLAS = "there are no Pallas kernels"
_LEVEL = "the compiler has one effort level; set disable_most_optimizations or compiler_options"
_LEVELS = ("O0", "O1", "O2", "O3", "UNKNOWN")
_MEETING = "arguments of distributed.initialize set how long processes wait for each other"
_TLS = "processes use the coordinator's unencrypted connection; keep it inside a trusted network"
_TYPES = "varying axes are not part of the types that users see; set replicated_counts_once"
_ONE_WAY = "there is only one implementation"
_MUTABLE = "arrays never change"
_TRANSFER = "processes exchange arrays in programs over their devices"
_DEBUG = "set debug_nans, or use debug.check in the program"
_MOCK = "devices are simulated with num_cpu_devices"

# Name -> (default, what it selects elsewhere, why it has no effect here, further arguments of `Option`).
FLAGS: dict[str, tuple[OptionValue, str, str] | tuple[OptionValue, str, str, dict[str, OptionValue]]] = {
    "backend_target": ("", "where a remote backend runs", "only devices of this machine are used; set platforms"),
    "xla_backend": ("", "an older name of backends", "set platforms or platform_name"),
    "bcoo_cusparse_lowering": (False, "sparse products by cuSPARSE", "there are no sparse arrays"),
    "compilation_cache_include_metadata_in_key": (
        False, "source lines are part of the disk cache's keys", "keys are computed from the compiler's input"),
    "compiler_detailed_logging_min_ops": (10, "size from which compilations are logged in detail", "set log_compiles"),
    "cpu_collectives_implementation": (
        "gloo", "which library runs collectives between processes on CPUs", "Gloo runs them",
        {"choices": ("gloo", "mpi", "none", "megascale"), "means": {None: "none", "": "none"}}),
    "cpu_enable_gloo_collectives": (True, "Gloo runs collectives between processes on CPUs", "Gloo always runs them"),
    "rocm_visible_devices": ("all", "which ROCm devices are used", "there is no ROCm client"),
    "custom_vjp_disable_shape_check": (
        False, "cotangents of a custom_vjp may have other shapes", "shapes of cotangents are always checked"),
    "debug_log_modules": ("", "modules whose log is shown", "use the logger `lamina`; set log_compiles",
                          {"means": {None: ""}}),
    "default_dtype_bits": ("64", "width of default dtypes in 64-bit mode", "enable_x64 sets the width of defaults",
                           {"choices": ("32", "64"), "means": {32: "32", 64: "64"}}),
    "distributed_debug": (False, "log how processes connect", "errors name what a process waited for"),
    "dynamic_shapes": (
        False, "shapes that are known at run time only", "every shape is known when a program is staged"),
    "eager_pmap": (
        True, "pmap runs op by op under disable_jit", "pmap is one compiled program, also under disable_jit"),
    "enable_custom_vjp_by_custom_transpose": (
        False, "custom_vjp by custom_transpose", "custom_vjp has its own implementation"),
    "enable_memories": (
        False, "memory kinds are part of types", "arrays are stored in the default memory of their device"),
    "enable_pgle": (False, "recompile with a profile", _PROFILE),
    "pgle_aggregation_percentile": (90, "which latencies of a profile are used", _PROFILE),
    "pgle_profiling_runs": (3, "number of profiled runs", _PROFILE),
    "experimental_unsafe_xla_runtime_errors": (False, "errors raised in compiled programs", "use debug.check for them"),
    "export_calling_convention_version": (9, "version of exported programs", "saved programs have their own version"),
    "host_callback_inline": (False, "callbacks run immediately on the CPU", _CALLBACK),
    "host_callback_legacy": (True, "the older implementation of callbacks", _CALLBACK),
    "host_callback_outfeed": (False, "callbacks by the outfeed", _CALLBACK),
    "host_callback_max_queue_byte_size": (256_000_000, "bytes queued for callbacks", _CALLBACK),
    "include_full_tracebacks_in_locations": (True, "locations contain the whole stack", _LINES),
    "traceback_in_locations_limit": (10, "number of frames in a location", _LINES),
    "hlo_source_file_canonicalization_regex": (None, "text removed from file names in locations",
                                               "locations contain no file names", {"kind": str}),
    "log_checkpoint_residuals": (
        False, "log the residuals that checkpoint saves", "use ad_checkpoint.print_saved_residuals"),
    "tracer_error_num_traceback_frames": (5, "frames in errors about tracers", "such errors name the user's line"),
    "pmap_no_rank_reduction": (
        False, "pmap's programs keep the mapped axis", "the compiled program is the same with it"),
    "pmap_shmap_merge": (False, "pmap is implemented by shard_map", "both use the same placement code"),
    "pprint_use_color": (True, "programs print in colour", "programs print as plain text"),
    "remat_opt_barrier": (True, "the compiler may not undo checkpoint", "a barrier is always emitted"),
    "serialization_version": (0, "version of exported programs", "saved programs have their own version"),
    "share_autotune_config_between_hosts": (False, "one process tunes kernels for all", _HOSTS),
    "share_binary_between_hosts": (False, "one process compiles for all", _HOSTS),
    "share_binary_between_hosts_timeout_ms": (1_200_000, "how long the other processes wait for it", _HOSTS),
    "softmax_custom_jvp": (True, "softmax has a custom derivative", "it always has one"),
    "spmd_mode": ("allow_jit", "what eager operations may do with arrays of several processes",
                  "eager and jitted operations have the same restrictions",
                  {"choices": ("allow_all", "allow_jit", "allow_pjit")}),
    "threefry_gpu_kernel_lowering": (False, "random bits by a kernel on GPUs", "the compiler generates the kernel"),
    "xla_profile_version": (0, "which profile the compiler reads", _PROFILE),
    "experimental_xmap_ensure_fixed_sharding": (False, "xmap fixes the sharding of values", _XMAP),
    "experimental_xmap_spmd_lowering": (False, "xmap is partitioned by XLA", _XMAP),
    "experimental_xmap_spmd_lowering_manual": (False, "xmap is partitioned manually", _XMAP),
    "jax2tf_associative_scan_reductions": (False, "how scans are converted", _TENSORFLOW),
    "jax2tf_default_native_serialization": (True, "how programs are converted", _TENSORFLOW),
    "array_garbage_collection_guard": (
        "allow", "whether the cycle collector may free arrays", "arrays are freed by their last reference",
        {"choices": ("allow", "log", "fatal"), "means": {None: "allow"}}),
    "captured_constants_report_frames": (0, "frames shown for large constants", "constants are not reported"),
    "captured_constants_warn_bytes": (
        2_000_000_000, "size from which constants cause a warning", "constants are not reported"),
    "compilation_cache_check_contents": (
        False, "the disk cache compares file contents", "files are checked by their digest"),
    "compilation_cache_expect_pgle": (False, "cached programs use a profile", _PROFILE),
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
    "pallas_verbose_errors": (False, "how detailed errors of kernels are", _PALLAS),
    "persistent_cache_enable_xla_caches": (
        "xla_gpu_per_fusion_autotune_cache_dir", "which of XLA's caches are stored too",
        "the disk cache stores whole programs"),
    "remove_custom_partitioning_ptr_from_cache_key": (
        False, "pointers are not part of the disk cache's keys", "they never are"),
    "send_traceback_to_runtime": ("off", "lines in the runtime's errors", _LINES, {"choices": ("off", "on", "full")}),
    "use_direct_linearize": (True, "linearize has its own rules", "it always runs the forward pass once"),
    "use_shardy_partitioner": (False, "programs are partitioned by Shardy", "programs are partitioned by GSPMD"),
    "check_static_indices": (
        False, "static indices out of bounds are errors", "indexing treats static and traced indices alike"),
    "compiler_enable_remat_pass": (
        True, "the compiler rematerializes values that do not fit", "use compiler_options"),
    "cross_host_transfer_socket_address": ("", "address of the transfer server", _TRANSFER),
    "cross_host_transfer_timeout_seconds": (None, "how long a transfer may take", _TRANSFER, {"kind": int}),
    "cross_host_transfer_transfer_size": (None, "bytes per message", _TRANSFER, {"kind": int}),
    "cross_host_transport_addresses": ("", "addresses used for transfers", _TRANSFER),
    "force_dcn_cross_host_transfers": (False, "transfers use the network between hosts", _TRANSFER),
    "custom_vjp3": (False, "a newer form of custom_vjp", _ONE_WAY),
    "remat3": (False, "a newer form of checkpoint", _ONE_WAY),
    "scan3": (False, "a newer form of scan", _ONE_WAY),
    "debug_leaked_clients_on_clear_backends": (
        False, "clear_backends reports references to clients", "a client lives as long as one of its arrays"),
    "disallow_mesh_context_manager": (False, "a Mesh is not a context manager", "a Mesh always is one"),
    "enable_preemption_service": (True, "processes are notified of preemption", "a preempted process counts as failed"),
    "enable_recoverability": (False, "processes survive failures of others", "they always do"),
    "error_checking_behavior_divide": (
        "ignore", "what a division by zero does", _DEBUG, {"choices": ("ignore", "raise")}),
    "error_checking_behavior_nan": ("ignore", "what a NaN does", _DEBUG, {"choices": ("ignore", "raise")}),
    "error_checking_behavior_oob": (
        "ignore", "what an index out of bounds does", _DEBUG, {"choices": ("ignore", "raise")}),
    "export_ignore_forward_compatibility": (
        False, "exported programs are for this version", "saved programs have their own version"),
    "mosaic_allow_hlo": (False, "what kernels may contain", _PALLAS),
    "pallas_poison_buffers": (False, "memory of kernels is initialized with NaN", _PALLAS),
    "use_emit_pipeline_primitive": (False, "how kernels read their inputs", _PALLAS),
    "mutable_array_checks": (True, "checks of mutable arrays", _MUTABLE),
    "refs_to_pins": (False, "mutable arrays are pinned", _MUTABLE),
    "remove_size_one_mesh_axis_from_type": (
        False, "axes of one device are not part of types", "meshes are not part of types"),
    "sort_devices_by_process_index": (True, "devices are ordered by their process", "they always are"),
    "source_url_schema": (None, "links to source lines in profiles", _LINES, {"kind": str}),
    "use_magma": ("auto", "MAGMA computes eigenvalues on GPUs", "eig is computed by LAPACK",
                  {"choices": ("auto", "on", "off")}),
    "use_simplified_jaxpr_constants": (False, "how programs store constants", _ONE_WAY),
    "allow_f16_reductions": (True, "sums of 16-bit floats accumulate in 16 bits", "they accumulate in 32 bits"),
    "accurate_erf_inv": (False, "erf_inv with more terms", "the compiler implements erf_inv"),
    "auto_pcast": (True, "values are cast to varying where another operand varies", _TYPES),
    "check_vma": (False, "varying axes are part of types", _TYPES),
    "check_proxy_envs": (True, "warn of proxies in the environment", "connections between processes use no proxy"),
    "custom_jvp3": (False, "a newer form of custom_jvp", _ONE_WAY),
    "disable_bwd_checks": (False, "types of cotangents are not checked", "they always are"),
    "disable_vmap_shmap_error": (
        False, "vmap over a shard_map with spmd_axis_name", "vmap treats a shard_map like any function"),
    "distributed_verify_secure_credentials": (False, "certificates of the processes are checked", _TLS),
    "mtls_ca_file": (None, "whose certificates are trusted", _TLS, {"kind": str}),
    "mtls_cert_file": (None, "this process's certificate", _TLS, {"kind": str}),
    "mtls_key_file": (None, "this process's key", _TLS, {"kind": str}),
    "mtls_peer_uri_prefix": (None, "which processes are trusted", _TLS, {"kind": str}),
    "eager_constant_folding": (False, "operations on constants run while a function is traced",
                               "they are part of the program; the compiler folds them; use ensure_compile_time_eval"),
    "embedded_constants_max_bytes": (32, "size up to which constants are inlined in the program", "the size is fixed"),
    "export_deserialize_expired_versions": (
        False, "exported programs of expired versions are read", "saved programs have their own version"),
    "mosaic_unzip_debug_locations": (True, "how kernels record source lines", _PALLAS),
    "pallas_auto_assign_collective_ids": ("no", "how collectives of kernels are numbered", _PALLAS),
    "pallas_auto_assign_collective_ids_limit": (25, "how many collectives of kernels are numbered", _PALLAS),
    "ragged_dot_use_gpu_pallas_triton_lowering": (False, "ragged_dot by a kernel", _PALLAS),
    "ragged_dot_use_ragged_dot_instruction": (
        True, "ragged_dot is one instruction", "it is built from products that every platform has"),
    "raise_on_ppermute_sort_diff": (
        True, "orders of ppermute's pairs that older versions accepted are errors", _ONE_WAY),
    "remat_barrier_no_cotangents": (False, "what the compiler may not reorder in checkpoint", _ONE_WAY),
    "thread_guard": (False, "launches over several processes come from one thread",
                     "launches of any thread are compared before they run; see agreement"),
    "use_cpp_shard_args": (False, "the C++ runtime places arguments", "jaxlib places them where it can"),
    "use_hlo_logistic_lowering": (None, "the logistic function is one instruction", _ONE_WAY, {"kind": bool}),
    "use_rgv3": (True, "a newer form of device groups in programs", _ONE_WAY),
    "mock_num_gpu_processes": (0, "number of simulated GPU processes", _MOCK),
    "mock_num_gpus": (1, "number of simulated GPUs", _MOCK),
    "use_mock_gpu_client": (False, "GPUs are simulated", _MOCK)}
_BARE = ("check_vma", "eager_constant_folding", "experimental_xmap_", "jax2tf_", "mock_num_gpu",
         "use_mock_gpu_client")  # environment variables without a prefix


def _define_flags() -> None:
    for name, (default, about, reason, *more) in FLAGS.items():
        Option(name, default, help=about, no_effect_reason=reason, env=name.upper() if name.startswith(_BARE) else "",
               **(more[0] if more else {}))


_define_flags()


def _make_level_setter() -> OptionWatcher:
    """Return a watcher that sets the logger's level on changes; before the first one, the level set by the program
    stays."""
    current = "NOTSET"

    def set_level(value: OptionValue, is_local: bool) -> None:
        nonlocal current
        if not is_local and value != current:
            current = value
            logging.getLogger("lamina").setLevel(value)
    return set_level


_NAMES = ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
Option("logging_level", "NOTSET", choices=_NAMES, means={name.lower(): name for name in _NAMES},
       help="the level of the logger `lamina`").watch(_make_level_setter())
