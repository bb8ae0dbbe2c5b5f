"""Pictures of another size: an array resampled along its axes. `lamina.image` shows them.

Along one axis, position `i` of the result is at `x = (i + 1/2 - translation) / scale - 1/2` among the old
positions, and is the mean of the old elements weighted by a kernel around `x`. To make smaller without aliasing the
kernel is widened by `1 / scale`. Kernels: a triangle; the cubic of R. Keys (Cubic convolution interpolation, IEEE
Trans. ASSP 29, 1981, a = -1/2); sinc windowed by a wider sinc (C. E. Duchon, Lanczos filtering, J. Appl. Meteor. 18,
1979).
"""
from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import as_tuple, check_axis, typeof

from ._products import einsum
from ._elementwise import special
from ._core.conversion import asarray
from ._core.promotion import to_inexact
from ._core.public_api import jitted_core, publish
from ._indexing import take

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How elements between old positions are found.

    >>> ResizeMethod.from_string("bilinear")
    <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4

    @staticmethod
    def from_string(name: str) -> ResizeMethod:
        """The method of this name: "nearest", "linear" ("bilinear", "trilinear", "triangle"), "cubic" ("bicubic",
        "tricubic"),
        "lanczos3" or "lanczos5"."""
        try:
            return _NAMES[name]
        except KeyError:
            raise ValueError(f"ResizeMethod: there is no method {name!r}; expected one of {', '.join(_NAMES)}") from None


_NAMES = {"nearest": ResizeMethod.NEAREST, "lanczos3": ResizeMethod.LANCZOS3, "lanczos5": ResizeMethod.LANCZOS5,
          **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
          **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC)}


# --- kernels, of distances that are not negative ------------------------------------------------------------------
def _triangle(x: Any) -> Any:
    return lax.max(1 - x, lax.full_like(x, 0))


def _keys(x: Any) -> Any:
    near, far = ((1.5 * x - 2.5) * x) * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    zero = lax.full_like(x, 0)
    return lax.select(x < 1, near, lax.select(x < 2, far, zero))


def _lanczos(radius: int) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        return lax.select(x < radius, special.sinc(x) * special.sinc(x / radius), lax.full_like(x, 0))
    return kernel


_KERNELS = {ResizeMethod.LINEAR: _triangle, ResizeMethod.CUBIC: _keys, ResizeMethod.LANCZOS3: _lanczos(3),
            ResizeMethod.LANCZOS5: _lanczos(5)}


def _compute_weights(old: int, new: int, scale: Any, translation: Any, kernel: Callable[[Any], Any], antialias: bool,
                     dtype: Any) -> Any:
    """`[old, new]`: what each old element has in each new one. Columns sum to one; those of places outside are zero."""
    i = lax.convert_element_type(lax.iota("int32", new), dtype)
    places = (i + 0.5 - translation) / scale - 0.5
    wide = lax.max(1 / scale, lax.full_like(scale, 1)) if antialias else lax.full_like(scale, 1)
    at = lax.convert_element_type(lax.iota("int32", old), dtype)
    shape = (old, new)
    distance = lax.abs(lax.broadcast_in_dim(places, shape, (1,)) - lax.broadcast_in_dim(at, shape, (0,)))
    weights = kernel(distance / wide)
    total = lax.reduce_sum(weights, (0,))
    usable = lax.bitwise_and(lax.abs(total) > 1000 * float(np.finfo(np.float32).eps),
                             lax.bitwise_and(places >= -0.5, places <= old - 0.5))
    total = lax.select(usable, total, lax.full_like(total, 1))
    return lax.select(lax.broadcast_in_dim(usable, shape, (1,)), weights / lax.broadcast_in_dim(total, shape, (1,)),
                      lax.full_like(weights, 0))


@jitted_core("shape", "axes", "method", "antialias", "precision", name="scale_and_translate")
def _resample(image: Any, scale: Any, translation: Any, shape: tuple[int, ...], axes: tuple[int, ...], method: ResizeMethod,
              antialias: bool, precision: Any) -> Any:
    image = to_inexact("resize", image)
    t = typeof(image)
    work = np.dtype("float64" if t.dtype in (np.float64, np.complex128) else "float32")
    kernel = _KERNELS[method]
    scale, translation = (lax.convert_element_type(v, work) for v in (scale, translation))
    wide = np.promote_types(t.dtype, work) if t.dtype.kind == "c" else work
    out = lax.convert_element_type(image, wide)
    for k, axis in enumerate(axes):
        weights = _compute_weights(t.shape[axis], shape[axis], scale[k], translation[k], kernel, antialias, work)
        letters = [*range(len(shape))]
        others = [*letters[:axis], len(shape), *letters[axis + 1:]]
        weights = lax.convert_element_type(weights, wide)
        out = einsum.einsum(out, letters, weights, [axis, len(shape)], others, precision=precision)
    return lax.convert_element_type(out, t.dtype)


def _parse_method(call: str, method: Any) -> ResizeMethod:
    if isinstance(method, ResizeMethod):
        return method
    if isinstance(method, str):
        return ResizeMethod.from_string(method)
    raise ValueError(f"{call}: method must be a ResizeMethod or its name; got {method!r}")


def _check_sizes(call: str, shape: Any, image: Any) -> tuple[int, ...]:
    sizes = tuple(map(int, as_tuple(call, "shape", shape, int)))
    have = typeof(image).shape
    if len(sizes) != len(have):
        raise ValueError(f"{call}: shape must have one size for each axis of the image {typeof(image).str_long()}; got {sizes}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"{call}: shape must not have negative sizes; got {sizes}")
    if any(new and not old for new, old in zip(sizes, have)):
        raise ValueError(f"{call}: an axis without elements cannot grow; got {typeof(image).str_long()} and the shape {sizes}")
    return sizes


def resize(image: ArrayLike, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
           precision: Any = lax.Precision.HIGHEST) -> Array:
    """An image of another size, its edges where they were.

    Args:
      image: number array of any rank.
      shape: sizes of the result; along axes of the same size nothing changes.
      method: "nearest", "linear", "cubic", "lanczos3", "lanczos5", another name that `ResizeMethod.from_string`
        knows, or a `ResizeMethod`.
      antialias: whether to average more elements where the image becomes smaller. Of no effect on "nearest".
      precision: of the products, as in `lax.dot_general`.
    Returns:
      Array `shape` of the dtype and units of `image`; booleans and integers become float, but for "nearest".
    Raises:
      ValueError: `shape` has not one size for each axis, a size is negative, an axis without elements is to grow, or
        there is no such method.

    Derivative: linear.
    Source: resampling by separable kernels, see the module: Keys (1981), Duchon (1979).

    >>> resize(np.array([[0., 2.]]), (1, 4), "linear")
    Array([[0. , 0.5, 1.5, 2. ]], dtype=float32)
    """
    image = asarray(image)
    sizes = _check_sizes("resize", shape, image)
    how = _parse_method("resize", method)
    have = typeof(image).shape
    axes = tuple(k for k, (new, old) in enumerate(zip(sizes, have)) if new != old)
    if how is ResizeMethod.NEAREST:
        for axis in axes:
            new, old = sizes[axis], have[axis]
            image = take.take(image, np.floor((np.arange(new) + 0.5) * (old / max(new, 1))).astype(np.int32), axis)
        return image
    scale = asarray(np.array([sizes[k] / max(have[k], 1) for k in axes], np.float64))
    return _resample(image, scale, asarray(np.zeros(len(axes))), sizes, axes, how, bool(antialias), precision)


def scale_and_translate(image: ArrayLike, shape: Sequence[int], spatial_dims: Sequence[int], scale: ArrayLike,
                        translation: ArrayLike, method: str | ResizeMethod, antialias: bool = True,
                        precision: Any = lax.Precision.HIGHEST) -> Array:
    """An image stretched and moved along some axes: old place `x` comes to `x * scale + translation`.

    Args:
      image: number array of any rank.
      shape: sizes of the result; as those of `image` along the axes that are not in `spatial_dims`.
      spatial_dims: the axes; negative ones count from the end.
      scale: array `[len(spatial_dims)]`, may be traced.
      translation: array `[len(spatial_dims)]`, in elements of the result, whose first one reaches from 0 to 1. May be
        traced.
      method: as in `resize`, without "nearest".
      antialias: whether to average more elements where the image becomes smaller.
      precision: of the products, as in `lax.dot_general`.
    Returns:
      Array `shape` of the dtype and units of `image`; booleans and integers become float. Zero where the old image
      does not reach.
    Raises:
      ValueError: `shape` does not fit, `scale` or `translation` has not one number for each axis, or the method is
        "nearest" or none.

    Derivative: linear in `image`; in `scale` and `translation` too, where the kernel has a derivative.
    Source: resampling by separable kernels, see the module: Keys (1981), Duchon (1979).

    >>> scale_and_translate(np.array([1., 2., 3.]), (3,), (0,), np.ones(1), np.ones(1), "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    call = "scale_and_translate"
    image = asarray(image)
    sizes = _check_sizes(call, shape, image)
    how = _parse_method(call, method)
    if how is ResizeMethod.NEAREST:
        raise ValueError(f"{call}: the method 'nearest' does not interpolate; use resize, or another method")
    have = typeof(image).shape
    dims = as_tuple(call, "spatial_dims", spatial_dims, int)
    axes = tuple(check_axis(call, axis, len(have), "spatial_dims") for axis in dims)
    for axis, (new, old) in enumerate(zip(sizes, have)):
        if new != old and axis not in axes:
            raise ValueError(f"{call}: axis {axis} is not in spatial_dims {axes}, so shape must leave it {old}; got {new}")
    factors, moves = to_inexact(call, asarray(scale)), to_inexact(call, asarray(translation))
    for name, v in (("scale", factors), ("translation", moves)):
        if typeof(v).shape != (len(axes),) or dtypes.is_complex(typeof(v).dtype):
            raise ValueError(f"{call}: {name} must have one real number for each of the {len(axes)} axes; got "
                             f"{typeof(v).str_long()}")
    return _resample(image, factors, moves, sizes, axes, how, bool(antialias), precision)


publish(globals())
