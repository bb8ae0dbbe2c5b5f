"""Initial weights: each a function of a key, a shape and a dtype; most are made by a function that takes the rest.

Where weights scale with the number of inputs or outputs of a unit (`fan`), the places of a kernel's window count too. A
`NamedShape` gives each position of the axes that it names weights of its own.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeAlias

import lamina_numpy as lnp
import lamina_random as random
import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_numpy.extend import ignore_strict_promotion
from lamina_tracing import Array, ArrayLike, DTypeLike, ShapeLike, jit, lax
from lamina_tracing.extend import check_axis, rename_errors, is_axis_name, resolve_requested_dtype

__all__ = ["Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
           "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal",
           "truncated_normal", "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros"]

_ENTRIES = docstring_entries("""
    in_axis: the axis of the inputs, or several axes; negative ones count from the end. The name of a mapped axis needs
      a `NamedShape` that contains it.
    out_axis: the axis of the outputs, or several axes.
    batch_axis: axes that count neither as inputs nor as outputs. All other axes are the window of a kernel and count
      as both. Names of axes must be listed explicitly.
    dtype: dtype of the weights if the initializer receives none; default float32 (float64 in 64-bit mode).
    floats: An initializer for float dtypes.
    float_or_complex: An initializer for float and complex dtypes.
    scaled: An initializer for float and complex dtypes and for shapes of at least two axes.
    ValueError: from the initializer, if the shape has fewer than two axes.
    ShapeError: from the initializer, if its shape lacks one of the axes.
    DTypeError: from the initializer, if its dtype is neither float nor complex.
    """)

Axes: TypeAlias = int | Hashable | Sequence[int | Hashable]
Shape: TypeAlias = ShapeLike | random.NamedShape


class Initializer(Protocol):
    """What makes initial weights of a key, a shape and a dtype."""

    @staticmethod
    def __call__(key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None) -> Array:
        """Weights of this shape and dtype; None for the dtype that the maker was given, or else the default float."""
        raise NotImplementedError


# --- how the arguments are read ------------------------------------------------------------------------------------
def _resolve_dtype(*given: DTypeLike | None) -> np.dtype:
    """The first dtype that is given, else the default float."""
    return next((resolve_requested_dtype(d) for d in given if d is not None), dtypes.canonical_float())


def _get_sizes(shape: Any) -> tuple[int, ...]:
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


def _count_fans(call: str, shape: Any, in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """How many numbers go into a unit, and out of it: the axes of inputs or outputs, times what is neither those nor batch."""
    sizes = _get_sizes(shape)
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
                    raise ValueError(f"{call}: the shape must have at least two axes, inputs and outputs; got {sizes}")
                size = sizes[check_axis(call, axis, len(sizes), what)]
                n *= size
                window = window / size if size else 0
        return n
    inputs, outputs = count("in_axis", in_axis), count("out_axis", out_axis)
    count("batch_axis", batch_axis)
    return inputs * window, outputs * window


def _draw_on_disc(key: Any, shape: Any, dtype: np.dtype, share: Any) -> Any:
    """Complex numbers of any direction; `share` makes their sizes of uniform numbers."""
    part = dtypes.real_dtype(dtype)
    for_size, for_angle = random.split(key)
    size = share(random.uniform(for_size, shape, part))
    angle = lax.mul(random.uniform(for_angle, shape, part), 2 * math.pi)
    return lax.complex(lax.mul(size, lax.cos(angle)), lax.mul(size, lax.sin(angle)))


def _scale(x: Any, by: Any, dtype: np.dtype) -> Any:
    return lnp.multiply(x, lnp.asarray(by, dtype))


# --- weights that depend on nothing --------------------------------------------------------------------------------
def _make_initializer(call: str, default: DTypeLike | None,
                      draw: Callable[[ArrayLike, Any, np.dtype], Array]) -> Initializer:
    """Return the initializer whose weights `draw` computes from a key, a `Shape` and a dtype.

    Its errors start with `call`. The annotations of `lamina_random` do not include `NamedShape`, hence `Any`."""
    def init(key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None) -> Array:
        return draw(key, shape, _resolve_dtype(dtype, default))
    return rename_errors(init, call)


def _make_fill(name: str, fill: Callable[..., Array], example: str) -> Initializer:
    def init(key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None) -> Array:
        return fill(_get_sizes(shape), _resolve_dtype(dtype))
    init.__name__ = init.__qualname__ = name
    init.__doc__ = f"""Return weights of {name.removesuffix("s")}. This function is an initializer itself.

    Args:
      key: not used.
      shape: shape of the result.
      dtype: element type; default float32 (float64 in 64-bit mode).
    Returns:
      Array of `shape`.
    Raises:
      ValueError: `shape` contains a negative size.

    Source: meaning of `numpy.{name}`.

    >>> from lamina_random import PRNGKey
    >>> {name}(PRNGKey(0), (2,))
    {example}
    """
    return rename_errors(init, name)


zeros = _make_fill("zeros", lnp.zeros, "Array([0., 0.], dtype=float32)")
ones = _make_fill("ones", lnp.ones, "Array([1., 1.], dtype=float32)")


@fill_docstring(_ENTRIES)
def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer of weights of one value.

    Args:
      value: a number, or an array that broadcasts to the shape.
      {dtype}
    Returns:
      An initializer.
    Raises:
      ShapeError: from the initializer, if `value` does not broadcast to the shape.

    Source: meaning of `numpy.full`.

    >>> from lamina_random import PRNGKey
    >>> constant(-7)(PRNGKey(0), (2,))
    Array([-7., -7.], dtype=float32)
    """
    return _make_initializer("constant", dtype, lambda key, shape, d: lnp.full(_get_sizes(shape), value, d))


# --- numbers of one distribution -----------------------------------------------------------------------------------
@fill_docstring(_ENTRIES)
def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer of weights that are uniformly distributed over `[0, scale)`.

    Args:
      scale: the upper end.
      {dtype}
    Returns: {floats}
    Raises:
      DTypeError: from the initializer, if its dtype is not a float.

    Source: `lamina.random.uniform`.

    >>> from lamina_random import PRNGKey
    >>> uniform(10.0)(PRNGKey(42), (2,)).round(4)
    Array([0.1501, 6.7896], dtype=float32)
    """
    return _make_initializer("uniform", dtype, lambda key, shape, d: _scale(random.uniform(key, shape, d), scale, d))


@fill_docstring(_ENTRIES)
def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer of normally distributed weights with mean 0.

    Args:
      stddev: the standard deviation of the weights.
      {dtype}
    Returns: {float_or_complex}
    Raises: {DTypeError}

    Source: `lamina.random.normal`.

    >>> from lamina_random import PRNGKey
    >>> [round(float(x), 4) for x in normal(5.0)(PRNGKey(42), (2,))]
    [-10.8491, 2.324]
    """
    return _make_initializer("normal", dtype, lambda key, shape, d: _scale(random.normal(key, shape, d), stddev, d))


@fill_docstring(_ENTRIES)
def truncated_normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None, lower: float = -2.0,
                     upper: float = 2.0) -> Initializer:
    """Return an initializer of weights of a truncated normal distribution with mean 0.

    Args:
      stddev: the standard deviation before the truncation.
      {dtype}
      lower, upper: the bounds, in units of `stddev`.
    Returns: {floats}
    Raises:
      DTypeError: from the initializer, if its dtype is not a float.

    Source: `lamina.random.truncated_normal`.

    >>> from lamina_random import PRNGKey
    >>> [round(float(x), 4) for x in truncated_normal(5.0)(PRNGKey(42), (2,))]
    [-8.9283, 2.2109]
    """
    def draw(key: ArrayLike, shape: Any, d: np.dtype) -> Array:
        return _scale(random.truncated_normal(key, lower, upper, shape, d), stddev, d)
    return _make_initializer("truncated_normal", dtype, draw)


# --- numbers that scale with the inputs or outputs of a unit -------------------------------------------------------
_MODES = {"fan_in": lambda i, o: i, "fan_out": lambda i, o: o, "fan_avg": lambda i, o: (i + o) / 2,
          "fan_geo_avg": lambda i, o: math.sqrt(i * o)}
# The standard deviation of what is left of the standard normal distribution within 2, in one dimension and in two.
_CUT, _CUT_ON_DISC = 0.87962566103423978, 0.95311164380491208


def _draw_scaled(distribution: str, key: Any, shape: Any, d: np.dtype, variance: float) -> Any:
    """Numbers of mean 0 and of this variance, which is rounded to the dtype before its root is taken, as JAX does."""
    complex_ = dtypes.is_complex(d)
    real = np.empty(0, d).real.dtype if complex_ else d
    v = np.asarray(variance, real)
    cut, cut_on_disc, three = np.asarray(_CUT, real), np.asarray(_CUT_ON_DISC, real), np.asarray(3, real)
    if distribution == "normal":
        return _scale(random.normal(key, shape, d), np.sqrt(v), d)
    if distribution == "uniform":
        if complex_:
            return _scale(_draw_on_disc(key, shape, d, lambda u: lax.sqrt(lax.mul(u, real.type(2)))), np.sqrt(v), d)
        return _scale(random.uniform(key, shape, d, -1.0), np.sqrt(three * v), d)
    if complex_:
        return _scale(_draw_on_disc(key, shape, d, _compute_radius), np.sqrt(v) / cut_on_disc, d)
    return _scale(random.truncated_normal(key, -2.0, 2.0, shape, d), np.sqrt(v) / cut, d)


def _compute_radius(u: Any) -> Any:
    """Lengths up to 2 of plane vectors with normal parts of variance 1/2, of numbers in [0, 1)."""
    return lax.sqrt(lax.neg(_log_by_square(lax.sub(1.0, lax.mul(u, -math.expm1(-4))))))


@jit
def _log_by_square(x: Any) -> Any:
    """log(x), near 1 as log(x^2) / 2: the real part of XLA's complex logarithm, which JAX's digits come from.

    It is one program, because x^2 - 1 is rounded once there (a fused multiply-add).
    """
    excess = lax.sub(lax.mul(x, x), 1.0)
    near = lax.mul(0.5, lax.log1p(excess))
    return lax.select(lax.gt(excess, -0.5), near, lax.log(x))


@fill_docstring(_ENTRIES)
def variance_scaling(scale: float, mode: str, distribution: str, in_axis: Axes = -2, out_axis: Axes = -1,
                     batch_axis: Axes = (), dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer of weights with mean 0 and variance `scale / n`.

    Args:
      scale: a positive number.
      mode: meaning of `n`: "fan_in" the number of inputs of a unit, "fan_out" that of its outputs, "fan_avg" their
        mean, "fan_geo_avg" their geometric mean.
      distribution: "truncated_normal" (within two standard deviations), "normal" or "uniform".
      {in_axis, out_axis, batch_axis, dtype}
    Returns: {scaled}
    Raises:
      ValueError: `mode` or `distribution` is unknown, or `scale` is negative; from the initializer, if the shape has
        fewer than two axes.
      {ShapeError, DTypeError}

    Source: the common form of the initializers of Glorot and Bengio (2010) and He et al. (2015).

    >>> from lamina_random import PRNGKey
    >>> variance_scaling(1.0, "fan_in", "normal")(PRNGKey(0), (3, 2)).shape
    (3, 2)
    """
    return _make_variance_scaling("variance_scaling", scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)


def _make_variance_scaling(call: str, scale: float, mode: str, distribution: str, in_axis: Axes, out_axis: Axes,
                           batch_axis: Axes, dtype: DTypeLike | None) -> Initializer:
    if mode not in _MODES:
        raise ValueError(f"{call}: mode must be one of {', '.join(map(repr, _MODES))}; got {mode!r}")
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ValueError(f"{call}: distribution must be 'truncated_normal', 'normal' or 'uniform'; got {distribution!r}")
    if scale < 0:
        raise ValueError(f"{call}: scale must not be below 0; got {scale!r}. The variance is proportional to it")

    def draw(key: ArrayLike, shape: Any, d: np.dtype) -> Array:
        n = _MODES[mode](*_count_fans(call, shape, in_axis, out_axis, batch_axis))
        return _draw_scaled(distribution, key, shape, d, scale / max(n, 1))
    return _make_initializer(call, dtype, draw)


class ScalingInitializers(Protocol):
    """The functions that return `variance_scaling` with a fixed scale, mode and distribution."""

    @staticmethod
    def __call__(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (),
                 dtype: DTypeLike | None = None) -> Initializer:
        """Return the initializer."""
        raise NotImplementedError


def _make_fixed_scaling(name: str, scale: float, mode: str, distribution: str, use: str,
                        source: str) -> ScalingInitializers:
    def make(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (),
             dtype: DTypeLike | None = None) -> Initializer:
        return _make_variance_scaling(name, scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""Return an initializer for {use}: `variance_scaling({scale}, "{mode}", "{distribution}")`.

    Args: {{in_axis, out_axis, batch_axis, dtype}}
    Returns: {{scaled}}
    Raises: {{ValueError, ShapeError, DTypeError}}

    Source: {source}.

    >>> from lamina_random import PRNGKey
    >>> {name}()(PRNGKey(0), (3, 4)).shape
    (3, 4)
    """
    return fill_docstring(_ENTRIES)(make)


_LECUN = "`tanh` and SELU", 'LeCun et al., "Efficient backprop" (1998)'
_GLOROT = ("`tanh` and sigmoids",
           'Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010)')
_HE = "`relu`", 'He et al., "Delving deep into rectifiers" (2015)'
lecun_uniform = _make_fixed_scaling("lecun_uniform", 1.0, "fan_in", "uniform", *_LECUN)
lecun_normal = _make_fixed_scaling("lecun_normal", 1.0, "fan_in", "truncated_normal", *_LECUN)
glorot_uniform = _make_fixed_scaling("glorot_uniform", 1.0, "fan_avg", "uniform", *_GLOROT)
glorot_normal = _make_fixed_scaling("glorot_normal", 1.0, "fan_avg", "truncated_normal", *_GLOROT)
he_uniform = _make_fixed_scaling("he_uniform", 2.0, "fan_in", "uniform", *_HE)
he_normal = _make_fixed_scaling("he_normal", 2.0, "fan_in", "truncated_normal", *_HE)
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


# --- orthogonal matrices -------------------------------------------------------------------------------------------
@fill_docstring(_ENTRIES)
def orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer of uniformly distributed orthogonal matrices; for complex dtypes, of unitary ones.

    Args:
      scale: factor of the matrices.
      column_axis: the axis of the columns; the other axes together index the rows.
      {dtype}
    Returns:
      An initializer for shapes of at least two axes. The columns are orthonormal, or the rows if there are fewer rows.
    Raises: {ValueError, DTypeError}

    Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning" (2014); QR
      decomposition of a normal matrix, with the signs of the diagonal of R: Mezzadri (2007).

    >>> from lamina_random import PRNGKey
    >>> w = orthogonal()(PRNGKey(0), (3, 2))
    >>> bool(lnp.allclose(w.T @ w, lnp.eye(2), atol=1e-6))
    True
    """
    def draw(key: ArrayLike, shape: Any, d: np.dtype) -> Array:
        return _draw_orthogonal("orthogonal", key, shape, d, scale, column_axis)
    return _make_initializer("orthogonal", dtype, draw)


@ignore_strict_promotion
def _draw_orthogonal(call: str, key: Any, shape: Any, d: np.dtype, scale: Any, column_axis: int) -> Any:
    sizes = _get_sizes(shape)
    if len(sizes) < 2:
        raise ValueError(f"{call}: the shape must have at least two axes; got {sizes}")
    at = check_axis(call, column_axis, len(sizes), "column_axis")
    rest = (*sizes[:at], *sizes[at + 1:])
    columns, rows = sizes[at], math.prod(rest)
    q, r = lnp.linalg.qr(random.normal(key, _as_named(shape, (max(rows, columns), min(rows, columns))), d))
    q = lnp.multiply(q, lnp.sign(lnp.diagonal(r)))
    q = lnp.reshape(lnp.transpose(q) if columns > rows else q, (*rest, columns))
    return _scale(lnp.astype(lnp.moveaxis(q, -1, at), d), scale, d)


@fill_docstring(_ENTRIES)
def delta_orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer of convolution kernels that preserve norms.

    Args:
      scale: factor of the orthogonal matrix in the middle of the window; the kernel is zero elsewhere.
      column_axis: the axis of the columns of the matrix.
      {dtype}
    Returns:
      An initializer for shapes `[..., inputs, outputs]` of three to five axes with at most as many inputs as outputs.
    Raises:
      ValueError: from the initializer, if the shape has fewer or more axes, or more inputs than outputs.
      {DTypeError}

    Source: Xiao et al., "Dynamical isometry and a mean field theory of CNNs" (2018).

    >>> from lamina_random import PRNGKey
    >>> [bool(place.any()) for place in delta_orthogonal()(PRNGKey(0), (3, 2, 2))]
    [False, True, False]
    """
    def draw(key: ArrayLike, shape: Any, d: np.dtype) -> Array:
        sizes = _get_sizes(shape)
        if not 3 <= len(sizes) <= 5:
            raise ValueError(f"delta_orthogonal: the shape must have three to five axes; got {sizes}")
        if sizes[-1] < sizes[-2]:
            raise ValueError(f"delta_orthogonal: there must be at most as many inputs as outputs; got {sizes[-2]} inputs "
                             f"and {sizes[-1]} outputs in {sizes}")
        matrix = _draw_orthogonal("delta_orthogonal", key, _as_named(shape, sizes[-2:]), d, scale, column_axis)
        middle = tuple([(n - 1) // 2 for n in sizes[:-2]])
        return lnp.zeros(sizes, d).at[middle].set(matrix)
    return _make_initializer("delta_orthogonal", dtype, draw)
