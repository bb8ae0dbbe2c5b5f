"""NumPy functions on traced values: those that lamina_tracing does not implement are the functions of this package."""
import inspect
import subprocess
import sys

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_autodiff.testing import check_numpy_call as check_derivatives
from lamina_batching import vmap
from lamina_batching.testing import check_numpy_call as check_vmap
from lamina_ir import errors, trees
from lamina_numpy._numpy_protocol import NAMES_BY_POSITION, find
from lamina_tracing import enable_x64, jit
from lamina_tracing.extend import Tracer
from lamina_tracing.numpy_dispatch import implementations, refusals
from lamina_tracing.testing import numpy_calls, numpy_functions

CALLS = numpy_calls()
CORE = {id(c) for c in numpy_calls(core_only=True)}
LIBRARY_CALLS = [c for c in CALLS if id(c) not in CORE]
UNTIL_SIGN = ("eig", "eigh", "svd", "qr")  # vectors up to a sign
DEPRECATED = pytest.mark.filterwarnings("ignore:.*(trapz|in1d|numpy.fix).*:DeprecationWarning")


def ids(calls):
    return [f"{c.name}-{i}" for i, c in enumerate(calls)]


FUNCTIONS = numpy_functions()


def last_name(call):
    return call.name.rpartition(".")[2]


@DEPRECATED
@pytest.mark.parametrize("call", CALLS, ids=ids(CALLS))
def test_result_is_that_of_numpy(call):
    with enable_x64():
        f, xs = call.function(), call.traced()
        wanted, found = f(*xs), jit(f)(*xs)
    assert isinstance(found, tuple) == isinstance(wanted, tuple)
    for want, got in zip(trees.tree_leaves(wanted), trees.tree_leaves(found), strict=True):
        want = np.asarray(want)
        assert np.shape(got) == want.shape
        if want.dtype.kind in "fc":
            assert np.asarray(got).dtype == want.dtype
        if last_name(call) in UNTIL_SIGN and want.ndim > 1:
            got, want = np.abs(np.asarray(got)), np.abs(want)
        np.testing.assert_allclose(np.asarray(got), want, rtol=2e-7 if want.dtype == np.float32 else 1e-9, atol=1e-12)


def test_every_numpy_function_is_implemented_or_refused():
    for name in FUNCTIONS:
        assert name in implementations or name in refusals or find(name) is not None, name


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - set(implementations) - set(refusals)))
def test_positional_parameters_are_those_of_numpy(name):
    function, theirs = find(name), FUNCTIONS[name]
    if isinstance(theirs, np.ufunc):
        return
    try:
        names = positional(theirs)
    except ValueError:
        pytest.skip("this version of NumPy does not have its signature")
    leading, following = NAMES_BY_POSITION.get(name, (len(names), ""))
    own = positional(function)
    for ours, numpys in zip([*own[:leading], *following.split()], names):
        assert ours == numpys or numpys.startswith(("x", "A")) and names.index(numpys) < 2, (own, names)
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    assert len(names) <= min(leading, len(own)) + len(following.split()) or inspect.Parameter.VAR_POSITIONAL in kinds


def positional(function):
    return [p.name for p in inspect.signature(function).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


# --- derivatives and maps ---------------------------------------------------------------------------------------------


SMOOTH = [c for c in LIBRARY_CALLS if c.smooth]


@DEPRECATED
@pytest.mark.parametrize("call", SMOOTH, ids=ids(SMOOTH))
def test_derivative_is_that_of_finite_differences(call):
    check_derivatives(call)


MAPPED = [c for c in LIBRARY_CALLS if last_name(c) not in UNTIL_SIGN][::2]


@DEPRECATED
@pytest.mark.parametrize("call", MAPPED, ids=ids(MAPPED))
def test_vmap_is_a_loop(call):
    check_vmap(call)


def test_maps_and_derivatives_compose():
    def f(x, w):
        return np.sum(np.where(x > 0, np.log1p(np.abs(x)), w) * np.cumsum(x)) / np.linalg.norm(x)
    xs, w = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3), np.float32(0.5)
    many = vmap(grad(f), (0, None))(xs, w)
    for row, x in zip(many, xs):
        np.testing.assert_allclose(row, grad(f)(x, w), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(jit(vmap(f, (0, None)))(lnp.asarray(xs), w), [f(x, w) for x in xs], rtol=2e-5)


# --- arguments and dtypes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda x: np.nanmedian(x), lambda x: np.nanquantile(x, 0.25), lambda x: np.polyfit(np.arange(4.0), x, 1),
    lambda x: np.apply_along_axis(lambda r: r * 2, 0, x), lambda x: np.spacing(x), lambda x: np.polyint(x),
    lambda x: np.frexp(x)[0], lambda x: np.gcd(x.astype(int), 6), lambda x: np.add.reduceat(x, [0, 2]),
    lambda x: np.hypot.reduce(x), lambda x: np.logaddexp.accumulate(x),
    lambda x: np.partition(x, 1)[1], lambda x: np.argpartition(x, 2)[2], lambda x: np.argsort(x, -1, "stable"),
    lambda x: np.sort(x, 0, None, None), lambda x: np.zeros_like(x, None, "K", False, (2,)),
    lambda x: np.isin(x, [1, 2]), lambda x: np.linalg.solve(np.diag(x), [1.0, 2, 3, 4]),
    lambda x: np.linalg.pinv(x[:, None], 1e-6, False), lambda x: np.linalg.matrix_rank(x[:, None], 1e-3, False),
    lambda x: np.concatenate([[x[0]], x]), lambda x: np.stack([x[0], 2.0]),
    lambda x: np.concatenate((x, x), 0, None), lambda x: np.nanvar(x, correction=1), lambda x: np.fft.fft(x, 4, 0, None, None)])
def test_arguments_of_numpy(call):
    x = np.float32([3, 1, 4, 2])
    np.testing.assert_allclose(jit(call)(x), call(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "bool"])
@pytest.mark.parametrize("f", [
    np.cumsum, np.cumprod, np.nancumsum, np.add.accumulate, lambda x: np.convolve(x, x),
    lambda x: np.convolve(x, x[:2], "same"),
    lambda x: np.correlate(x, x[:2]), lambda x: np.correlate(x[:2], x, "same"), lambda x: np.correlate(x, x, "full"),
    lambda x: np.polymul(x, x[:2]), lambda x: np.polyder(x, 2)])
def test_integers_stay_integers(f, dtype):
    x = np.array([1, 0, 1, 1, 0] if dtype == "bool" else [3, 1, 4, 2, 5]).astype(dtype)
    with enable_x64():
        got = jit(lambda x: f(x))(x)
    assert got.dtype.kind in "iub"
    want = f(x)
    if dtype in ("int32", "int8") or want.dtype.itemsize > 1:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("f", [
    lambda x: np.linspace(x, 2, 3), lambda x: np.fft.fftshift(x), lambda x: np.pad(x, 1, constant_values=3),
    lambda x: np.quantile(x, 0.3), np.var, np.sinc, lambda x: np.diff(x, prepend=0.5)])
def test_python_numbers_take_the_dtype_of_the_array(f):
    assert jit(f)(np.float16([1, 2])).dtype == np.float16


def test_results_have_fixed_dtypes():
    def f(x):
        out = np.diff(x, prepend=0.5)
        assert out.dtype == np.float32 and not out.weak_type
        return out
    jit(f)(np.int32([1, 2]))


def test_isreal_of_a_real_array_is_known():
    def f(x):
        assert np.isreal(x).all() and not np.iscomplex(x).any()
        return np.iscomplex(x + 0j)
    assert not jit(f)(np.float32([1, 2])).any()


@pytest.mark.parametrize("call, words", [
    (lambda x: np.quantile(x, 0.5, weights=[1, 2, 3]), "weights="), (lambda x: np.pad(x, 1, mode="nonsense"), "mode"),
    (lambda x: np.linalg.qr(x[:, None], mode="nonsense"), "mode"), (lambda x: np.gradient(x, edge_order=3), "edge_order"),
    (lambda x: np.cov(x, nonsense=1), "nonsense"), (lambda x: np.concatenate([x, x], 0, np.zeros(6, np.float32)), "out="),
    (lambda x: np.cumsum(x, out=np.zeros(3, np.float32)), "out="), (lambda x: np.union1d(x, x), "size"),
    (lambda x: np.copyto(np.zeros(3), x), "numpy.copyto.*in place"), (lambda x: np.save("nowhere", x), "numpy.save of.*file"),
    (lambda x: np.add.at(np.zeros(3), [0], x[0]), "add.at.*in place"), (lambda x: np.isnat(x), "dates")])
def test_refused_arguments_are_explained(call, words):
    with pytest.raises((TypeError, ValueError, NotImplementedError, errors.ConcretizationError), match=words):
        jit(call)(np.float32([1, 2, 3]))


def test_lamina_numpy_is_imported_by_the_first_call_that_needs_it():
    program = """
import sys
import numpy as np
from lamina_autodiff import grad
def f(x):
    y = np.sum(np.sin(x) * x[0])
    assert "lamina_numpy" not in sys.modules or imported
    return y + np.linalg.det(np.outer(x, x) + np.eye(2)) + np.stack([x, x]).sum() + x[-1]
imported = False
first = grad(f)(np.float32([1, 2]))
imported = True
assert "lamina_numpy" in sys.modules and "jaxlib" not in sys.modules
np.testing.assert_array_equal(first, grad(f)(np.float32([1, 2])))
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_concrete_arrays_get_plain_numpy_arrays():
    def f(x):
        assert isinstance(np.linalg.norm(x), Tracer)
        return np.sum(x)
    jit(f)(np.float32([1, 2]))
    assert type(np.cumsum(lnp.asarray([1, 2]))) is np.ndarray


@pytest.mark.parametrize("i, at", [(0, 0), (2, 2), (-1, 2), (7, 2), (-7, 0)])
def test_integer_index_of_a_traced_value_is_clamped(i, at):
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(grad(lambda x: x[i] ** 2)(x), 2 * x * (np.arange(3) == at))
    np.testing.assert_array_equal(jit(lambda x: x[i])(x), x[at])
    for empty in (np.zeros((0, 2), np.float32), np.float32(1)):
        with pytest.raises(IndexError):
            jvp(lambda x: x[i], (empty,), (empty,))
