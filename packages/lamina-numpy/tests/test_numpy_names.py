"""NumPy's own functions on traced values: those that lamina-tracing has no row for are found here; its rows stay first."""
import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import errors
from lamina_tracing import enable_x64, jit
from lamina_tracing.testing import numpy_calls

CALLS = numpy_calls()[::7]


def flat(out):
    return [v for x in out for v in flat(x)] if isinstance(out, (list, tuple)) else [out]


@pytest.mark.parametrize("call", [
    lambda x: np.nanmedian(x), lambda x: np.nanquantile(x, 0.25), lambda x: np.polyfit(np.arange(4.0), x, 1),
    lambda x: np.apply_along_axis(lambda r: r * 2, 0, x), lambda x: np.spacing(x), lambda x: np.union1d(x, x),
    lambda x: np.polyint(x), lambda x: np.frexp(x)[0], lambda x: np.gcd(x.astype(int), 6)])
def test_what_has_no_row_is_found_here(call):
    x = np.float32([3, 1, 4, 2])
    if "union1d" in call.__code__.co_names:
        with pytest.raises(Exception, match="size"):
            jit(call)(x)
    else:
        np.testing.assert_allclose(jit(call)(x), call(x), rtol=1e-4, atol=1e-6)


def test_what_changes_an_array_is_refused_still():
    with pytest.raises(errors.TracerArrayError, match="numpy.copyto.*in place"):
        jit(lambda x: np.copyto(np.zeros(3), x))(np.ones(3, np.float32))
    with pytest.raises(errors.TracerArrayError, match="numpy.save of.*file"):
        jit(lambda x: np.save("nowhere", x))(np.ones(3, np.float32))


@pytest.mark.filterwarnings("ignore:.*(trapz|in1d|numpy.fix).*:DeprecationWarning")
@pytest.mark.parametrize("call", CALLS, ids=[f"{c.name}-{i}" for i, c in enumerate(CALLS)])
def test_numpy_names_agree_with_these_operators(call):
    with enable_x64():
        f, xs = call.function(), call.traced()
        for got, want in zip(flat(jit(f)(*xs)), flat(f(*xs))):
            if call.name.rpartition(".")[2] in ("eig", "eigh", "svd", "qr"):
                got, want = np.abs(got), np.abs(want)
            narrow = np.asarray(want).dtype == np.float32
            np.testing.assert_allclose(np.asarray(got), want, rtol=2e-7 if narrow else 1e-9, atol=1e-12)


def test_numpy_under_maps_and_derivatives():
    def f(x, w):
        return np.sum(np.where(x > 0, np.log1p(np.abs(x)), w) * np.cumsum(x)) / np.linalg.norm(x)
    xs, w = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3), np.float32(0.5)
    many = vmap(grad(f), (0, None))(xs, w)
    for row, x in zip(many, xs):
        np.testing.assert_allclose(row, grad(f)(x, w), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(jit(vmap(f, (0, None)))(lnp.asarray(xs), w), [f(x, w) for x in xs], rtol=2e-5)
