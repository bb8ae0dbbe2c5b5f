"""`fft`: the discrete Fourier transform over the last axes, in four variants named by `FftType`."""
from __future__ import annotations

from enum import IntEnum

import numpy as np
from typing_extensions import override

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._types.param_values import register_param_type
from .._core.param_types import KINDS, is_enum_of
from .._core.primitive import Primitive
from ..typing import Function, Value

__all__ = ["FftType", "fft_p"]


@register_param_type
class FftType(IntEnum):
    """The variant: complex to complex, its inverse, real to half spectrum, half spectrum to real.

    >>> FftType.RFFT
    FftType.RFFT
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3

    @override
    def __repr__(self) -> str:
        return "FftType." + self.name

    @override
    def __str__(self) -> str:
        return self.name


_IN = {FftType.RFFT: frozenset(map(np.dtype, ("float32", "float64")))}
_COMPLEX = frozenset(map(np.dtype, ("complex64", "complex128")))


def _fft_infer(x: ShapedArray, *, fft_lengths: tuple[int, ...], fft_type: FftType) -> ShapedArray:
    if fft_type not in _NUMPY:
        raise DTypeError(f"fft: fft_type must be one of {', '.join(map(repr, FftType))}; got {fft_type!r}")
    n = len(fft_lengths)
    got = f"got {x.str_long()}, fft_type {fft_type}, fft_lengths {fft_lengths}"
    if x.dtype not in _IN.get(fft_type, _COMPLEX):
        wanted = "float32 or float64" if fft_type == FftType.RFFT else "complex64 or complex128"
        # StableHLO fft C2
        raise DTypeError(f"fft: the operand of {fft_type} must be {wanted}; {got}")
    if not 1 <= n <= 3:
        # StableHLO fft C3
        raise ShapeError(f"fft: one to three axes can be transformed at once; {got}")
    if len(x.shape) < n:
        # StableHLO fft C1
        raise ShapeError(f"fft: the operand has fewer axes than fft_lengths; {got}")
    last = fft_lengths[-1] // 2 + 1 if fft_type == FftType.IRFFT else fft_lengths[-1]
    lengths = (*fft_lengths[:-1], last)
    if x.shape[-n:] != lengths:
        # StableHLO fft C4, C5
        raise ShapeError(f"fft: the last axes must have lengths {lengths}; {got}")
    if fft_type == FftType.RFFT:
        return shaped((*x.shape[:-1], fft_lengths[-1] // 2 + 1), dtypes.complex_dtype(x.dtype))
    if fft_type == FftType.IRFFT:
        return shaped((*x.shape[:-1], fft_lengths[-1]), dtypes.real_dtype(x.dtype))
    return shaped(x.shape, x.dtype)


_NUMPY = {FftType.FFT: "fftn", FftType.IFFT: "ifftn", FftType.RFFT: "rfftn", FftType.IRFFT: "irfftn"}  # in numpy.fft


def _fft(x: Value, *, fft_lengths: tuple[int, ...], fft_type: FftType) -> Value:
    out = _fft_infer(shaped(x.shape, x.dtype), fft_lengths=fft_lengths, fft_type=fft_type)
    if not x.size or not out.size:
        return np.zeros(out.shape, out.dtype)
    axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
    transform: Function = getattr(np.fft, _NUMPY[FftType(fft_type)])
    return transform(x, fft_lengths, axes).astype(out.dtype)


KINDS["fft type"] = ("an enum `FftType`", is_enum_of(FftType))
fft_p = Primitive("fft", params=("fft_lengths", "fft_type"), family="fft", infer=_fft_infer, numpy=_fft, linear_in=(0,),
                  spec="fft", kinds={"fft_type": "fft type"})
