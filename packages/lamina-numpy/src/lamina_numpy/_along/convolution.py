"""Convolution and correlation of lines, and the windows used with them."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import typeof

from .._ground.promotion import cast, literal, pair, promote_all, to_inexact
from .._ground.publishing import public
from .._ground.conversion import asarray, own_array, put
from .._elementwise.special import i0
from .._make.creation import arange
from .._contract.products import dot_general
from .._index.taking import take

__all__ = ["bartlett", "blackman", "convolve", "correlate", "hamming", "hanning", "kaiser"]


_MOST_WINDOWS = 1 << 20  # elements of all windows, up to which one product of them is the faster way


def _windows(x: Any, size: int, count: int) -> Any:
    """`[count, size]` windows of a line, one place apart."""
    places = np.arange(count)[:, None] + np.arange(size)[None, :]
    return take(x, places.astype(np.int32), 0, mode="clip")


def _slide(call: str, a: Any, v: Any, mode: str, flip: bool, precision: Any, preferred: Any) -> Any:
    a, v = promote_all(call, [own_array(call, a), own_array(call, v, 1)])
    a, v = to_inexact(call, a), to_inexact(call, v)
    if len(typeof(a).shape) != 1 or len(typeof(v).shape) != 1:
        raise ValueError(f"{call}: expected one axis each; got {typeof(a).long()} and {typeof(v).long()}")
    n, m = typeof(a).shape[0], typeof(v).shape[0]
    if not n or not m:
        raise ValueError(f"{call}: operands must not be empty; got {typeof(a).long()} and {typeof(v).long()}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{call}: mode must be 'full', 'same' or 'valid'; got {mode!r}")
    swapped = n < m
    if swapped:
        a, v, n, m = v, a, m, n
    # convolution reverses the kernel; correlation with its operands exchanged reverses the result instead
    kernel = lax.rev(v, (0,)) if flip else v
    lo, hi = {"full": (m - 1, m - 1), "valid": (0, 0), "same": (m // 2, (m - 1) // 2)}[mode]
    count = n + lo + hi - m + 1
    if count * m <= _MOST_WINDOWS:
        wide = lax.pad(a, literal(0, typeof(a).dtype), ((lo, hi, 0),))
        out = dot_general(_windows(wide, m, count), kernel, ((1,), (0,)), precision=precision, preferred=preferred)
    else:  # one channel of one example: up to nine times as slow, but it takes no memory beyond its operands
        out = lax.conv_general_dilated(lax.expand_dims(a, (0, 1)), lax.expand_dims(kernel, (0, 1)), (1,), [(lo, hi)],
                                       precision=precision, preferred_element_type=preferred and dtypes.canonical(preferred))
        out = lax.squeeze(out, (0, 1))
    return lax.rev(out, (0,)) if swapped and not flip else out


@public("mode", "precision", "preferred_element_type")
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None,
             preferred_element_type: DTypeLike | None = None) -> Array:
    """Discrete convolution of two lines, in float.

    Args:
      a, v: numbers with one axis.
      mode: "full" (every overlap), "same" (as long as the longer one), "valid" (full overlaps only).

    >>> convolve(np.array([1, 2]), np.array([1, 1]))
    Array([1., 3., 2.], dtype=float32)
    """
    return _slide("convolve", a, v, mode, True, precision, preferred_element_type)


@public("mode", "precision", "preferred_element_type")
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None,
              preferred_element_type: DTypeLike | None = None) -> Array:
    """Cross-correlation of two lines: `sum(a[n + k] * conj(v[n]))` for each shift k."""
    v = own_array("correlate", v, 1)
    if dtypes.is_complex(typeof(v).dtype):
        v = lax.conj(v)
    return _slide("correlate", a, v, mode, False, precision, preferred_element_type)


def _window(call: str, M: int, host: Any) -> Any:
    return put(np.asarray(host(M)), dtypes.canonical_float())


def bartlett(M: int) -> Array:
    """The triangular window of `M` points."""
    return _window("bartlett", M, np.bartlett)


def blackman(M: int) -> Array:
    """The Blackman window of `M` points."""
    return _window("blackman", M, np.blackman)


def hamming(M: int) -> Array:
    """The Hamming window of `M` points."""
    return _window("hamming", M, np.hamming)


def hanning(M: int) -> Array:
    """The Hann window of `M` points."""
    return _window("hanning", M, np.hanning)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of `M` points and shape `beta`."""
    d = dtypes.canonical_float()
    if M == 1:
        return cast(asarray([1.0]), d)
    k = arange(M, dtype=d)
    half = (M - 1) / 2.0
    inside = 1 - ((k - half) / half) ** 2
    x, y = pair("kaiser", beta, lax.sqrt(lax.max(inside, literal(0, d))))
    return i0(lax.mul(x, y)) / i0(beta)
