"""Every public flag can be set in each way, and invalid values are refused with the flag's name."""
import json
import os
import subprocess
import sys
import warnings

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import config

NAMES = """
check_vma eager_constant_folding experimental_xmap_ensure_fixed_sharding experimental_xmap_spmd_lowering
experimental_xmap_spmd_lowering_manual jax2tf_associative_scan_reductions jax2tf_default_native_serialization
jax_accurate_erf_inv jax_allow_f16_reductions jax_array_garbage_collection_guard jax_auto_pcast jax_backend_target
jax_bcoo_cusparse_lowering jax_captured_constants_report_frames jax_captured_constants_warn_bytes jax_check_proxy_envs
jax_check_static_indices jax_check_tracer_leaks jax_compilation_cache_check_contents jax_compilation_cache_dir
jax_compilation_cache_expect_pgle jax_compilation_cache_include_metadata_in_key jax_compilation_cache_max_size
jax_compiler_detailed_logging_min_ops jax_compiler_enable_remat_pass jax_cpu_collectives_implementation
jax_cpu_enable_async_dispatch jax_cpu_enable_gloo_collectives jax_cpu_get_global_topology_timeout_minutes
jax_cpu_get_local_topology_timeout_minutes jax_cross_host_transfer_socket_address
jax_cross_host_transfer_timeout_seconds jax_cross_host_transfer_transfer_size jax_cross_host_transport_addresses
jax_cuda_visible_devices jax_custom_jvp3 jax_custom_vjp3 jax_custom_vjp_disable_shape_check jax_debug_infs
jax_debug_key_reuse jax_debug_leaked_clients_on_clear_backends jax_debug_log_modules jax_debug_nans jax_default_device
jax_default_dtype_bits jax_default_matmul_precision jax_default_prng_impl jax_disable_bwd_checks jax_disable_jit
jax_disable_most_optimizations jax_disable_vmap_shmap_error jax_disallow_mesh_context_manager jax_distributed_debug
jax_distributed_verify_secure_credentials jax_dump_ir_modes jax_dump_ir_to jax_dynamic_shapes jax_eager_pmap
jax_embedded_constants_max_bytes jax_enable_checks jax_enable_compilation_cache jax_enable_custom_prng
jax_enable_custom_vjp_by_custom_transpose jax_enable_memories jax_enable_pgle jax_enable_preemption_service
jax_enable_recoverability jax_enable_x64 jax_error_checking_behavior_divide jax_error_checking_behavior_nan
jax_error_checking_behavior_oob jax_exec_time_optimization_effort jax_experimental_unsafe_xla_runtime_errors
jax_explain_cache_misses jax_explicit_x64_dtypes jax_export_calling_convention_version
jax_export_deserialize_expired_versions jax_export_ignore_forward_compatibility jax_force_dcn_cross_host_transfers
jax_high_dynamic_range_gumbel jax_hlo_source_file_canonicalization_regex jax_host_callback_inline
jax_host_callback_legacy jax_host_callback_max_queue_byte_size jax_host_callback_outfeed
jax_include_debug_info_in_dumps jax_include_full_tracebacks_in_locations jax_legacy_prng_key
jax_log_checkpoint_residuals jax_log_compiles jax_logging_level jax_memory_fitting_effort jax_memory_fitting_level
jax_mock_gpu_topology jax_mosaic_allow_hlo jax_mosaic_unzip_debug_locations jax_mtls_ca_file jax_mtls_cert_file
jax_mtls_key_file jax_mtls_peer_uri_prefix jax_mutable_array_checks jax_no_execution jax_no_tracing
jax_num_cpu_devices jax_numpy_dtype_promotion jax_numpy_rank_promotion jax_oneapi_visible_devices
jax_optimization_level jax_pallas_auto_assign_collective_ids jax_pallas_auto_assign_collective_ids_limit
jax_pallas_enable_debug_checks jax_pallas_poison_buffers jax_pallas_use_mosaic_gpu jax_pallas_verbose_errors
jax_persistent_cache_enable_xla_caches jax_persistent_cache_min_compile_time_secs
jax_persistent_cache_min_entry_size_bytes jax_pgle_aggregation_percentile jax_pgle_profiling_runs
jax_pjrt_client_create_options jax_platform_name jax_platforms jax_pmap_no_rank_reduction jax_pmap_shmap_merge
jax_pprint_use_color jax_ragged_dot_use_gpu_pallas_triton_lowering jax_ragged_dot_use_ragged_dot_instruction
jax_raise_on_ppermute_sort_diff jax_raise_persistent_cache_errors jax_random_seed_offset jax_refs_to_pins jax_remat3
jax_remat_barrier_no_cotangents jax_remat_opt_barrier jax_remove_custom_partitioning_ptr_from_cache_key
jax_remove_size_one_mesh_axis_from_type jax_rocm_visible_devices jax_scan3 jax_send_traceback_to_runtime
jax_serialization_version jax_share_autotune_config_between_hosts jax_share_binary_between_hosts
jax_share_binary_between_hosts_timeout_ms jax_softmax_custom_jvp jax_sort_devices_by_process_index
jax_source_url_schema jax_spmd_mode jax_thread_guard jax_threefry_gpu_kernel_lowering jax_threefry_partitionable
jax_traceback_filtering jax_traceback_in_locations_limit jax_tracer_error_num_traceback_frames jax_transfer_guard
jax_transfer_guard_device_to_device jax_transfer_guard_device_to_host jax_transfer_guard_host_to_device
jax_use_cpp_shard_args jax_use_direct_linearize jax_use_emit_pipeline_primitive jax_use_hlo_logistic_lowering
jax_use_magma jax_use_rgv3 jax_use_shardy_partitioner jax_use_simplified_jaxpr_constants jax_xla_backend
jax_xla_profile_version mock_num_gpu_processes mock_num_gpus use_mock_gpu_client
""".split()
CONTEXTS = """allow_f16_reductions check_tracer_leaks debug_infs debug_key_reuse debug_nans default_device
default_matmul_precision default_prng_impl enable_checks enable_custom_prng enable_custom_vjp_by_custom_transpose
jax2tf_associative_scan_reductions legacy_prng_key log_compiles no_execution no_tracing numpy_dtype_promotion
numpy_rank_promotion softmax_custom_jvp spmd_mode thread_guard threefry_partitionable transfer_guard
transfer_guard_device_to_device transfer_guard_device_to_host transfer_guard_host_to_device""".split()
config.values  # loads all options
OPTIONS = sorted({id(o): o for o in config.options.values()}.values(), key=lambda o: o.name)


def other_value(option):
    """Return a value of the option that differs from the current one."""
    if option.choices:
        return next(c for c in option.choices if c != option.value)
    others = {bool: lambda v: not v, int: lambda v: (v or 0) + 1, float: lambda v: v + 0.5, str: lambda v: "else"}
    return others[option.kind](option.value)


@pytest.fixture
def reset_warnings():
    """Reset the record of warnings about options without effect."""
    before = {o: o._warned for o in OPTIONS}
    for option in OPTIONS:
        option._warned = False
    yield
    for option, warned in before.items():
        option._warned = warned


@pytest.mark.parametrize("name", NAMES)
def test_every_flag_can_be_set_to_its_value(name, reset_warnings):
    value = config.read(name)
    config.update(name, value)
    assert config.read(name) == value == config.values[name]
    if name.startswith("jax_"):
        assert getattr(config, name) == value and config.read(name.removeprefix("jax_")) == value


@pytest.mark.parametrize("name", CONTEXTS)
def test_context_managers_take_new_val(name):
    value = config.read(name)
    with getattr(lamina, name)(new_val=value):
        assert config.read(name) == value


@pytest.mark.parametrize("name", CONTEXTS)
def test_setting_has_the_value_of_its_block(name, reset_warnings):
    before = config.read(name)
    value = {"default_device": lamina.devices()[-1], "default_matmul_precision": "high"}.get(name)
    value = other_value(config.options[name]) if value is None else value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with getattr(lamina, name)(value):
            assert getattr(config, f"jax_{name.removeprefix('jax_')}") == value
            with getattr(lamina, name)(before):
                assert config.read(name) == before
            assert config.read(name) == value
    assert config.read(name) == before


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.no_effect_reason], ids=lambda o: o.name)
def test_option_without_effect_warns_once(option, reset_warnings):
    value = other_value(option)
    message = f"^config {option.name}: .* has no effect: {option.no_effect_reason[:20]}"
    with pytest.warns(UserWarning, match=message) as warned, option(value):
        assert config.read(option.name) == value
    assert len(warned) == 1 and warned[0].filename == __file__
    with option(value), warnings.catch_warnings():
        warnings.simplefilter("error")
        config.update(option.name, value)
        config.update(option.name, option.initial)


BAD = {"num_cpu_devices": [0, -2, 2.5], "platforms": ["cpu,", ","], "platform_name": ["cpu,cuda", " "], "default_device": [3],
       "compilation_cache_max_bytes": [-2, 1.5], "evaluate_max_bytes": [-1, 1.5], "cuda_visible_devices": ["gpu0", "1,", ""],
       "collective_timeout_seconds": [0, -1.0, 1e9], "collective_report_seconds": [0, -1.0, 1e9],
       "default_matmul_precision": ["hihg", 3], "dump_ir_to": [3, True],
       "compilation_cache_dir": [3], "pjrt_client_create_options": ["name", 3], "enable_x64": [None], "log_compiles": ["yes"],
       "replicated_counts_once": [2, "i", {"i"}], "mesh": ["x", 3], "serial_loops": [3, "l"],
       "traceback_filtering": [None, "on"], "transfer_guard": ["never", True], "legacy_prng_key": ["raise"]}


class Strange:
    def __repr__(self):
        return "<strange>"


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.name)
def test_invalid_values_are_refused_and_change_nothing(option):
    before = option.value
    bad = [Strange(), np.ones(2), ["a"], *BAD.get(option.name, ())]
    if option.kind is bool or option.choices:
        bad += [2, 1.5, "perhaps"]
    if option.kind in (int, float):
        bad += ["3", True]
    if option.kind is str and not option.choices:
        bad += [3, True]
    for value in bad:
        with pytest.raises((ValueError, TypeError), match=option.name):
            config.update(option.name, value)
        with pytest.raises((ValueError, TypeError), match=option.name), option(value):
            pass
        assert option.value is before


@pytest.mark.parametrize("name, value", [("num_cpu_devices", 2), ("jax_platforms", "cuda"), ("jax_platform_name", "cpu"),
                                         ("jax_cpu_enable_async_dispatch", False)])
def test_startup_options_are_refused_after_the_first_device(name, value):
    lamina.devices()
    before = config.read(name)
    if before == value:
        value = 3
    with pytest.raises(RuntimeError, match=f"config {name.removeprefix('jax_')}: must be set before a device is first used"):
        config.update(name, value)
    assert config.read(name) == before and lamina.device_count() == lamina.device_count("cpu")


def test_flags_from_environment_and_command_line():
    code = ("import sys, warnings\n"
            "with warnings.catch_warnings(record=True) as warned:\n"
            "    warnings.simplefilter('always')\n"
            "    import lamina\n"
            "    lamina.config.parse_flags_with_absl()\n"
            "print(sorted(str(w.message).split(':')[0] for w in warned))\n"
            "c = lamina.config\n"
            "print(c.jax_eager_pmap, c.jax_legacy_prng_key, c.jax_random_seed_offset, c.x64_enabled, c.jax_platform_name,"
            " c.jax_persistent_cache_min_compile_time_secs, c.jax_enable_compilation_cache, c.jax_debug_nans,"
            " c.jax_numpy_rank_promotion, c.jax_dump_ir_to, c.experimental_xmap_spmd_lowering.value)\n"
            "print(lamina.default_backend(), lamina.random.PRNGKey(1), sys.argv[1])")
    env = {**os.environ, "JAX_EAGER_PMAP": "0", "LAMINA_LEGACY_PRNG_KEY": "error", "JAX_RANDOM_SEED_OFFSET": "5",
           "JAX_PLATFORM_NAME": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5",
           "JAX_ENABLE_COMPILATION_CACHE": "false", "JAX_DUMP_IR_TO": "", "EXPERIMENTAL_XMAP_SPMD_LOWERING": "1"}
    env.pop("LAMINA_COMPILATION_CACHE", None)
    done = subprocess.run([sys.executable, "-c", code, "--jax_debug_nans", "--jax_enable_x64=true", "--nojax_eager_pmap",
                           "--jax_numpy_rank_promotion=warn", "--other"], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == [
        "['config eager_pmap', 'config experimental_xmap_spmd_lowering']",
        "False error 5 True cpu 0.5 False True warn None True", "cpu [0 6] --jax_debug_nans"], done.stderr


@pytest.mark.parametrize("name, text", [("JAX_NUM_CPU_DEVICES", "two"), ("JAX_ENABLE_CHECKS", "perhaps"),
                                        ("JAX_COMPILATION_CACHE_MAX_SIZE", "1GB"), ("JAX_SPMD_MODE", "all"),
                                        ("JAX_DEFAULT_MATMUL_PRECISION", "x")])
def test_invalid_environment_value_error_names_the_flag(name, text):
    env = {**os.environ, name: text, "LAMINA_NUM_CPU_DEVICES": ""}
    command = [sys.executable, "-c", "import lamina; lamina.jit"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    option = name.removeprefix("JAX_").lower().replace("max_size", "max_bytes")
    assert f"config {option}: " in done.stderr and repr(text) in done.stderr


def test_every_setting_refuses_invalid_environment_values():
    config.values  # loads the flags too
    taken = []
    for name, option in sorted(config.options.items()):
        for text in ("bananas", "-7.5"):
            try:
                option.parse(text, f"the environment variable JAX_{name.upper()}")
            except RuntimeError:  # must be set before a device is first used
                pass
            except (TypeError, ValueError) as error:
                assert f"JAX_{name.upper()}" in str(error)
            else:
                taken += [option] if option.kind is bool or option.choices else []
    assert not taken


def test_environment_sets_every_setting():
    """All settings at once, to other values than the defaults."""
    config.values
    wanted = {}
    for name, option in config.options.items():
        known = [c for c in option.choices or () if isinstance(c, str) and c != option.initial]
        if name == option.name and name not in ("platforms", "platform_name", "num_cpu_devices", "disable_jit"):
            value = (known[-1] if known else not option.initial if option.kind is bool else
                     option.initial + 3 if option.kind in (int, float) and option.initial is not None else None)
            if value is not None:
                wanted[name] = value
    code = ("import warnings; warnings.simplefilter('ignore'); import lamina, lamina.distributed, json\n"
            "c = lamina.config; c.values\n"
            f"print(json.dumps({{n: c.read(n) for n in {sorted(wanted)!r}}}))")
    env = {**os.environ, **{f"JAX_{n.upper()}": str(int(v) if isinstance(v, bool) else v) for n, v in wanted.items()}}
    for name in wanted:
        env.pop(f"LAMINA_{name.upper()}", None)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    found = json.loads(done.stdout.splitlines()[-1])
    assert {n: v for n, v in wanted.items() if found[n] != v} == {} and len(wanted) > 80



# --- effects of flags -------------------------------------------------------------------------------------------------
def test_random_seed_offset():
    with config.random_seed_offset(5):
        assert lamina.random.PRNGKey(1).tolist() == [0, 6] and lamina.random.PRNGKey(2**32 - 1).tolist() == [0, 4]
        assert lamina.jit(lamina.random.PRNGKey)(7).tolist() == [0, 12]
    with config.random_seed_offset(-5):
        assert lamina.random.PRNGKey(1).tolist() == lamina.jit(lamina.random.PRNGKey)(np.int8(1)).tolist() == [0, 2**32 - 4]
        with lamina.enable_x64():
            assert lamina.random.PRNGKey(1).tolist() == [2**32 - 1, 2**32 - 4]
            assert lamina.jit(lamina.random.PRNGKey)(2**33).tolist() == [1, 2**32 - 5]


def test_high_dynamic_range_gumbel():
    key, p = lamina.random.PRNGKey(0), np.full(50, 0.02, np.float32)
    draws = [lambda **mode: lamina.random.gumbel(key, (7,), **mode),
             lambda **mode: lamina.random.categorical(key, np.log(p), shape=(40,), **mode),
             lambda **mode: lamina.random.choice(key, 50, (20,), replace=False, p=p, **mode)]
    low, high = [[d(mode=mode).tolist() for d in draws] for mode in ("low", "high")]
    assert all(a != b for a, b in zip(low, high))
    with config.high_dynamic_range_gumbel(True):
        assert [d().tolist() for d in draws] == high and [d(mode="low").tolist() for d in draws] == low
    assert [d().tolist() for d in draws] == low


def test_no_tracing_after_warmup():
    step, x = lamina.jit(lambda x: x * 2.125 + 1), np.ones(3, "float32")
    body = lambda c, x: (c + x, c)
    step(x), lamina.lax.scan(body, 0., x)
    with lamina.no_tracing(True):
        assert step(x).tolist() == [3.125] * 3 and lamina.lax.scan(body, 0., x)[0] == 3
        assert lamina.grad(lambda x: jnp.fft.fft(x).real.sum())(x).tolist() == [3, 0, 0]  # library functions may be traced
        step(x) + jnp.arctan2(x, x)
        for call, f in dict(jit=lambda: lamina.jit(lambda x: x - 7)(x), pmap=lambda: lamina.pmap(lambda x: x)(x[None]),
                            make_jaxpr=lambda: lamina.make_jaxpr(lambda x: x)(x),
                            scan=lambda: lamina.lax.scan(lambda c, x: (c, x), 0., x),
                            checkpoint=lambda: lamina.grad(lamina.checkpoint(lambda x: x.sum()))(jnp.ones(3))).items():
            with pytest.raises(RuntimeError, match=rf"^{call} of `<lambda>` at .*test_flags.py:\d+: config no_tracing is set"):
                f()
        with pytest.raises(RuntimeError, match="^jit of `<lambda>`"):
            step(x[:2])
    assert step(x[:2]).tolist() == [3.125] * 2


def test_no_execution():
    x = jnp.ones(3)
    step, mapped = lamina.jit(lambda x: x * 2.375), lamina.pmap(lambda x: x * 2.375)
    compiled = step.lower(x).compile()
    warm = [lambda: step(x), lambda: mapped(x[None]), lambda: compiled(x), lambda: x + 1, lambda: jnp.sin(x), lambda: x[0],
            lambda: jnp.zeros(3) + x]
    for f in warm:
        f(), f()
    with lamina.no_execution(True):
        for f in warm:
            with pytest.raises(RuntimeError, match="config no_execution is set, and this would run"):
                f()
        assert step.lower(x).compile() is not None and np.asarray(x).tolist() == [1] * 3
        assert lamina.eval_shape(jnp.sin, x).shape == (3,) and lamina.device_put(np.ones(2)).shape == (2,)
    assert all(f() is not None for f in warm)


def test_explicit_x64_dtypes_error():
    with config.explicit_x64_dtypes("error"):
        for f in (lambda: jnp.zeros(2, "float64"), lambda: jnp.ones(2).astype("int64"), lambda: jnp.arange(3, dtype=np.uint64)):
            with pytest.raises(ValueError, match="64 was requested, but 64 bits are off"):
                f()
        assert jnp.asarray(np.ones(2)).dtype == jnp.zeros(2, float).dtype == "float32"
        with lamina.enable_x64(True):
            assert jnp.zeros(2, "float64").dtype == "float64"
    with pytest.raises(ValueError, match="'allow' is not supported.*set enable_x64"):
        config.update("jax_explicit_x64_dtypes", "allow")


def test_dump_ir_to_writes_programs(tmp_path):
    config.update("jax_dump_ir_to", str(tmp_path / "new"))
    try:
        lamina.jit(lambda x: jnp.sin(x) * 3.625)(np.ones(3, "float32"))
        with config.include_debug_info_in_dumps(False):
            lamina.jit(lambda x: jnp.cos(x) * 3.625)(np.ones(3, "float32"))
    finally:
        config.update("jax_dump_ir_to", "")
    found = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert len(found) == 2 and all(n.startswith("lamina_ir") and n.endswith("_jit__lambda_.mlir") for n in found)
    first, second = (found[n] for n in sorted(found))
    assert "stablehlo.sine" in first and "loc(" in first and "stablehlo.cosine" in second and "loc(" not in second
    with config.dump_ir_to(tmp_path / "both"), config.dump_ir_modes("stablehlo,jaxpr"):
        lamina.jit(lambda x: jnp.tan(x) * 3.625)(np.ones(3, "float32"))
    found = {path.name[len("lamina_ir0000"):]: path.read_text() for path in (tmp_path / "both").iterdir()}
    assert set(found) == {"_jit__lambda_.jaxpr.txt", "_jit__lambda_.mlir"} and "tan a" in found["_jit__lambda_.jaxpr.txt"]
    (tmp_path / "file").write_text("")
    with config.dump_ir_to(tmp_path / "file"), pytest.raises(OSError, match="config dump_ir_to: cannot write"):
        lamina.jit(lambda x: x * 3.875)(np.ones(3, "float32"))


def test_enable_checks_checks_traced_programs(monkeypatch):
    seen = []
    monkeypatch.setattr("lamina_tracing._core.staging.check", lambda program: seen.append(str(program)))
    with lamina.enable_checks(True):
        lamina.jit(lambda x: x * 5.125)(np.ones(3, "float32"))
    assert any("5.125" in text for text in seen)
    seen.clear()
    lamina.jit(lambda x: x * 5.375)(np.ones(3, "float32"))
    assert not seen


def test_disable_most_optimizations():
    f, x = lamina.jit(lambda x: jnp.sin(x) @ jnp.cos(x).T + 1), np.arange(6, dtype="float32").reshape(2, 3)
    wanted = f(x)
    with config.disable_most_optimizations(True):
        np.testing.assert_allclose(f(x), wanted, rtol=1e-5)
