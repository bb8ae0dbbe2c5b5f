"""Modules of `jax._src`: dtypes, promotion, source lines, compilation, clients, constants and effects."""
import subprocess
import sys
import traceback

import lamina_runtime
import numpy as np
import pytest
from lamina_autodiff import checkpoint, grad
from lamina_compat.names import core, version
from lamina_compat.names._src import (compiler, config, dispatch, distributed, dtypes, earray, effects, literals, prng,
                                      public_test_util, random, sharding_impls, source_info_util, traceback_util, typing,
                                      xla_bridge)
from lamina_compat.names._src.lax import lax as lax_names
from lamina_compat.names._src.numpy import util as numpy_util
from lamina_compat.names.experimental import hijax
from lamina_compat.names.interpreters import partial_eval
from lamina_compat.names.lib import xla_client, xla_extension
from lamina_ir import DebugEffect, Source, prims
from lamina_parallel import pmap
from lamina_random import key
from lamina_tracing import Array, jit, lax, make_jaxpr, named_scope, pure_callback
from lamina_tracing.extend import typeof


# --- dtypes ---------------------------------------------------------------------------------------------------------------
def test_dtypes_of_values():
    assert [dtypes.dtype(x).name for x in (1, 1.5, True, np.zeros(2), np.int8(1), float, "bfloat16")] == [
        "int64", "float64", "bool", "float64", "int8", "float64", "bfloat16"]
    assert dtypes.dtype(1, canonicalize=True) == dtypes.dtype(lax.neg(1)) == np.int32
    assert dtypes.is_weakly_typed(1.0) and not dtypes.is_weakly_typed(np.float32(1))
    assert dtypes.is_python_scalar(1) and not dtypes.is_python_scalar(np.float32(1))
    assert dtypes.scalar_type_to_dtype(complex) == np.complex64 and dtypes.bit_width("int4") == 4
    assert dtypes.is_opaque_dtype(key(0).dtype) and not dtypes.is_opaque_dtype(np.dtype("int8"))
    assert dtypes.coerce_to_array(1).dtype == np.int64 and dtypes.coerce_to_array([1], "int8").dtype == np.int8


@pytest.mark.parametrize("dtype, inexact, complex_, numeric", [
    ("bool", "float32", "complex64", "int32"), ("int8", "float32", "complex64", "int8"),
    ("int64", "float64", "complex128", "int64"), ("bfloat16", "bfloat16", "complex64", "bfloat16"),
    ("complex128", "complex128", "complex128", "complex128")])
def test_dtypes_of_results(dtype, inexact, complex_, numeric):
    assert (dtypes.to_inexact_dtype(dtype).name, dtypes.to_complex_dtype(dtype).name, dtypes.to_numeric_dtype(dtype).name) == (
        inexact, complex_, numeric)


def test_conversions_and_limits_of_dtypes():
    assert dtypes.promote_types("int8", "float16") == np.float16
    assert dtypes.safe_to_cast("int32", "float32") and not dtypes.safe_to_cast(np.float32(1), "int32")
    assert dtypes.supports_inf("bfloat16") and not dtypes.supports_inf("float8_e4m3fn") and not dtypes.supports_inf("int8")
    dtypes.check_user_dtype_supported("int8")
    with pytest.raises(TypeError, match="^f: "):
        dtypes.check_user_dtype_supported("object", "f")

    class Own(dtypes.ExtendedDType):
        pass
    assert dtypes.is_opaque_dtype(Own()) and isinstance(np.dtype("int8"), dtypes.DType) and typing.DType is np.dtype


def test_arguments_are_promoted():
    def types(xs):
        return [(x.dtype.name, x.weak_type) for x in xs]
    assert types(numpy_util.promote_dtypes(1, np.ones(2, "int8"))) == [("int8", False)] * 2
    assert types(numpy_util.promote_dtypes(1, 2)) == [("int32", True)] * 2
    assert types(numpy_util.promote_dtypes_inexact(1, 2)) == [("float32", True)] * 2
    assert types(numpy_util.promote_dtypes_inexact(1, np.ones(2, "int8"))) == [("float32", False)] * 2
    assert types(numpy_util.promote_dtypes_complex(np.float32(1)))[0][0] == "complex64"
    assert types(numpy_util.promote_dtypes_numeric(True, False))[0][0] == "int32"
    assert np.signbit(numpy_util.promote_dtypes_inexact(-0.0)[0])
    assert [x.shape for x in numpy_util.promote_shapes("f", np.ones(3), np.ones((2, 3)), 1)] == [(1, 3), (2, 3), (1, 1)]
    assert [x.shape for x in numpy_util.promote_args("f", 1, np.ones((2, 3), "int8"))] == [(1, 1), (2, 3)]
    assert types(numpy_util.promote_args_inexact("f", 1, np.int8(2))) == [("float32", False)] * 2
    assert types(numpy_util.promote_args_numeric("f", True, np.bool_(1)))[0][0] == "int32"
    assert numpy_util.ensure_arraylike("f", np.ones(2)).shape == (2,) and len(numpy_util.ensure_arraylike("f", 1, 2)) == 2
    with pytest.raises(TypeError, match="f requires ndarray or scalar arguments, got <class 'str'> at position 1"):
        numpy_util.check_arraylike("f", 1, "a")
    numpy_util.check_arraylike_or_none("f", None, 1)
    with pytest.raises(TypeError, match="f does not support float0"):
        numpy_util.check_no_float0s("f", np.zeros(2, [("float0", np.void, 0)]))


def test_constants_take_the_dtype_of_an_example():
    assert lax_names._const(np.ones(2, "int8"), 2).dtype == np.int8 and lax_names._const(1.0, 2) == 2
    assert lax_names._convert_element_type(1, "float32").dtype == np.float32
    assert typeof(lax_names._convert_element_type(1.5, weak_type=True)).weak_type
    assert lax_names._zeros(np.ones(2)).shape == lax_names._ones(np.ones(2)).shape == (2,)
    assert lax_names._one(np.ones(2)).shape == lax_names._zero(np.ones(2)).shape == () and lax_names._dtype(1) == np.int32
    for options in ({"weak_type": True}, {"sharding": "s"}):
        with pytest.raises(ValueError, match="_convert_element_type: "):
            lax_names._convert_element_type(np.int8(1), "float32", **options)


# --- source lines and tracebacks ---------------------------------------------------------------------------------------------
def test_source_lines():
    source = make_jaxpr(lax.sin)(1.0).eqns[0].source
    frame = source_info_util.user_frame(source)
    assert source_info_util.user_frames(source) == [frame] and frame.file_name == __file__
    assert __file__ in source_info_util.summarize(source)
    assert source_info_util.summarize(None) == "unknown" and source_info_util.user_frames(None) == []
    given = Source.from_line("model.py", 12, "loss")

    def f(x):
        with source_info_util.user_context(given):
            x = lax.sin(x)
        with source_info_util.user_context(None, name_stack="unused"):
            return lax.cos(x)
    first, second = make_jaxpr(f)(1.0).eqns
    assert first.source.file == "model.py" and second.source.file == __file__
    assert source_info_util.current().file == __file__


def test_name_stacks():
    with named_scope("a"), source_info_util.extend_name_stack("b"):
        assert source_info_util.current_name_stack() == "a/b"
        with source_info_util.reset_name_stack():
            assert source_info_util.current_name_stack() == source_info_util.new_name_stack()
        with source_info_util.set_name_stack("c"):
            assert source_info_util.current_name_stack() == source_info_util.new_name_stack("c")
        assert source_info_util.current_name_stack() == "a/b"


def test_frames_of_excluded_files_are_hidden(tmp_path):
    path = str(tmp_path / "layers.py")
    traceback_util.register_exclusion(path)
    names = {}
    exec(compile("def call(f, x):\n  return f(x)\ndef fail():\n  raise ValueError\n", path, "exec"), names)
    assert make_jaxpr(lambda x: names["call"](lax.sin, x))(1.0).eqns[0].source.file == __file__
    try:
        names["fail"]()
    except ValueError as e:
        shown = traceback_util.filter_traceback(e.__traceback__)
        assert [f.filename for f in traceback.extract_tb(shown)] == [__file__]
        assert not traceback_util.include_frame(e.__traceback__.tb_next.tb_frame)
    assert traceback_util.filter_traceback(None) is None and traceback_util.api_boundary(len, repro_api_name="x") is len


# --- runtime ----------------------------------------------------------------------------------------------------------------
def test_replaced_backend_compile_is_called():
    seen, original = [], compiler.backend_compile

    def refuse(backend, *args):
        raise RuntimeError(f"no compilation for {backend.platform}")

    def count(backend, *args):
        seen.append(backend.platform)
        return original(backend, *args)

    # New programs in each run: the compilation cache on disk may hold the others.
    one, two, three, four = np.random.default_rng().random(4)
    cached = jit(lambda x: x * one)
    first = float(cached(2.0))
    try:
        compiler.backend_compile = count
        assert float(jit(lambda x: x * two)(0.0)) == 0 and seen == ["cpu"]
        compiler.backend_compile = refuse
        with pytest.raises(RuntimeError, match="no compilation for cpu"):
            jit(lambda x: x * three)(2.0)
        assert float(cached(2.0)) == first  # is not compiled again
    finally:
        compiler.backend_compile = original
    assert float(jit(lambda x: x * four)(0.0)) == 0 and len(seen) == 1 and lamina_runtime.compiler().name == "xla"
    assert compiler.backend_compile is original and type(lamina_runtime.compiler()) is lamina_runtime.XLACompiler


def test_clients():
    assert xla_bridge._backends["cpu"] is xla_bridge.get_backend("cpu") and list(xla_bridge._backends) == ["cpu"]
    assert len(xla_bridge._backends) == 1 and xla_bridge._backends.get("gpu") is None
    assert xla_bridge.backends_are_initialized() and xla_bridge.xla_client.XlaComputation is not None
    assert xla_extension.XlaRuntimeError is xla_client.XlaRuntimeError


def test_clients_are_not_started_by_a_look():
    code = ("import lamina_runtime; from lamina_compat.names._src import xla_bridge as x; "
            "print(len(x._backends), x.backends_are_initialized(), lamina_runtime.device_count(), len(x._backends))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    before, was_used, devices, after = done.stdout.split()
    assert (before, was_used, after) == ("0", "False", "1") and int(devices) > 0


def test_classes_of_transformed_functions():
    mapped, jitted = pmap(lambda x: x), jit(lambda x: x)
    assert isinstance(mapped, xla_extension.PmapFunction) and not isinstance(jitted, xla_extension.PmapFunction)
    assert not isinstance(abs, xla_extension.PmapFunction)
    registry = xla_extension.PyTreeRegistry()
    assert registry.flatten((1, [2]))[0] == [1, 2]


def test_errors_of_callbacks_are_runtime_errors_of_xla():
    def fail(x):
        raise ValueError("too small")

    with pytest.raises(xla_extension.XlaRuntimeError, match="ValueError: too small"):
        jit(lambda x: pure_callback(fail, typeof(x), x))(np.float32(1)).block_until_ready()


def test_processes():
    state = distributed.global_state
    assert (state.process_id, state.num_processes, state.client, state.service) == (0, 1, None, None)


def test_single_primitives_run():
    assert dispatch.apply_primitive(prims.neg_p, np.float32(2)) == -2
    assert dispatch.wait_for_tokens() is None


def test_settings_and_version():
    assert config.config.enable_x64.value is config.enable_x64.value is False
    assert version.__version__ == "0.4.30" and version.__version_info__ == (0, 4, 30)
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        version.absent  # noqa: B018


def test_random_keys():
    assert random.KeyArray is prng.PRNGKeyArray is Array and isinstance(key(0), random.KeyArray)
    assert np.asarray(prng.threefry_seed(np.uint32(1))).tolist() == [0, 1]


# --- classes ----------------------------------------------------------------------------------------------------------------
def test_classes_without_instances():
    for kind in (literals.LiteralArray, literals.TypedNdArray, literals.TypedInt, literals.TypedFloat, literals.TypedComplex):
        assert not isinstance(np.ones(2), kind)
        with pytest.raises(TypeError, match=f"{kind.__name__}: .*use numpy.asarray"):
            kind(1)
    with pytest.raises(TypeError, match="EArray: .*jax.tree_util"):
        earray.EArray(None, None)


def test_values_for_no_sharding():
    assert sharding_impls.is_unspecified(sharding_impls.UNSPECIFIED) and not sharding_impls.is_unspecified(None)
    auto = sharding_impls.AUTO(None)
    assert sharding_impls.is_auto(auto) and sharding_impls.is_unspecified_or_auto(auto)
    assert repr(sharding_impls.UNSPECIFIED) == "UnspecifiedValue"
    assert not hasattr(sharding_impls, "make_single_device_sharding")  # jaxlib would call it


def test_sets_of_effects():
    allowed = effects.EffectTypeSet()
    assert not allowed.contains(DebugEffect()) and effects.control_flow_allowed_effects is not effects.lowerable_effects
    allowed.add_type(DebugEffect)
    assert allowed.filter_in([DebugEffect(), 1]) == [DebugEffect()] and allowed.filter_not_in([DebugEffect(), 1]) == [1]


def test_trees_of_arrays_are_compared():
    public_test_util.check_close({"a": np.ones(2, "float32")}, {"a": np.ones(2, "float32") + np.float32(1e-7)})
    public_test_util.check_eq([1, 2], [1, 2])
    for call in (lambda: public_test_util.check_close(1.0, 1.1), lambda: public_test_util.check_eq([1], [2]),
                 lambda: public_test_util.check_close(np.float32(1), np.float32(1.1), atol=1e-3)):
        with pytest.raises(AssertionError):
            call()
    public_test_util.check_close(np.float32(1), np.float32(1.1), atol=0.2)
    public_test_util.check_close(1j, 1j + 1e-8)


def test_policies_return_what_to_store():
    asked = []

    def policy(prim, *avals, **params):
        asked.append(prim.name)
        return partial_eval.Saveable if prim is prims.sin_p else partial_eval.Recompute

    def f(x):
        return lax.exp(lax.sin(x))
    assert grad(checkpoint(f, policy=policy))(0.5) == grad(f)(0.5) and "sin" in asked
    program = make_jaxpr(grad(checkpoint(f, policy=policy)))(0.5)
    assert str(program).count(" sin ") == 1  # stored, not computed again


# --- names of newer levels -------------------------------------------------------------------------------------------------
def test_classes_of_hijax_can_be_derived_from_and_not_made():
    class Own(hijax.HiType):
        size = hijax.aval_property(lambda self: 1)

    hijax.register_hitype(Own, lambda x: x)
    with pytest.raises(NotImplementedError, match="^Own: lamina has no new kinds of arrays.* register a pytree"):
        Own()


def test_full_raise_without_a_main_trace_returns_the_value():
    class Own(core.Trace):
        pass

    assert Own().full_raise(3.0) == 3.0 and typeof(np.float32(1)).sharding is None
