"""Private and moved modules of JAX: the modules whose names they show, and the names that libraries read.

`jax._src.lax.lax` shows the names of `jax.lax`, for example. Modules that need more have a file in `names/`; its names come
first. A test (tests/test_private_modules.py) reads each name of the table.
"""
from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["PRIVATE_MODULES", "PrivateModule"]


class PrivateModule(NamedTuple):
    """What a private module shows; the parts of each field are separated by spaces.

    Attributes:
      sources: modules whose names it shows, after those of its own file.
      needed: names that libraries read.
      readers: libraries that read them.
    """

    sources: str
    needed: str = ""
    readers: str = ""


PRIVATE_MODULES: Final[dict[str, PrivateModule]] = {
    # Modules that JAX documents, or showed in earlier releases.
    "jax.api_util": PrivateModule(
        "", "flatten_fun flatten_fun_nokwargs safe_map shaped_abstractify", "flax numpyro distrax oryx"),
    "jax.extend.linear_util": PrivateModule("jax.linear_util", "wrap_init transformation cache", "flax haiku numpyro"),
    "jax.extend.source_info_util": PrivateModule(
        "jax._src.source_info_util", "register_exclusion user_context", "flax kfac-jax"),
    "jax.interpreters.partial_eval": PrivateModule(
        "jax.core", "PartialVal trace_to_jaxpr_dynamic trace_to_jaxpr_nounits DynamicJaxprTracer JaxprTracer "
        "abstract_eval_fun dce_jaxpr", "flax haiku numpyro objax oryx kfac-jax"),
    "jax.lib.xla_bridge": PrivateModule("jax._src.xla_bridge", "get_backend _backends xla_client", "chex"),
    "jax.lib.xla_client": PrivateModule("jaxlib.xla_client", "XlaRuntimeError Shape PrimitiveType", "equinox jax-md"),
    "jax.lib.xla_extension": PrivateModule(
        "jaxlib._jax jaxlib._hlo jaxlib.xla_client",
        "XlaRuntimeError PjitFunction PmapFunction ArrayImpl Device pytree HloModule PyTreeRegistry", "chex equinox haiku"),
    "jax.util": PrivateModule("", "unzip2 safe_zip safe_map split_list", "chex kfac-jax mctx oryx"),
    "jax.version": PrivateModule("", "__version__ __version_info__", "flax haliax"),

    # jax._src
    "jax._src.ad_checkpoint": PrivateModule("jax.ad_checkpoint", "checkpoint checkpoint_name", "oryx"),
    "jax._src.api": PrivateModule(
        "jax", "jit grad vmap jvp vjp pmap make_jaxpr eval_shape device_put block_until_ready named_call", "e3nn-jax"),
    "jax._src.api_util": PrivateModule(
        "jax.api_util", "flatten_fun infer_argnums_and_argnames flatten_axes _ensure_index_tuple", "e3nn-jax oryx"),
    "jax._src.array": PrivateModule("jax.lib.xla_extension jax", "ArrayImpl make_array_from_callback", "orbax"),
    "jax._src.basearray": PrivateModule("jax.typing jax", "Array ArrayLike", "optax"),
    "jax._src.callback": PrivateModule("jax.experimental jax", "io_callback pure_callback", "tensorflow-probability"),
    "jax._src.checkify": PrivateModule("jax.experimental.checkify", "checkify check Error", "chex"),
    "jax._src.compilation_cache": PrivateModule(
        "jax.experimental.compilation_cache.compilation_cache", "set_cache_dir reset_cache"),
    "jax._src.compiler": PrivateModule("", "backend_compile", "chex"),
    "jax._src.config": PrivateModule("", "config enable_x64 update debug_nans enable_memories", "orbax equinox"),
    "jax._src.core": PrivateModule(
        "jax.core", "Primitive ShapedArray Tracer Trace MainTrace new_main cur_sublevel call_p Literal Var DropVar "
        "ClosedJaxpr Jaxpr eval_jaxpr get_aval raise_to_shaped safe_map typeof", "flax oryx quax"),
    "jax._src.custom_derivatives": PrivateModule(
        "jax.custom_derivatives", "custom_jvp custom_vjp closure_convert SymbolicZero", "lineax"),
    "jax._src.debugging": PrivateModule("jax.debug", "callback breakpoint DebugEffect", "chex"),
    "jax._src.dispatch": PrivateModule(
        "jax._src.compiler", "apply_primitive wait_for_tokens backend_compile", "chex equinox"),
    "jax._src.distributed": PrivateModule("jax.distributed", "global_state", "orbax"),
    "jax._src.dlpack": PrivateModule("jax.dlpack", "from_dlpack"),
    "jax._src.dtypes": PrivateModule(
        "jax.dtypes", "DType ExtendedDType extended TypePromotionError canonicalize_dtype float0 dtype issubdtype "
        "result_type", "flax haiku equinox oryx"),
    "jax._src.earray": PrivateModule("", "EArray", "flax"),
    "jax._src.effects": PrivateModule(
        "", "Effect control_flow_allowed_effects lowerable_effects remat_allowed_effects", "oryx jax-triton"),
    "jax._src.environment_info": PrivateModule("jax", "print_environment_info"),
    "jax._src.errors": PrivateModule("jax.errors", "TracerArrayConversionError UnexpectedTracerError", "equinox"),
    "jax._src.flatten_util": PrivateModule("jax.flatten_util", "ravel_pytree", "jaxopt"),
    "jax._src.image": PrivateModule("jax.image"),
    "jax._src.image.scale": PrivateModule("jax.image", "resize scale_and_translate"),
    "jax._src.interpreters": PrivateModule("jax.interpreters"),
    "jax._src.interpreters.ad": PrivateModule(
        "jax.interpreters.ad", "jvp vjp Zero UndefinedPrimal replace_float0s", "oryx"),
    "jax._src.interpreters.batching": PrivateModule(
        "jax.interpreters.batching", "primitive_batchers not_mapped", "oryx"),
    "jax._src.interpreters.mlir": PrivateModule("jax.interpreters.mlir", "register_lowering _lowerings hlo ir", "oryx"),
    "jax._src.interpreters.pxla": PrivateModule("jax.interpreters.pxla", "thread_resources", "flax"),
    "jax._src.interpreters.xla": PrivateModule("jax.interpreters.xla", "canonicalize_dtype pytype_aval_mappings"),
    "jax._src.interpreters.partial_eval": PrivateModule(
        "jax.interpreters.partial_eval", "trace_to_jaxpr_dynamic dce_jaxpr", "oryx"),
    "jax._src.lax": PrivateModule("jax.lax"),
    **{f"jax._src.lax.{name}": PrivateModule("jax.lax", needed) for name, needed in (
        ("ann", "approx_max_k"), ("control_flow", "scan_p while_p cond_p scan cond while_loop fori_loop"),
        ("convolution", "conv_general_dilated ConvDimensionNumbers"), ("fft", "fft"),
        ("lax", "add dot_general broadcast_in_dim exp sin_p _convert_element_type _const"),
        ("other", "conv_general_dilated_patches"), ("parallel", "psum pmean all_gather axis_index ppermute all_to_all"),
        ("slicing", "dynamic_slice gather scatter_add GatherDimensionNumbers"), ("special", "lgamma erf_inv bessel_i0e"),
        ("windowed_reductions", "reduce_window"))},
    "jax._src.lax.control_flow.loops": PrivateModule("jax.lax", "scan while_loop fori_loop associative_scan"),
    "jax._src.lax.control_flow.conditionals": PrivateModule("jax.lax", "cond switch"),
    "jax._src.lax.control_flow.solves": PrivateModule("jax.lax", "custom_root custom_linear_solve"),
    "jax._src.lax.linalg": PrivateModule(
        "jax.lax.linalg", "cholesky lu qr svd eigh triangular_solve", "tensorflow-probability"),
    "jax._src.lib": PrivateModule("jax.lib", "xla_client xla_extension xla_bridge version", "jraph"),
    **{f"jax._src.lib.{name}": PrivateModule(f"jax.lib.{name}") for name in ("xla_bridge", "xla_client", "xla_extension")},
    "jax._src.lib.mlir": PrivateModule("jaxlib.mlir", "ir dialects", "mpi4jax jax-triton jax-finufft"),
    "jax._src.lib.mlir.dialects": PrivateModule("jaxlib.mlir.dialects", "hlo func", "mpi4jax jax-triton"),
    "jax._src.lib.mlir.dialects.hlo": PrivateModule("jaxlib.mlir.dialects.stablehlo", "custom_call ReshapeOp"),
    **{f"jax._src.lib.mlir.{name}": PrivateModule(f"jaxlib.mlir.{name}")
       for name in ("ir", "dialects.arith", "dialects.chlo", "dialects.func", "dialects.sdy", "dialects.stablehlo")},
    "jax._src.linear_util": PrivateModule(
        "jax.linear_util", "wrap_init transformation transformation_with_aux WrappedFun", "oryx"),
    "jax._src.literals": PrivateModule("", "LiteralArray TypedNdArray", "equinox"),
    "jax._src.mesh": PrivateModule(
        "jax.interpreters.pxla jax.sharding jax", "Mesh AbstractMesh get_abstract_mesh thread_resources",
        "maxtext flax t5x"),
    "jax._src.monitoring": PrivateModule("jax.monitoring", "record_event_duration_secs record_event"),
    "jax._src.named_sharding": PrivateModule("jax.sharding", "NamedSharding"),
    "jax._src.nn": PrivateModule("jax.nn"),
    "jax._src.nn.functions": PrivateModule("jax.nn", "relu gelu softmax one_hot logsumexp", "flax"),
    "jax._src.nn.initializers": PrivateModule("jax.nn.initializers", "variance_scaling lecun_normal", "flax"),
    "jax._src.numpy": PrivateModule("jax.numpy"),
    **{f"jax._src.numpy.{name}": PrivateModule("jax.numpy", needed, readers) for name, needed, readers in (
        ("array_methods", "", ""), ("einsum", "einsum", ""), ("indexing", "take", ""),
        ("lax_numpy", "array where asarray arange _ScalarMeta", "haliax orbax"),
        ("reductions", "sum mean", "tensorflow-probability"),
        ("setops", "unique", ""), ("ufuncs", "exp sqrt logaddexp", "tensorflow-probability"), ("vectorize", "vectorize", ""))},
    "jax._src.numpy.fft": PrivateModule("jax.numpy.fft", "fft rfft"),
    "jax._src.numpy.linalg": PrivateModule("jax.numpy.linalg", "norm solve svd"),
    "jax._src.numpy.util": PrivateModule("", "promote_dtypes promote_dtypes_inexact check_arraylike", "ott-jax jaxopt"),
    "jax._src.ops": PrivateModule("jax.ops"),
    "jax._src.ops.scatter": PrivateModule("jax.ops", "segment_sum", "jraph"),
    "jax._src.ops.special": PrivateModule("jax.nn", "logsumexp"),
    "jax._src.partition_spec": PrivateModule("jax.sharding", "PartitionSpec"),
    "jax._src.pjit": PrivateModule(
        "jax.experimental.pjit jax.lax jax", "pjit pjit_p jit_p jit with_sharding_constraint", "oryx quax"),
    "jax._src.pretty_printer": PrivateModule("", "Doc text concat brk nest group join color Color", "equinox"),
    "jax._src.prng": PrivateModule(
        "jax.extend.random", "threefry_2x32 threefry_prng_impl rbg_prng_impl PRNGImpl", "oryx"),
    "jax._src.profiler": PrivateModule("jax.profiler", "start_trace stop_trace annotate_function"),
    "jax._src.public_test_util": PrivateModule("jax.test_util", "check_grads check_close", "jaxopt diffrax"),
    "jax._src.random": PrivateModule("jax.random", "PRNGKey KeyArray normal split", "dynamax"),
    "jax._src.scipy": PrivateModule("jax.scipy"),
    "jax._src.scipy.linalg": PrivateModule("jax.scipy.linalg", "solve_triangular cho_solve"),
    "jax._src.scipy.optimize": PrivateModule("jax.scipy.optimize"),
    "jax._src.scipy.optimize.minimize": PrivateModule("jax.scipy.optimize", "minimize"),
    "jax._src.scipy.signal": PrivateModule("jax.scipy.signal", "convolve"),
    "jax._src.scipy.special": PrivateModule("jax.scipy.special", "gammaln logsumexp"),
    "jax._src.sharding": PrivateModule("jax.sharding", "Sharding"),
    "jax._src.sharding_impls": PrivateModule(
        "", "NamedSharding SingleDeviceSharding PositionalSharding UNSPECIFIED UnspecifiedValue AUTO", "oryx orbax"),
    "jax._src.source_info_util": PrivateModule(
        "", "user_context current summarize register_exclusion", "kfac-jax flax"),
    "jax._src.stages": PrivateModule("jax.stages", "Lowered Compiled Wrapped", "penzai"),
    "jax._src.state": PrivateModule("jax.ref", "AbstractRef"),
    "jax._src.state.types": PrivateModule("jax.ref", "AbstractRef", "flax"),
    "jax._src.test_util": PrivateModule("jax._src.public_test_util", "check_grads", "jaxopt"),
    "jax._src.traceback_util": PrivateModule("", "api_boundary register_exclusion", "flax haiku equinox optimistix"),
    "jax._src.tree": PrivateModule("jax.tree", "map leaves"),
    "jax._src.tree_util": PrivateModule(
        "jax.tree_util", "_registry broadcast_prefix flatten_one_level BuiltInKeyEntry prefix_errors equality_errors "
        "default_registry", "flax jaxlie haliax"),
    "jax._src.typing": PrivateModule("jax.typing", "Array ArrayLike DTypeLike Shape DType", "haliax"),
    "jax._src.util": PrivateModule(
        "jax.util", "safe_map safe_zip unzip2 split_list partition_list merge_lists wraps weakref_lru_cache",
        "oryx equinox"),
    "jax._src.xla_bridge": PrivateModule(
        "jax.extend.backend jax", "get_backend backends process_count devices backends_are_initialized", "orbax"),
}
