"""The layers of `stax` that look at windows: convolutions, and the largest, mean or sum of each window."""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lamina_numpy as lnp
import lamina_random as random
import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_numpy.extend import to_inexact
from lamina_tracing import ArrayLike, lax
from lamina_tracing.extend import as_int, typeof

from ._layer_errors import F, Layer, check_input_shape, layer
from .initializers import Initializer, glorot_normal, normal

__all__ = ["AvgPool", "Conv", "Conv1DTranspose", "ConvTranspose", "GeneralConv", "GeneralConvTranspose", "MaxPool",
           "SumPool", "check_size"]


def _document(entries: Mapping[str, str]) -> Callable[[F], F]:
    """Mark a constructor of layers whose docstring uses shared entries."""
    return lambda maker: layer(fill_docstring(entries)(maker))


def check_size(call: str, name: str, n: Any) -> int:
    """An argument that is a number of things."""
    n = as_int(call, name, n)
    if n < 0:
        raise ValueError(f"{call}: {name} must not be negative; got {n}")
    return n


def _check_lengths(call: str, name: str, values: Any, count: int | None = None) -> tuple[int, ...]:
    """Lengths along the axes of windows."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise TypeError(f"{call}: {name} must be a sequence with an integer for each axis of the window; got {values!r}")
    found = tuple(check_size(call, name, n) for n in values)
    if count is not None and len(found) != count or 0 in found:
        raise ShapeError(f"{call}: {name} has a positive length for each of {len(found) if count is None else count} axes of "
                         f"the window; got {found}")
    return found


def _check_padding(call: str, padding: Any, count: int) -> Any:
    """A word, or a pair for each axis of windows."""
    if isinstance(padding, str):
        return padding
    try:
        pairs = tuple((operator.index(low), operator.index(high)) for low, high in padding)
    except (TypeError, ValueError):
        raise TypeError(f"{call}: padding is 'VALID', 'SAME', 'SAME_LOWER', or pairs (low, high); got {padding!r}") from None
    if len(pairs) != count:
        raise ShapeError(f"{call}: padding must have a pair for each of {count} axes of the window; got {pairs}")
    return pairs


_CONV = docstring_entries("""
    dimension_numbers: the axes of inputs, kernel and result: N for the batch, C for features (I and O in the kernel),
      one letter for each spatial axis.
    out_chan: number of features of the result.
    filter_shape: lengths of the window, in the order of the axes of the kernel.
    strides: distance between windows; None for 1.
    padding: "VALID", "SAME", "SAME_LOWER", or pairs (low, high) for each spatial axis.
    W_init, b_init: initial weights of the kernel, None for Glorot's, and of the bias, which has length 1 along all axes
      except C.
    result: The layer; its parameters are the kernel and the bias.
    TypeError: an argument is not a sequence of strings or integers.
    ShapeError: lengths, strides and `dimension_numbers` do not fit each other or the inputs.
    ValueError: a length is negative, or `padding` is unknown.
    """)
_IMAGES = {**_CONV, **docstring_entries("""
    filter_shape: height and width of the window.
    padding: "VALID", "SAME", "SAME_LOWER", or pairs (low, high) for height and width.
    W_init, b_init: initial weights of the kernel `[H, W, I, O]`, None for Glorot's, and of the bias `[1, 1, 1, O]`.
    """)}
_TRANSPOSED = {**_CONV, **docstring_entries("""
    strides: number of positions of the result for each position of the inputs; None for 1.
    padding: "VALID", "SAME", "SAME_LOWER", or pairs (low, high) that pad the dilated inputs.
    """)}


# --- convolutions --------------------------------------------------------------------------------------------------
def _parse_specs(call: str, dimension_numbers: Any, window: tuple[int, ...]) -> tuple[str, str, str]:
    """The letters of the axes of inputs, kernel and result, which fit each other and the window."""
    specs = tuple(dimension_numbers) if isinstance(dimension_numbers, Sequence) else ()
    if len(specs) != 3 or not all(isinstance(s, str) for s in specs):
        raise TypeError(f"{call}: dimension_numbers are three words, of inputs, kernel and result, such as "
                        f"('NHWC', 'HWIO', 'NHWC'); got {dimension_numbers!r}")
    lhs, rhs, out = specs
    space = set(lhs) - {"N", "C"}
    if not (set(lhs) == {*space, "N", "C"} == set(out) and set(rhs) == {*space, "I", "O"}
            and {len(lhs), len(rhs), len(out)} == {len(window) + 2} and len(space) == len(window)):
        raise ShapeError(f"{call}: inputs and result have the axes N, C and one for each of {len(window)} lengths in "
                         f"filter_shape, the kernel I, O and the same; got dimension_numbers {specs}, filter_shape {window}")
    return lhs, rhs, out


def _make_convolution(shape_of: Any, convolve: Any, call: str, dimension_numbers: Any, out_chan: Any, filter_shape: Any,
                      strides: Any, padding: Any, W_init: Initializer | None, b_init: Initializer) -> Layer:
    window = _check_lengths(call, "filter_shape", filter_shape)
    out_chan = check_size(call, "out_chan", out_chan)
    steps = (1,) * len(window) if strides is None else _check_lengths(call, "strides", strides, len(window))
    lhs, rhs, out = numbers = _parse_specs(call, dimension_numbers, window)
    padding = _check_padding(call, padding, len(window))
    weights = W_init or glorot_normal(rhs.index("I"), rhs.index("O"))

    def init(rng: Any, input_shape: Any) -> Any:
        input_shape = check_input_shape(call, input_shape)
        if len(input_shape) != len(lhs):
            raise ShapeError(f"{call}: inputs have the axes {lhs}; got the shape {input_shape}")
        inner = iter(window)
        kernel = tuple(out_chan if a == "O" else input_shape[lhs.index("C")] if a == "I" else next(inner) for a in rhs)
        bias = tuple(out_chan if a == "C" else 1 for a in out)
        for_kernel, for_bias = random.split(rng)
        shape = shape_of(input_shape, kernel, steps, padding, numbers)
        return shape, (weights(for_kernel, kernel), b_init(for_bias, bias))

    def apply(params: Any, inputs: ArrayLike, **kwargs: Any) -> Any:
        kernel, bias = params
        return convolve(inputs, kernel, steps, padding, dimension_numbers=numbers) + bias
    return init, apply


_make_conv = functools.partial(_make_convolution, lax.conv_general_shape_tuple, lax.conv_general_dilated)
_make_transpose = functools.partial(_make_convolution, lax.conv_transpose_shape_tuple, lax.conv_transpose)


@_document(_CONV)
def GeneralConv(dimension_numbers: Sequence[str], out_chan: int, filter_shape: Sequence[int],
                strides: Sequence[int] | None = None, padding: Any = "VALID", W_init: Initializer | None = None,
                b_init: Initializer = normal(1e-6)) -> Layer:
    """Return a layer that convolves along axes in any order.

    Args: {dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init}
    Returns: {result}
    Raises: {TypeError, ShapeError, ValueError}

    Source: StableHLO `convolution`; initial weights of Glorot and Bengio (2010).

    >>> from lamina_random import PRNGKey
    >>> init, apply = GeneralConv(("NCH", "OIH", "NCH"), 8, (3,))
    >>> shape, (kernel, bias) = init(PRNGKey(0), (-1, 2, 10))
    >>> shape, kernel.shape, bias.shape
    ((-1, 8, 8), (8, 2, 3), (1, 8, 1))
    """
    return _make_conv("GeneralConv", dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init)


@_document(_IMAGES)
def Conv(out_chan: int, filter_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID",
         W_init: Initializer | None = None, b_init: Initializer = normal(1e-6)) -> Layer:
    """Return a layer that convolves images `[N, H, W, C]`.

    Args: {out_chan, filter_shape, strides, padding, W_init, b_init}
    Returns: {result}
    Raises: {TypeError, ShapeError, ValueError}

    Source: StableHLO `convolution`; initial weights of Glorot and Bengio (2010).

    >>> from lamina_random import PRNGKey
    >>> init, apply = Conv(8, (3, 3), padding="SAME")
    >>> shape, params = init(PRNGKey(0), (-1, 28, 28, 1))
    >>> shape, apply(params, np.ones((2, 28, 28, 1))).shape
    ((-1, 28, 28, 8), (2, 28, 28, 8))
    """
    return _make_conv("Conv", ("NHWC", "HWIO", "NHWC"), out_chan, filter_shape, strides, padding, W_init, b_init)


@_document(_TRANSPOSED)
def GeneralConvTranspose(dimension_numbers: Sequence[str], out_chan: int, filter_shape: Sequence[int],
                         strides: Sequence[int] | None = None, padding: Any = "VALID", W_init: Initializer | None = None,
                         b_init: Initializer = normal(1e-6)) -> Layer:
    """Return a layer of transposed convolutions along axes in any order.

    Args: {dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init}
    Returns: {result}
    Raises: {TypeError, ShapeError, ValueError}

    Source: meaning of `lax.conv_transpose`; initial weights of Glorot and Bengio (2010).

    >>> from lamina_random import PRNGKey
    >>> init, apply = GeneralConvTranspose(("NCH", "OIH", "NCH"), 8, (3,), strides=(2,), padding="SAME")
    >>> init(PRNGKey(0), (-1, 2, 10))[0]
    (-1, 8, 20)
    """
    return _make_transpose("GeneralConvTranspose", dimension_numbers, out_chan, filter_shape, strides, padding, W_init,
                           b_init)


@_document(_TRANSPOSED)
def Conv1DTranspose(out_chan: int, filter_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID",
                    W_init: Initializer | None = None, b_init: Initializer = normal(1e-6)) -> Layer:
    """Return a layer of transposed convolutions of sequences `[N, H, C]`.

    Args:
      {out_chan}
      filter_shape: length of the window, a tuple with one element.
      {strides, padding, W_init, b_init}
    Returns:
      The layer; its parameters are the kernel `[H, I, O]` and the bias `[1, 1, O]`.
    Raises: {TypeError, ShapeError, ValueError}

    Source: meaning of `lax.conv_transpose`; initial weights of Glorot and Bengio (2010).

    >>> from lamina_random import PRNGKey
    >>> Conv1DTranspose(8, (3,), strides=(2,))[0](PRNGKey(0), (-1, 10, 2))[0]
    (-1, 21, 8)
    """
    return _make_transpose("Conv1DTranspose", ("NHC", "HIO", "NHC"), out_chan, filter_shape, strides, padding, W_init,
                           b_init)


@_document(_TRANSPOSED)
def ConvTranspose(out_chan: int, filter_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID",
                  W_init: Initializer | None = None, b_init: Initializer = normal(1e-6)) -> Layer:
    """Return a layer of transposed convolutions of images `[N, H, W, C]`.

    Args: {out_chan, filter_shape, strides, padding, W_init, b_init}
    Returns:
      The layer; its parameters are the kernel `[H, W, I, O]` and the bias `[1, 1, 1, O]`.
    Raises: {TypeError, ShapeError, ValueError}

    Source: meaning of `lax.conv_transpose`; initial weights of Glorot and Bengio (2010).

    >>> from lamina_random import PRNGKey
    >>> ConvTranspose(8, (3, 2), strides=(2, 3))[0](PRNGKey(0), (-1, 10, 11, 4))[0]
    (-1, 21, 33, 8)
    """
    return _make_transpose("ConvTranspose", ("NHWC", "HWIO", "NHWC"), out_chan, filter_shape, strides, padding, W_init,
                           b_init)


# --- one number for each window ------------------------------------------------------------------------------------
def _make_pool(call: str, window_shape: Any, strides: Any, padding: Any, spec: Any, reduce: Any) -> Layer:
    lengths = _check_lengths(call, "window_shape", window_shape)
    steps = (1,) * len(lengths) if strides is None else _check_lengths(call, "strides", strides, len(lengths))
    ndim = len(lengths) + 2
    if spec is None:
        excluded: tuple[int, ...] = (0, ndim - 1)
    elif isinstance(spec, str) and len(spec) == ndim and spec.count("N") == spec.count("C") == 1:
        excluded = (spec.index("N"), spec.index("C"))
    else:
        raise ShapeError(f"{call}: spec has the letters N, C and one for each of {ndim - 2} lengths in window_shape; "
                         f"got {spec!r}")

    def expand(values: Any, other: Any) -> tuple[Any, ...]:
        inner = iter(values)
        return tuple(other if i in excluded else next(inner) for i in range(ndim))

    window, steps = expand(lengths, 1), expand(steps, 1)
    padding = _check_padding(call, padding, len(lengths))
    if not isinstance(padding, str):
        padding = expand(padding, (0, 0))

    def check(shape: Any) -> tuple[int, ...]:
        if len(shape) != ndim:
            raise ShapeError(f"{call}: inputs have {ndim} axes, batch and features among them; got the shape {tuple(shape)}")
        return tuple(shape)

    def init(rng: Any, input_shape: Any) -> Any:
        shape = check(check_input_shape(call, input_shape))
        pads = lax.padtype_to_pads(shape, window, steps, padding) if isinstance(padding, str) else padding
        return lax.reduce_window_shape_tuple(shape, window, steps, pads), ()

    def apply(params: Any, inputs: ArrayLike, **kwargs: Any) -> Any:
        shape = check(typeof(inputs).shape)
        return reduce(lnp.asarray(inputs), window, steps, padding,
                      tuple(1 if i in excluded else n for i, n in enumerate(shape)))
    return init, apply


_POOL = docstring_entries("""
    window_shape: lengths of the window along the axes other than batch and features.
    strides: distance between windows along these axes; None for 1.
    padding: "VALID", "SAME", "SAME_LOWER", or pairs (low, high) for each of these axes.
    spec: letters of the axes of the inputs, N for the batch and C for features; None if these are the first and
      the last.
    TypeError: an argument is not a sequence of integers.
    ShapeError: `strides`, `padding` or `spec` does not fit `window_shape`, or the inputs have another number of axes.
    ValueError: `padding` is unknown.
    """)


def _sum_windows(x: Any, window: Any, steps: Any, padding: Any) -> Any:
    if dtypes.is_bool(typeof(x).dtype):
        x = lnp.astype(x, np.int32)  # how many
    return lax.reduce_window(x, np.zeros((), typeof(x).dtype), lax.add, window, steps, padding)


@_document(_POOL)
def MaxPool(window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None,
            ) -> Layer:
    """Return a layer that computes the maximum of each window; padding is never the maximum.

    Args: {window_shape, strides, padding, spec}
    Returns:
      The layer, without parameters. In the shape that `init` returns, a batch size of -1 becomes 0.
    Raises: {TypeError, ShapeError, ValueError}

    Source: StableHLO `reduce_window`.

    >>> MaxPool((2, 2), strides=(2, 2))[1]((), np.arange(16.).reshape(1, 4, 4, 1))[0, :, :, 0]
    Array([[ 5.,  7.],
           [13., 15.]], dtype=float32)
    """
    def reduce(x: Any, window: Any, steps: Any, padding: Any, once: Any) -> Any:
        d = typeof(x).dtype
        least: Any = -np.inf if dtypes.is_inexact(d) else False if dtypes.is_bool(d) else lnp.iinfo(d).min
        if least == -np.inf and not np.isinf(np.asarray(least, d)):
            least = lnp.finfo(d).min  # a dtype without infinities
        return lax.reduce_window(x, np.asarray(least, d), lax.max, window, steps, padding)
    return _make_pool("MaxPool", window_shape, strides, padding, spec, reduce)


@_document(_POOL)
def SumPool(window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None,
            ) -> Layer:
    """Return a layer that computes the sum of each window.

    Args:
      {window_shape, strides, padding, spec}
    Returns:
      The layer, without parameters; sums have the dtype of the inputs, int32 for booleans.
    Raises: {TypeError, ShapeError, ValueError}

    Source: StableHLO `reduce_window`.

    >>> SumPool((2,))[1]((), np.arange(4.).reshape(1, 4, 1))[0, :, 0]
    Array([1., 3., 5.], dtype=float32)
    """
    return _make_pool("SumPool", window_shape, strides, padding, spec,
                      lambda x, window, steps, padding, once: _sum_windows(x, window, steps, padding))


@_document(_POOL)
def AvgPool(window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None,
            ) -> Layer:
    """Return a layer that computes the mean of each window; padding does not count.

    Args: {window_shape, strides, padding, spec}
    Returns:
      The layer, without parameters.
    Raises: {TypeError, ShapeError, ValueError}

    Source: StableHLO `reduce_window`.

    >>> AvgPool((2,), padding="SAME")[1]((), np.arange(4.).reshape(1, 4, 1))[0, :, 0]
    Array([0.5, 1.5, 2.5, 3. ], dtype=float32)
    """
    def reduce(x: Any, window: Any, steps: Any, padding: Any, once: Any) -> Any:
        x = to_inexact("AvgPool", x)  # sums of short integers would wrap
        return lnp.divide(_sum_windows(x, window, steps, padding),
                          _sum_windows(lnp.ones(once, typeof(x).dtype), window, steps, padding))
    return _make_pool("AvgPool", window_shape, strides, padding, spec, reduce)
