"""The stages of a jitted function: traced, lowered, compiled, called, analyzed."""
import types

import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_ir import ShapeDtypeStruct
from lamina_parallel import pmap
from lamina_runtime import device_put, devices, stages, xla_computation
from lamina_tracing import jit, lax, named_call, named_scope

X = np.arange(6, dtype="float32").reshape(2, 3)
SPEC = ShapeDtypeStruct((2, 3), "float32")


@jit
def f(x, d=None):
    return {"y": lax.sin(x), "n": lax.reduce_sum(x, (0,)) if d is None else d["a"] * 2}


def test_lowering_needs_shapes_only():
    lowered = f.lower(SPEC)
    assert "stablehlo.sine" in lowered.as_text() and "sine" in lowered.as_text("hlo")
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled(X)["y"], np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(compiled.call(X)["n"], X.sum(0))


def test_each_stage_has_types():
    traced = f.trace(SPEC, {"a": 1.0})
    assert isinstance(f, stages.Wrapped)
    for step in (traced, traced.lower(), traced.lower().compile()):
        assert step.in_avals[0][0].str_long() == "float32[2,3]"
        assert step.args_info[0][1]["a"] == stages.ArgInfo(step.in_avals[0][1]["a"], False)
        assert step.out_info["y"].shape == (2, 3) and step.donate_argnums == ()
        assert step.in_tree.num_leaves == 2 and step.out_tree.num_leaves == 2
    assert "sin" in str(traced.jaxpr) and traced.fun_name == "f"
    assert jit(lambda x, y: x + y, donate_argnums=1).trace(X, X).donate_argnums == (1,)


def test_cost_and_memory_analysis():
    lowered = jit(lambda x: lax.dot(x, x)).lower(ShapeDtypeStruct((64, 64), "float32"))
    assert lowered.cost_analysis()["flops"] >= 2 * 64 ** 3
    compiled = lowered.compile()
    assert compiled.cost_analysis()["flops"] >= 2 * 64 ** 3
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 64 * 64 * 4
    assert "ENTRY" in compiled.as_text() and compiled.runtime_executable() is not None
    assert len(compiled.input_shardings[0]) == 1 and compiled.output_shardings is not None
    assert lowered.compiler_ir("hlo").as_hlo_text().startswith("HloModule")
    with pytest.raises(ValueError, match="dialect must be"):
        lowered.compiler_ir("mhlo")


def test_compiled_call_checks_its_arguments():
    compiled = f.lower(SPEC, {"a": 1.0}).compile()
    with pytest.raises(TypeError, match=r"d\['a'\] was compiled with float32\[\] and called with int32\[\]"):
        compiled(X, {"a": 1})
    with pytest.raises(TypeError, match="expected arguments of structure"):
        compiled(X)
    with pytest.raises(TypeError, match="not traced values"):
        jit(lambda x: compiled(x, {"a": 1.0}))(X)


def test_compiled_call_has_no_static_arguments():
    compiled = jit(lambda x, n: x * n, static_argnums=1).lower(SPEC, 3).compile()
    np.testing.assert_array_equal(compiled(X), X * 3)
    with pytest.raises(TypeError, match="leave them out"):
        compiled(X, 3)


# --- xla_computation ------------------------------------------------------------------------------------------------
def test_replica_groups():
    def g(x):
        return lax.psum(x, "i"), lax.psum(x, "j"), lax.psum(x, ("i", "j"))
    text = xla_computation(g, axis_env=[("i", 4), ("j", 2)])(5.0).as_hlo_text()
    for groups in ("{{0,2,4,6},{1,3,5,7}}", "{{0,1},{2,3},{4,5},{6,7}}", "{{0,1,2,3,4,5,6,7}}"):
        assert f"replica_groups={groups}" in text
    assert text.startswith("HloModule xla_computation_g") and "ROOT tuple" in text


def test_text_forms_of_a_computation():
    c = xla_computation(lambda x: lax.sin(lax.cos(x)))(3.0)
    assert "cosine" in c.as_hlo_text() and "sine" in c.as_hlo_text()
    assert c.as_serialized_hlo_module_proto()[:1] == b"\n" and c.as_hlo_dot_graph().startswith("digraph")
    scalar = types.SimpleNamespace(shape=(), dtype=np.dtype("float32"))
    assert xla_computation(lambda x: lax.sin(lax.cos(x)))(scalar).as_hlo_text() == c.as_hlo_text()


def test_options_of_xla_computation():
    c, shape = xla_computation(lambda x, n: (x * n, 3), static_argnums=1, tuple_args=True, return_shape=True,
                               donate_argnums=0, instantiate_const_outputs=True, backend="cpu")(X, 2)
    assert "(f32[2,3]{1,0})) parameter" not in c.as_hlo_text() and "get-tuple-element" in c.as_hlo_text()
    assert "input_output_alias" in c.as_hlo_text()
    assert shape[0].shape == (2, 3) and shape[1].named_shape == {}
    many = xla_computation(lambda *xs: xs[0], tuple_args=None)(*[1.0] * 101)
    assert "arg_tuple" in many.as_hlo_text()


def test_in_parts_and_out_parts_become_shardings():
    text = xla_computation(lambda x, y: (x, y), in_parts=((2, 1), None), out_parts=(None, (1, 2)))(X, X).as_hlo_text()
    assert "devices=[2,1]<=[2]" in text and "devices=[1,2]<=[2]" in text
    with pytest.raises(ValueError, match="same number of parts"):
        xla_computation(lambda x, y: x, in_parts=((2, 1), (1, 3)))(X, X)
    with pytest.raises(TypeError, match="expected a function"):
        xla_computation(3)


@pytest.mark.parametrize("axis_env", [[("i", 0)], ("i", 4), [("i", 2), ("i", 3)], [("i", "4")]])
def test_invalid_axis_env_is_refused(axis_env):
    with pytest.raises(ValueError, match="axis_env: e"):
        xla_computation(lambda x: x, axis_env=axis_env)(X)


def test_named_scopes_and_calls_are_in_the_compiled_text():
    def g(x):
        with named_scope("outer"), named_scope("inner"):
            return lax.sin(x)

    inner = jit(lambda x: lax.exp(lax.tanh(lax.cos(lax.sin(x)))))

    def twice(x):
        with named_scope("a"):
            y = inner(x)
        with named_scope("b"):
            return inner(y)

    def text(f):
        return jit(f).lower(SPEC).compile().as_text()

    assert 'op_name="outer/inner/sin"' in text(g)
    assert 'op_name="deco/sin"' in text(named_scope("deco")(lambda x: lax.sin(x)))
    assert 'op_name="fred/sin"' in text(named_call(lambda x: lax.sin(x), name="fred"))
    assert 'op_name="outer/inner/sin"' in text(lambda x: lax.while_loop(lambda v: lax.eq(v[0, 0], 0.0), g, x))
    assert all(f'op_name="{s}/<lambda>/tanh"' in text(twice) for s in "ab")  # one program, two call sites
    assert "op_name" not in text(lambda x: lax.sin(x))
    assert '"outer/inner/sin"' in jit(g).lower(SPEC).as_text(debug_info=True)


def test_named_scope_is_kept_in_a_derivative():
    def loss(x):
        with named_scope("loss"):
            return lax.reduce_sum(lax.sin(x), (0, 1))

    assert 'op_name="loss/cos"' in jit(grad(loss)).lower(SPEC).compile().as_text()


def test_captured_host_array_is_copied_at_lowering():
    w = np.ones(300, np.float32)
    for f in (lambda x: lax.mul(x, w), lambda x: lax.fori_loop(0, 1, lambda i, c: lax.mul(c, w), x)):
        low = jit(f).lower(np.ones(300, np.float32))
        w[:] = 5
        assert float(low.compile()(np.ones(300, np.float32))[0]) == 1
        w[:] = 1


@pytest.mark.devices
def test_stages_show_the_program_of_the_call():
    """Lowering and compilation use the shardings of committed arguments."""
    split = pmap(lambda x: x)(np.arange(16, dtype="float32").reshape(8, 2))
    total = jit(lambda x: lax.reduce_sum(x, (0,)))
    like = ShapeDtypeStruct((8, 2), "float32", sharding=split.sharding)
    for step in (total.lower(split), total.trace(split).lower(), total.lower(like)):
        compiled = step.compile()
        assert compiled.input_shardings[0] == (split.sharding,) and "all-reduce" in compiled.as_text()
        assert compiled.output_shardings == total(split).sharding
        assert "num_partitions = 8" in step.as_text()
        np.testing.assert_array_equal(compiled(split), [56, 64])
    there = device_put(X, devices()[3])
    compiled = f.lower(there).compile()
    assert compiled.input_shardings[0] == (there.sharding,) and compiled(there)["y"].devices() == {devices()[3]}
    assert f.lower(device_put(X)).compile().input_shardings[0][0].device_set == {devices()[0]}  # uncommitted
    with pytest.raises(ValueError, match="dimension 0 of an array of shape .7, 2. has length 7"):
        total.lower(ShapeDtypeStruct((7, 2), "float32", sharding=split.sharding))
    with pytest.raises(TypeError, match="the sharding of a ShapeDtypeStruct must be.*got str: 'i'"):
        total.lower(ShapeDtypeStruct((8, 2), "float32", sharding="i"))


def test_stages_of_equal_shapes_trace_once():
    traced = []

    def f(x):
        traced.append(1)
        return lax.add(x, x)

    g = jit(f)
    for _ in range(2):
        g.lower(SPEC).compile(), g.eval_shape(SPEC), g.trace(SPEC)
    g(np.ones(SPEC.shape, np.float32)), jit(f).lower(SPEC)
    assert len(traced) == 1
