"""`numpy.fft` compared with NumPy: every function, norm, length and axes; derivatives and batches."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff.testing import check_grads
from lamina_batching.testing import check_vmap
from lamina_ir import config

F, N = lnp.fft, np.fft
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5, 6))
Z = X + 1j * RNG.normal(size=X.shape)


@pytest.fixture(autouse=True)
def wide():
    with config.enable_x64(True):
        yield


def close(got, wanted):
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, atol=1e-11)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis(name, norm):
    x = X if name in ("rfft", "ihfft") else Z
    for n in (None, 1, 3, 9):
        for axis in (0, 1, -1):
            close(getattr(F, name)(x, n, axis, norm), getattr(N, name)(x, n, axis, norm))


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"])
def test_several_axes(name, norm):
    x = X if name[0] == "r" else Z
    close(getattr(F, name)(x, norm=norm), getattr(N, name)(x, norm=norm))
    close(getattr(F, name)(x, (2, 7), (2, 0), norm), getattr(N, name)(x, (2, 7), (2, 0), norm))
    close(getattr(F, name)(x, axes=[-1, 1], norm=norm), getattr(N, name)(x, axes=[-1, 1], norm=norm))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies_and_shifts(n):
    close(F.fftfreq(n, 0.5), N.fftfreq(n, 0.5))
    close(F.rfftfreq(n), N.rfftfreq(n))
    close(F.fftshift(F.fftfreq(n)), N.fftshift(N.fftfreq(n)))
    close(F.ifftshift(X, [0, 2]), N.ifftshift(X, [0, 2]))
    close(F.fftshift(X), N.fftshift(X))


def test_integers_and_single_precision():
    assert F.fft(np.arange(4, dtype=np.float32)).dtype == np.complex64
    close(F.fft(np.arange(4)), N.fft(np.arange(4)))
    assert F.fftfreq(4, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("fun, x", [
    (F.fftn, Z[0, 0]), (F.rfftn, X[0, 0]), (F.irfftn, Z[0, 0]), (F.hfft, Z[0, 0]), (lambda x: F.fft(x, 3), Z[0, 0])],
    ids=["fftn", "rfftn", "irfftn", "hfft", "cut"])
def test_derivatives_and_batches(fun, x):
    check_grads(fun, (x,), order=1, eps=1e-5, rtol=1e-4, atol=1e-4)
    check_vmap(fun, [np.stack([x, 2 * x, -x], 1)], [1])


@pytest.mark.parametrize("call, words", [
    (lambda: F.fft(X, norm="none"), "norm must be"), (lambda: F.fft(X, 0), "at least one element"),
    (lambda: F.fft2(X, axes=(1,)), "two axes"), (lambda: F.fftn(X, (2,), (0, 1)), "length for each"),
    (lambda: F.fftfreq(0), "at least 1"), (lambda: F.fft(X, axis=7), "out of range")])
def test_errors_name_the_argument(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_real_transforms_refuse_complex_numbers():
    with pytest.raises(TypeError, match="Use fft"):
        F.rfft(Z)


def test_fftshift_shifts_a_repeated_axis_twice():
    for shift in ("fftshift", "ifftshift"):
        np.testing.assert_array_equal(getattr(F, shift)(np.arange(5), axes=(0, -1)),
                                      getattr(N, shift)(np.arange(5), axes=(0, -1)))
