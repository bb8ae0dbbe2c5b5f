"""Programs that call Python on the host: values, effects, their order, errors, and what is never done with them."""
import numpy as np
import pytest
from lamina_autodiff import grad, jvp, linearize
from lamina_batching import vmap
from lamina_ir import CallbackError, MissingRuleError, ShapeDtypeStruct
from lamina_parallel import pmap
from lamina_runtime import block_until_ready, cache_stats, device_put, effects_barrier
from lamina_tracing import debug, io_callback, jit, lax, make_jaxpr, pure_callback

X = np.arange(3, dtype="float32")


def host_sin(x):
    return pure_callback(lambda x: np.sin(x), ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize("how", [lambda f: f, jit, vmap, lambda f: jit(vmap(f))])
def test_pure_callback_gives_its_value(how):
    np.testing.assert_allclose(how(host_sin)(X), np.sin(X), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "int8", "uint32", "complex64"])
def test_every_dtype_reaches_the_host_and_comes_back(dtype):
    x = lax.convert_element_type(np.ones((2, 3), "int32"), dtype)
    seen = []

    def f(x):
        return pure_callback(lambda v: (seen.append(v), v)[1], ShapeDtypeStruct(x.shape, x.dtype), x)

    y = jit(f)(x)
    assert y.dtype == x.dtype and seen[0].dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x))


def test_arrays_are_row_major_whatever_the_compiler_does():
    f = jit(lambda x: pure_callback(lambda y: y + 0, ShapeDtypeStruct((3, 2), "float32"), lax.transpose(x * 2, (1, 0))))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(f(x), (x * 2).T)


def test_trees_in_and_out():
    want = {"a": ShapeDtypeStruct((), "float32"), "b": (ShapeDtypeStruct((3,), "int32"),)}
    out = jit(lambda d: pure_callback(lambda d, k: {"a": d["x"].sum() * k, "b": (np.argsort(d["x"]),)}, want, d, k=2.0)
              )({"x": X})
    assert float(out["a"]) == 6 and out["b"][0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("method,shapes", [
    ("sequential", [((), ())] * 3), (None, [((), ())] * 3), ("expand_dims", [((3,), (1,))]),
    ("broadcast_all", [((3,), (3,))]), ("legacy_vectorized", [((3,), ())])])
def test_vmap_methods(method, shapes):
    seen = []

    def host(x, y):
        seen.append((x.shape, y.shape))
        return x + y

    def f(x, y):
        return pure_callback(host, ShapeDtypeStruct((), "float32"), x, y, vmap_method=method)

    np.testing.assert_array_equal(jit(vmap(f, (0, None)))(X, np.float32(2)), X + 2)
    assert seen == shapes


def test_pure_callback_is_not_differentiable_and_says_what_to_do():
    with pytest.raises(MissingRuleError, match="host_fn.*custom_jvp.*stop_gradient"):
        def host_fn(x):
            return x
        grad(lambda x: pure_callback(host_fn, ShapeDtypeStruct((), "float32"), x))(1.0)
    assert float(grad(lambda x: host_sin(lax.stop_gradient(x)) * x)(np.float32(2))) == pytest.approx(np.sin(2.0))


def test_debugging_passes_through_transformations(capsys):
    def f(x):
        debug.print("x = {x:.1f}", x=x)
        return x * x

    assert float(grad(f)(3.0)) == 6 and float(jit(grad(f))(3.0)) == 6
    assert jvp(f, (3.0,), (1.0,))[1] == 6 and linearize(f, 3.0)[1](1.0) == 6
    vmap(f)(X[:2])
    effects_barrier()
    assert capsys.readouterr().out == "x = 3.0\n" * 4 + "x = 0.0\nx = 1.0\n"


@pytest.mark.parametrize("how", [lambda f: f, jit])
def test_batch_index_and_device_index(how, capsys):
    f = vmap(vmap(lambda x: debug.print("{x} at {batch_index} of {device_index}", x=x)))
    how(f)(np.arange(4, dtype="int32").reshape(2, 2))
    effects_barrier()
    assert capsys.readouterr().out == "".join(f"{2 * i + j} at ({i}, {j}) of 0\n" for i in (0, 1) for j in (0, 1))


def test_each_device_prints_its_index(capsys):
    pmap(lambda x: debug.print("{device_index}: {x}", x=x))(np.arange(4))
    effects_barrier()
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "0: 0", "1: 1", "2: 2", "3: 3"]


def test_ordered_effects_keep_their_order_within_and_between_programs():
    seen = []

    def note(x, tag):
        io_callback(lambda v: seen.append((tag, int(v))), None, x, ordered=True)

    @jit
    def inner(x):
        note(x, "inner")
        return x + 1

    @jit
    def f(x):
        note(x, "first")
        y = inner(x)
        note(y, "second")

    for i in range(20):
        f(i)
        note(i, "eager")
    effects_barrier()
    assert seen == [e for i in range(20) for e in (("first", i), ("inner", i), ("second", i + 1), ("eager", i))]


def test_effects_are_never_dead_code():
    seen = []

    @jit
    def f(x):
        io_callback(lambda v: seen.append(float(v)), None, x)
        io_callback(lambda v: np.float32(seen.append(float(v)) or 0), ShapeDtypeStruct((), "float32"), x + 1)
        return 0

    for _ in range(3):
        f(1.0)
    effects_barrier()
    assert sorted(seen) == [1, 1, 1, 2, 2, 2]
    assert "debug_callback" in str(make_jaxpr(lambda x: debug.print("{}", x))(1.0))


def host_fails(x):
    raise ValueError("no such luck")


@pytest.mark.parametrize("how", [lambda f: f, jit, vmap])
def test_an_exception_names_the_callback_and_keeps_its_own(how):
    f = how(lambda x: pure_callback(host_fails, ShapeDtypeStruct((), "float32"), x))
    with pytest.raises(CallbackError, match="callback `host_fails` raised ValueError: no such luck") as caught:
        f(X if how is vmap else 1.0)
    chain, e = [], caught.value
    while e is not None:
        chain.append(type(e))
        e = e.__cause__
    assert chain[-1] is ValueError


def test_an_exception_on_several_devices_shows_when_the_result_is_read():
    y = pmap(lambda x: pure_callback(host_fails, ShapeDtypeStruct((), "float32"), x))(np.arange(4.0))
    with pytest.raises(CallbackError, match="`host_fails` raised ValueError"):
        np.asarray(y)
    with pytest.raises(CallbackError, match="`host_fails` raised ValueError"):
        block_until_ready(y)


@pytest.mark.parametrize("read", [lambda y: y.block_until_ready(), lambda y: y[1], np.asarray])
def test_every_way_to_read_such_a_result_raises_our_class(read):
    y = pmap(lambda x: pure_callback(host_fails, ShapeDtypeStruct((2,), "float32"), x))(np.ones((4, 2), "float32"))
    with pytest.raises(CallbackError, match=r"of float32\[4,2\]"):
        read(y)


def only_three_fails(x):
    if x[0] == 3:
        raise KeyError("three")
    return x


def split(n):
    return pmap(lambda x: x)(np.arange(float(n), dtype="float32").reshape(n, 1))


@pytest.mark.parametrize("call", [
    lambda: pmap(lambda x: lax.psum(pure_callback(only_three_fails, ShapeDtypeStruct((1,), "float32"), x), "i"),
                 axis_name="i")(split(8)),
    lambda: jit(lambda x: lax.add(pure_callback(host_fails, ShapeDtypeStruct((8, 1), "float32"), x), x))(split(8)),
    lambda: pmap(lambda x: (debug.callback(only_three_fails, x), lax.psum(x, "i"))[1], axis_name="i")(split(8))])
def test_one_device_that_fails_does_not_keep_the_others_waiting(call):
    with pytest.raises(CallbackError):
        call()
    assert float(pmap(lambda x: lax.psum(x, "i"), axis_name="i")(split(8))[0][0]) == 28


def test_a_failed_ordered_effect_does_not_poison_the_next():
    seen = []
    fail = jit(lambda x: io_callback(host_fails, None, x, ordered=True))
    note = jit(lambda x: io_callback(lambda v: seen.append(float(v)), None, x, ordered=True))
    with pytest.raises(CallbackError):
        fail(1.0)
    note(2.0)
    effects_barrier()
    assert seen == [2.0]


@pytest.mark.parametrize("how", [lambda f: f, jit])
@pytest.mark.parametrize("result", [lambda x: np.zeros(5, "float32"), lambda x: np.zeros(3, "int32"),
                                    lambda x: (x, x), lambda x: None])
def test_results_of_another_type_are_refused(how, result):
    with pytest.raises(CallbackError, match="must"):
        how(lambda x: pure_callback(result, ShapeDtypeStruct((3,), "float32"), x))(X)


def test_ordered_effects_on_several_devices_are_refused():
    with pytest.raises(ValueError, match="ordered effects need a single device"):
        pmap(lambda x: debug.print("{}", x, ordered=True))(np.arange(2))
    with pytest.raises(MissingRuleError, match="vmap of an ordered `io_callback`.*ordered=False"):
        vmap(lambda x: io_callback(lambda v: None, None, x, ordered=True))(X)


def test_two_functions_in_the_same_program_text_are_not_mixed_up():
    stored = cache_stats().stored
    for k in (1, 2, 3):
        f = jit(lambda x, k=k: pure_callback(lambda v: v + k, ShapeDtypeStruct((), "float32"), x))
        assert float(f(1.0)) == 1 + k
    assert cache_stats().stored == stored


def test_formats_are_checked_when_the_function_is_called():
    for bad in (lambda: debug.print("{} {}", 1), lambda: debug.print("{x}", y=1), lambda: debug.print("none", 1)):
        with pytest.raises(ValueError, match="debug.print: the format"):
            bad()
    with pytest.raises(TypeError, match="must be a string"):
        debug.print(1)
    with pytest.raises(TypeError, match="expected a function"):
        debug.callback(3, 1)
    with pytest.raises(ValueError, match="vmap_method"):
        pure_callback(np.sin, X, X, vmap_method="quickly")
    with pytest.raises(TypeError, match="result_shape_dtypes"):
        pure_callback(np.sin, 3, X)


def test_what_is_no_array_is_handed_on(capsys):
    jit(lambda x: debug.print("{name}: {x}", name="loss", x=x))(1.0)
    effects_barrier()
    assert capsys.readouterr().out == "loss: 1.0\n"


def test_a_callback_in_a_program_split_over_devices():
    from lamina_runtime import devices, shardings
    x = np.arange(8, dtype="float32")
    split = shardings.mapped(tuple(devices()), 1, ((0, 8),), 1)
    y = device_put(x, split)
    np.testing.assert_allclose(jit(lambda v: host_sin(v * 2) + 1)(y), np.sin(x * 2) + 1, rtol=1e-6)


def test_nested_work_in_a_callback():
    def host(x):
        return np.asarray(jit(lambda v: v * 3)(x))
    assert float(jit(lambda x: pure_callback(host, ShapeDtypeStruct((), "float32"), x))(2.0)) == 6


def test_ordered_effects_keep_their_order_through_control_flow():
    seen = []

    def note(tag, x):
        io_callback(lambda v: seen.append((tag, float(v))), None, x, ordered=True)
        return x

    @jit
    def f(x):
        note("start", x)
        x, ys = lax.scan(lambda c, v: (note("scan", c) + v, c), x, np.arange(3, dtype="float32"))
        x = lax.cond(x > 3, lambda v: note("large", v), lambda v: note("small", v), x)
        x = lax.while_loop(lambda v: note("test", v) < 5, lambda v: note("body", v) + 1, x)
        lax.fori_loop(0, 2, lambda i, v: note("fori", v), x)
        return note("end", x), ys

    out, ys = f(0.5)
    effects_barrier()
    assert float(out) == 5.5 and ys.tolist() == [0.5, 0.5, 1.5]
    assert seen == [("start", .5), ("scan", .5), ("scan", .5), ("scan", 1.5), ("large", 3.5), ("test", 3.5),
                    ("body", 3.5), ("test", 4.5), ("body", 4.5), ("test", 5.5), ("fori", 5.5), ("fori", 5.5),
                    ("end", 5.5)]


def test_effects_in_a_batched_scan(capsys):
    def step(carry, x):
        debug.print("{batch_index}: {c}", c=carry)
        return carry + x, carry

    jit(vmap(lambda x: lax.scan(step, x, np.arange(2))))(np.arange(2))
    effects_barrier()
    assert capsys.readouterr().out == "(0,): 0\n(1,): 1\n(0,): 0\n(1,): 1\n"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_interrupt_or_exit_in_a_callback_keeps_its_kind(kind):
    def leave(x):
        raise kind(7)

    f = jit(lambda x: lax.add(pure_callback(leave, ShapeDtypeStruct((), "float32"), x), 1.0))
    with pytest.raises(kind, match="7"):
        np.asarray(f(np.float32(1)))
    assert float(jit(lambda x: lax.add(x, 1.5))(1.0)) == 2.5
