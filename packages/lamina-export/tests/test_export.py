"""Functions exported for known sizes: calls match the function in every transformation, also after deserialization."""
import lamina_numpy as lnp
import lamina_runtime
import numpy as np
import pytest
from lamina_autodiff import custom_vjp, grad, jvp
from lamina_batching import vmap
from lamina_export import (DisabledSafetyCheck, default_export_platform, deserialize, export,
                           maximum_supported_calling_convention_version)
from lamina_ir import dtypes
from lamina_tracing import debug, jit, pure_callback

VERSION = maximum_supported_calling_convention_version
HERE = default_export_platform()
OTHER = "cuda" if HERE == "cpu" else "cpu"
X = np.arange(6, dtype=np.float32).reshape(2, 3) / 8


def loss(p, x, *, scale=1.0):
    return {"loss": (lnp.tanh(x @ p["w"]) * scale).sum(), "out": [x.argmax(1), None]}


@pytest.fixture(scope="module")
def saved():
    """An exported function, and the same after a round trip through bytes."""
    e = export(jit(loss))({"w": X.T}, X, scale=2.0)
    return e, deserialize(e.serialize(vjp_order=2))


def test_attributes_of_exported_function(saved):
    for e in saved:
        assert e.fun_name == "loss" and e.platforms == e.lowering_platforms == (HERE,) and e.nr_devices == 1
        assert [a.str_long() for a in e.in_avals] == ["float32[3,2]", "float32[2,3]", "float32[]"]
        assert [a.str_long() for a in e.out_avals] == ["float32[]", "int32[2]"] and e.out_tree.num_leaves == 2
        assert not e.uses_global_constants and e.ordered_effects == e.unordered_effects == () and e.has_vjp()
        assert e.calling_convention_version == e.mlir_module_serialization_version == VERSION
        assert e.in_shardings == e.in_shardings_hlo == (None,) * 3 and e.out_shardings == (None,) * 2
        assert "func.func public @main" in e.mlir_module() and e.mlir_module_serialized[:4] == b"ML\xefR"
        assert "Exported(loss: (float32[3,2], float32[2,3], float32[]) -> (float32[], int32[2])" in str(e)


def test_calls_match_the_function(saved):
    want = loss({"w": X.T}, X, scale=3.0)
    for e in saved:
        for call in (e.call, jit(e.call)):
            got = call({"w": X.T}, X, scale=3.0)
            np.testing.assert_allclose(got["loss"], want["loss"], rtol=1e-6)
            assert got["out"][1] is None and np.array_equal(got["out"][0], [2, 2])
        derivative = grad(lambda w: e.call({"w": w}, X, scale=3.0)["loss"])(X.T)
        np.testing.assert_allclose(derivative, grad(lambda w: loss({"w": w}, X, scale=3.0)["loss"])(X.T), rtol=1e-5)
        rows = vmap(lambda x: e.call({"w": X.T}, x, scale=3.0)["loss"])(np.stack([X, 2 * X]))
        np.testing.assert_allclose(rows, [want["loss"], loss({"w": X.T}, 2 * X, scale=3.0)["loss"]], rtol=1e-6)
        _, t = jvp(lambda x: e.call({"w": X.T}, x, scale=1.0)["loss"], (X,), (X,))
        assert np.isfinite(t)


def test_vjp_of_exported_function(saved):
    for e in saved:
        v = e.vjp()
        assert [a.dtype == dtypes.float0 for a in v.in_avals] == [False] * 4 + [True]
        zeros = np.zeros(2, dtypes.float0)
        dw, dx, ds = v.call(X.T, X, np.float32(2), np.float32(1), zeros)
        np.testing.assert_allclose(dw, grad(lambda w: loss({"w": w}, X, scale=2.0)["loss"])(X.T), rtol=1e-5)
        assert dx.shape == (2, 3) and ds.shape == ()
        assert len(v.vjp().in_avals) == 8
        with pytest.raises(ValueError, match=r"args\[4\] must be of dtype float0"):
            v.call(X.T, X, np.float32(2), np.float32(1), X)


def test_custom_rules_are_exported():
    @custom_vjp
    def f(x):
        return lnp.sin(x)
    f.defvjp(lambda x: (lnp.sin(x), x), lambda x, g: (100 * g,))
    for order in (0, 1):
        e = deserialize(export(jit(lambda x: f(x).sum()))(X).serialize(vjp_order=order))
        assert np.array_equal(grad(e.call)(X), np.full((2, 3), 100, np.float32))
        assert np.array_equal(e.vjp().call(X, np.float32(1))[0], np.full((2, 3), 100, np.float32))


def test_static_arguments_are_not_arguments_of_the_export():
    e = export(jit(lambda x, n: x * n, static_argnums=1))(X, 3)
    assert np.array_equal(e.call(X), 3 * X)
    with pytest.raises(ValueError, match="Static arguments are part of the exported function"):
        e.call(X, 3)


@pytest.mark.parametrize("args, words", [
    ((X, X), r"args\[0\] a dict|structure"), (({"w": X}, X), r"args\[0\]\['w'\] must be of shape float32\[3,2\]; got "
                                                             r"float32\[2,3\]"),
    (({"w": X.T}, X.astype(np.int32)), r"args\[1\] must be of dtype float32; got int32\[2,3\]"),
    (({"w": X.T}, X[0]), r"args\[1\] must be of rank 2, float32\[2,3\]; got float32\[3\]")])
def test_mismatched_arguments_are_refused(saved, args, words):
    with pytest.raises(ValueError, match=words):
        saved[1].call(*args, scale=1.0)


def test_unsupported_functions_are_refused():
    with pytest.raises(ValueError, match=r"Use export\(jit\(f\)\)"):
        export(lambda x: x)
    for f in (lambda x: pure_callback(np.sin, x, x), lambda x: (debug.print("{}", x), x)[1]):
        with pytest.raises(NotImplementedError, match=r"calls Python on the host.*test_export.py"):
            export(jit(f))(X)
    with pytest.raises(TypeError, match="sequence of names"):
        export(jit(lnp.sin), platforms="cpu")
    for wrong in ({"platforms": ["xpu"]}, {"platforms": []}, {"platforms": ["cpu"], "lowering_platforms": ["cpu"]}):
        with pytest.raises(ValueError, match="platforms"):
            export(jit(lnp.sin), **wrong)
    with pytest.raises(TypeError, match="disabled_checks"):
        export(jit(lnp.sin), disabled_checks=["platform"])


def test_export_for_several_platforms():
    e = export(jit(lnp.sin), platforms=[OTHER, HERE])(X)
    assert e.mlir_module(HERE) and e.mlir_module(OTHER)
    with pytest.raises(ValueError, match="platform must be one of"):
        e.mlir_module("rocm")
    other = export(jit(lnp.sin), platforms=[OTHER])(X)
    with pytest.raises(ValueError, match=f"exported for {OTHER}, and this is {HERE}"):
        other.call(X)
    free = export(jit(lnp.sin), platforms=[OTHER], disabled_checks=[DisabledSafetyCheck.platform()])(X)
    np.testing.assert_allclose(deserialize(free.serialize()).call(X), np.sin(X), rtol=1e-6)


def test_disabled_checks():
    c = DisabledSafetyCheck
    assert c.custom_call("f") == c.custom_call("f") != c.platform() and len({c.platform(), c.platform()}) == 1
    assert c.custom_call("f").is_custom_call() == "f" and c.platform().is_custom_call() is None
    assert [str(x) for x in (c.platform(), c.custom_call("f"), c.shape_assertions())] == ["platform", "custom_call:f",
                                                                                        "shape_assertions"]


def test_unused_arguments_are_dropped_unless_keep_unused():
    assert export(jit(lambda x, y: y))(X, X).module_kept_var_idx == (1,)
    assert export(jit(lambda x, y: y, keep_unused=True))(X, X).module_kept_var_idx == (0, 1)


def test_exported_function_may_call_exported_function():
    inner = export(jit(lambda x: x * 2))(X)
    outer = deserialize(export(jit(lambda x: inner.call(x) + 1))(X).serialize())
    assert np.array_equal(outer.call(X), X * 2 + 1)
    assert lamina_runtime.lowering_platform(lamina_runtime.devices()[0]) == HERE
