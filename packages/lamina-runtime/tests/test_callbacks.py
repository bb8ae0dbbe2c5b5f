"""Programs that call Python on the host: values, effects and their order, errors, unsupported transformations."""
import linecache
import threading

import numpy as np
import pytest
from lamina_autodiff import checkpoint, grad, jvp, linearize
from lamina_batching import vmap
from lamina_ir import CallbackError, MissingRuleError, ShapeDtypeStruct, prims
from lamina_parallel import pmap, xmap
from lamina_runtime import block_until_ready, cache_stats, device_put, effects_barrier
from lamina_tracing import debug, io_callback, jit, lax, make_jaxpr, pure_callback
from lamina_tracing.extend import bind

X = np.arange(3, dtype="float32")


def host_sin(x):
    return pure_callback(lambda x: np.sin(x), ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize("how", [lambda f: f, jit, vmap, lambda f: jit(vmap(f))])
def test_pure_callback_returns_its_value(how):
    np.testing.assert_allclose(how(host_sin)(X), np.sin(X), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "int8", "uint32", "complex64"])
def test_every_dtype_round_trips_through_the_host(dtype):
    x = lax.convert_element_type(np.ones((2, 3), "int32"), dtype)
    seen = []

    def f(x):
        return pure_callback(lambda v: (seen.append(v), v)[1], ShapeDtypeStruct(x.shape, x.dtype), x)

    y = jit(f)(x)
    assert y.dtype == x.dtype and seen[0].dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x))


def test_callback_arrays_are_row_major():
    f = jit(lambda x: pure_callback(lambda y: y + 0, ShapeDtypeStruct((3, 2), "float32"), lax.transpose(x * 2, (1, 0))))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(f(x), (x * 2).T)


def test_pytree_arguments_and_results():
    want = {"a": ShapeDtypeStruct((), "float32"), "b": (ShapeDtypeStruct((3,), "int32"),)}
    out = jit(lambda d: pure_callback(lambda d, k: {"a": d["x"].sum() * k, "b": (np.argsort(d["x"]),)}, want, d, k=2.0)
              )({"x": X})
    assert float(out["a"]) == 6 and out["b"][0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("method,shapes", [
    ("sequential", [((), ())] * 3), (None, [((), ())] * 3), ("expand_dims", [((3,), (1,))]),
    ("broadcast_all", [((3,), (3,))]), ("legacy_vectorized", [((3,), ())])])
def test_shapes_of_vmap_methods(method, shapes):
    seen = []

    def host(x, y):
        seen.append((x.shape, y.shape))
        return x + y

    def f(x, y):
        return pure_callback(host, ShapeDtypeStruct((), "float32"), x, y, vmap_method=method)

    np.testing.assert_array_equal(jit(vmap(f, (0, None)))(X, np.float32(2)), X + 2)
    assert seen == shapes


def test_derivative_of_pure_callback_error_suggests_remedies():
    with pytest.raises(MissingRuleError, match="host_fn.*custom_jvp.*stop_gradient"):
        def host_fn(x):
            return x
        grad(lambda x: pure_callback(host_fn, ShapeDtypeStruct((), "float32"), x))(1.0)
    assert float(grad(lambda x: host_sin(lax.stop_gradient(x)) * x)(np.float32(2))) == pytest.approx(np.sin(2.0))


def test_debug_print_under_transformations(capsys):
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
def test_callback_error_names_the_callback_and_has_the_cause(how):
    f = how(lambda x: pure_callback(host_fails, ShapeDtypeStruct((), "float32"), x))
    with pytest.raises(CallbackError, match="callback `host_fails` raised ValueError: no such luck") as caught:
        f(X if how is vmap else 1.0)
    chain, e = [], caught.value
    while e is not None:
        chain.append(type(e))
        e = e.__cause__
    assert chain[-1] is ValueError


def test_callback_error_on_several_devices_is_raised_by_the_call():
    """Raised also without collectives: the result would block every later program with collectives."""
    with pytest.raises(CallbackError, match="pmap of `f`: .*`host_fails` raised ValueError") as caught:
        def f(x):
            return pure_callback(host_fails, ShapeDtypeStruct((), "float32"), x)
        pmap(f)(np.arange(4.0))
    assert type(caught.value.__cause__) is ValueError


def test_callback_error_is_raised_in_both_threads_that_launch():
    """The failed launch is not known, so neither thread may return the zeros of the failed result."""
    started, fails = threading.Barrier(2), threading.Event()

    def slow(x):
        if x[0] == 7:
            fails.wait(20)
            raise ValueError("the second")
        return x

    f = pmap(lambda x: pure_callback(slow, ShapeDtypeStruct((1,), "float32"), x))
    inputs = [np.arange(start, start + 4, dtype="float32").reshape(4, 1) for start in (0, 4)]
    f(inputs[0])
    errors = []

    def call(x):
        started.wait(20)
        try:
            f(x)
        except CallbackError as e:
            errors.append(e)

    threads = [threading.Thread(target=call, args=(inputs[1],)) for _ in range(2)]
    for t in threads:
        t.start()
    fails.set()
    for t in threads:
        t.join(60)
    assert len(errors) == 2
    np.testing.assert_array_equal(f(inputs[0]), inputs[0])


def only_three_fails(x):
    if x[0] == 3:
        raise KeyError("three")
    return x


def make_sharded(n):
    return pmap(lambda x: x)(np.arange(float(n), dtype="float32").reshape(n, 1))


@pytest.mark.parametrize("call", [
    lambda: pmap(lambda x: lax.psum(pure_callback(only_three_fails, ShapeDtypeStruct((1,), "float32"), x), "i"),
                 axis_name="i")(make_sharded(8)),
    lambda: jit(lambda x: lax.add(pure_callback(host_fails, ShapeDtypeStruct((8, 1), "float32"), x), x))(make_sharded(8)),
    lambda: pmap(lambda x: (debug.callback(only_three_fails, x), lax.psum(x, "i"))[1], axis_name="i")(make_sharded(8))])
def test_callback_error_on_one_device_does_not_block_others(call):
    with pytest.raises(CallbackError):
        call()
    assert float(pmap(lambda x: lax.psum(x, "i"), axis_name="i")(make_sharded(8))[0][0]) == 28


def test_ordered_effect_runs_after_a_failed_one():
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
def test_callback_result_of_another_type_is_refused(how, result):
    with pytest.raises(CallbackError, match="must"):
        how(lambda x: pure_callback(result, ShapeDtypeStruct((3,), "float32"), x))(X)


def test_ordered_effects_on_several_devices_are_refused():
    with pytest.raises(ValueError, match="ordered effects need a single device"):
        pmap(lambda x: debug.print("{}", x, ordered=True))(np.arange(2))
    for kind in (MissingRuleError, ValueError):
        with pytest.raises(kind, match="vmap of an ordered `io_callback`.*ordered=False"):
            vmap(lambda x: io_callback(lambda v: None, None, x, ordered=True))(X)


@pytest.mark.parametrize("call", [host_sin, lambda x: io_callback(np.sin, ShapeDtypeStruct(x.shape, x.dtype), x)])
@pytest.mark.parametrize("how", [
    lambda f: vmap(grad(f)), lambda f: jit(vmap(grad(f))), lambda f: grad(lambda x: jit(f)(x).sum()),
    lambda f: grad(lambda x: checkpoint(f)(x).sum()), lambda f: lambda x: jvp(f, (x,), (x,))])
def test_derivative_of_a_callback_raises_value_error(call, how):
    for kind in (MissingRuleError, ValueError):
        with pytest.raises(kind, match="is not defined|must happen exactly once"):
            how(call)(X)


@pytest.mark.parametrize("how", [lambda f: f, jit])
@pytest.mark.parametrize("ordered", [False, True])
def test_several_callbacks_in_one_branch_under_vmap(how, ordered):
    """Both branches run for all members: the host computes and reports for each."""
    seen = []

    def branch(x):
        y = pure_callback(lambda v: (seen.append(("pure", float(v))), 3 * v)[1], ShapeDtypeStruct((), "float32"), x)
        debug.callback(lambda v: seen.append(("debug", float(v))), y, ordered=ordered)
        return y

    f = how(vmap(lambda i, x: lax.switch(i, [branch, lambda x: -branch(x), lambda x: x], x)))
    np.testing.assert_array_equal(f(np.int32([0, 1, 2]), X), [0, -3, 2])
    effects_barrier()
    assert sorted(seen) == sorted([("pure", v) for v in (0., 1., 2.)] * 2 + [("debug", v) for v in (0., 3., 6.)] * 2)


def test_equal_programs_with_different_callbacks_are_distinct():
    stored = cache_stats().stored
    for k in (1, 2, 3):
        f = jit(lambda x, k=k: pure_callback(lambda v: v + k, ShapeDtypeStruct((), "float32"), x))
        assert float(f(1.0)) == 1 + k
    assert cache_stats().stored == stored


def test_formats_are_checked_at_the_call():
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


def test_non_array_arguments_are_passed_to_the_callback(capsys):
    jit(lambda x: debug.print("{name}: {x}", name="loss", x=x))(1.0)
    effects_barrier()
    assert capsys.readouterr().out == "loss: 1.0\n"


def test_callback_in_a_program_over_several_devices():
    from lamina_runtime import devices
    from lamina_runtime._sharding import shardings
    x = np.arange(8, dtype="float32")
    make_sharded = shardings.mapped_sharding(tuple(devices()), 1, ((0, 8),), 1)
    y = device_put(x, make_sharded)
    np.testing.assert_allclose(jit(lambda v: host_sin(v * 2) + 1)(y), np.sin(x * 2) + 1, rtol=1e-6)


def test_jitted_call_inside_a_callback():
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
def test_interrupt_or_exit_in_a_callback_keeps_its_type(kind):
    def leave(x):
        raise kind(7)

    f = jit(lambda x: lax.add(pure_callback(leave, ShapeDtypeStruct((), "float32"), x), 1.0))
    with pytest.raises(kind, match="7"):
        np.asarray(f(np.float32(1)))
    assert float(jit(lambda x: lax.add(x, 1.5))(1.0)) == 2.5


# --- locations in errors --------------------------------------------------------------------------------------------
def fail_at(value):
    def host(x):
        if float(x) == value:
            raise ValueError("no luck")
        return np.float32(x)
    return host


CALLS = {"pure_callback": lambda host, x: pure_callback(host, ShapeDtypeStruct((), "float32"), x),
         "io_callback": lambda host, x: io_callback(host, ShapeDtypeStruct((), "float32"), x),
         "ordered io_callback": lambda host, x: io_callback(host, ShapeDtypeStruct((), "float32"), x, ordered=True),
         "debug.callback": lambda host, x: (debug.callback(host, x), x)[1]}
every_kind = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def error_of(f, *args):
    with pytest.raises(CallbackError, match="no luck; called at .*test_callbacks.py") as caught:
        block_until_ready(f(*args))
        effects_barrier()
    return str(caught.value)


def line_of(text):
    return next(i for i in range(1, 999) if text in linecache.getline(__file__, i))


@every_kind
@pytest.mark.parametrize("how", [lambda f: f, jit, lambda f: jit(lambda x: jit(f)(x))])
def test_error_names_the_loop_iteration(call, how):
    def scanned(x):
        return lax.scan(lambda c, a: (call(fail_at(6), c) + a, None), x, np.arange(5, dtype="float32"))[0]  # the scan

    text = error_of(how(scanned), np.float32(0))
    assert "at index 4 of the scan" in text
    if "jit of" in text:
        assert f"test_callbacks.py:{line_of('the ' + 'scan')}" in text

    def backwards(x):
        return lax.scan(lambda c, a: (c, call(fail_at(1), a)), x, np.arange(5, dtype="float32"), reverse=True)[1]

    assert "at index 1 of the scan" in error_of(how(backwards), np.float32(0))
    body = error_of(how(lambda x: lax.while_loop(lambda c: c < 9, lambda c: call(fail_at(4), c) + 2, x)), np.float32(0))
    assert "at index 2 of the while" in body
    test = error_of(how(lambda x: lax.while_loop(lambda c: call(fail_at(6), c) < 9, lambda c: c + 2, x)), np.float32(0))
    assert "at index 3 of the while" in test


@every_kind
def test_error_names_all_enclosing_loops(call):
    def body(c, a):
        c = lax.cond(c > 2, lambda v: jit(lambda w: call(fail_at(7), w))(v), lambda v: v, c)
        return c + a, None

    def outer(i, x):
        return lax.scan(body, x, np.ones(3, "float32"))[0]  # the inner

    text = error_of(jit(lambda x: lax.fori_loop(0, 4, outer, x)), np.float32(0))
    assert "at index 1 of the scan at" in text and "at index 2 of the " in text
    assert text.index("index 1 of the scan") < text.index("at index 2 of the ")
    assert "at index 2 of the scan" in error_of(
        jit(lambda x: lax.scan(lambda c, _: (checkpoint(lambda v: call(fail_at(2), v))(c) + 1, None), x, None, length=4)[0]),
        np.float32(0))


@pytest.mark.parametrize("call", [CALLS[k] for k in ("pure_callback", "io_callback", "debug.callback")])
@pytest.mark.parametrize("how", [lambda f: f, jit])
def test_error_names_the_batch_index(call, how):
    assert "at index 2 of the batch of 3" in error_of(how(vmap(lambda x: call(fail_at(2), x))), X)
    text = error_of(how(vmap(vmap(lambda x: call(fail_at(4), x)))), np.arange(6, dtype="float32").reshape(2, 3))
    assert "at index 1 of the batch of 2, index 1 of the batch of 3" in text
    got = error_of(how(vmap(lambda x: lax.scan(lambda c, a: (call(fail_at(4), c) + a, None), x, np.ones(4, "float32"))[0])), X)
    assert "at index 2 of the batch of 3, at index 2 of the scan" in got


@pytest.mark.parametrize("call", [CALLS[k] for k in ("pure_callback", "io_callback", "debug.callback")])
@pytest.mark.parametrize("how", [pmap, lambda f: jit(pmap(f)), lambda f: pmap(lambda x: lax.psum(f(x), "i"), axis_name="i"),
                                 lambda f: vmap(pmap(f), in_axes=1)])
def test_error_names_the_device(call, how):
    x = np.arange(4, dtype="float32")
    x = np.stack([x, x + 10], 1) if "vmap" in how.__code__.co_names else x
    text = error_of(how(lambda v: call(fail_at(3), v)), x)
    assert "on device cpu:3, at index 3 of " in text
    text = error_of(how(lambda v: lax.scan(lambda c, a: (call(fail_at(3.5), c + a), None), v, np.float32([0, .5, 0]))[0]), x)
    assert "at index 1 of the scan" in text and "on device cpu:3, at index 3 of " in text


def test_error_names_loops_around_a_pmap():
    # Members of the map do not wait for each other between iterations: only one of them reaches 3.
    mapped = pmap(lambda v: pure_callback(fail_at(3), ShapeDtypeStruct((), "float32"), v))
    text = error_of(jit(lambda x: lax.scan(lambda c, _: (mapped(c) + 2, None), x, None, length=4)[0]), X)
    assert "at index 1 of the scan" in text and "on device cpu:1, at index 1 of the map of " in text


def test_result_type_error_names_the_call():
    def f(x):
        return lax.fori_loop(0, 3, lambda i, c: pure_callback(lambda c, i: c if i < 2 else np.zeros(5), ShapeDtypeStruct(
            (), "float32"), c, i), x)
    with pytest.raises(CallbackError, match=r"got float64\[5\]; called at .*test_callbacks.py.*, at index 2 of the "):
        jit(f)(np.float32(0))


@pytest.mark.parametrize("how", [jit, lambda f: jit(vmap(f))])
def test_iteration_counters_do_not_change_results(how):
    def f(x):
        def body(c, a):
            y = pure_callback(lambda v, w: (np.float32(v + w), np.int32(w)), (ShapeDtypeStruct((), "float32"),
                              ShapeDtypeStruct((), "int32")), c, a)
            return y[0], y[1]
        return lax.scan(body, x, np.arange(4, dtype="float32"), reverse=True)

    total, rows = how(f)(X if how is not jit else X[1])
    np.testing.assert_array_equal(total, X + 6 if how is not jit else 7)
    np.testing.assert_array_equal(np.asarray(rows).reshape(-1, 4)[0], np.arange(4))


@pytest.mark.parametrize("how", [jit, pmap, lambda f: jit(pmap(f)), lambda f: xmap(f, in_axes={0: "i"}, out_axes={0: "i"})])
@pytest.mark.parametrize("call", [lambda f, x: pure_callback(f, ShapeDtypeStruct((), "float32"), x),
                                  lambda f, x: (debug.callback(f, x), x)[1]])
def test_callback_error_of_a_compiled_object_is_the_same(how, call):
    def refuse(x):
        raise ValueError("no")

    f = how(lambda x: call(refuse, x))
    x = np.float32(1) if how is jit else X[:2]
    messages = []
    for run in (f, f.lower(x).compile()):
        with pytest.raises(CallbackError, match="callback `.*refuse` raised ValueError: no") as caught:
            block_until_ready(run(x))
            effects_barrier()
        messages.append(str(caught.value).split(":")[0])
        error = caught.value
        while error.__cause__ is not None:
            error = error.__cause__
        assert type(error) is ValueError
    assert messages[0] == messages[1]


@pytest.mark.parametrize("impl,key_data", [("fry", [[0, 1], [2, 3]]), ("rbg", [[0, 1, 2, 3], [4, 5, 6, 7]])])
@pytest.mark.parametrize("how,mapped", [(lambda f: f, False), (jit, False), (vmap, True), (lambda f: jit(vmap(f)), True)])
def test_callbacks_receive_prng_keys(how, mapped, impl, key_data, capsys):
    keys = bind(prims.random_wrap_p, np.array(key_data, "uint32"), impl=impl)
    seen = []

    def f(key):
        debug.print("{}", key)
        io_callback(lambda d: seen.append(d["k"].dtype), None, {"k": key})
        return pure_callback(lambda k: np.asarray(bind(prims.random_unwrap_p, k, use="data")),
                             ShapeDtypeStruct((len(key_data[0]),), "uint32"), key)

    got = how(f)(keys if mapped else keys[0])
    effects_barrier()
    assert got.tolist() == (key_data if mapped else key_data[0])
    assert seen == [keys.dtype] * (2 if mapped else 1)
    assert capsys.readouterr().out.count("dtype=key<") == len(seen)
