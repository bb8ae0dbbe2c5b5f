"""Inner names of JAX that lamina-compat does not have: what to use instead.

Each group has the end of an error message, and the names that end with it, by module below `lamina_compat`. An entry of a
module is also that of all names in it. `lamina_ir.layers.explain_absent_names` reads the table when a name is not found.
"""
from typing import Final

GROUPS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("use jaxlib.mlir to build programs, and jax.jit(f).lower(*args) for those of functions",
     {"names.lib.xla_extension": "XlaBuilder XlaOp ops CallInliner FlattenCallGraph HloDCE HloPassInterface TupleSimplifier "
                                 "HloModuleGroup",
      "names.lib.xla_client": "XlaBuilder XlaOp ops execute_with_python_values execute_with_python_values_replicated "
                              "make_dot_dimension_numbers make_convolution_dimension_numbers make_padding_config "
                              "make_replica_groups shape_from_pyval window_padding_type_to_pad_values"}),
    ("use jax.pmap and jax.jit", {"names.lib.xla_extension": "pmap_lib"}),
    ("use lower(...).compile(compiler_options=...)", {"names._src.xla_bridge": "get_compile_options",
                                                      "names._src.compiler": "get_compile_options"}),
    ("internal to the runtime of JAX; lamina finds the devices by itself",
     {"names._src.xla_bridge": "register_backend_factory register_plugin register_plugin_callbacks discover_pjrt_plugins "
                               "BackendFactory BackendRegistration _backend_factories _get_backend_uncached "
                               "register_pjrt_plugin_factories_from_env make_pjrt_topology make_gpu_client"}),
    ("use Primitive of jax.core, with rules of jax.interpreters",
     {"names._src.lax.lax": "standard_primitive naryop unop standard_naryop naryop_dtype_rule unop_dtype_rule"}),
    ("internal to JAX's partial evaluation; use trace_to_jaxpr_nounits of the same module, which computes "
     "what is known and stages the rest",
     {"names.interpreters.partial_eval":
          "tracers_to_jaxpr new_eqn_recipe recipe_to_eqn JaxprEqnRecipe instantiate_const_at FreeVar LambdaBinding "
          "ConstVar trace_to_subjaxpr trace_to_subjaxpr_nounits trace_to_subjaxpr_nounits_fwd "
          "partial_eval_wrapper_nounits new_dynamic_main"}),
    ("internal to JAX's staging; use trace_to_jaxpr_dynamic of the same module, or jax.make_jaxpr",
     {"names.interpreters.partial_eval":
          "trace_to_subjaxpr_dynamic trace_to_subjaxpr_dynamic2 JaxprStackFrame extend_jaxpr_stack arg_info_all sig_info "
          "result_info inline_jaxpr_into_trace"}),
    ("use jax.checkpoint with a policy, or partial_eval_jaxpr_nounits of the same module",
     {"names.interpreters.partial_eval":
          "partial_eval_jaxpr_custom call_partial_eval_custom_rule partial_eval_jaxpr_custom_rule_not_implemented "
          "closed_call_partial_eval_custom_rule PartialEvalCustomRule"}),
    ("dce_jaxpr of the same module enters calls by itself",
     {"names.interpreters.partial_eval":
          "dce_jaxpr_call_rule dce_jaxpr_closed_call_rule"}),
    ("absent by design: lamina has no dynamic shapes; pad the arrays, and pass their sizes as arrays",
     {"names.interpreters.partial_eval":
          "pad_jaxpr def_trivial_padding call_padding_rule infer_lambda_input_type trace_to_jaxpr_dynamic2 "
          "trace_to_jaxpr_final2 BoundedAxisSize trace_to_subjaxpr_nounits_dyn AbstractedAxesSpec"}),
    ("internal to JAX's derivatives; use jax.jvp, jax.linearize and jax.vjp",
     {"names.interpreters.ad": "linearize_jaxpr jvp_subtrace jvp_subtrace_aux jvpfun traceable call_transpose "
                               "map_transpose closed_backward_pass LinearizeTrace LinearizeTracer GradAccum "
                               "ValAccum fancy_transposes primitive_linearizations nonzero_outputs "
                               "nonzero_tangent_outputs backward_pass_internal zeros_like_p unpair_pval "
                               "rearrange_binders CustomJVPException CustomVJPException custom_lin_p"}),
    ("absent by design: lamina has no ragged arrays; pad the rows, and pass their lengths as an array",
     {"names.interpreters.batching": "RaggedAxis IndexedAxisSize Jumble JumbleAxis JumbleTy ConcatAxis "
                                     "StaggeredAxis jumble_axis make_batch_axis bdim_as_shape mask_ragged_axes "
                                     "ragged_prop_rules resolve_ragged_axes"}),
    ("absent by design: vmap maps over axes of arrays; register a pytree of arrays with jax.tree_util",
     {"names.interpreters.batching": "register_vmappable unregister_vmappable to_elt from_elt to_elt_handlers "
                                     "from_elt_handlers make_iota make_iota_handlers spec_types vmappables is_vmappable"}),
    ("internal to JAX's vmap; use jax.vmap, batching.batch or batching.batch_jaxpr",
     {"names.interpreters.batching": "batch_subtrace vmap_unrestricted batch_custom_jvp_subtrace batch_jaxpr2 "
                                     "batch_custom_vjp_bwd flatten_fun_for_vmap SpmdAxisBatchTrace"}),
    ("lamina lowers programs itself; use jax.jit(f).lower(*args), or mlir.lower_fun(f) inside of a rule",
     {"names.interpreters.mlir": "jaxpr_subcomp lower_jaxpr_to_fun lower_jaxpr_to_module build_mlir_module_helper "
                                 "LoweringParameters LoweringResult lowerable_effects merge_mlir_modules "
                                 "xla_computation_to_mlir_module shape_tensor eval_dynamic_shape "
                                 "AxisContext ReplicaAxisContext SPMDAxisContext ShardingContext ShapePolyLoweringState"}),
    ("lamina passes no tokens and channels to lowering rules; use jax.experimental.io_callback(ordered=True)",
     {"names.interpreters.mlir": "token_type DEVICE_TO_DEVICE_TYPE RECV_FROM_HOST_TYPE SEND_TO_HOST_TYPE"}),
    ("use jax.sharding.NamedSharding and jax.sharding.PositionalSharding",
     {"names.interpreters.pxla": "Chunked NoSharding Replicated ShardedAxis ShardingSpec Unstacked are_op_shardings_equal "
                                 "array_mapping_to_axis_resources is_op_sharding_replicated op_sharding_to_indices"}),
    ("use jax.extend.backend.get_backend", {"names.interpreters.xla": "Backend"}),
    ("absent by design: lowering rules get arrays of NumPy's dtypes; register a pytree with jax.tree_util for other types",
     {"names.interpreters.mlir": "register_constant_handler get_constant_handler ir_type_handlers "
                                 "ir_tree_registry ConstantHandler"}),
    ("programs are lowered to StableHLO; define a rule with mlir.register_lowering",
     {"names.interpreters.xla": "register_translation translations call_translations backend_specific_translations "
                                "register_initial_style_primitive initial_style_primitives "
                                "initial_style_translations parallel_translations "
                                "xla_destructure backend_compile xla_call translations_with_avals axis_read axis_groups "
                                "lower_fun TranslationContext TranslationRule"}),
    ("use jax.Array, the class of all arrays",
     {"names.interpreters.xla": "DeviceArray _DeviceArray make_device_array device_put device_array",
      "names.interpreters.pxla": "ShardedDeviceArray make_sharded_device_array"}),
    ("internal to JAX's runtime; use jax.jit, jax.pmap and jax.sharding",
     {"names.interpreters.pxla": "MeshComputation MeshExecutable MeshPmap PmapComputation PmapExecutable "
                                 "lower_mesh_computation lower_parallel_callable "
                                 "parallel_callable xla_pmap_impl_lazy global_avals_to_results_handler "
                                 "get_num_partitions lower_sharding_computation "
                                 "spec_to_indices create_compile_options "
                                 "local_result_handlers global_result_handlers global_aval_to_result_handler "
                                 "shard_arg_handlers shard_args shard_arg "
                                 "xla_pmap_impl stage_parallel_callable"}),
)

ABSENT: Final[dict[str, str]] = {f"{module}.{name}": text for text, names_by_module in GROUPS
                                 for module, names in names_by_module.items() for name in names.split()}
