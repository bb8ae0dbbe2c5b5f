"""`signal` by its definitions, written out in NumPy, and SciPy's numbers; derivatives, maps, bad input."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff.testing import check_grads
from lamina_batching import vmap
from lamina_ir import ShapeError
from lamina_scipy import signal
from lamina_scipy._signal._windows import make_window
from lamina_tracing import jit

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 6)), RNG.normal(size=(2, 4))
C = Y + 1j * RNG.normal(size=(2, 4))


def close(got, wanted, atol=1e-10):
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, atol=atol, rtol=1e-9)


def convolve_full(x, y):
    """All sums of products, one element of y after the other."""
    out = np.zeros([m + n - 1 for m, n in zip(x.shape, y.shape)], np.result_type(x, y))
    for at in np.ndindex(*y.shape):
        out[tuple(slice(i, i + n) for i, n in zip(at, x.shape))] += x * y[at]
    return out


@pytest.mark.parametrize("method", ["direct", "fft"])
@pytest.mark.parametrize("x, y", [(X, Y), (X, C), (X[0], Y[0]), (X + 1j, C), (Y, X)], ids=range(5))
def test_convolutions(method, x, y):
    whole, turned = convolve_full(x, y), convolve_full(x, np.conj(np.flip(y)))
    middle = tuple(slice((m - 1) // 2, (m - 1) // 2 + n) for m, n in zip(y.shape, x.shape))
    inner = tuple(slice(min(m, n) - 1, max(m, n)) for m, n in zip(y.shape, x.shape))
    for mode, part in (("full", ...), ("same", middle), ("valid", inner)):
        close(signal.convolve(x, y, mode, method), whole[part])
        close(signal.correlate(x, y, mode, method), turned[part])
        close(signal.fftconvolve(x, y, mode), whole[part])


def test_convolutions_in_the_plane_and_along_some_axes():
    close(signal.convolve2d(X, Y), convolve_full(X, Y))
    close(signal.correlate2d(X, C, "valid"), convolve_full(X, np.conj(C[::-1, ::-1]))[1:5, 3:6])
    for boundary, how in (("wrap", "wrap"), ("symm", "symmetric")):
        wide = np.pad(X, [(1, 1), (3, 3)], how)
        close(signal.convolve2d(X, Y, boundary=boundary), convolve_full(wide, Y)[1:-1, 3:-3])
        close(signal.convolve2d(X, Y, "same", boundary), convolve_full(wide, Y)[1:-1, 3:-3][0:5, 1:7])
        close(signal.correlate2d(X, Y, "same", boundary), convolve_full(wide, Y[::-1, ::-1])[1:-1, 3:-3][1:6, 2:8])
    filled = np.pad(X, [(1, 1), (3, 3)], constant_values=2.0)
    close(signal.convolve2d(X, Y, fillvalue=2.0), convolve_full(filled, Y)[1:-1, 3:-3])
    close(signal.fftconvolve(X, X[:, :3], axes=[1]), [np.convolve(a, b) for a, b in zip(X, X[:, :3])])
    close(signal.fftconvolve(X, X[:1, :3], "same", axes=1), [np.convolve(a, X[0, :3])[1:7] for a in X])
    assert signal.convolve(np.arange(3), np.arange(2)).dtype == np.float64
    check_grads(lambda x, y: signal.convolve(x, y, "same"), (X, Y), 1)
    close(vmap(signal.fftconvolve)(X, X), [np.convolve(a, a) for a in X])


def test_trends():
    t = np.arange(6.0)
    close(signal.detrend(X), [x - np.polyval(np.polyfit(t, x, 1), t) for x in X])
    close(signal.detrend(X.T, 0), signal.detrend(X).T)
    close(signal.detrend(X, type="constant"), X - X.mean(-1, keepdims=True))
    close(signal.detrend(X, bp=[2]), np.concatenate([signal.detrend(X[:, :2]), signal.detrend(X[:, 2:])], 1))


def segments(x, size, step, window, nfft=None, trend=True):
    """Transforms of windowed segments, `[..., frequencies, segments]`."""
    parts = [x[..., i:i + size] for i in range(0, x.shape[-1] - size + 1, step)]
    parts = [(p - p.mean(-1, keepdims=True) * trend) * window for p in parts]
    return np.stack([np.fft.fft(p, nfft) for p in parts], -1)


def hann(n):
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)


@pytest.mark.parametrize("size, overlap, nfft", [(8, 4, 8), (9, 2, 12)])
def test_power(size, overlap, nfft):
    x, y = RNG.normal(size=(2, 40)), RNG.normal(size=(2, 35))
    w, n = hann(size), nfft // 2 + 1
    a, b = (segments(np.pad(v, [(0, 0), (0, 40 - v.shape[-1])]), size, size - overlap, w, nfft) for v in (x, y))
    twice = np.where((np.arange(n) > 0) & (np.arange(n) < nfft / 2), 2, 1)
    f, p = signal.welch(x, 3.0, nperseg=size, noverlap=overlap, nfft=nfft)
    close(f, np.fft.rfftfreq(nfft, 1 / 3))
    close(p, (abs(a) ** 2).mean(-1)[:, :n] * twice / (3 * (w ** 2).sum()))
    f, p = signal.csd(x, y, nperseg=size, noverlap=overlap, nfft=nfft, scaling="spectrum", return_onesided=False)
    close(f, np.fft.fftfreq(nfft))
    close(p, (a.conj() * b).mean(-1) / w.sum() ** 2)
    count = a.shape[-1]
    bias = 1 + sum(1 / (i + 1) - 1 / i for i in range(2, count, 2))
    _, p = signal.welch(x.T, nperseg=size, noverlap=overlap, nfft=nfft, average="median", axis=0, return_onesided=False)
    close(p, np.median(abs(a) ** 2, -1).T / bias / (w ** 2).sum())
    _, p = signal.welch(x[0], window=np.ones(7), detrend=lambda v: v)
    close(p[1:], (abs(segments(x[0], 7, 4, 1, trend=False)) ** 2).mean(-1)[1:4] * 2 / 7)
    for average in ("mean", "median"):
        assert signal.welch(np.float32(x), average=average)[1].dtype == np.float32
        assert signal.csd(np.float32(x), np.float32(x)[::-1], average=average)[1].dtype == np.complex64
    assert signal.welch(x)[0].shape == (21,)


def test_windows_have_scipys_weights():  # of the fourth of eight elements
    wanted = {"hann": (2 + 2 ** 0.5) / 4, "hamming": 0.54 + 0.46 * 0.5 ** 0.5, "boxcar": 1.0, "bartlett": 0.75,
              "cosine": np.sin(np.pi * 3.5 / 9), "blackman": 0.42 + 0.5 * 0.5 ** 0.5, ("gaussian", 2.0): np.exp(-0.125),
              ("kaiser", 0.0): 1.0}
    for name, weight in wanted.items():
        close(make_window("stft", name, 8)[3], weight)
        one = signal.stft(np.ones(8), window=name, nperseg=8, boundary=None)[2]
        close(float(one[0, 0].real), 1.0)


@pytest.mark.parametrize("name, half", [
    (('general_cosine', [0.5, 0.3, 0.2]), [0.4, 0.26844887, 0.38656251, 0.89498862]),
    (('general_hamming', 0.6), [0.2, 0.35060408, 0.68900837, 0.96038755]),
    ('triang', [0.125, 0.375, 0.625, 0.875]),
    ('lanczos', [3.8981718e-17, 0.34841057, 0.72410145, 0.96676639]),
    (('kaiser', 5.0), [0.036710892, 0.27069442, 0.65173824, 0.95524732]),
    (('gaussian', 3.0), [0.50633562, 0.70664828, 0.8824969, 0.98620712]),
    (('general_gaussian', 1.5, 3.0), [0.45204141, 0.74874871, 0.93941306, 0.99768786]),
    ('parzen', [0.00390625, 0.10546875, 0.47265625, 0.91796875]),
    ('bohman', [0.0, 0.070724747, 0.43748401, 0.91036851]),
    ('barthann', [0.0, 0.2116453, 0.60170081, 0.92808246]),
    ('tukey', [0.0, 0.61126047, 1.0, 1.0]),
    (('tukey', 0.3), [0.0, 0.99441541, 1.0, 1.0]),
    (('tukey', 1.2), [0.0, 0.1882551, 0.61126047, 0.95048443]),
    ('exponential', [0.030197383, 0.082084999, 0.22313016, 0.60653066]),
    (('exponential', None, 3.0), [0.31140322, 0.43459821, 0.60653066, 0.84648172]),
    (('chebwin', 60), [0.068475554, 0.30321916, 0.68684662, 1.0]),
    (('dpss', 0.9), [0.42501918, 0.66715827, 0.87027748, 0.98613251]),
    ('taylor', [0.2793463, 0.5149599, 0.79730153, 0.97561072]),
    (('taylor', 5, 35), [0.20353161, 0.45985422, 0.76686647, 0.97157662])])
def test_windows_of_seven(name, half):
    """Numbers of SciPy: the first four of seven, the others mirror them."""
    np.testing.assert_allclose(make_window("stft", name, 7), half + half[:0:-1], 1e-6, 1e-7)


def test_even_chebyshev_window_and_wrong_tuples():
    np.testing.assert_allclose(make_window("stft", ("cheb", 60.0), 8)[4], 1.0)
    np.testing.assert_allclose(make_window("stft", ("tukey", 0), 5), 1.0)
    with pytest.raises(ValueError, match="stft: the window 'kaiser' takes beta; got 'kaiser'"):
        make_window("stft", "kaiser", 8)
    with pytest.raises(ValueError, match="welch: window must be an array, a name"):
        make_window("welch", ("hann", 2.0), 8)


@pytest.mark.parametrize("kind", ["float", "complex"])
def test_short_time_transforms_and_back(kind):
    x = RNG.normal(size=(2, 37)) + (1j * RNG.normal(size=(2, 37)) if kind == "complex" else 0)
    one = kind == "float"
    for settings in ({"nperseg": 8}, {"nperseg": 9, "noverlap": 6, "nfft": 12}, {"nperseg": 8, "window": "hamming"}):
        size = settings["nperseg"]
        f, t, z = signal.stft(x, 2.0, **settings)
        wide = np.pad(x, [(0, 0), (size // 2, size // 2)])
        step = size - settings.get("noverlap", size // 2)
        wide = np.pad(wide, [(0, 0), (0, -(wide.shape[-1] - size) % step)])
        w = hann(size) if "window" not in settings else 0.08 + 0.92 * hann(size)
        wanted = segments(wide, size, step, w, settings.get("nfft"), trend=False) / w.sum()
        close(z, wanted[:, :f.shape[0]])
        close(t, np.arange(t.shape[0]) * step / 2.0)
        t, back = signal.istft(z, 2.0, input_onesided=one, **settings)
        close(np.asarray(back)[:, :37], x)
        close(t, np.arange(back.shape[-1]) / 2.0)
    for boundary in ("even", "odd", "constant"):
        z = signal.stft(x, nperseg=8, boundary=boundary)[2]
        close(np.asarray(signal.istft(z, nperseg=8, input_onesided=one)[1])[:, :37], x)
    z = signal.stft(x.T, nperseg=8, axis=0)[2]
    back = signal.istft(z, nperseg=8, input_onesided=one, time_axis=-1, freq_axis=0)[1]
    close(np.asarray(back)[:, :37], x)
    z = np.asarray(signal.stft(x, nperseg=8, nfft=16)[2])  # frequencies beyond those that there are: zero
    some = z[:, :6] if one else z[:, :16]
    filled = np.concatenate([some, np.zeros_like(z[:, 6:])], 1) if one else z
    close(signal.istft(some, nperseg=8, nfft=16, input_onesided=one)[1],
          signal.istft(filled, nperseg=8, nfft=16, input_onesided=one)[1])
    check_grads(lambda x: signal.stft(x, nperseg=8)[2], (x[0],), 1)
    close(jit(lambda x: signal.welch(x, nperseg=8)[1])(x), signal.welch(x, nperseg=8)[1])
    close(vmap(lambda x: signal.csd(x, x, nperseg=8)[1])(x), signal.csd(x, x, nperseg=8)[1])


@pytest.mark.parametrize("call, error, words", [
    (lambda: signal.convolve(X, Y[0]), ShapeError, r"convolve: expected in1 and in2 of equal rank.*\[5,6\].*\[4\]"),
    (lambda: signal.convolve(X, Y, "middle"), ValueError, "mode must be.*'middle'"),
    (lambda: signal.convolve(X, Y, "valid", "slow"), ValueError, "method must be.*'slow'"),
    (lambda: signal.correlate(np.ones((2, 5)), np.ones((5, 2)), "valid"), ShapeError, "correlate: mode=.valid. needs"),
    (lambda: signal.convolve(np.ones(0), np.ones(2)), ShapeError, "with elements"),
    (lambda: signal.convolve2d(X[0], Y[0]), ShapeError, "convolve2d: expected matrices"),
    (lambda: signal.convolve2d(X, Y, boundary="x"), ValueError, "boundary must be.*'x'"),
    (lambda: signal.fftconvolve(X, Y, axes=[1]), ShapeError, "along axis 0, which is not convolved"),
    (lambda: signal.fftconvolve(X, Y, axes=[1, 1]), ShapeError, "occurs twice"),
    (lambda: signal.detrend(X, type="x"), ValueError, "type must be.*'x'"),
    (lambda: signal.detrend(X, bp=9), ValueError, "bp must contain positions"),
    (lambda: signal.welch(X, window="x"), ValueError, "welch: window must be.*'x'"),
    (lambda: signal.welch(X, window=np.ones(3), nperseg=4), ShapeError, r"window \[4\]"),
    (lambda: signal.welch(X, nperseg=4, noverlap=4), ValueError, "noverlap must be less than nperseg, 4"),
    (lambda: signal.welch(X, nperseg=4, nfft=3), ValueError, "nfft must be nperseg, 4, at least"),
    (lambda: signal.welch(X, nperseg=2.5), TypeError, "welch: nperseg must be an integer; got float: 2.5"),
    (lambda: signal.welch(X, scaling="x"), ValueError, "scaling must be"),
    (lambda: signal.csd(X, X, average="x"), ValueError, "average must be"),
    (lambda: signal.welch(X, detrend="x"), ValueError, "detrend must be"),
    (lambda: signal.stft(X, boundary="x"), ValueError, "boundary must be"),
    (lambda: signal.istft(np.ones(3)), ShapeError, "two axes or more"),
    (lambda: signal.istft(np.ones((3, 3)), nfft=3), ValueError, "nfft must be nperseg, 4, at least")])
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_of_no_samples_come_empty_arrays():
    x = np.ones((2, 0))
    for call, count in ((signal.welch, 2), (lambda x: signal.csd(x, x), 2), (signal.stft, 3)):
        assert [np.shape(y) for y in call(x)] == [(2, 0)] * count
    assert [np.shape(y) for y in signal.csd(np.ones((2, 5)), np.ones((1, 0)))] == [(2, 0)] * 2
    np.testing.assert_array_equal(signal.fftconvolve(np.ones(0), np.ones(3)), [0, 0])
    assert signal.fftconvolve(np.ones((0, 3)), np.ones((2, 3)), "same").shape == (0, 3)
