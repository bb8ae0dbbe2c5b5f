"""`make_jaxpr` and `eval_shape`: contents of programs, and equality with the function."""
from __future__ import annotations

import threading

import numpy as np
import pytest
from lamina_ir import ShapeDtypeStruct, check, dumps, evaluate, loads, prims, walk
from lamina_tracing import ensure_compile_time_eval, eval_shape, jit, lax, make_jaxpr, named_call, named_scope, hooks

X = np.arange(3.0, dtype=np.float32)


def names(closed):
    return [e.primitive.name for e in closed.eqns]


def test_equations_are_in_execution_order():
    closed = make_jaxpr(lambda x: lax.neg(lax.exp(lax.sin(x))))(X)
    assert names(closed) == ["sin", "exp", "neg"]


def test_program_equals_function():
    def f(p, k):
        return {"s": lax.mul(p["a"], k), "t": [lax.reduce_sum(p["a"], (0,)), p["b"]]}

    args = {"a": X, "b": np.int32(3)}, np.float32(2)
    closed, shape = make_jaxpr(f, return_shape=True)(*args)
    check(closed)
    s, total, b = evaluate(closed, X, np.int32(3), np.float32(2))
    np.testing.assert_array_equal(s, 2 * X)
    assert (total, b) == (3, 3) and set(shape) == {"s", "t"} and shape["t"][0].shape == ()


def test_constants_are_recorded():
    assert names(make_jaxpr(lambda: lax.sin(np.ones(3, np.float32)))()) == ["sin"]
    closed = make_jaxpr(lambda x: lax.add(lax.mul(x, X), lax.sub(x, X)))(X)
    np.testing.assert_array_equal(evaluate(closed, X)[0], X * X)
    np.testing.assert_array_equal(evaluate(loads(dumps(closed)), X)[0], X * X)


def test_unused_equations_are_recorded():
    assert names(make_jaxpr(lambda x: (lax.sin(x), x)[1])(X)) == ["sin"]


def test_results_may_be_arguments_constants_and_numbers():
    closed = make_jaxpr(lambda x: (x, X, 3))(np.float32(1))
    assert [a.shape for a in closed.out_avals] == [(), (3,), ()]
    assert [np.asarray(o).tolist() for o in evaluate(closed, np.float32(5))] == [5, [0, 1, 2], 3]


def test_closed_over_array_is_copied_when_staged():
    w = np.ones(3, np.float32)
    closed = make_jaxpr(lambda x: lax.mul(x, w))(X)
    w[:] = 5
    np.testing.assert_array_equal(evaluate(closed, X)[0], X)


def test_static_arguments_are_python_values():
    closed = make_jaxpr(lambda x, n: lax.integer_pow(x, n), static_argnums=1)(X, 3)
    assert len(closed.in_avals) == 1 and closed.eqns[0].params["y" if "y" in closed.eqns[0].params else "exponent"] == 3


def test_eval_shape_returns_types():
    class Duck:
        shape, dtype = (2000, 3000), np.dtype("float32")

    out = eval_shape(lambda a, b: {"y": lax.dot(a, b)}, Duck(), ShapeDtypeStruct((3000, 5), "float32"))
    assert out["y"].shape == (2000, 5) and str(out["y"].dtype) == "float32"


def test_eval_shape_runs_no_primitive():
    class Never(type(hooks.evaluator)):
        def primitive(self, prim, args, params):
            raise AssertionError(f"{prim.name} was run")

    old = hooks.evaluator
    hooks.set_evaluator(Never())
    try:
        assert eval_shape(lambda x: lax.sin(lax.mul(x, 2.0)), X).shape == (3,)
        make_jaxpr(lambda x: lax.sin(lax.mul(x, 2.0)))(X)
    finally:
        hooks.set_evaluator(old)


def test_nested_jitted_function_is_a_call():
    inner = jit(lambda x: lax.sin(x))
    closed = make_jaxpr(lambda x: lax.neg(inner(x)))(X)
    assert [e.primitive.name for e in walk(closed)].count("sin") == 1 and "xla_call" in names(closed)
    np.testing.assert_allclose(evaluate(closed, X)[0], -np.sin(X), rtol=1e-6)
    inlined = jit(lambda x: lax.sin(x), inline=True)
    assert names(make_jaxpr(lambda x: inlined(x))(X)) == ["sin"]


def test_named_call_and_named_scope():
    closed = make_jaxpr(named_call(lambda x: lax.neg(x), name="flip"))(X)
    assert [(e.primitive.name, e.source.scope) for e in closed.eqns] == [("neg", "flip")]

    def f(x):
        with named_scope("outer"), named_scope("inner"):
            return lax.neg(x)

    assert make_jaxpr(f)(X).eqns[0].source.scope == "outer/inner"


def test_equations_have_source_line_of_user():
    namespace = {"lax": lax}
    exec(compile("def f(x):\n    y = lax.sin(x)\n    return lax.cos(y)\n", "written_by_a_user.py", "exec"), namespace)
    lines = [(e.source.file, e.source.line) for e in make_jaxpr(namespace["f"])(X).eqns]
    assert lines == [("written_by_a_user.py", 2), ("written_by_a_user.py", 3)]


def test_ensure_compile_time_eval_computes_known_values():
    def f(x):
        with ensure_compile_time_eval():
            n = int(lax.reduce_sum(np.int32([1, 2]), (0,)))
        return lax.mul(x, float(n))

    assert names(make_jaxpr(f)(X)) == ["mul"]
    np.testing.assert_array_equal(np.asarray(jit(f)(X)), 3 * X)


@pytest.mark.collectives
def test_axis_env_binds_axes():
    closed = make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(X)
    assert [e.primitive for e in closed.eqns] == [prims.psum_p]
    sizes = []
    make_jaxpr(lambda x: sizes.append(lax.psum(1, "i")) or x, axis_env=[("i", 4)])(X)
    assert sizes == [4]


def test_threads_stage_concurrently():
    gate, failed = threading.Barrier(3, timeout=30), []

    def work(k):
        def f(x):
            for _ in range(10):
                gate.wait()
                x = lax.add(x, float(k))
            return x

        try:
            assert names(make_jaxpr(f)(np.float32(1))) == ["add"] * 10
        except BaseException as e:
            failed.append(e)
            gate.abort()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


@pytest.mark.cost
def test_closed_over_array_is_one_constant():
    assert len(make_jaxpr(lambda x: lax.add(lax.mul(x, X), lax.sub(x, X)))(X).consts) == 1
