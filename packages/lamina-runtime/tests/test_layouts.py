"""`jit` with shardings of arguments and results, and with compiler options."""
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_ir import ExecutionError
from lamina_parallel import pmap
from lamina_runtime import device_put, devices
from lamina_runtime._sharding.shardings import mapped_sharding, single_device_sharding
from lamina_tracing import jit, lax

ALL = tuple(devices())
ROWS, COLUMNS = mapped_sharding(ALL, 2, ((0, 8),)), mapped_sharding(ALL, 2, ((1, 8),))
FEW = mapped_sharding(ALL[:4], 2, ((0, 4),))
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def product(a, b):
    return {"m": lax.dot(a, b), "s": lax.reduce_sum(a, (0, 1))}


f = jit(product, in_shardings=(ROWS, None), out_shardings={"m": COLUMNS, "s": None})


@pytest.mark.parametrize("where", [None, ALL[0], ROWS])
def test_results_have_the_given_shardings(where):
    g = jit(product, in_shardings=[ROWS, None], out_shardings={"m": COLUMNS, "s": None})
    a = X if where is None else device_put(X, where) if where is ROWS else device_put(X)
    for _ in range(3):
        out = g(a, X)
        assert out["m"].sharding == COLUMNS and out["s"].sharding.num_devices == 8
        np.testing.assert_allclose(out["m"], X @ X)


def test_out_shardings_select_the_devices():
    g = jit(lambda a: a * 2, out_shardings=ROWS)
    for a in (X, device_put(X), device_put(X, COLUMNS)) * 2:
        np.testing.assert_array_equal(g(a), X * 2)
        assert g(a).sharding == ROWS
    assert jit(lambda a, n: a + n, in_shardings=single_device_sharding(ALL[3]), static_argnums=1)(X, 2).devices() == {ALL[3]}


def test_donated_arguments_are_resharded():
    g = jit(lambda a: a + 1, in_shardings=ROWS, out_shardings=ROWS, donate_argnums=0)
    for a in (device_put(X), device_put(X, ROWS)):
        np.testing.assert_array_equal(g(a), X + 1)
        assert a.is_deleted()


def test_shardings_of_an_inner_jit_on_several_devices():
    h = jit(lambda a: f(a, a)["m"] + 1)
    assert h(device_put(X, ROWS)).sharding == COLUMNS
    np.testing.assert_allclose(h(X), X @ X + 1)
    np.testing.assert_allclose(grad(lambda a: lax.reduce_sum(f(a, X)["m"], (0, 1)))(X), np.broadcast_to(X.sum(1), X.shape))


def test_shardings_of_lowered_and_compiled_stages():
    lowered = f.lower(X, X)
    assert 'mhlo.sharding = "{devices=[8,1]<=[8]}"' in lowered.as_text()
    compiled = lowered.compile()
    assert compiled.input_shardings[0][0] == ROWS and compiled.output_shardings["m"] == COLUMNS
    np.testing.assert_allclose(compiled(X, X)["m"], X @ X)
    assert jit(product).trace(X, X).lower(lowering_platforms=("cuda",)).as_text()
    with pytest.raises(ValueError, match="a module is for one platform"):
        jit(product).trace(X, X).lower(lowering_platforms=("cuda", "cpu"))


@pytest.mark.parametrize("call, error, message", [
    (lambda: jit(product, in_shardings=3), TypeError, "in_shardings: expected shardings.*got int"),
    (lambda: jit(product, in_shardings=(ROWS,) * 3)(X, X), ValueError, "not a prefix of the positional arguments"),
    (lambda: jit(product, out_shardings=[ROWS])(X, X), ValueError, "not a prefix of the function.s output"),
    (lambda: f(X[:3], X), ValueError, "in_shardings for a: dimension 0 .* length 3.*over 8 devices.*8 parts"),
    (lambda: jit(lax.neg, in_shardings=ROWS)(X[0]), ValueError, r"in_shardings for .* arrays of 2 dimensions.*shape \(8,\)"),
    (lambda: f(X, b=X), ValueError, "in_shardings are for positional arguments"),
    (lambda: f(device_put(X, COLUMNS), X), ValueError, r"a .*is committed to.*in_shardings specifies"),
    (lambda: f(X, device_put(X, ALL[2])), ValueError, "committed to different devices"),
    (lambda: jit(product, out_shardings=ROWS)(device_put(X, ALL[2]), X), ValueError, "out_shardings for output.*2 dimensions"),
    (lambda: jit(lax.neg, out_shardings=ROWS)(device_put(X, ALL[2])), ValueError, "Give one set of devices"),
    (lambda: jit(product, in_shardings=(single_device_sharding(ALL[0]), ROWS))(X, X), ValueError,
     "the same devices in one order"),
    (lambda: jit(lambda a: pmap(lax.neg)(a), in_shardings=FEW)(X), ValueError, "take 8 devices"),
    (lambda: jit(product, abstracted_axes={0: "n"}), NotImplementedError, "compiled for known sizes"),
])
def test_invalid_shardings_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_compiler_options():
    quick = jit(lax.sin, compiler_options={"xla_cpu_enable_fast_math": True})
    np.testing.assert_allclose(quick(X), np.sin(X), atol=1e-5)
    compiled = jit(lax.sin).lower(X).compile({"xla_cpu_enable_fast_math": True, "xla_backend_optimization_level": 1})
    np.testing.assert_allclose(compiled(X), np.sin(X), atol=1e-5)
    with pytest.raises(ExecutionError, match="No such compile option: 'nonesuch'"):
        jit(lax.sin).lower(X).compile({"nonesuch": 1})
    with pytest.raises(TypeError, match="expected a dict of names and values"):
        jit(lax.sin, compiler_options=[1])
    with pytest.raises(TypeError, match="must be a bool, number or string"):
        jit(lax.sin).lower(X).compile({"xla_cpu_enable_fast_math": X})
    with pytest.raises(ValueError, match="Pass them to the outermost jit"):
        jit(lambda a: quick(a))(X)
