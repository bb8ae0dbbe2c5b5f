"""Windows by their names, as `scipy.signal.get_window` has them: weights of the elements of a segment, one period of a
periodic function. Each row of `_SHAPES` takes the places k = 0, 1, ... of a symmetric window of m weights, m, and its
parameters; the last weight is then left out.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError
from lamina_tracing.extend import typeof

__all__ = ["make_window"]

# Sums of cosines: weights of cos(2 pi k i / n), signs alternating. Harris, "On the use of windows for harmonic analysis with
# the discrete Fourier transform" (1978); Nuttall, "Some windows with very good sidelobe behavior" (1981); D'Antona and
# Ferrero, "Digital signal processing for measurement systems" (2006), 70.
_COSINES = {"boxcar": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.50, 0.08),
            "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411), "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
            "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368)}


def _sum_of_cosines(k: Any, m: int, weights: Any) -> Any:
    return sum((-1) ** i * c * np.cos(i * 2 * np.pi * k / (m - 1)) for i, c in enumerate(weights))


def _parzen(k: Any, m: int) -> Any:
    r = np.abs(k - (m - 1) / 2) / (m / 2)
    return np.where(r * (m / 2) <= (m - 1) / 4, 1 - 6 * r * r * (1 - r), 2 * (1 - r) ** 3)


def _bohman(k: Any, m: int) -> Any:
    r = np.abs(2 * k / (m - 1) - 1)
    return np.where(r < 1, (1 - r) * np.cos(np.pi * r) + np.sin(np.pi * r) / np.pi, 0.0)


def _barthann(k: Any, m: int) -> Any:
    r = np.abs(k / (m - 1) - 0.5)
    return 0.62 - 0.48 * r + 0.38 * np.cos(2 * np.pi * r)


def _tukey(k: Any, m: int, alpha: float = 0.5) -> Any:
    if alpha <= 0:
        return np.ones(len(k))
    edge = np.minimum(k, m - 1 - k) * 2 / (min(alpha, 1.0) * (m - 1))
    return np.where(edge < 1, 0.5 * (1 - np.cos(np.pi * edge)), 1.0)


def _exponential(k: Any, m: int, center: Any = None, tau: float = 1.0) -> Any:
    if center is not None:
        raise ValueError(f"the center of ('exponential', center, tau) must be None; got {center!r}")
    return np.exp(-np.abs(k - (m - 1) / 2) / tau)


def _chebwin(k: Any, m: int, at: float) -> Any:
    """Side lobes `at` decibels below, by a Chebyshev polynomial: Dolph, "A current distribution for broadside arrays", 1946."""
    top = np.cosh(np.arccosh(10 ** (np.abs(at) / 20)) / (m - 1))
    x = top * np.cos(np.pi * np.arange(m) / m)
    outside = np.sign(x) ** (m - 1) * np.cosh((m - 1) * np.arccosh(np.maximum(np.abs(x), 1)))
    spectrum = np.where(np.abs(x) > 1, outside, np.cos((m - 1) * np.arccos(np.clip(x, -1, 1))))
    place = (k - (m - 1) / 2)[:, None] * (2 * np.pi * np.arange(m) / m)
    w = (np.cos(place) * spectrum).sum(1)
    return w / w.max()


def _dpss(k: Any, m: int, nw: float) -> Any:
    """Slepian's sequence of most energy in a band, an eigenvector of a tridiagonal matrix: Slepian, "Prolate spheroidal wave
    functions" V (1978), equation 14."""
    i = np.arange(m)
    off = i[1:] * (m - i[1:]) / 2.0
    line = ((m - 1 - 2 * i) / 2.0) ** 2 * np.cos(2 * np.pi * nw / m)
    w = np.linalg.eigh(np.diag(line) + np.diag(off, 1) + np.diag(off, -1))[1][:, -1]
    w = w * np.sign(w.sum())
    return (w / w.max() * (1.0 if m % 2 else m * m / (m * m + nw)))[:len(k)]


def _taylor(k: Any, m: int, nbar: int = 4, sll: float = 30, norm: bool = True) -> Any:
    """Taylor's window: Carrara, Goodman and Majewski, "Spotlight synthetic aperture radar" (1995), appendix D."""
    a = np.arccosh(10 ** (sll / 20)) / np.pi
    squares = nbar ** 2 / (a * a + (nbar - 0.5) ** 2) * (a * a + (np.arange(1, nbar) - 0.5) ** 2)
    i = np.arange(1, nbar)
    f = np.array([(-1) ** (n + 1) * np.prod(1 - n * n / squares) / (2 * np.prod(1 - n * n / i[i != n] ** 2.0)) for n in i])

    def evaluate(place: Any) -> Any:
        return 1 + 2 * (f * np.cos(2 * np.pi * i * (np.asarray(place)[..., None] - m / 2 + 0.5) / m)).sum(-1)
    return evaluate(k) / evaluate((m - 1) / 2) if norm else evaluate(k)


_SHAPES: dict[str, Callable[..., Any]] = {
    **{name: lambda k, m, weights=weights: _sum_of_cosines(k, m, weights) for name, weights in _COSINES.items()},
    "general_cosine": _sum_of_cosines,
    "general_hamming": lambda k, m, alpha: _sum_of_cosines(k, m, (alpha, 1 - alpha)),
    "bartlett": lambda k, m: 1 - np.abs(2 * k / (m - 1) - 1),
    "triang": lambda k, m: 1 - np.abs(k - (m - 1) / 2) / ((m + m % 2) / 2),
    "cosine": lambda k, m: np.sin(np.pi * (k + 0.5) / m),
    "lanczos": lambda k, m: np.sinc(2 * k / (m - 1) - 1),
    "kaiser": lambda k, m, beta: np.i0(beta * np.sqrt(np.maximum(1 - (2 * k / (m - 1) - 1) ** 2, 0))) / np.i0(beta),
    "gaussian": lambda k, m, deviation: np.exp(-0.5 * ((k - (m - 1) / 2) / deviation) ** 2),
    "general_gaussian": lambda k, m, p, deviation: np.exp(-0.5 * np.abs((k - (m - 1) / 2) / deviation) ** (2 * p)),
    "parzen": _parzen, "bohman": _bohman, "barthann": _barthann, "tukey": _tukey, "exponential": _exponential,
    "chebwin": _chebwin, "dpss": _dpss, "taylor": _taylor}
_SAME = {"hanning": "hann", "han": "hann", "ones": "boxcar", "rectangular": "boxcar", "rect": "boxcar", "box": "boxcar",
         "black": "blackman", "blk": "blackman", "hamm": "hamming", "ham": "hamming", "blackharr": "blackmanharris",
         "bkh": "blackmanharris", "flat": "flattop", "flt": "flattop", "nutl": "nuttall", "nut": "nuttall", "bart": "bartlett",
         "brt": "bartlett", "triangle": "triang", "tri": "triang", "halfcosine": "cosine", "sinc": "lanczos", "ksr": "kaiser",
         "gauss": "gaussian", "gss": "gaussian", "general gaussian": "general_gaussian", "general gauss": "general_gaussian",
         "general_gauss": "general_gaussian", "ggs": "general_gaussian", "general cosine": "general_cosine",
         "general hamming": "general_hamming", "parz": "parzen", "par": "parzen", "bman": "bohman", "bmn": "bohman",
         "brthan": "barthann", "bth": "barthann", "tuk": "tukey", "poisson": "exponential", "cheb": "chebwin",
         "taylorwin": "taylor"}


def make_window(call: str, window: Any, n: int) -> Any:
    """The weights of `n` elements: of the name of a window, of a tuple of name and parameters, or given as an array."""
    if isinstance(window, (str, tuple)):
        name, *rest = (window,) if isinstance(window, str) else window
        usual = str(_SAME.get(str(name), name))
        shape = _SHAPES.get(usual)
        if shape is None or (usual in _COSINES and rest):
            raise ValueError(f"{call}: window must be an array, a name ({', '.join(_SHAPES)}) or a tuple of a name and its "
                             f"parameters, as ('kaiser', beta); got {window!r}")
        try:
            inspect.signature(shape).bind(0, n, *rest)
        except TypeError:
            takes = ", ".join(list(inspect.signature(shape).parameters)[2:])
            raise ValueError(f"{call}: the window {name!r} takes {takes or 'no parameters'}; got {window!r}") from None
        return shape(np.arange(n), n + 1, *rest) if n > 1 else np.ones(1)
    w = lnp.asarray(window)
    if len(typeof(w).shape) != 1 or typeof(w).shape[0] != n:
        raise ShapeError(f"{call}: expected a window [{n}], of a weight for each element of a segment; "
                         f"got {typeof(w).str_long()}")
    return w
