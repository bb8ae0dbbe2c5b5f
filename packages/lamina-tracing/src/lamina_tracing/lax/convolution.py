"""Convolutions: the general one, its common forms, and the windows themselves.

`padding` is a pair `(low, high)` per spatial axis, negative to crop, or a string. "VALID" pads nothing. "SAME" pads so
that there are `ceil(length / stride)` windows, an odd one at the end. "SAME_LOWER" puts it at the start.
`dimension_numbers` is a `ConvDimensionNumbers`, or three strings over the axes such as `("NHWC", "HWIO", "NHWC")`: N
batch, C feature, I and O input and output feature, other letters spatial axes; None means batch, feature, then spatial
axes.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as _int

import numpy as np
from lamina_ir import ShapeError, config, dtypes, prims
from lamina_ir.prims import ConvDimensionNumbers, as_precision, window_count

from .._core.array import Array
from .._diagnostics.argument_errors import rename_errors
from . import shape as sh
from ._util.operands import ArrayLike, as_dtype, as_int, as_ints, bind, scalar, typeof
from ._util.conversions import convert_element_type
from .elementwise import ne
from .products import PrecisionLike, dot_general
from .windows import pads_of_word
from .._typing import Unchecked

__all__ = ["ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv", "conv_dimension_numbers",
           "conv_general_dilated", "conv_general_dilated_local", "conv_general_dilated_patches",
           "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose",
           "conv_transpose_shape_tuple", "conv_with_general_padding"]

ConvGeneralDilatedDimensionNumbers = ConvDimensionNumbers | tuple[str, str, str] | None
Padding = str | Sequence[tuple[int, int]]
_default_precision = config.default_matmul_precision


# --- dimension numbers --------------------------------------------------------------------------------------------
@rename_errors
def conv_dimension_numbers(lhs_shape: Sequence[int], rhs_shape: Sequence[int],
                           dimension_numbers: ConvGeneralDilatedDimensionNumbers) -> ConvDimensionNumbers:
    """Convert dimension numbers from any of their forms, and check them against the ranks of the operands.

    Args:
      lhs_shape, rhs_shape: shapes (or anything of that length) of input and kernels.
      dimension_numbers: None, three words, or a `ConvDimensionNumbers`.

    >>> conv_dimension_numbers((2, 9, 9, 3), (3, 3, 3, 8), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    return _numbers("conv_dimension_numbers", len(lhs_shape), len(rhs_shape), dimension_numbers)


def _numbers(call: str, lhs_ndim: int, rhs_ndim: int, numbers: Unchecked) -> ConvDimensionNumbers:
    if isinstance(numbers, ConvDimensionNumbers):
        return numbers
    if lhs_ndim != rhs_ndim or lhs_ndim < 2:
        raise ShapeError(f"{call}: lhs and rhs need equally many axes, at least two; got {lhs_ndim} and {rhs_ndim}")
    if numbers is None:
        plain = tuple(range(lhs_ndim))
        return ConvDimensionNumbers(plain, plain, plain)
    if not isinstance(numbers, (tuple, list)) or len(numbers) != 3 or not all(isinstance(w, str) for w in numbers):
        raise TypeError(f"{call}: dimension_numbers must be None, a lax.ConvDimensionNumbers, or three words such as "
                        f"('NHWC', 'HWIO', 'NHWC'); got {numbers!r}")
    if any(len(w) != lhs_ndim for w in numbers):
        raise ShapeError(f"{call}: each word of dimension_numbers needs one letter for each of {lhs_ndim} axes; got "
                         f"{tuple(numbers)}")
    lhs, rhs, out = conv_general_permutations(numbers)
    return ConvDimensionNumbers(lhs, rhs, out)


@rename_errors
def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return, for each of three specifications, the axes in the order batch (or O), feature (or I), then spatial axes
    as in that of the kernels.

    >>> conv_general_permutations(("NWHC", "IHWO", "NCHW"))
    ((0, 3, 2, 1), (3, 0, 1, 2), (0, 1, 2, 3))
    """
    words = lhs, rhs, out = tuple(dimension_numbers)
    space = [c for c in rhs if c not in "OI"]
    for word, letters in zip(words, ("NC", "OI", "NC"), strict=True):
        if sorted(word) != sorted([*letters, *space]) or len(set(word)) != len(word):
            raise ValueError("conv_general_permutations: the words must use N and C (O and I in the second) and the "
                             f"same letters for spatial axes, each once; got {words}")
    return tuple(tuple(word.index(c) for c in (*letters, *space))
                 for word, letters in zip(words, ("NC", "OI", "NC"), strict=True))


# --- the convolution ----------------------------------------------------------------------------------------------
def _ints(argument: str, values: Sequence[int] | None, count: int) -> tuple[int, ...]:
    return (1,) * count if values is None else as_ints("conv_general_dilated", argument, values)


def _pads(call: str, padding: Unchecked, space: Sequence[int], window: Sequence[int], strides: Sequence[int],
          lhs_dilation: Sequence[int], rhs_dilation: Sequence[int]) -> tuple[tuple[int, int], ...]:
    if isinstance(padding, str):
        if not len(space) == len(window) == len(strides) == len(lhs_dilation) == len(rhs_dilation):
            raise ShapeError(f"{call}: window_strides, lhs_dilation and rhs_dilation need one entry for each of "
                             f"{len(space)} spatial axes; got {tuple(strides)}, {tuple(lhs_dilation)}, "
                             f"{tuple(rhs_dilation)}")
        if any(d != 1 for d in lhs_dilation):
            raise ValueError(f"{call}: padding {padding!r} has no meaning with lhs_dilation {tuple(lhs_dilation)}; "
                             "give pairs (low, high), or use lax.conv_transpose")
        reach = [prims.dilated_length(n, d) for n, d in zip(window, rhs_dilation, strict=True)]
        try:
            return tuple(pads_of_word(space, reach, strides, padding))
        except ValueError as error:
            raise ValueError(f"{call}: {error}") from None
    try:
        return tuple([(_int(low), _int(high)) for low, high in padding])
    except (TypeError, ValueError):
        raise ValueError(f"{call}: padding must be 'SAME', 'SAME_LOWER', 'VALID' or a pair (low, high) per spatial "
                         f"axis; got {padding!r}") from None


@rename_errors
def conv_general_dilated(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: Padding,
                         lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
                         dimension_numbers: ConvGeneralDilatedDimensionNumbers = None, feature_group_count: int = 1,
                         batch_group_count: int = 1, precision: PrecisionLike = None,
                         preferred_element_type: str | type | np.dtype | None = None) -> Array:
    """Slide kernels over an array and sum the products, as neural networks do it (kernels are not reversed).

    Args:
      lhs: the input, with a batch axis, a feature axis and spatial axes.
      rhs: the kernels, with an output feature axis, an input feature axis and spatial axes; dtype of `lhs`. Of booleans the
        result says whether any product is true (or, in `preferred_element_type`, how many are).
      window_strides: per spatial axis, the distance between windows.
      padding: per spatial axis a pair `(low, high)`, or "SAME", "SAME_LOWER", "VALID".
      lhs_dilation: per spatial axis, the dilation of the input; above 1 it is a transposed convolution.
      rhs_dilation: per spatial axis, the dilation of the kernels (atrous convolution).
      dimension_numbers: the meaning of each axis; see the docstring of this module.
      feature_group_count: the number of groups of input and output features, convolved separately.
      batch_group_count: the number of groups of the batch and of the output features.
      precision: None, a `Precision`, its name, or one for each operand; None takes `config.default_matmul_precision`.
      preferred_element_type: dtype of the sums and the result; None for the operands'.
    Returns:
      Array with the axes that `dimension_numbers` gives the result.
    Raises:
      ShapeError: sizes, groups or lists do not fit together; the message names the constraint.

    Derivative: linear in each operand. Source: StableHLO `convolution`.

    >>> conv_general_dilated(np.ones((1, 1, 4), np.float32), np.ones((1, 1, 3), np.float32), (1,), "SAME")
    Array([[[2., 3., 3., 2.]]], dtype=float32)
    """
    call = "conv_general_dilated"
    x, y = typeof(lhs), typeof(rhs)
    if dtypes.is_bool(x.dtype) and dtypes.is_bool(y.dtype):
        # Booleans are counted: any product is true if there is one.
        wide = np.dtype("int32") if preferred_element_type is None else as_dtype(call, "preferred_element_type",
                                                                                 preferred_element_type)
        counts = conv_general_dilated(convert_element_type(lhs, wide), convert_element_type(rhs, wide), window_strides,
                                      padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
                                      batch_group_count, precision)
        return ne(counts, scalar(0, wide)) if preferred_element_type is None else counts
    numbers = _numbers(call, len(x.shape), len(y.shape), dimension_numbers)
    count = len(x.shape) - 2
    strides = _ints("window_strides", window_strides, count)
    lhs_dilation = _ints("lhs_dilation", lhs_dilation, count)
    rhs_dilation = _ints("rhs_dilation", rhs_dilation, count)
    space, window = ([], []) if not isinstance(padding, str) else (
        _sizes(call, x.shape, numbers.lhs_spec), _sizes(call, y.shape, numbers.rhs_spec))
    return bind(prims.conv_general_dilated_p, lhs, rhs, batch_group_count=as_int(call, "batch_group_count", batch_group_count),
                dimension_numbers=numbers, feature_group_count=as_int(call, "feature_group_count", feature_group_count),
                lhs_dilation=lhs_dilation, padding=_pads(call, padding, space, window, strides, lhs_dilation, rhs_dilation),
                precision=as_precision(_default_precision.value if precision is None else precision),
                preferred_element_type=None if preferred_element_type is None
                else as_dtype(call, "preferred_element_type", preferred_element_type),
                rhs_dilation=rhs_dilation, window_strides=strides)


def _sizes(call: str, shape: Sequence[int], spec: Sequence[int]) -> list[int]:
    if sorted(spec) != list(range(len(shape))):
        raise ShapeError(f"{call}: each part of dimension_numbers must name every axis once; got {tuple(spec)} for an "
                         f"operand with {len(shape)} axes")
    return [shape[a] for a in spec[2:]]


@rename_errors
def conv(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str,
         precision: PrecisionLike = None, preferred_element_type: str | type | np.dtype | None = None) -> Array:
    """`conv_general_dilated` of `[N, C, ...]` with `[O, I, ...]`, without dilation.

    >>> conv(np.ones((1, 1, 4), np.float32), np.ones((1, 1, 3), np.float32), (1,), "VALID")
    Array([[[3., 3.]]], dtype=float32)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision,
                                preferred_element_type=preferred_element_type)


@rename_errors
def conv_with_general_padding(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: Padding,
                              lhs_dilation: Sequence[int] | None, rhs_dilation: Sequence[int] | None,
                              precision: PrecisionLike = None,
                              preferred_element_type: str | type | np.dtype | None = None) -> Array:
    """`conv_general_dilated` of `[N, C, ...]` with `[O, I, ...]`."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
                                preferred_element_type=preferred_element_type)


# --- transposed ---------------------------------------------------------------------------------------------------
def _transpose_pads(reach: int, stride: int, padding: str) -> tuple[int, int]:
    """Return the padding of the dilated input: the result has length `n * stride` (SAME), or at least all windows
    (VALID)."""
    word = padding.upper()
    if word == "SAME":
        total = reach + stride - 2
        low = reach - 1 if stride > reach - 1 else -(-total // 2)
    elif word == "VALID":
        total, low = reach + stride - 2 + max(reach - stride, 0), reach - 1
    else:
        raise ValueError(f"conv_transpose: padding must be 'SAME', 'VALID' or pairs; got {padding!r}")
    return low, total - low


@rename_errors
def conv_transpose(lhs: ArrayLike, rhs: ArrayLike, strides: Sequence[int], padding: Padding,
                   rhs_dilation: Sequence[int] | None = None,
                   dimension_numbers: ConvGeneralDilatedDimensionNumbers = None, transpose_kernel: bool = False,
                   precision: PrecisionLike = None,
                   preferred_element_type: str | type | np.dtype | None = None) -> Array:
    """Convolve with an input dilated by `strides`, which makes the array longer; windows move by one.

    Args:
      lhs: input of rank `n + 2`.
      rhs: kernels of rank `n + 2`.
      strides: per spatial axis, the dilation of the input.
      padding: "SAME" (length times stride), "VALID", or pairs that pad the dilated input.
      rhs_dilation: as in `conv_general_dilated`.
      dimension_numbers: as in `conv_general_dilated`; None for rank 3 to 5 puts the feature axis last everywhere.
      transpose_kernel: reverse the kernels and swap their features, which makes this the transpose of the convolution
        with the same kernels.
      precision, preferred_element_type: as in `conv_general_dilated`.

    >>> conv_transpose(np.ones((1, 2, 1), np.float32), np.ones((2, 1, 1), np.float32), (2,), "SAME").shape
    (1, 4, 1)
    """
    x, y = typeof(lhs), typeof(rhs)
    ndim = len(x.shape)
    if ndim != len(y.shape) or ndim < 2:
        raise ShapeError(f"conv_transpose: lhs and rhs need equally many axes, at least two; got lhs {x.str_long()}, rhs "
                         f"{y.str_long()}")
    if dimension_numbers is None:
        letters = "DHW"[max(5 - ndim, 0):]
        if len(letters) != ndim - 2:
            raise ValueError(f"conv_transpose: give dimension_numbers for arrays with {ndim} axes")
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    numbers = _numbers("conv_transpose", ndim, ndim, dimension_numbers)
    strides, gaps = _ints("strides", strides, ndim - 2), _ints("rhs_dilation", rhs_dilation, ndim - 2)
    if isinstance(padding, str):
        window = _sizes("conv_transpose", y.shape, numbers.rhs_spec)
        padding = [_transpose_pads(prims.dilated_length(k, g), s, padding)
                   for k, g, s in zip(window, gaps, strides, strict=True)]
    if transpose_kernel:
        rhs = sh.rev(rhs, numbers.rhs_spec[2:])
        o, i, *space = numbers.rhs_spec  # swap the features of the kernels, as in the transpose
        numbers = numbers._replace(rhs_spec=(i, o, *space))
    return conv_general_dilated(lhs, rhs, (1,) * (ndim - 2), padding, strides, gaps, numbers, precision=precision,
                                preferred_element_type=preferred_element_type)


# --- windows ------------------------------------------------------------------------------------------------------
@rename_errors
def conv_general_dilated_patches(lhs: ArrayLike, filter_shape: Sequence[int], window_strides: Sequence[int],
                                 padding: Padding, lhs_dilation: Sequence[int] | None = None,
                                 rhs_dilation: Sequence[int] | None = None,
                                 dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
                                 precision: PrecisionLike = None,
                                 preferred_element_type: str | type | np.dtype | None = None) -> Array:
    """Extract the windows of a convolution, laid out along the feature axis.

    Args:
      lhs: the input.
      filter_shape: the windows' spatial shape.
      window_strides, padding, lhs_dilation, rhs_dilation: as in `conv_general_dilated`.
      dimension_numbers: as in `conv_general_dilated`; its second part says where kernels of this shape would have axes.
      precision, preferred_element_type: as in `conv_general_dilated`.
    Returns:
      As the result of a convolution with `C * prod(filter_shape)` output features: for each input feature its window's
      elements, in row-major order.

    >>> conv_general_dilated_patches(np.float32([[[1, 2, 3]]]), (2,), (1,), "VALID")
    Array([[[1., 2.],
            [2., 3.]]], dtype=float32)
    """
    x = typeof(lhs)
    window = as_ints("conv_general_dilated_patches", "filter_shape", filter_shape)
    ndim = len(x.shape)
    numbers = _numbers("conv_general_dilated_patches", ndim, len(window) + 2, dimension_numbers)
    features, size = x.shape[numbers.lhs_spec[1]], prod(window)
    kernels = np.eye(size).reshape((1, size, 1, *window))  # each kernel selects one position
    kernels = np.broadcast_to(kernels, (features, size, 1, *window)).reshape((features * size, 1, *window))
    kernels = kernels.transpose(np.argsort(numbers.rhs_spec)).astype(x.dtype)
    return conv_general_dilated(lhs, kernels, window_strides, padding, lhs_dilation, rhs_dilation, numbers,
                                feature_group_count=features, precision=precision,
                                preferred_element_type=preferred_element_type)


@rename_errors
def conv_general_dilated_local(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: Padding,
                               filter_shape: Sequence[int], lhs_dilation: Sequence[int] | None = None,
                               rhs_dilation: Sequence[int] | None = None,
                               dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
                               precision: PrecisionLike = None) -> Array:
    """Convolve with separate kernels at each position (locally connected, weights not shared).

    Args:
      lhs: the input.
      rhs: kernels: output features, `C * prod(filter_shape)` input features (ordered as in
        `conv_general_dilated_patches`), and the spatial axes of the result.
      window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision: as in `conv_general_dilated`.
      filter_shape: the windows' spatial shape.

    >>> conv_general_dilated_local(np.float32([[[1, 2, 3]]]), np.ones((1, 2, 2), np.float32), (1,), "VALID", (2,))
    Array([[[3., 5.]]], dtype=float32)
    """
    x, y = typeof(lhs), typeof(rhs)
    ndim = len(x.shape)
    numbers = _numbers("conv_general_dilated_local", ndim, len(y.shape), dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, numbers, precision)
    (out_n, out_c, *out_space), (_, rhs_i, *rhs_space) = numbers.out_spec, numbers.rhs_spec
    made = typeof(patches).shape
    if y.shape[rhs_i] != made[out_c] or [y.shape[a] for a in rhs_space] != [made[a] for a in out_space]:
        raise ShapeError("conv_general_dilated_local: rhs needs an input feature for each of "
                         f"{made[out_c]} places in the windows, and the spatial axes "
                         f"{tuple(made[a] for a in out_space)} of the result; got rhs {y.str_long()}")
    out = dot_general(rhs, patches, (((rhs_i,), (out_c,)), (tuple(rhs_space), tuple(out_space))), precision)
    places = (*out_space, out_c, out_n)  # of the product's axes (spatial, output features, batch)
    return sh.transpose(out, tuple(int(a) for a in np.argsort(places)))


# --- shapes without arrays ----------------------------------------------------------------------------------------
@rename_errors
def conv_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], strides: Sequence[int],
                     pads: Padding, batch_group_count: int = 1) -> tuple[int, ...]:
    """Return the shape of the convolution of `[N, C, ...]` with `[O, I, ...]`.

    >>> conv_shape_tuple((2, 3, 9), (4, 3, 3), (2,), "VALID")
    (2, 4, 4)
    """
    lhs_shape, rhs_shape = tuple(lhs_shape), tuple(rhs_shape)
    space, window = lhs_shape[2:], rhs_shape[2:]
    if len(strides) != len(space) or len(window) != len(space):
        raise ShapeError(f"conv_shape_tuple: expected one stride for each spatial axis; got strides {tuple(strides)} "
                         f"for shapes {lhs_shape} and {rhs_shape}")
    if lhs_shape[0] % batch_group_count:
        raise ShapeError(f"conv_shape_tuple: batch_group_count {batch_group_count} must divide the batch size "
                         f"{lhs_shape[0]}")
    ones = (1,) * len(space)
    pads = _pads("conv_shape_tuple", pads, space, window, strides, ones, ones)
    if len(pads) != len(space):
        raise ShapeError(f"conv_shape_tuple: expected one padding for each spatial axis; got {pads} for shapes "
                         f"{lhs_shape} and {rhs_shape}")
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *map(window_count, space, window, strides, pads))


def _general(call: str, lhs_shape: Sequence[int], rhs_shape: Sequence[int], strides: Sequence[int], padding: Unchecked,
             dimension_numbers: ConvGeneralDilatedDimensionNumbers, transposed: bool) -> tuple[int, ...]:
    lhs_shape, rhs_shape = tuple(lhs_shape), tuple(rhs_shape)
    numbers = _numbers(call, len(lhs_shape), len(rhs_shape), dimension_numbers)
    lhs, rhs = ([s[a] for a in spec] for s, spec in zip((lhs_shape, rhs_shape), numbers[:2], strict=True))
    if transposed:
        if isinstance(padding, str):
            padding = [_transpose_pads(k, s, padding) for k, s in zip(rhs[2:], strides, strict=True)]
        lhs[2:] = [prims.dilated_length(n, s) for n, s in zip(lhs[2:], strides, strict=True)]
        strides = (1,) * len(strides)
    shape = conv_shape_tuple(lhs, rhs, strides, padding)
    return tuple(shape[k] for k in np.argsort(numbers.out_spec))


@rename_errors
def conv_general_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int],
                             padding: Padding, dimension_numbers: ConvGeneralDilatedDimensionNumbers,
                             ) -> tuple[int, ...]:
    """Return the shape of `conv_general_dilated` without dilation and groups."""
    return _general("conv_general_shape_tuple", lhs_shape, rhs_shape, window_strides, padding, dimension_numbers, False)


@rename_errors
def conv_transpose_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int],
                               padding: Padding, dimension_numbers: ConvGeneralDilatedDimensionNumbers,
                               ) -> tuple[int, ...]:
    """Return the shape of `conv_transpose`."""
    return _general("conv_transpose_shape_tuple", lhs_shape, rhs_shape, window_strides, padding, dimension_numbers,
                    True)
