"""`numpy.fft` on the transforms over last axes that `lax.fft` has."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lamina_ir import dtypes

from .. import lax
from .._core.tracer import typeof
from ._registry import as_array, axes_of, cast, index, inexact, ndim_of, row, rows, shape_of

__all__: list[str] = []


def _fitted(x: Any, axis: int, n: int) -> Any:
    """An axis cut or filled with zeros to a length."""
    have = shape_of(x)[axis]
    if have > n:
        return lax.slice_in_dim(x, 0, n, axis=axis)
    widths = [(0, n - have if i == axis else 0, 0) for i in range(ndim_of(x))]
    return x if have == n else lax.pad(x, typeof(x).dtype.type(0), widths)


def _scaled(x: Any, kind: str, norm: Any, count: int) -> Any:
    """By 1, 1/n or the root of it: the inverse transforms of `lax` have 1/n already."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"numpy.fft: norm must be 'backward', 'ortho', 'forward' or None; got {norm!r}")
    back = kind.startswith("I")
    factor = {None: 1.0, "backward": 1.0, "ortho": 1 / math.sqrt(count), "forward": 1 / count}[norm]
    if back and norm in ("ortho", "forward"):
        factor = math.sqrt(count) if norm == "ortho" else count
    return x if factor == 1.0 else rows["multiply"](x, factor)


def _along(kind: str, a: Any, n: Any, axis: int, norm: Any) -> Any:
    x = inexact(a)
    along, = axes_of("fft", (axis,), x)
    size = shape_of(x)[along]
    length = (2 * (size - 1) if kind == "IRFFT" else size) if n is None else index(n)
    if length < 1:
        raise ValueError(f"numpy.fft: the number of points must be 1 or more; got {length}")
    x = rows["moveaxis"](_fitted(x, along, length // 2 + 1 if kind == "IRFFT" else length), along, -1)
    if kind != "RFFT":
        x = x if dtypes.is_complex(typeof(x).dtype) else cast(x, dtypes.complex_dtype(typeof(x).dtype))
    return rows["moveaxis"](_scaled(lax.fft(x, kind, (length,)), kind, norm, length), -1, along)


def _one(name: str, kind: str) -> None:
    row(f"fft.{name}")(lambda a, n=None, axis=-1, norm=None, out=None: _along(kind, a, n, axis, norm))


for _name, _kind in (("fft", "FFT"), ("ifft", "IFFT"), ("rfft", "RFFT"), ("irfft", "IRFFT")):
    _one(_name, _kind)


_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


@row("fft.hfft")
def hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: None = None) -> Any:
    return _along("IRFFT", rows["conjugate"](as_array(a)), n, axis, _SWAPPED[norm])


@row("fft.ihfft")
def ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: None = None) -> Any:
    return rows["conjugate"](_along("RFFT", a, n, axis, _SWAPPED[norm]))


def _axes(a: Any, s: Any, axes: Any) -> tuple[Any, list[int], Sequence[Any]]:
    x = as_array(a)
    if axes is None:
        axes = range(-len(s), 0) if s is not None else range(ndim_of(x))
    found = list(axes_of("fft", tuple(axes), x))
    return x, found, [None] * len(found) if s is None else [None if n == -1 else n for n in s]


def _many(name: str, kind: str, default: Any) -> None:
    @row(f"fft.{name}")
    def transform(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: None = None) -> Any:
        x, axes, lengths = _axes(a, s, axes)
        if kind == "RFFT" and axes:
            x = _along("RFFT", x, lengths[-1], axes[-1], norm)
            axes, lengths = axes[:-1], lengths[:-1]
        turn = "IFFT" if kind in ("IFFT", "IRFFT") else "FFT"
        last = [(axes.pop(), lengths[len(axes)])] if kind == "IRFFT" else []
        for axis, n in reversed(list(zip(axes, lengths))):
            x = _along(turn, x, n, axis, norm)
        for axis, n in last:
            x = _along("IRFFT", x, n, axis, norm)
        return x


for _name, _kind in (("fft", "FFT"), ("ifft", "IFFT"), ("rfft", "RFFT"), ("irfft", "IRFFT")):
    _many(f"{_name}2", _kind, (-2, -1))
    _many(f"{_name}n", _kind, None)


def _shift(name: str, sign: int) -> None:
    @row(f"fft.{name}")
    def shift(x: Any, axes: Any = None) -> Any:
        x = as_array(x)
        axes = axes_of(name, axes, x)
        return rows["roll"](x, [sign * (shape_of(x)[i] // 2) for i in axes], axes)


_shift("fftshift", 1)
_shift("ifftshift", -1)
