"""Public names of JAX, and some of NumPy and PyTorch, that lamina does not have: what to use, or that they are planned.

Each group has the end of an error message, and the names that end with it, by module below `lamina`. An entry of a module is
also that of all names in it. A test (tests/public_api/test_absent_names.py) requires that each name of JAX exists or is listed.
`lamina_ir.layers.explain_absent_names` reads the table when a name is not found.
"""
from typing import Final

COMPAT: Final = "inner names of JAX are found under lamina.as_jax()"
REFS: Final = "internal to the references of JAX; programs here hold ref_get and ref_set, see lamina.ref"
EXPLICIT: Final = ("use make_mesh(axis_types=), reshard, auto_axes and out_sharding for shardings that are part of types; "
                   "docs/how-to/explicit-sharding.md shows them")
HELPER: Final = "a helper of JAX's module, not part of its documented interface"
IMPORTED: Final = "a name that JAX's module imports from another one"
KERNELS: Final = "absent by design: kernels for one device are written outside of lamina, and called with lamina.extend.ffi"
OBJECTS: Final = "absent by design: lamina has no new kinds of arrays; register a pytree with lamina.tree_util"
XLA_OPTIONS: Final = "absent by design: pass options to the compiler with lower(...).compile(compiler_options=...)"
NOT_YET: Final = "not available yet"

GROUPS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    # Modules that lamina-compat has.
    (f"{COMPAT}; else use lamina.extend.core for programs and lamina_ir.extend for tools on them", {"": "core"}),
    (f"{COMPAT}; else define rules with lamina_autodiff.extend, lamina_batching.extend and lamina_lowering.extend",
     {"": "interpreters"}),
    (f"{COMPAT}; else use lamina.tree_util and lamina.extend.linear_util", {"": "api_util"}),
    ("private in JAX; use the public module with the same name", {"": "_src"}),

    # Modules that are absent by design, and those with another name here.
    (KERNELS, {"experimental": "buffer_callback mosaic thunky", "extend": "pallas"}),
    ("absent by design: kernels run as loops of ordinary operations here; leave it out",
     {"experimental.pallas": "BoundedSlice CompilerParams DeviceIdType delay HOST Indirect RevisitMode enable_debug_checks "
                             "enable_poison_buffers estimate_cost get_global lower_as_mlir pallas_export_experimental "
                             "semaphore semaphore_read semaphore_signal semaphore_wait"}),
    ("absent by design: kernels for one kind of device; write them with lamina.experimental.pallas.pallas_call",
     {"experimental.pallas": "core_map fuser kernel mosaic_gpu ops tpu_sc"}),
    ("a type annotation; leave it out", {"experimental.pallas": "BlockDim"}),
    ("use lamina.ref.empty_ref", {"experimental.pallas": "empty_ref_like"}),
    ("use lamina.ref.discharge", {"experimental.pallas": "run_state"}),
    ("use run_scoped of the same module", {"experimental.pallas": "with_scoped"}),
    ("use lax.cond in the kernel, which may return parts of references", {"experimental.pallas": "select_ref"}),
    ("use lamina.lax.reciprocal", {"experimental.pallas": "reciprocal"}),
    ("kernels are no primitives here; call pallas_call of the same module", {"experimental.pallas": "pallas_call_p"}),
    ("use lamina.debug.check, or debug_print of the same module", {"experimental.pallas": "debug_check"}),
    ("absent by design: lamina does not run Python on other hosts; start a process there with lamina.launch",
     {"experimental": "colocated_python"}),
    (OBJECTS, {"experimental": "EArray hijax primal_tangent_dtype"}),
    (REFS, {"extend.core.primitives": "empty2_p get_p swap_p"}),
    (XLA_OPTIONS, {"": "CompilerEffortLevel", "experimental": "fused overlap scheduling_groups xla_metadata"}),
    ("use jaxlib.mlir, and lamina_lowering.extend for lowering rules", {"extend": "lowering mlir"}),
    ("use lamina.numpy, which has the names of the array API standard; x.__array_namespace__() returns it",
     {"experimental": "array_api"}),
    (HELPER, {"experimental.array_serialization": "pytree_serialization_utils"}),
    ("absent by design: assignments to attributes are not traced; pass state as arguments and results",
     {"experimental": "attrs"}),
    ("use lamina.profiler.start_server, which profiling tools read", {"": "collect_profile"}),
    ("absent by design: a program runs on one platform; call the host with lamina.pure_callback",
     {"experimental": "compute_on"}),
    ("use lamina.shard_map, whose function computes on the block of one device", {"experimental": "custom_partitioning"}),
    ("use lamina.export, whose files contain StableHLO, which other frameworks read", {"experimental": "jax2tf"}),
    ("absent by design: arrays are stored in row-major order", {"experimental.layout": "explicit_layout"}),
    ("use lamina.profiler.trace; the compiler does not read profiles here", {"experimental": "profiler"}),
    ("absent by design: random numbers depend on a key; divide it with lamina.random.split", {"experimental": "random"}),
    ("use cost_analysis() of lower(...).compile()", {"experimental": "roofline"}),
    ("use lax.with_sharding_constraint with one sharding for both arrays", {"experimental": "shard_alike"}),
    ("use lower(...).as_text(debug_info=True), which contains source lines", {"experimental": "source_mapper"}),
    ("absent by design: programs are compiled for devices that are present; lamina.export is for other platforms",
     {"experimental": "topologies"}),
    ("use the collectives of lax, by which the processes of lamina.distributed exchange arrays", {"experimental": "transfer"}),
    ("internal to the runtime of JAX", {"extend": "ifrt_programs xla"}),
    ("use lamina.sharding", {"extend": "sharding"}),
    ("use lamina.named_scope; each equation has its source line", {"extend": "source_info_util"}),
    ("use lamina.extend.ffi, whose ffi_lowering makes the lowering rule of a primitive", {"": "ffi"}),
    ("use jaxlib.xla_client", {"lib": "xla_client xla_extension"}),
    ("a script of JAX's repository; lamina.export writes programs to files", {"tools": "jax_to_ir pgo_nsys_converter"}),
    ("internal helpers of JAX; use functools, itertools and zip(strict=True)", {"": "util"}),
    ("use start_trace and stop_trace; ProfileData.from_file reads the profile",
     {"profiler": "ProfileSession export_profile_data"}),
    ("use lamina.__version__", {"": "version"}),

    # Names of JAX 0.4.30 in modules that exist.
    ("use lamina.extend.backend.clear_backends", {"": "clear_backends"}),
    ("use lamina.tree_util.tree_transpose", {"": "tree_transpose"}),
    ("use lamina.tree_util.treedef_is_leaf", {"": "treedef_is_leaf"}),
    ("use lamina.sharding.Sharding, the base class of all shardings", {"sharding": "XLACompatibleSharding"}),
    ("use set_cache_dir of the same module", {"experimental.compilation_cache.compilation_cache": "initialize_cache"}),
    ("read lamina.config.jax_compilation_cache_dir", {"experimental.compilation_cache.compilation_cache": "is_initialized"}),
    ("use ResourceSet and xmap of the same module",
     {"experimental.maps": "EMPTY_ENV ResourceEnv make_xmap_callable thread_resources xmap_p"}),
    ("use lax.xla_call_p, the primitive of nested jitted functions", {"experimental.pjit": "pjit_p",
                                                                      "extend.core.primitives": "jit_p"}),

    # Names of NumPy and PyTorch.
    ("use lamina.random.key(seed), and functions such as lamina.random.normal(key, shape)",
     {"random": "RandomState default_rng manual_seed rand randn seed", "numpy": "random"}),
    ("use lamina.numpy.array", {"": "array tensor", "numpy": "tensor"}),
    ("use lamina.grad, which is the only place where derivatives are computed, or lax.stop_gradient", {"": "no_grad"}),

    # Names of later releases that are absent by design.
    (EXPLICIT, {"": "auto_pcast remove_size_one_mesh_axis_from_type",
                "sharding": "ManualAxisType UnreducedKind no_collectives"}),
    ("internal to JAX's autodiff; lamina_autodiff.extend has the rules of derivatives", {"": "ad"}),
    ("use lamina.jit(inline=True)", {"": "Inline"}),
    ("use gc.get_referrers on the arrays of lamina.live_arrays", {"": "array_garbage_collection_guard"}),
    ("use an argument in static_argnums of lamina.jit: another value stages the function again", {"": "make_user_context"}),
    ("use lax.random_unwrap_p and lax.random_wrap_p, between which keys are uint32 data",
     {"extend.core.primitives": "random_bits_p random_fold_in_p random_seed_p random_split_p"}),
    ("use transformation and transformation_with_aux of the same module, whose functions are generators",
     {"extend.linear_util": "transformation2 transformation_with_aux2"}),
    ("use lamina.errors", {"extend.core": "InconclusiveDimensionOperation JaxprTypeError"}),
    ("use lower(...).compile(compiler_options=...)", {"extend.backend": "get_compile_options",
                                                      "lib.xla_bridge": "get_compile_options"}),
    ("internal to the runtime of JAX; lamina.clear_caches() clears the caches of lamina",
     {"extend.backend": "backend_xla_version register_backend_cache register_backend_factory"}),
    ("absent by design: programs are compiled for devices that are present", {"sharding": "AbstractDevice"}),
    ("use lamina.debug.DebugEffect, the effect of ordered and unordered callbacks", {"debug": "OrderedDebugEffect"}),

    # Names that JAX's modules show and do not document.
    (IMPORTED, {
        "example_libraries.optimizers": "Any Array Callable NamedTuple annotations functools jax jnp map namedtuple partial "
                                        "safe_map safe_zip unzip2 zip",
        "example_libraries.stax": "functools jnp lax math random",
        "experimental.multihost_utils": "Any P ad annotations array batching contextlib core distributed dtypes jax jnp "
                                        "lru_cache mlir np partial pjit_lib prng pxla safe_zip sharding_impls tree_flatten "
                                        "tree_unflatten xla_bridge xla_client zlib",
        "experimental.jet": "Any Callable partial register_pytree_node safe_zip tree_flatten tree_structure tree_unflatten "
                            "treedef_is_leaf unzip2 weakref_lru_cache",
        "experimental.ode": "Callable core custom_derivatives jax jnp lax map op partial promote_dtypes_inexact "
                            "ravel_pytree safe_map safe_zip tree_leaves tree_map zip",
        "experimental.rnn": "Any Array PRNGKeyArray Shape core custom_vjp dispatch gpu_rnn jax jnp lax math mlir np partial "
                            "sigmoid tanh",
        "experimental.serialize_executable": "Sequence annotations io jax pickle xc",
        "experimental.shard_map": "jshmap traceback_util",
        "extend.backend": "ifrt_proxy",
        "extend.linear_util": "Callable"}),
    (HELPER, {
        "ad_checkpoint": "checkpoint_name_fwd",
        "debug": "log",
        "experimental.mesh_utils": "device_kind_handler_dict",
        "experimental.multihost_utils": "global_array_to_host_local_array_impl global_array_to_host_local_array_p "
                                        "gtl_abstract_eval host_local_array_to_global_array_impl "
                                        "host_local_array_to_global_array_p ltg_abstract_eval ltg_batcher",
        "experimental.ode": "abs2 fit_4th_order_polynomial initial_step_size interp_fit_dopri mean_error_ratio "
                            "optimal_step_size ravel_first_arg runge_kutta_step",
        "experimental.rnn": "lstm_bwd lstm_fwd rnn_abstract_eval rnn_bwd_abstract_eval rnn_bwd_p rnn_fwd_p "
                            "swap_lstm_gates"}),
    ("internal to JAX's tracing; lamina_ir.extend and lamina_tracing.extend have the tools for programs and traces", {
        "extend.core": "AbstractToken DebugInfo DropVar Effect Effects TraceTag check_jaxpr concrete_or_error "
                       "create_call_primitive eval_jaxpr_transpose find_top_trace gensym get_opaque_trace_state "
                       "jaxprs_in_params mapped_aval new_jaxpr_eqn no_effects nonempty_axis_env_DO_NOT_USE "
                       "primal_dtype_to_tangent_dtype register_call_primitive_rules set_current_trace subjaxprs "
                       "take_current_trace unmapped_aval unsafe_am_i_under_a_jit_DO_NOT_USE "
                       "unsafe_am_i_under_a_vmap_DO_NOT_USE unsafe_get_axis_names_DO_NOT_USE valid_jaxtype",
        "extend.core.primitives": "create_call_primitive eval_jaxpr_transpose register_call_primitive_rules"}),

    ("internal to JAX's jet; lamina_jet.extend.jet_rules has the rules of Taylor mode", {
        "experimental.jet": "JetTrace JetTracer ZeroSeries ZeroTerm call_param_updaters def_comp def_deriv deflinear defzero "
                            "deriv_prop fact jet2 jet_fun jet_rules jet_subtrace linear_prop traceable zero_prop "
                            "zero_series zero_term"}),

    ("sparse functions are programs of dense primitives here; call the function of the same name without _p", {
        "experimental.sparse": "SparseTracer bcoo_dot_general_p bcoo_dot_general_sampled_p bcoo_extract_p bcoo_fromdense_p "
                                "bcoo_sort_indices_p bcoo_spdot_general_p bcoo_sum_duplicates_p bcoo_todense_p "
                                "bcoo_transpose_p bcsr_dot_general_p bcsr_extract_p bcsr_fromdense_p bcsr_todense_p "
                                "coo_fromdense_p coo_matmat_p coo_matvec_p coo_todense_p csr_fromdense_p csr_matmat_p "
                                "csr_matvec_p csr_todense_p todense_p"}),
    ("private modules of JAX's package; use lamina.experimental.sparse",
     {"experimental.sparse": "ad api bcoo bcsr coo csr random test_util transform util"}),

    # Not available yet.
    ("not available yet; lamina.distributed reports lost processes as errors",
     {"experimental.multihost_utils": "ProcessFailureError live_devices reached_preemption_sync_point"}),
    (NOT_YET, {"extend.core.primitives": "polynomial_p"}),
    ("not available yet; use todense() and lamina.lax.conv_general_dilated",
     {"experimental.sparse": "bcoo_conv_general_dilated"}),
    ("not available yet; lamina.numpy.linalg.eigh takes dense matrices", {"experimental.sparse.linalg": "lobpcg_standard"}),

    # Numeric names that are absent.
    ("elementwise functions have the accuracy of the platform; leave out accuracy=", {"lax": "AccuracyMode Tolerance"}),
    ("programs are lowered to plain StableHLO; call the decomposition itself", {"lax": "composite"}),
    ("values that nothing uses are dropped; return the value from the function", {"lax": "dce_sink"}),
    ("use lamina.numpy.polyval", {"lax": "polynomial polynomial_p"}),
    ("collectives are not divided into start and end; use lax.psum_scatter", {"lax": "psum_scatter_start"}),
    ("use lax.ppermute", {"lax": "precv psend"}),
    ("the function is a program of other primitives here; call lax.ragged_all_to_all",
     {"lax": "ragged_all_to_all_p", "extend.core.primitives": "ragged_all_to_all_p"}),
    ("each platform has one algorithm; leave out algorithm= or implementation=",
     {"lax.linalg": "EigImplementation EighImplementation SvdAlgorithm"}),
    ("StableHLO of jaxlib 0.10.2 has no integers of one bit; use bool_ or int2", {"numpy": "int1 uint1"}),
    ("annotate keys with lamina.Array", {"random": "Key"}),
)

# Dotted name below lamina -> end of the error message.
ABSENT: Final[dict[str, str]] = {f"{module}.{name}".lstrip("."): text for text, names_by_module in GROUPS
                                 for module, names in names_by_module.items() for name in names.split()}
