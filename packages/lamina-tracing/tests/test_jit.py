"""jit: options and errors, for the default dispatcher and for the runtime's."""
import functools

import numpy as np
import pytest
from lamina_tracing import eval_shape, jit, lax, make_jaxpr, named_call, named_scope
from lamina_tracing.extend import jaxpr_as_fun
from lamina_ir import ShapeDtypeStruct

X = np.arange(3.0, dtype=np.float32)


def test_function_runs_once_per_signature():
    count = []

    @jit
    def f(x, y=1.0):
        count.append(1)
        return {"a": lax.add(x, y), "b": (x, None)}

    out = f(X, y=2.0)
    f(X + 1, y=3.0)
    np.testing.assert_array_equal(np.asarray(out["a"]), X + 2)
    assert out["b"][1] is None and len(count) == 1
    f(np.int32(1), y=2)
    assert len(count) == 2
    assert f.__name__ == "f"


def test_static_arguments_by_position_and_by_name():
    @functools.partial(jit, static_argnums=1)
    def power(x, n):
        assert type(n) is int
        return lax.integer_pow(x, n)

    assert power(2.0, 3) == 8 and power(2.0, n=2) == 4

    @functools.partial(jit, static_argnames="n")
    def scaled(x, n):
        return lax.mul(x, float(n))

    assert scaled(2.0, 3) == 6 and scaled(2.0, n=4) == 8


def test_negative_static_argnums():
    assert jit(lambda x, n: lax.mul(x, float(n)), static_argnums=-1)(2.0, 5) == 10


def test_unhashable_static_argument():
    with pytest.raises(TypeError, match="static argument.*must be hashable.*list|hash"):
        jit(lambda x, n: x, static_argnums=1)(1.0, [2])


def test_static_argnums_out_of_range():
    with pytest.raises(ValueError, match="out of range"):
        jit(lambda x: x, static_argnums=3)


def test_function_must_return_arrays():
    with pytest.raises(TypeError, match="returned str at output\\['a'\\]"):
        jit(lambda x: {"a": "no"})(1.0)


def test_non_functions_are_rejected():
    with pytest.raises(TypeError, match="expected a function"):
        jit(3)


def test_nested_jit_is_a_call_unless_inline():
    inner = jit(lax.sin)
    assert make_jaxpr(lambda x: inner(x))(X).eqns[0].primitive.name == "xla_call"
    inlined = jit(lambda x: lax.sin(x), inline=True)
    assert make_jaxpr(lambda x: inlined(x))(X).eqns[0].primitive.name == "sin"


def test_closed_over_tracers_become_operands():
    def f(x):
        return jit(lambda y: lax.mul(x, y))(2.0)
    closed = make_jaxpr(f)(X)
    assert len(closed.eqns[0].invars) == 2 and not closed.consts


def test_closed_over_arrays_become_constants():
    closed = make_jaxpr(lambda: lax.sin(np.ones(3, np.float32)))()
    assert [e.primitive.name for e in closed.eqns] == ["sin"]


def test_make_jaxpr_static_shape_and_axis_env():
    closed, shape = make_jaxpr(lambda x, n: (lax.psum(x, "i"), n * 2), static_argnums=1, axis_env=[("i", 4)],
                               return_shape=True)(X, 3)
    assert "psum" in str(closed) and shape[0].shape == (3,) and shape[0].dtype == np.float32


def test_eval_shape_takes_duck_typed_arguments():
    class Duck:
        shape, dtype = (2000, 3000), np.dtype("float32")
    out = eval_shape(lambda a, b: lax.dot(a, b), Duck(), ShapeDtypeStruct((3000, 5), "float32"))
    assert out == ShapeDtypeStruct((2000, 5), "float32")
    with pytest.raises(TypeError, match=r"args\[0\]"):
        eval_shape(lambda a: a, object())


def test_named_call_and_named_scope():
    closed = make_jaxpr(named_call(lambda x: lax.neg(x), name="flip"))(1.0)
    assert [(e.primitive.name, e.source.scope) for e in closed.eqns] == [("neg", "flip")]

    def f(x):
        with named_scope("outer"), named_scope("inner"):
            return lax.neg(x)
    assert make_jaxpr(f)(1.0).eqns[0].source.scope == "outer/inner"


@pytest.mark.parametrize("wrap", [named_call, named_scope("inner")])
def test_named_functions_run_in_the_trace_of_their_caller(wrap):
    kept = []

    def f(x):
        kept.append(x)
        return x * 2

    np.testing.assert_array_equal(jit(lambda x: wrap(f)(x) + kept[-1])(3.0), 9.0)


def test_named_call_rejects_names_that_are_not_strings():
    with pytest.raises(TypeError, match="named_call: name must be a string; got int"):
        named_call(lambda x: x, name=5)


def test_equations_have_source_line_of_user():
    closed = make_jaxpr(lambda x: lax.sin(x))(1.0)
    assert closed.eqns[0].source.file == __file__


@pytest.mark.parametrize(("options", "words"), [
    (dict(static_argnames="z"), "static_argnames 'z' is no parameter of `f`; it has x, y"),
    (dict(donate_argnames=("x", "z")), "donate_argnames 'z' is no parameter"),
    (dict(donate_argnums=2), "donate_argnums 2 is out of range: `f` takes 2 positional arguments"),
    (dict(static_argnums=-3), "static_argnums -3 is out of range")])
def test_options_with_unknown_argument_are_rejected(options, words):
    def f(x, y):
        return x

    with pytest.raises(ValueError, match=words):
        jit(f, **options)
    jit(lambda x, **more: x, static_argnames="z")(1.0, z=2)


def test_closed_over_host_array_is_copied_when_staged():
    w = np.ones(3, np.float32)
    f = jit(lambda x: lax.mul(x, w))
    body = lambda x: lax.fori_loop(0, 2, lambda i, c: lax.add(lax.mul(c, w), f(c)), x)
    closed, loop = make_jaxpr(f)(np.float32([1, 2, 3])), jit(body)
    loop(np.ones(3, np.float32))
    kept = make_jaxpr(lambda x: lax.mul(x, w))(w)
    w[:] = 5
    assert f(np.float32([1, 2, 3])).tolist() == [1, 2, 3]
    assert np.asarray(jaxpr_as_fun(closed)(np.float32([1, 2, 3]))[0]).tolist() == [1, 2, 3]
    assert loop(np.ones(3, np.float32)).tolist() == [4, 4, 4]
    assert kept.consts[0].tolist() == [1, 1, 1] and not kept.consts[0].flags.writeable


def test_nested_programs_share_copy_of_host_array():
    w = np.ones(3, np.float32)
    closed = make_jaxpr(lambda x: lax.add(jit(lambda y: lax.mul(y, w))(x), w))(w)
    inner = closed.jaxpr.eqns[0].params["call_jaxpr"]
    assert inner.consts[0] is closed.consts[0] is not w


def test_named_call_passes_untraced_values_unchanged():
    seen = []

    def body(f, x, scale, *, mode, rows):
        seen.append((f, type(scale), mode, type(rows)))
        return {"y": f(lax.mul(x, scale)), "mode": mode, "f": f, "n": 3}

    part = named_call(body, name="part")
    outs = []

    def whole(x):
        outs.append(part(lax.sin, x, 2.0, mode="fast", rows=X))
        return outs[-1]["y"]

    closed = make_jaxpr(whole)(X)
    assert [(e.primitive.name, e.source.scope) for e in closed.eqns] == [("mul", "part"), ("sin", "part")]
    np.testing.assert_allclose(np.asarray(jit(whole)(X)), np.sin(2 * X), rtol=1e-6)
    assert seen[0] == (lax.sin, float, "fast", np.ndarray)
    assert outs[0]["mode"] == "fast" and outs[0]["f"] is lax.sin and outs[0]["n"] == 3
    with pytest.raises(TypeError, match="named_call: expected a function"):
        named_call(3)


def test_inlined_function_receives_only_traced_values():
    seen = []

    @functools.partial(jit, inline=True)
    def f(x, y):
        seen.append((x.dtype, y.dtype))
        return lax.mul(x, y)

    closed = make_jaxpr(lambda z: lax.add(f(2.0, 1.0), f(z, y=3.0)))(1.0)
    assert [e.primitive.name for e in closed.jaxpr.eqns] == ["mul", "mul", "add"]
    assert float(f(2.0, 1.0)) == 2 and len(seen) >= 2


def test_library_function_errors_do_not_mention_jit():
    own = jit(lax.clamp)
    with pytest.raises(TypeError, match=r"^clamp: x: expected an array or a number; got str: 'a'(?m:$)"):
        own(0.0, "a", 1.0)
    with pytest.raises(TypeError, match=r"jit of `<lambda>`: args\[0\].*static_argnums"):
        jit(lambda x: x)("a")


def test_dict_keys_of_mixed_types_are_reported():
    mixed = {1: 1.0, "a": 2.0}
    with pytest.raises(TypeError, match=r"jit of `<lambda>`: .*the dict at args\[1\] has the keys 1, 'a', of types int"):
        eval_shape(lambda x: jit(lambda x, d: x)(x, mixed), 1.0)
    with pytest.raises(TypeError, match="jit of `<lambda>`: .*the dict at output has the keys 1, 'a', of types int and str"):
        jit(lambda x: {1: x, "a": x})(1.0)
