import copy
import pickle
import functools
import gc
import threading
import weakref

import numpy as np
import pytest
from lamina_ir import ShapeDtypeStruct, StaticArgumentError, config, trees
from lamina_runtime import clear_caches, default_device, device_put, device_put_sharded, devices
from lamina_tracing import disable_jit, jit, lax, make_jaxpr, named_call
from lamina_tracing.extend import translate_error

X = np.arange(24, dtype=np.float32).reshape(8, 3)


def test_pytrees_keyword_arguments_and_scalars():
    f = jit(lambda t, *, k=2.0: {"s": lax.mul(t["a"], k), "n": None})
    np.testing.assert_array_equal(f({"a": X})["s"], X * 2)
    np.testing.assert_array_equal(f({"a": X}, k=3.0)["s"], X * 3)
    assert jit(lambda: ())() == () and float(jit(lambda: np.float32(2))()) == 2
    assert jit(lambda x: lax.add(x, 1))(2).weak_type and not jit(lambda x: lax.add(x, x))(np.int32(2)).weak_type


def test_traced_again_in_double_precision():
    f = jit(lax.neg)
    assert f(np.arange(3.0)).dtype == np.float32
    with config.enable_x64(True):
        assert f(np.arange(3.0)).dtype == np.float64
    assert f(np.arange(3.0)).dtype == np.float32


def test_static_arguments():
    f = jit(lambda x, n: lax.mul(x, float(n)), static_argnums=1)
    assert float(f(2.0, 3)) == 6 and float(f(2.0, n=4)) == 8
    with pytest.raises(ValueError, match="ashable"):
        f(2.0, [1])


@pytest.mark.parametrize("bad, message", [("a", r"args\[0\].*str"), ({"q": object()}, r"args\[0\]\['q'\]")])
def test_invalid_argument_error_names_it(bad, message):
    with pytest.raises(TypeError, match=message):
        jit(lambda x: x)(bad)


def test_jitted_function_is_staged_inside_other_functions():
    f = jit(lambda x: lax.sin(x))
    f(2.0)
    text = str(make_jaxpr(lambda x: lax.add(f(x), f(2.0)))(1.0))
    assert text.count("xla_call") == 2
    inlined = jit(lambda x: lax.sin(x), inline=True)
    assert "xla_call" not in str(make_jaxpr(lambda x: inlined(x))(1.0))
    np.testing.assert_allclose(jit(lambda x: lax.add(f(x), inlined(x)))(2.0), 2 * np.sin(2.0), rtol=1e-6)


def test_unused_arguments_and_captured_constants():
    big = np.random.RandomState(0).randn(50, 50).astype(np.float32)
    there = device_put(big)
    f = jit(lambda x, unused: lax.add(lax.mul(there, x), big))
    for _ in range(3):
        np.testing.assert_allclose(f(2.0, "x" and 1), big * 3, rtol=1e-6)


def test_device_of_results_follows_arguments_and_options():
    f = jit(lambda x: lax.add(x, x))
    assert f(X).devices() == {devices()[0]} and not f(X)._committed
    there = f(device_put(X, devices()[2]))
    assert there.devices() == {devices()[2]} and there._committed
    assert jit(lambda x: lax.neg(x), device=devices()[3])(X).devices() == {devices()[3]}
    with default_device(devices()[5]):
        assert f(X).devices() == {devices()[5]} == device_put(1.0).devices()
    with pytest.raises(ValueError, match="committed to different devices"):
        lax.add(device_put(X, devices()[1]), device_put(X, devices()[2]))


def test_arguments_on_several_devices():
    f = jit(lambda x, y: lax.add(x, y))
    x = device_put_sharded(list(X), devices())
    for _ in range(3):
        out = f(x, X)
        assert out.sharding == x.sharding
        np.testing.assert_array_equal(out, 2 * X)
    np.testing.assert_array_equal(jit(lambda x: lax.reduce_sum(x, (0,)))(x), X.sum(0))


def test_donated_arguments_are_deleted():
    f = jit(lambda x, y: lax.add(x, y), donate_argnums=0)
    g = jit(lambda x: lax.neg(x))
    x, y = device_put(X), device_put(X)
    g(x), f(device_put(X), y)
    np.testing.assert_array_equal(f(x, y), 2 * X)
    assert x.is_deleted() and not y.is_deleted()
    for use in (lambda: f(x, y), lambda: g(x), lambda: lax.sin(x), lambda: np.asarray(x)):
        with pytest.raises(RuntimeError, match="deleted or donated"):
            use()


def test_disable_jit_runs_primitives_eagerly():
    seen = []
    f = jit(lambda x: (seen.append(x), lax.neg(x))[1])
    f(2.0)
    with disable_jit():
        assert float(f(2.0)) == -2
    assert len(seen) == 2 and seen[1] == 2.0


def test_lower_and_compile_stages():
    f = jit(lambda x: lax.sin(x))
    low = f.lower(ShapeDtypeStruct((8, 3), np.float32))
    assert "stablehlo.sine" in low.as_text() and "sine" in low.as_text("hlo")
    run = low.compile()
    np.testing.assert_allclose(run(X), np.sin(X), rtol=1e-6)
    assert run.cost_analysis() and run.memory_analysis().output_size_in_bytes == 96 and "sine" in run.as_text()
    with pytest.raises(TypeError, match="float32\\[8,3\\]"):
        run(X[0])
    with pytest.raises(TypeError, match="structure"):
        run(X, X)
    assert f.eval_shape(X).shape == (8, 3) and "sin" in str(f.trace(X).jaxpr) and f.trace(X).out_info.shape == (8, 3)


def test_jitted_methods_and_metadata():
    class Model:
        scale = 3.0

        def apply(self, x):
            """Scaled."""
            return lax.mul(x, self.scale)

        go = jit(apply, static_argnums=0)

    assert float(Model().go(2.0)) == 6
    assert Model.go.__name__ == "apply" and Model.go.__doc__ == "Scaled."


def test_jitted_functions_are_freed():
    def make():
        def f(x):
            return lax.neg(x)
        j = jit(f)
        j(2.0)
        return weakref.ref(f)

    refs = [make() for _ in range(5)]
    gc.collect()
    assert not any(r() for r in refs)


def test_cache_can_be_cleared():
    calls = []
    f = jit(lambda x: (calls.append(0), lax.neg(x))[1])
    f(2.0)
    f.clear_cache()
    f(2.0)
    assert len(calls) == 2


def test_threads_share_one_function():
    f = jit(lambda x, n: lax.add(lax.mul(x, 2.0), float(n)), static_argnums=1)
    errors = []

    def work(i):
        try:
            for k in range(20):
                assert float(f(np.float32(i), k % 5)) == 2 * i + k % 5
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not errors


def test_64_bit_numpy_values_become_32_bit():
    f = jit(lambda x: lax.neg(x))
    assert f(np.int64(3)).dtype == np.int32 and f(np.float64(3)).dtype == np.float32
    with pytest.raises(OverflowError):
        f(2 ** 40)


def test_pytree_with_a_hundred_leaves():
    tree = {"a": [X] * 50, "b": tuple([X] * 50)}
    out = jit(lambda t: trees.tree_map(lambda x: lax.add(x, x), t))(tree)
    np.testing.assert_array_equal(out["b"][49], 2 * X)


def test_slotted_and_unhashable_callables():
    class Slotted:
        __slots__ = ()

        def __call__(self, x):
            return lax.neg(x)

    class Unhashable:
        __hash__ = None

        def __call__(self, x):
            return lax.neg(x)

    for f in (Slotted(), Unhashable(), functools.partial(lambda a, x: lax.mul(a, x), -1.0), Slotted().__call__):
        np.testing.assert_array_equal(jit(f)(X), -X)
    with pytest.raises(TypeError, match="expected a function"):
        jit(3)
    with pytest.raises(ValueError, match="not both"):
        jit(lambda x: x, device=devices()[0], backend="cpu")


def test_functions_work_after_clear_caches():
    f = jit(lambda x: lax.neg(x))
    f(2.0), lax.sin(1.0)
    clear_caches()
    assert float(f(2.0)) == -2 and float(lax.neg(1.0)) == -1


def test_small_programs_use_cheap_compilation():
    from lamina_runtime._compile.compile_effort import compile_effort
    small = jit(lambda x: lax.mul(lax.sin(x), 2.0)).trace(X).jaxpr
    assert compile_effort(small).cheap and not compile_effort(jit(lambda x: [lax.sin(x)
                                                                             for _ in range(200)]).trace(X).jaxpr).cheap
    assert not compile_effort(jit(lambda x: lax.reduce_sum(x, (0,))).trace(np.ones((1000, 100), np.float32)).jaxpr).cheap


def test_static_argument_errors_are_rewritten():
    f = jit(lambda x, n, m=0: x, static_argnums=(1, 2))
    unhashable = [1, 2]

    def refused(call):
        with pytest.raises(ValueError) as caught:
            jit(call)(3)
        return str(caught.value), type(caught.value)

    assert refused(lambda n: f(1.0, unhashable, 2)) == (
        "jit of `<lambda>`: static argument 1 ('n') must be hashable; got list: [1, 2]. Pass a tuple, or make the "
        "argument dynamic", StaticArgumentError)
    text, kind = refused(lambda n: f(1.0, 2,
                                     m=n))
    assert kind is StaticArgumentError and issubclass(kind, TypeError)
    assert text.startswith("jit of `<lambda>`: static argument 'm' is a traced int32[]; a size, an axis or a flag must be")
    text, kind = refused(lambda n: f(*[1.0, n]))
    assert kind is StaticArgumentError and text.startswith("jit of `<lambda>`: static argument 1 ('n') is a traced int32[]")
    with pytest.raises(StaticArgumentError, match="static argument 'm' must be hashable; got dict: {}"):
        f(1.0, m={}, n=1)


def test_function_with_static_arguments_keeps_the_methods_of_a_call_object():
    f = jit(lambda x, n: x * n, static_argnums=1)
    assert f(2.0, 3) == f.lower(2.0, 3).compile()(2.0) == 6 and f._cache_size() == 1
    f.clear_cache()
    assert f._cache_size() == 0 and f.__name__ == "<lambda>" and repr(f) == "<jitted <lambda>>"
    with pytest.raises(AttributeError, match="nothing"):
        f.nothing


def test_mixed_dict_key_errors_are_rewritten():
    mixed, x = {1: 1.0, "a": 2.0}, 1.0
    f = jit(lambda *args, **kwargs: args)

    def refused(call):
        with pytest.raises(TypeError, match="must sort against each other") as caught:
            jit(call)(3)
        return str(caught.value)

    keys = "has the keys 1, 'a', of types int and str. Use keys of one type"
    text = refused(lambda n: f(n, mixed))
    assert text.startswith("jit of `<lambda>`: a dict in a tree") and text.endswith(f"the dict at args[1] {keys}")
    assert refused(lambda n: f(n, w={"in": [mixed]})).endswith(f"the dict at kwargs['w']['in'][0] {keys}")
    assert refused(lambda n: f(n, {1: n, "a": x})).endswith(f"the dict at args[1] {keys}")
    assert refused(lambda n: f(n, *[mixed], v=n)).endswith(f"the dict at args[1] {keys}")
    assert refused(lambda n: f(n, dict(mixed))).startswith("jit of `<lambda>`: a dict among the arguments")
    with pytest.raises(ValueError) as caught:  # raised by jaxlib directly: the printed text is rewritten
        f(mixed)
    assert str(translate_error(caught.value)).endswith(f"the dict at args[0] {keys}")


def test_functions_without_weak_references_are_jitted():
    for _ in range(50):  # ufuncs; jaxlib's table would hold dead keys and crash
        assert float(jit(np.sin)(0.0)) == 0.0


def test_methods_jitted_at_each_call_take_the_fast_path():
    class Model:
        scale = 2.0

        def step(self, x):
            traced.append(1)
            return lax.mul(x, np.float32(self.scale))

    traced, model, x = [], Model(), np.ones(3, np.float32)
    first = jit(model.step)
    assert float(first(x)[0]) == 2 and first._cache_size() == 1
    assert float(jit(model.step)(x)[0]) == 2 and jit(model.step)._cache_size() == 1 and traced == [1]
    model.scale = 3.0
    assert float(jit(model.step)(x)[0]) == 3 and float(first(x)[0]) == 2 and traced == [1, 1]


@jit
def decorated(x):
    return lax.add(x, 1.0)


def scaled(x, n):
    return lax.mul(x, float(n))


def selected(n, xs):
    return xs[n]


def test_jitted_functions_pickle_by_name_or_with_options():
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(decorated, protocol)) is decorated
        assert pickle.loads(pickle.dumps(jit(selected, static_argnums=0), protocol))(1, (2.0, 3.0)) == 3
        again = pickle.loads(pickle.dumps(jit(scaled, static_argnums=1, keep_unused=True), protocol))
        assert again(2.0, 3) == 6 and again.spec.options["static_argnums"] == 1 and again.spec.keep_unused
    assert copy.deepcopy({"f": decorated})["f"] is decorated
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(jit(lambda x: x))


def test_local_functions_pickle_by_value():
    cloudpickle = pytest.importorskip("cloudpickle")
    scale = 3.0
    x = device_put(X)
    for made in (jit(lambda x: x * scale, donate_argnums=0), jit(lambda x, n=3: x * n, static_argnames="n"),
                 jit(lambda x: x * scale, device=devices()[0]), named_call(lambda x: x * scale)):
        again = cloudpickle.loads(cloudpickle.dumps(made))
        np.testing.assert_array_equal(again(x), X * 3)
        assert getattr(again, "spec", None) is None or again.spec.options == made.spec.options
        assert x.is_deleted() == (getattr(again, "spec", None) is not None and bool(again.spec.donate_argnums))
        x = device_put(X)


def test_donating_functions_work_as_methods():
    class Model:
        @functools.partial(jit, donate_argnums=1)
        def double(self, x):
            return x + x

    model, x = Model(), device_put(X)
    trees.register_pytree_node(Model, lambda m: ((), None), lambda _, leaves: Model())
    np.testing.assert_array_equal(model.double(x), X + X)
    assert x.is_deleted() and Model.double.lower(model, X).compile()(model, device_put(X)).shape == X.shape
    again = pickle.loads(pickle.dumps(jit(scaled, static_argnums=1, donate_argnums=0)))
    y = device_put(X)
    np.testing.assert_array_equal(again(y, 2), X * 2)
    assert y.is_deleted() and again.__name__ == "scaled" and repr(again) == "<jitted scaled>"
