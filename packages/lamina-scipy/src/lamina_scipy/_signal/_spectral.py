"""Spectra of overlapping segments: Welch's, and the short-time Fourier transform with its inverse."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamina_numpy as lnp
import numpy as np
from typing_extensions import override
from lamina_ir import ShapeError, dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_numpy.extend import ignore_strict_promotion, to_inexact
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import check_axis, typeof

from .._util import check_count
from ._detrend import detrend as _detrend
from ._windows import make_window

__all__ = ["csd", "istft", "stft", "welch"]

_SPECTRAL = docstring_entries("""
    x: number array: a signal along `axis`.
    fs: samples per second.
    window: weights of a segment: an array, a name ("hann", "blackman", ...), or a tuple of name and parameters such as
      ("kaiser", beta) or ("tukey", 0.3). All periodic windows of `scipy.signal.get_window` are available.
    noverlap: number of samples that adjacent segments share; None for half a segment.
    nfft: length of the transforms, at least `nperseg`; segments are padded with zeros. None for `nperseg`.
    detrend: "constant", "linear", False, or a function of the segments `[..., nperseg]`.
    scaling: "density" for power per Hz, "spectrum" for power.
    axis: which axis; negative counts from the end.
    average: "mean" or "median" over the segments.
    ValueError: `scaling`, `average`, `window` or `detrend` is unknown; `noverlap` or `nfft` does not fit `nperseg`.
    ShapeError: `axis` is out of range for `x`.
    TypeError: `x` is neither an array nor a number.
    """)


@fill_docstring(_SPECTRAL)
def welch(x: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
          nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density",
          axis: int = -1, average: str = "mean") -> tuple[Array, Array]:
    """The power spectrum of a signal, averaged over segments.

    Args:
      {x, fs, window}
      nperseg: samples per segment; None for 256, or the length of the array `window`. Not more than the signal has.
      {noverlap, nfft, detrend}
      return_onesided: of a real signal give frequencies from 0 on alone, with the power of the negative ones.
      {scaling, axis, average}
    Returns:
      Frequencies in Hz `[k]`, and a real array with k frequencies along `axis`. Where there are no samples
      both are empty arrays in the shape of `x`.
    Raises: {ValueError, ShapeError, TypeError}

    Source: meaning of `scipy.signal.welch`; Welch, "The use of the fast Fourier transform for the estimation of power
      spectra" (1967).

    >>> f, power = welch(np.sin(np.arange(64) * np.pi / 2), nperseg=16)
    >>> f[power.argmax()]
    Array(0.25, dtype=float32)
    """
    return _csd("welch", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


@fill_docstring(_SPECTRAL)
def csd(x: ArrayLike, y: ArrayLike | None, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None,
        noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True,
        scaling: str = "density", axis: int = -1, average: str = "mean") -> tuple[Array, Array]:
    """The cross power spectrum of two signals, averaged over segments: that of `y` times the conjugate of that of `x`.

    Args:
      x, y: number arrays: signals along `axis`, whose other axes broadcast; the shorter is filled up with zeros. None
        for `y`: `x`.
      {fs, window}
      nperseg: samples per segment; None for 256, or the length of the array `window`. Not more than the signals have.
      {noverlap, nfft, detrend}
      return_onesided: of real signals give frequencies from 0 on alone, with the power of the negative ones.
      {scaling, axis, average}
    Returns:
      Frequencies in Hz `[k]`, and a complex array with k frequencies along `axis`, real where `y` is None.
      Where there are no samples both are empty arrays in the shape of the signals.
    Raises:
      {ValueError}
      ShapeError: `axis` is outside of a signal, or the other axes do not broadcast.
      TypeError: `x` or `y` is neither an array nor a number.

    Source: meaning of `scipy.signal.csd`; Welch (1967).

    >>> x = np.sin(np.arange(64) * np.pi / 2)
    >>> f, both = csd(x, np.roll(x, 1), nperseg=16)
    >>> round(float(np.angle(both)[4]), 3)
    -1.571
    """
    return _csd("csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


@fill_docstring(_SPECTRAL)
def stft(x: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int = 256, noverlap: int | None = None,
         nfft: int | None = None, detrend: Any = False, return_onesided: bool = True, boundary: str | None = "zeros",
         padded: bool = True, axis: int = -1) -> tuple[Array, Array, Array]:
    """The Fourier transforms of overlapping segments of a signal.

    Args:
      {x, fs, window}
      nperseg: samples per segment. Not more than the signal has.
      {noverlap, nfft, detrend}
      return_onesided: of a real signal give frequencies from 0 on alone.
      boundary: how the signal goes on for half a segment at both ends: "zeros", "constant", "even", "odd"; None: not
        at all.
      padded: fill the end up with zeros, so that all samples are in a segment.
      axis: which axis; negative counts from the end.
    Returns:
      Frequencies in Hz `[k]`, times in seconds `[s]`, and a complex array with k frequencies along `axis` and s
      segments last. Where there are no samples all are empty arrays in the shape of `x`.
    Raises:
      ValueError: `boundary`, `window` or `detrend` is another word; `noverlap` or `nfft` does not fit `nperseg`.
      {ShapeError, TypeError}

    Derivative: linear.
    Source: meaning of `scipy.signal.stft`.

    >>> f, t, z = stft(np.ones(64), nperseg=16)
    >>> f.shape, t.shape, z.shape
    ((9,), (9,), (9, 9))
    """
    call = "stft"
    if boundary not in ("zeros", "constant", "even", "odd", None):
        raise ValueError(f"{call}: boundary must be 'zeros', 'constant', 'even', 'odd' or None; got {boundary!r}")
    none = _make_empty_result(call, axis, x)
    if none is not None:
        return none, none, none + 0j
    x, axis = _prepare_signal(call, x, axis)
    plan = _Plan(call, window, nperseg, noverlap, nfft, typeof(x).shape[-1])
    z, length = _stft(x, plan.make_weights(x), plan, detrend, return_onesided, boundary, padded)
    real = np.finfo(typeof(x).dtype).dtype
    times = lnp.arange(plan.size / 2, length - plan.size / 2 + 1, plan.step, dtype=real)
    times = (times - plan.size / 2 if boundary else times) / fs
    return plan.make_frequencies(fs, _is_one_sided(x, return_onesided), real), times, lnp.moveaxis(z, -2, axis)


@fill_docstring(_SPECTRAL)
def istft(Zxx: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
          nfft: int | None = None, input_onesided: bool = True, boundary: bool = True, time_axis: int = -1,
          freq_axis: int = -2) -> tuple[Array, Array]:
    """The signal that `stft` with the same settings leads to `Zxx` from.

    Args:
      Zxx: number array: transforms along `freq_axis` of segments along `time_axis`.
      {fs, window}
      nperseg: samples per segment; None to infer it from the frequencies.
      noverlap: how many samples adjacent segments share; None for half a segment.
      nfft: length of the transforms; None to infer it from the frequencies. Frequencies it lacks are cut off, those that
        `Zxx` lacks are zero.
      input_onesided: there are frequencies from 0 on alone, of a real signal.
      boundary: the signal was continued for half a segment at both ends: take that off.
      time_axis, freq_axis: which axes; negative count from the end.
    Returns:
      Times in seconds `[n]`, and the signal along the place of `time_axis`: real for one-sided transforms, else
      complex.
    Raises:
      ValueError: `window` is another word; `noverlap` or `nfft` does not fit `nperseg`.
      ShapeError: `Zxx` has fewer than two axes, or one axis is named twice.
      TypeError: `Zxx` is neither an array nor a number.

    Derivative: linear.
    Source: meaning of `scipy.signal.istft`; Griffin and Lim, "Signal estimation from modified short-time Fourier
      transform" (1984).

    >>> _, x = istft(stft(np.arange(8.), nperseg=4)[2], nperseg=4)
    >>> x.round(3) + 0
    Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """
    call = "istft"
    z = to_inexact(call, Zxx)
    t = typeof(z)
    rank = len(t.shape)
    if rank < 2:
        raise ShapeError(f"{call}: expected Zxx of two axes or more; got {t.str_long()}")
    time, frequency = check_axis(call, time_axis, rank, "time_axis"), check_axis(call, freq_axis, rank, "freq_axis")
    if time == frequency:
        raise ShapeError(f"{call}: time_axis and freq_axis are the same axis, {time}")
    z = lnp.moveaxis(z, (frequency, time), (-2, -1))
    count = t.shape[frequency]
    inferred = 2 * (count - 1) if input_onesided else count
    size = inferred if nperseg is None and isinstance(window, (str, tuple)) else nperseg
    if nfft is None:
        nfft = size if input_onesided and size == inferred + 1 else inferred
    plan = _Plan(call, window, size, noverlap, nfft, None)
    x = _istft(z, plan.make_weights(z), plan, input_onesided, boundary)
    real = np.finfo(typeof(x).dtype).dtype
    place = time - 1 if frequency < time else time
    return lnp.arange(typeof(x).shape[-1], dtype=real) / fs, lnp.moveaxis(x, -1, place)


class _Plan:
    """How a signal is cut: sizes checked, and equal to those of an equal cut, so that programs are found again."""

    def __init__(self, call: str, window: Any, nperseg: Any, noverlap: Any, nfft: Any, length: int | None) -> None:
        named = isinstance(window, (str, tuple))
        if nperseg is None:
            nperseg = 256 if named else lnp.shape(window)[0] if lnp.ndim(window) == 1 else 0
            nperseg = min(nperseg, length) if named and length is not None else nperseg
        size = check_count(call, "nperseg", nperseg, 1)
        if length is not None and size > length:
            if not named:
                raise ShapeError(f"{call}: the window has {size} weights, the signal {length} samples")
            size = length  # as SciPy does, which warns
        self.call, self.window, self.size = call, window, size
        overlap = size // 2 if noverlap is None else check_count(call, "noverlap", noverlap, 0)
        if overlap >= size:
            raise ValueError(f"{call}: noverlap must be less than nperseg, {size}; got {noverlap}")
        self.step = size - overlap
        self.nfft = size if nfft is None else check_count(call, "nfft", nfft, 1)
        if self.nfft < size:
            raise ValueError(f"{call}: nfft must be nperseg, {size}, at least; got {nfft}")
        self._key = (call, self.size, self.step, self.nfft)

    @override
    def __hash__(self) -> int:
        return hash(self._key)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Plan) and self._key == other._key

    def make_weights(self, x: Any) -> Any:
        """The window, in the precision of `x`."""
        w = make_window(self.call, self.window, self.size)
        real = np.finfo(typeof(x).dtype).dtype
        return lnp.asarray(w, np.result_type(typeof(w).dtype, np.complex64) if dtypes.is_complex(typeof(w).dtype) else real)

    def make_frequencies(self, fs: Any, one_sided: bool, real: Any) -> Any:
        n = self.nfft
        shares = np.fft.rfftfreq(n) if one_sided else np.fft.fftfreq(n)
        return lnp.asarray(shares, real) * fs


def _prepare_signal(call: str, x: Any, axis: int) -> tuple[Any, int]:
    """A signal along its last axis, in float32 at least, and where that was, counted from the end."""
    x = to_inexact(call, x)
    t = typeof(x)
    place = check_axis(call, axis, len(t.shape))
    if t.shape[place] == 0:
        raise ShapeError(f"{call}: expected samples along axis {place}; got {t.str_long()}")
    x = lnp.asarray(x, np.float32 if t.dtype.itemsize < 4 else t.dtype)
    return lnp.moveaxis(x, place, -1), place


def _make_empty_result(call: str, axis: int, *xs: Any) -> Any:
    """Where there are no samples along the axis, what SciPy gives for frequencies and powers: an empty array of the shape."""
    if not any(0 in getattr(x, "shape", ()) for x in xs):
        return None
    xs = tuple(to_inexact(call, x) for x in xs)
    places = [check_axis(call, axis, len(typeof(x).shape)) for x in xs]
    if all(typeof(x).shape[place] for x, place in zip(xs, places)):
        return None
    rest = [(*typeof(x).shape[:place], *typeof(x).shape[place + 1:]) for x, place in zip(xs, places)]
    d = np.result_type(np.float32, *[dtypes.real_dtype(typeof(x).dtype) for x in xs if typeof(x).dtype.itemsize > 2])
    return lnp.moveaxis(lnp.zeros((*lnp.broadcast_shapes(*rest), 0), d), -1, max(places))


def _is_one_sided(x: Any, wanted: bool) -> bool:
    return wanted and not dtypes.is_complex(typeof(x).dtype)


def _make_detrend(call: str, how: Any) -> Callable[[Any], Any]:
    if callable(how):
        return how
    if how is False or how is None:
        return lambda x: x
    if how not in ("constant", "linear"):
        raise ValueError(f"{call}: detrend must be 'constant', 'linear', False or a function; got {how!r}")
    return lambda x: _detrend(x, -1, how)


def _transform_segments(x: Any, w: Any, plan: _Plan, detrend: Any, one_sided: bool) -> Any:
    """`[..., segments, frequencies]`."""
    n = typeof(x).shape[-1]
    count = (n - plan.size) // plan.step + 1
    at = np.arange(count)[:, None] * plan.step + np.arange(plan.size)
    parts = _make_detrend(plan.call, detrend)(lnp.take(x, at.astype(np.int32), axis=-1)) * w
    return lnp.fft.rfft(parts, plan.nfft) if one_sided else lnp.fft.fft(parts, plan.nfft)


@ignore_strict_promotion
def _stft_core(x: Any, w: Any, plan: _Plan, detrend: Any, onesided: bool, boundary: str | None, padded: bool) -> Any:
    half, last = plan.size // 2, [(0, 0)] * (len(typeof(x).shape) - 1)
    if boundary:
        how = {"zeros": {}, "constant": {"mode": "edge"}, "even": {"mode": "reflect"},
               "odd": {"mode": "reflect", "reflect_type": "odd"}}[boundary]
        x = lnp.pad(x, [*last, (half, half)], **how)
    if padded:
        more = -(typeof(x).shape[-1] - plan.size) % plan.step
        x = lnp.pad(x, [*last, (0, more)])
    z = _transform_segments(x, w, plan, detrend, _is_one_sided(x, onesided)) / lnp.abs(lnp.sum(w))
    return lnp.swapaxes(z, -1, -2)


_stft_jitted = jit(_stft_core, static_argnames=("plan", "detrend", "onesided", "boundary", "padded"), inline=True)


def _stft(x: Any, w: Any, plan: _Plan, detrend: Any, onesided: bool, boundary: Any, padded: bool) -> tuple[Any, int]:
    length = typeof(x).shape[-1] + (2 * (plan.size // 2) if boundary else 0)
    if padded:
        length += -(length - plan.size) % plan.step
    return _stft_jitted(x, w, plan, detrend, bool(onesided), boundary, bool(padded)), length


@ignore_strict_promotion
def _istft_core(z: Any, w: Any, plan: _Plan, onesided: bool, boundary: bool) -> Any:
    z = lnp.swapaxes(z, -1, -2)
    count = typeof(z).shape[-2]
    parts = (lnp.fft.irfft(z, plan.nfft) if onesided else lnp.fft.ifft(z, plan.nfft))[..., :plan.size]
    parts = parts * (w * lnp.sum(w))
    length = plan.size + (count - 1) * plan.step
    at = (np.arange(count)[:, None] * plan.step + np.arange(plan.size)).astype(np.int32)
    x = lnp.zeros((*typeof(parts).shape[:-2], length), typeof(parts).dtype).at[..., at].add(parts)
    norm = lnp.zeros(length, typeof(w).dtype).at[at].add(lnp.square(w))
    half = plan.size // 2
    if boundary:
        x, norm = x[..., half:length - half], norm[half:length - half]
    return x / lnp.where(norm > 1e-10, norm, 1)


_istft = jit(_istft_core, static_argnames=("plan", "onesided", "boundary"), inline=True)


def _csd(call: str, x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any, detrend: Any, onesided: bool,
         scaling: str, axis: int, average: str) -> tuple[Any, Any]:
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"{call}: scaling must be 'density' or 'spectrum'; got {scaling!r}")
    if average not in ("mean", "median"):
        raise ValueError(f"{call}: average must be 'mean' or 'median'; got {average!r}")
    none = _make_empty_result(call, axis, *((x,) if y is None else (x, y)))
    if none is not None:
        return none, none if y is None else none + 0j
    x, place = _prepare_signal(call, x, axis)
    ranks = [len(typeof(x).shape)]
    if y is not None:
        y, other = _prepare_signal(call, y, axis)
        ranks.append(len(typeof(y).shape))
        n = max(typeof(x).shape[-1], typeof(y).shape[-1])
        x, y = (lnp.pad(s, [(0, 0)] * (len(typeof(s).shape) - 1) + [(0, n - typeof(s).shape[-1])]) for s in (x, y))
        d = np.result_type(typeof(x).dtype, typeof(y).dtype)
        x, y, place = lnp.astype(x, d), lnp.astype(y, d), max(place, other)
    plan = _Plan(call, window, nperseg, noverlap, nfft, typeof(x).shape[-1])
    power = _power(x, y, plan.make_weights(x), fs, plan, detrend, bool(onesided), scaling, average)
    real = np.finfo(typeof(x).dtype).dtype
    return plan.make_frequencies(fs, _is_one_sided(x, onesided), real), lnp.moveaxis(power, -1, place)


@ignore_strict_promotion
def _power_core(x: Any, y: Any, w: Any, fs: Any, plan: _Plan, detrend: Any, onesided: bool, scaling: str,
                average: str) -> Any:
    half = _is_one_sided(x, onesided)
    a = _transform_segments(x, w, plan, detrend, half)
    if y is None:
        power = lnp.square(lax.real(a)) + lnp.square(lax.imag(a))
    else:
        power = lnp.conj(a) * _transform_segments(y, w, plan, detrend, half)
    if half and plan.nfft > 1:
        twice = np.full(plan.nfft // 2 + 1, 2.0)
        twice[0] = 1
        if plan.nfft % 2 == 0:
            twice[-1] = 1
        power = power * twice.astype(np.finfo(typeof(x).dtype).dtype)
    size = lnp.sum(lnp.square(lnp.abs(w))) * fs if scaling == "density" else lnp.square(lnp.abs(lnp.sum(w)))
    power = power / size
    if average == "mean":
        return lnp.mean(power, -2)
    n = typeof(power).shape[-2]
    odd = np.arange(2, n, 2)  # the median of n exponential variables, divided by their mean
    bias = float(1 + (1 / (odd + 1) - 1 / odd).sum())  # a Python number, which widens nothing
    if y is None:
        return lnp.median(power, -2) / bias
    return lax.complex(lnp.median(lax.real(power), -2), lnp.median(lax.imag(power), -2)) / bias


_power = jit(_power_core, static_argnames=("plan", "detrend", "onesided", "scaling", "average"), inline=True)
