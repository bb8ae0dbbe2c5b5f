"""Initial weights: each a function of a key, a shape and a dtype; most are made by a function that takes the rest.

Where weights scale with the number of inputs or outputs of a unit (`fan`), the places of a kernel's window count too. A
`NamedShape` gives each position of the axes that it names weights of its own.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from typing import Any, Protocol, TypeAlias

import lamina_numpy as lnp
import lamina_random as random
import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_numpy.extend import ignore_strict_promotion
from lamina_tracing import Array, ArrayLike, DTypeLike, ShapeLike, lax
from lamina_tracing.extend import check_axis, rename_errors, is_axis_name, resolve_requested_dtype

__all__ = ["Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
           "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal",
           "truncated_normal", "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros"]

Axes: TypeAlias = int | Hashable | Sequence[int | Hashable]
Shape: TypeAlias = ShapeLike | random.NamedShape


class Initializer(Protocol):
    """What makes initial weights of a key, a shape and a dtype."""

    @staticmethod
    def __call__(key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None) -> Array:
        """Weights of this shape and dtype; None for the dtype that the maker was given, or else the default float."""
        raise NotImplementedError


# --- how the arguments are read ------------------------------------------------------------------------------------
def _dtype(*given: DTypeLike | None) -> np.dtype:
    """The first dtype that is given, else the default float."""
    return next((resolve_requested_dtype(d) for d in given if d is not None), dtypes.canonical_float())


def _sizes(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, random.NamedShape):
        return shape.sizes
    sizes = tuple(shape) if np.iterable(shape) else (shape,)
    try:
        return tuple(map(operator.index, sizes))
    except TypeError:
        raise TypeError(f"shape must hold integers; got {shape!r:.80}") from None


def _as_named(shape: Any, sizes: Sequence[int]) -> Any:
    """Return these sizes, with the names of `shape` if it has any."""
    return random.NamedShape(*sizes, **shape.named) if isinstance(shape, random.NamedShape) else tuple(sizes)


def _fans(call: str, shape: Any, in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """How many numbers go into a unit, and out of it: the axes of inputs or outputs, times what is neither those nor batch."""
    sizes = _sizes(shape)
    named = getattr(shape, "named", {})
    window: float = math.prod(sizes)

    def count(what: str, axes: Axes) -> int:
        nonlocal window
        n = 1
        for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
            if is_axis_name(axis):
                if axis not in named:
                    raise ShapeError(f"{call}: {what} names {axis!r}, which the shape {shape!r} does not; give a NamedShape")
                n *= named[axis]
            else:
                if len(sizes) < 2 and not named:
                    raise ValueError(f"{call}: a shape of two axes at least is needed, of inputs and of outputs; got {sizes}")
                size = sizes[check_axis(call, axis, len(sizes), what)]
                n *= size
                window = window / size if size else 0
        return n
    inputs, outputs = count("in_axis", in_axis), count("out_axis", out_axis)
    count("batch_axis", batch_axis)
    return inputs * window, outputs * window


def _on_disc(key: Any, shape: Any, dtype: np.dtype, share: Any) -> Any:
    """Complex numbers of any direction; `share` makes their sizes of uniform numbers."""
    part = dtypes.real_dtype(dtype)
    for_size, for_angle = random.split(key)
    size = share(random.uniform(for_size, shape, part))
    angle = lax.mul(random.uniform(for_angle, shape, part), 2 * math.pi)
    return lax.complex(lax.mul(size, lax.cos(angle)), lax.mul(size, lax.sin(angle)))


def _scaled(x: Any, by: Any, dtype: np.dtype) -> Any:
    return lnp.multiply(x, lnp.asarray(by, dtype))


# --- weights that depend on nothing --------------------------------------------------------------------------------
@rename_errors
def zeros(key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None) -> Array:
    """Weights of zero: an initializer itself.

    Args:
      key: not used.
      shape: of the result.
      dtype: element type; default float32 (float64 in 64-bit mode).
    Returns:
      Array of `shape`.
    Raises:
      ValueError: `shape` holds a negative size.

    Source: meaning of `numpy.zeros`.

    >>> from lamina_random import PRNGKey
    >>> zeros(PRNGKey(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    return lnp.zeros(_sizes(shape), _dtype(dtype))


@rename_errors
def ones(key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None) -> Array:
    """Weights of one: an initializer itself.

    Args:
      key: not used.
      shape: of the result.
      dtype: element type; default float32 (float64 in 64-bit mode).
    Returns:
      Array of `shape`.
    Raises:
      ValueError: `shape` holds a negative size.

    Source: meaning of `numpy.ones`.

    >>> from lamina_random import PRNGKey
    >>> ones(PRNGKey(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    return lnp.ones(_sizes(shape), _dtype(dtype))


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights of one value.

    Args:
      value: a number, or an array that broadcasts to the shape.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer.
    Raises:
      ShapeError: by the initializer, where `value` does not broadcast to the shape.

    Source: meaning of `numpy.full`.

    >>> from lamina_random import PRNGKey
    >>> constant(-7)(PRNGKey(0), (2,))
    Array([-7., -7.], dtype=float32)
    """
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = None) -> Array:
        return lnp.full(_sizes(shape), value, _dtype(dtype, default))
    return rename_errors(init, "constant")


# --- numbers of one distribution -----------------------------------------------------------------------------------
def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights spread evenly over `[0, scale)`.

    Args:
      scale: the upper end.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of a float dtype.
    Raises:
      DTypeError: by the initializer, where its dtype is no float.

    Source: `lamina.random.uniform`.

    >>> from lamina_random import PRNGKey
    >>> [round(float(x), 4) for x in uniform(10.0)(PRNGKey(42), (2,))]
    [0.1501, 6.7896]
    """
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = None) -> Array:
        d = _dtype(dtype, default)
        return _scaled(random.uniform(key, shape, d), scale, d)
    return rename_errors(init, "uniform")


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights of the normal distribution around 0.

    Args:
      stddev: their standard deviation.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of a float or complex dtype.
    Raises:
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: `lamina.random.normal`.

    >>> from lamina_random import PRNGKey
    >>> [round(float(x), 4) for x in normal(5.0)(PRNGKey(42), (2,))]
    [-10.8491, 2.324]
    """
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = None) -> Array:
        d = _dtype(dtype, default)
        return _scaled(random.normal(key, shape, d), stddev, d)
    return rename_errors(init, "normal")


def truncated_normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None, lower: float = -2.0,
                     upper: float = 2.0) -> Initializer:
    """Makes weights of the normal distribution, of which those outside of two bounds are left out.

    Args:
      stddev: the standard deviation before bounds are set.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
      lower, upper: the bounds, in standard deviations from 0.
    Returns:
      An initializer, of a float dtype.
    Raises:
      DTypeError: by the initializer, where its dtype is no float.

    Source: `lamina.random.truncated_normal`.

    >>> from lamina_random import PRNGKey
    >>> [round(float(x), 4) for x in truncated_normal(5.0)(PRNGKey(42), (2,))]
    [-8.9283, 2.2109]
    """
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = None) -> Array:
        d = _dtype(dtype, default)
        return _scaled(random.truncated_normal(key, lower, upper, shape, d), stddev, d)
    return rename_errors(init, "truncated_normal")


# --- numbers that scale with the inputs or outputs of a unit -------------------------------------------------------
_MODES = {"fan_in": lambda i, o: i, "fan_out": lambda i, o: o, "fan_avg": lambda i, o: (i + o) / 2,
          "fan_geo_avg": lambda i, o: math.sqrt(i * o)}
# The standard deviation of what is left of the standard normal distribution within 2, in one dimension and in two.
_CUT, _CUT_ON_DISC = 0.87962566103423978, 0.95311164380491208


def _spread(distribution: str, key: Any, shape: Any, d: np.dtype, variance: float) -> Any:
    """Numbers of mean 0 and of this variance, which is rounded to the dtype before its root is taken, as JAX does."""
    complex_ = dtypes.is_complex(d)
    real = np.empty(0, d).real.dtype if complex_ else d
    v = np.asarray(variance, real)
    cut, cut_on_disc, three = np.asarray(_CUT, real), np.asarray(_CUT_ON_DISC, real), np.asarray(3, real)
    if distribution == "normal":
        return _scaled(random.normal(key, shape, d), np.sqrt(v), d)
    if distribution == "uniform":
        if complex_:
            return _scaled(_on_disc(key, shape, d, lambda u: lax.sqrt(lax.mul(u, real.type(2)))), np.sqrt(v), d)
        return _scaled(random.uniform(key, shape, d, -1.0), np.sqrt(three * v), d)
    if complex_:
        return _scaled(_on_disc(key, shape, d, lambda u: _within_two(u, d)), np.sqrt(v) / cut_on_disc, d)
    return _scaled(random.truncated_normal(key, -2.0, 2.0, shape, d), np.sqrt(v) / cut, d)


def _within_two(u: Any, d: np.dtype) -> Any:
    """Lengths up to 2 of plane vectors with normal parts of variance 1/2, of numbers in [0, 1): by the complex logarithm, which
    is rounded otherwise near 1 than the real one, and is what JAX's digits come from."""
    left = lax.sub(1.0, lax.mul(u, -math.expm1(-4)))
    return lax.sqrt(lax.neg(lax.real(lax.log(lax.convert_element_type(left, d)))))


def variance_scaling(scale: float, mode: str, distribution: str, in_axis: Axes = -2, out_axis: Axes = -1,
                     batch_axis: Axes = (), dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights of mean 0 and variance `scale / n`, n the number of inputs or of outputs of a unit.

    Args:
      scale: a positive number.
      mode: what n is: "fan_in" the inputs, "fan_out" the outputs, "fan_avg" their mean, "fan_geo_avg" their geometric mean.
      distribution: "truncated_normal" (within two standard deviations), "normal" or "uniform".
      in_axis: the axis of inputs, or several; negative ones count from the end. The name of a mapped axis needs a
        `NamedShape` that names it.
      out_axis: the axis of outputs, or several.
      batch_axis: axes that count as neither; all others are a kernel's window and count as both. Names count only where
        said.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of a float or complex dtype and shapes of two axes at least.
    Raises:
      ValueError: `mode` or `distribution` is another word, or `scale` is below 0; by the initializer, where the shape has
        fewer than two axes.
      ShapeError: by the initializer, where its shape does not have the axes.
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: Glorot and Bengio (2010) and He et al. (2015), of which it is the common form.

    >>> from lamina_random import PRNGKey
    >>> variance_scaling(1.0, "fan_in", "normal")(PRNGKey(0), (3, 2)).shape
    (3, 2)
    """
    return _variance_scaling("variance_scaling", scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)


def _variance_scaling(call: str, scale: float, mode: str, distribution: str, in_axis: Axes, out_axis: Axes,
                      batch_axis: Axes, dtype: DTypeLike | None) -> Initializer:
    default = dtype
    if mode not in _MODES:
        raise ValueError(f"{call}: mode must be one of {', '.join(map(repr, _MODES))}; got {mode!r}")
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ValueError(f"{call}: distribution must be 'truncated_normal', 'normal' or 'uniform'; got {distribution!r}")
    if scale < 0:
        raise ValueError(f"{call}: scale must not be below 0; got {scale!r}. It is what the variance is a multiple of")

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = None) -> Array:
        n = _MODES[mode](*_fans(call, shape, in_axis, out_axis, batch_axis))
        return _spread(distribution, key, shape, _dtype(dtype, default), scale / max(n, 1))
    return rename_errors(init, call)


def lecun_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (),
                  dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights for `tanh` and SELU: `variance_scaling(1.0, "fan_in", "uniform")`.

    Args:
      in_axis: the axis of inputs, or several; negative ones count from the end. The name of a mapped axis needs a
        `NamedShape` that names it.
      out_axis: the axis of outputs, or several.
      batch_axis: axes that count as neither; all others are a kernel's window and count as both. Names count only where
        said.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of a float or complex dtype and shapes of two axes at least.
    Raises:
      ValueError: by the initializer, where the shape has fewer than two axes.
      ShapeError: by the initializer, where its shape does not have the axes.
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: LeCun et al., "Efficient backprop" (1998).

    >>> from lamina_random import PRNGKey
    >>> lecun_uniform()(PRNGKey(0), (3, 4)).shape
    (3, 4)
    """
    return _variance_scaling("lecun_uniform", 1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights for `tanh` and SELU: `variance_scaling(1.0, "fan_in", "truncated_normal")`.

    Args:
      in_axis: the axis of inputs, or several; negative ones count from the end. The name of a mapped axis needs a
        `NamedShape` that names it.
      out_axis: the axis of outputs, or several.
      batch_axis: axes that count as neither; all others are a kernel's window and count as both. Names count only where
        said.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of a float or complex dtype and shapes of two axes at least.
    Raises:
      ValueError: by the initializer, where the shape has fewer than two axes.
      ShapeError: by the initializer, where its shape does not have the axes.
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: LeCun et al., "Efficient backprop" (1998).

    >>> from lamina_random import PRNGKey
    >>> lecun_normal()(PRNGKey(0), (3, 4)).shape
    (3, 4)
    """
    return _variance_scaling("lecun_normal", 1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def glorot_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (),
                   dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights for `tanh` and sigmoids: `variance_scaling(1.0, "fan_avg", "uniform")`.

    Args:
      in_axis: the axis of inputs, or several; negative ones count from the end. The name of a mapped axis needs a
        `NamedShape` that names it.
      out_axis: the axis of outputs, or several.
      batch_axis: axes that count as neither; all others are a kernel's window and count as both. Names count only where
        said.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of a float or complex dtype and shapes of two axes at least.
    Raises:
      ValueError: by the initializer, where the shape has fewer than two axes.
      ShapeError: by the initializer, where its shape does not have the axes.
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010).

    >>> from lamina_random import PRNGKey
    >>> glorot_uniform()(PRNGKey(0), (3, 4)).shape
    (3, 4)
    """
    return _variance_scaling("glorot_uniform", 1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (),
                  dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights for `tanh` and sigmoids: `variance_scaling(1.0, "fan_avg", "truncated_normal")`.

    Args:
      in_axis: the axis of inputs, or several; negative ones count from the end. The name of a mapped axis needs a
        `NamedShape` that names it.
      out_axis: the axis of outputs, or several.
      batch_axis: axes that count as neither; all others are a kernel's window and count as both. Names count only where
        said.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of a float or complex dtype and shapes of two axes at least.
    Raises:
      ValueError: by the initializer, where the shape has fewer than two axes.
      ShapeError: by the initializer, where its shape does not have the axes.
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010).

    >>> from lamina_random import PRNGKey
    >>> glorot_normal()(PRNGKey(0), (3, 4)).shape
    (3, 4)
    """
    return _variance_scaling("glorot_normal", 1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights for `relu`: `variance_scaling(2.0, "fan_in", "uniform")`.

    Args:
      in_axis: the axis of inputs, or several; negative ones count from the end. The name of a mapped axis needs a
        `NamedShape` that names it.
      out_axis: the axis of outputs, or several.
      batch_axis: axes that count as neither; all others are a kernel's window and count as both. Names count only where
        said.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of a float or complex dtype and shapes of two axes at least.
    Raises:
      ValueError: by the initializer, where the shape has fewer than two axes.
      ShapeError: by the initializer, where its shape does not have the axes.
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: He et al., "Delving deep into rectifiers" (2015).

    >>> from lamina_random import PRNGKey
    >>> he_uniform()(PRNGKey(0), (3, 4)).shape
    (3, 4)
    """
    return _variance_scaling("he_uniform", 2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None) -> Initializer:
    """Makes weights for `relu`: `variance_scaling(2.0, "fan_in", "truncated_normal")`.

    Args:
      in_axis: the axis of inputs, or several; negative ones count from the end. The name of a mapped axis needs a
        `NamedShape` that names it.
      out_axis: the axis of outputs, or several.
      batch_axis: axes that count as neither; all others are a kernel's window and count as both. Names count only where
        said.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of a float or complex dtype and shapes of two axes at least.
    Raises:
      ValueError: by the initializer, where the shape has fewer than two axes.
      ShapeError: by the initializer, where its shape does not have the axes.
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: He et al., "Delving deep into rectifiers" (2015).

    >>> from lamina_random import PRNGKey
    >>> he_normal()(PRNGKey(0), (3, 4)).shape
    (3, 4)
    """
    return _variance_scaling("he_normal", 2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


# --- orthogonal matrices -------------------------------------------------------------------------------------------
def orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Makes orthogonal matrices, every one equally likely; unitary ones for a complex dtype.

    Args:
      scale: what they are multiplied by.
      column_axis: the axis of columns; the others together are that of rows.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of shapes of two axes at least. Of rows and columns those that are fewer are orthonormal.
    Raises:
      ValueError: by the initializer, where the shape has fewer than two axes.
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning" (2014); the Q of a normal
      matrix's QR, its columns' signs those of R's diagonal: Mezzadri (2007).

    >>> from lamina_random import PRNGKey
    >>> w = orthogonal()(PRNGKey(0), (3, 2))
    >>> bool(lnp.allclose(w.T @ w, lnp.eye(2), atol=1e-6))
    True
    """
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = None) -> Array:
        return _orthogonal("orthogonal", key, shape, _dtype(dtype, default), scale, column_axis)
    return rename_errors(init, "orthogonal")


@ignore_strict_promotion
def _orthogonal(call: str, key: Any, shape: Any, d: np.dtype, scale: Any, column_axis: int) -> Any:
    sizes = _sizes(shape)
    if len(sizes) < 2:
        raise ValueError(f"{call}: a shape of two axes at least is needed; got {sizes}")
    at = check_axis(call, column_axis, len(sizes), "column_axis")
    rest = (*sizes[:at], *sizes[at + 1:])
    columns, rows = sizes[at], math.prod(rest)
    q, r = lnp.linalg.qr(random.normal(key, _as_named(shape, (max(rows, columns), min(rows, columns))), d))
    q = lnp.multiply(q, lnp.sign(lnp.diagonal(r)))
    q = lnp.reshape(lnp.transpose(q) if columns > rows else q, (*rest, columns))
    return _scaled(lnp.astype(lnp.moveaxis(q, -1, at), d), scale, d)


def delta_orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Makes kernels of convolutions that keep lengths: an orthogonal matrix in the middle of the window, zero elsewhere.

    Args:
      scale: what they are multiplied by.
      column_axis: the axis of columns of the matrix.
      dtype: of the weights where the initializer is given none; default float32 (float64 in 64-bit mode).
    Returns:
      An initializer, of shapes `[..., inputs, outputs]` of three to five axes with no more inputs than outputs.
    Raises:
      ValueError: by the initializer, where the shape has fewer or more axes, or more inputs than outputs.
      DTypeError: by the initializer, where its dtype is neither float nor complex.

    Source: Xiao et al., "Dynamical isometry and a mean field theory of CNNs" (2018).

    >>> from lamina_random import PRNGKey
    >>> [bool(place.any()) for place in delta_orthogonal()(PRNGKey(0), (3, 2, 2))]
    [False, True, False]
    """
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = None) -> Array:
        sizes = _sizes(shape)
        if not 3 <= len(sizes) <= 5:
            raise ValueError(f"delta_orthogonal: a shape of three to five axes is needed; got {sizes}")
        if sizes[-1] < sizes[-2]:
            raise ValueError(f"delta_orthogonal: no more inputs than outputs can be kept orthogonal; got {sizes[-2]} inputs "
                             f"and {sizes[-1]} outputs in {sizes}")
        d = _dtype(dtype, default)
        matrix = _orthogonal("delta_orthogonal", key, _as_named(shape, sizes[-2:]), d, scale, column_axis)
        middle = tuple([(n - 1) // 2 for n in sizes[:-2]])
        return lnp.zeros(sizes, d).at[middle].set(matrix)
    return rename_errors(init, "delta_orthogonal")
