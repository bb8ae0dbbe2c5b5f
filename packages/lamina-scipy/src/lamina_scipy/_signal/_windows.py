"""Windows by their names: weights of the elements of a segment, one period of a periodic function."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError
from lamina_tracing.extend import typeof

__all__ = ["window_of"]

# Sums of cosines: weights of cos(2 pi k i / n), signs alternating. Harris, "On the use of windows for harmonic analysis with
# the discrete Fourier transform" (1978); Nuttall, "Some windows with very good sidelobe behavior" (1981); D'Antona and
# Ferrero, "Digital signal processing for measurement systems" (2006), 70.
_COSINES = {"boxcar": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.50, 0.08),
            "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411), "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
            "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368)}
_SAME = {"hanning": "hann", "ones": "boxcar", "rectangular": "boxcar", "rect": "boxcar", "box": "boxcar", "black": "blackman",
         "hamm": "hamming", "han": "hann", "blackharr": "blackmanharris", "flat": "flattop"}


def window_of(call: str, window: Any, n: int) -> Any:
    """The weights of `n` elements: of the name of a window, of a pair of name and parameter, or given as an array."""
    if isinstance(window, (str, tuple)):
        name, *rest = (window,) if isinstance(window, str) else window
        name = _SAME.get(name, name)
        if name in _COSINES and not rest:
            place = 2 * np.pi * np.arange(n) / n
            return sum((-1) ** k * c * np.cos(k * place) for k, c in enumerate(_COSINES[name])) if n > 1 else np.ones(1)
        if n == 1:
            return np.ones(1)
        if name == "bartlett" and not rest:
            return 1 - np.abs(2 * np.arange(n) / n - 1)
        if name == "cosine" and not rest:
            return np.sin(np.pi * (np.arange(n) + 0.5) / (n + 1))
        if name == "kaiser" and len(rest) == 1:
            return np.i0(rest[0] * np.sqrt(np.maximum(1 - (2 * np.arange(n) / n - 1) ** 2, 0))) / np.i0(rest[0])
        if name == "gaussian" and len(rest) == 1:
            return np.exp(-0.5 * ((np.arange(n) - n / 2) / rest[0]) ** 2)
        raise ValueError(f"{call}: window must be an array, a name ({', '.join([*_COSINES, 'bartlett', 'cosine'])}), "
                         f"('kaiser', beta) or ('gaussian', deviation); got {window!r}")
    w = lnp.asarray(window)
    if len(typeof(w).shape) != 1 or typeof(w).shape[0] != n:
        raise ShapeError(f"{call}: expected a window [{n}], of a weight for each element of a segment; got {typeof(w).long()}")
    return w
