"""Products of arrays in blocks with a common scale, in the formats mxfp8 and nvfp4."""
from __future__ import annotations

import dataclasses
import math
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import custom_vjp
from lamina_ir import ShapeError, dtypes
from lamina_numpy.extend import ignore_strict_promotion, public_api, to_inexact
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import resolve_requested_dtype, typeof

__all__ = ["BlockScaleConfig", "get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"]

_F32 = np.dtype("float32")


@dataclasses.dataclass(frozen=True, eq=False)
class BlockScaleConfig:
    """How `scaled_dot_general` rounds an operand.

    Attributes:
      mode: the name of the format.
      block_size: how many elements along the contracted axis share a scale.
      data_type: the dtype of the elements.
      scale_type: the dtype of the scales.
      global_scale: a factor of all scales, for formats whose scales have few exponents; None for 1.
      infer_only: no effect.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any = None
    infer_only: bool = False


_FORMATS = {"mxfp8": (32, "float8_e4m3fn", "float8_e8m0fnu"), "nvfp4": (16, "float4_e2m1fn", "float8_e4m3fn")}


def get_scaled_dot_general_config(mode: str, global_scale: ArrayLike | None = None) -> BlockScaleConfig:
    """Return how `scaled_dot_general` rounds an operand in a format.

    Args:
      mode: "mxfp8": blocks of 32 float8_e4m3fn numbers with powers of 2 as scales; "nvfp4": blocks of 16 float4_e2m1fn numbers
        with float8_e4m3fn scales.
      global_scale: for "nvfp4" a factor of all scales, of one element; None for 1.
    Returns:
      The configuration.
    Raises:
      ValueError: the mode is unknown, or `global_scale` is given for "mxfp8".

    Source: OCP Microscaling Formats (MX) 1.0, section 5; NVIDIA's NVFP4.

    >>> get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    if mode not in _FORMATS:
        raise ValueError(f'get_scaled_dot_general_config: mode must be "mxfp8" or "nvfp4"; got {mode!r}')
    if global_scale is not None and mode == "mxfp8":
        raise ValueError('get_scaled_dot_general_config: global_scale must be None for "mxfp8", whose scales have 8 bits of '
                         "exponent")
    size, data, scale = _FORMATS[mode]
    return BlockScaleConfig(mode, size, np.dtype(getattr(lnp, data)), np.dtype(getattr(lnp, scale)), global_scale)


def _round_to_blocks(x: Any, config: BlockScaleConfig) -> Any:
    """Round a float32 array `[..., k]` to the format, block by block along the last axis, and return it in float32. A last
    block that is shorter is filled with zeros."""
    shape, size = typeof(x).shape, config.block_size
    count = -(-shape[-1] // size)
    blocks = lnp.pad(x, [(0, 0)] * (len(shape) - 1) + [(0, count * size - shape[-1])])
    blocks = lnp.reshape(blocks, (*shape[:-1], count, size))
    highest = float(dtypes.finfo(config.data_type).max)
    top = lnp.max(lnp.abs(blocks), -1, keepdims=True, initial=0.0) / highest
    if config.mode == "mxfp8":  # the least power of 2 that keeps all elements in range
        power = lnp.exp2(lnp.ceil(lnp.log2(lnp.where(top > 0, top, 1.0))))
        scale = lnp.astype(lnp.astype(power, config.scale_type), _F32)  # exp2 itself is not exact
    else:
        common = 1.0 if config.global_scale is None else lnp.reshape(lnp.asarray(config.global_scale, _F32), ())
        parts = lnp.clip(top / common, 0.0, float(dtypes.finfo(config.scale_type).max))
        scale = lnp.astype(lnp.astype(parts, config.scale_type), _F32) * common
    scale = lnp.where(scale == 0, 1.0, scale)
    narrow = lnp.astype(lnp.clip(blocks / scale, -highest, highest), config.data_type)
    out = lnp.reshape(lnp.astype(narrow, _F32) * scale, (*shape[:-1], count * size))
    return out[..., :shape[-1]]


def _multiply(x: Any, y: Any) -> Any:
    """`[b, m, k]` times `[b, n, k]`: `[b, m, n]`, in float32."""
    return lax.dot_general(x, y, (((2,), (2,)), ((0,), (0,))), lax.Precision.HIGHEST, _F32)


def _make_rounded_product(configs: tuple[BlockScaleConfig, ...]) -> Any:
    """Return the product of rounded operands. In its derivative the cotangent and the other operand are rounded along the axis
    that is contracted there."""
    for_lhs, for_rhs, for_cotangent = configs

    @custom_vjp
    def product(x: Any, y: Any) -> Any:
        return _multiply(_round_to_blocks(x, for_lhs), _round_to_blocks(y, for_rhs))

    def forward(x: Any, y: Any) -> Any:
        return product(x, y), (x, y)

    def backward(saved: Any, ct: Any) -> Any:
        x, y = saved
        turned = lnp.matrix_transpose(ct)
        return (_multiply(_round_to_blocks(ct, for_cotangent), _round_to_blocks(lnp.matrix_transpose(y), for_rhs)),
                _multiply(_round_to_blocks(turned, for_cotangent), _round_to_blocks(lnp.matrix_transpose(x), for_lhs)))
    product.defvjp(forward, backward)
    return product


def _check_configs(configs: Any) -> tuple[BlockScaleConfig, ...]:
    made = tuple(configs) if isinstance(configs, (list, tuple)) else ()
    if len(made) != 3 or not all(isinstance(c, BlockScaleConfig) for c in made):
        raise TypeError("scaled_dot_general: configs must be a list of three configurations, for lhs, rhs and the "
                        f"gradient, each from get_scaled_dot_general_config; got {configs!r:.80}")
    return made


@ignore_strict_promotion
def scaled_dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: Any, preferred_element_type: DTypeLike = np.float32,
                       configs: list[BlockScaleConfig] | None = None, implementation: str | None = None) -> Array:
    """Multiply two arrays whose elements are first rounded to a narrow format with a scale for each block.

    Args:
      lhs, rhs: real arrays.
      dimension_numbers: `((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))`, as of `lax.dot_general`.
      preferred_element_type: float dtype of the result.
      configs: three configurations: for `lhs`, for `rhs`, and for the cotangent in derivatives. None rounds nothing.
      implementation: no effect; accepted for the sake of older versions of JAX.
    Returns:
      Array of the axes of `lax.dot_general`. Rounded numbers are multiplied and summed in float32.
    Raises:
      TypeError: `configs` are not three configurations.
      ShapeError: axes that are paired differ in length.

    Derivative: the product of the rounded cotangent and the other operand, rounded along the axis contracted there.
    Source: OCP Microscaling Formats (MX) 1.0, section 6.

    >>> configs = [get_scaled_dot_general_config("mxfp8")] * 3
    >>> x = np.array([[1., 2., 300.]])
    >>> scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs)
    Array([[82949.]], dtype=float32)
    """
    dtype = resolve_requested_dtype(preferred_element_type)
    x, y = (lnp.asarray(to_inexact("scaled_dot_general", v)) for v in (lhs, rhs))
    if configs is None:
        return lax.dot_general(x, y, dimension_numbers, preferred_element_type=dtype)
    product = _make_rounded_product(_check_configs(configs))
    (lc, rc), (lb, rb) = (tuple(tuple(int(a) % max(len(typeof(v).shape), 1) for a in axes) for v, axes in zip((x, y), pair))
                          for pair in dimension_numbers)
    for kind, ours, theirs in (("contracted", lc, rc), ("batch", lb, rb)):
        lengths = [tuple(typeof(v).shape[a] for a in axes) for v, axes in ((x, ours), (y, theirs))]
        if lengths[0] != lengths[1]:
            raise ShapeError(f"scaled_dot_general: {kind} axes must have equal length; got {typeof(x).str_long()}, axes "
                             f"{ours}, and {typeof(y).str_long()}, axes {theirs}")
    (left, m), (right, n) = _to_stack(x, lc, lb), _to_stack(y, rc, rb)
    batch = tuple(typeof(x).shape[a] for a in lb)
    return lnp.astype(lnp.reshape(product(left, right), (*batch, *m, *n)), dtype)


def _to_stack(x: Any, contract: tuple[int, ...], batch: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Return a float32 array `[b, m, k]`, and the lengths of the axes that m stands for."""
    shape = typeof(x).shape
    free = tuple(a for a in range(len(shape)) if a not in contract and a not in batch)
    sizes = [math.prod(shape[a] for a in axes) for axes in (batch, free, contract)]
    moved = lnp.reshape(lnp.transpose(lnp.astype(x, _F32), batch + free + contract), sizes)
    return moved, tuple(shape[a] for a in free)


@public_api("preferred_element_type")
@ignore_strict_promotion
def scaled_matmul(lhs: ArrayLike, rhs: ArrayLike, lhs_scales: ArrayLike, rhs_scales: ArrayLike,
                  preferred_element_type: DTypeLike = np.float32) -> Array:
    """Multiply stacks of matrices whose rows are in blocks with a scale each.

    Args:
      lhs: real array `[b, m, k]`.
      rhs: real array `[b, n, k]`.
      lhs_scales: real array `[b, m, i]`: the scales of blocks of `k / i` elements.
      rhs_scales: real array `[b, n, j]`: the scales of blocks of `k / j` elements.
      preferred_element_type: float dtype of the result.
    Returns:
      Array `[b, m, n]`: sums over k of the scaled elements, computed in float32.
    Raises:
      ShapeError: the shapes do not fit.
      TypeError: an argument is neither an array nor a number.

    Derivative: that of the product.
    Source: OCP Microscaling Formats (MX) 1.0, section 6.2.

    >>> x, scales = np.ones((1, 1, 4)), np.array([[[0.5, 2.]]])
    >>> scaled_matmul(x, x, scales, scales)
    Array([[[8.5]]], dtype=float32)
    """
    dtype = resolve_requested_dtype(preferred_element_type)
    parts = [lnp.astype(lnp.asarray(to_inexact("scaled_matmul", v)), _F32) for v in (lhs, lhs_scales, rhs, rhs_scales)]
    types = [typeof(v) for v in parts]
    x, s, y, t = (v.shape for v in types)
    if not (len(x) == len(s) == len(y) == len(t) == 3 and x[::2] == y[::2] and s[:2] == x[:2] and t[:2] == y[:2]
            and all(v[2] and x[2] % v[2] == 0 for v in (s, t))):
        raise ShapeError("scaled_matmul: expected lhs [b, m, k], rhs [b, n, k], lhs_scales [b, m, i], rhs_scales [b, n, j], "
                         "with k a multiple of i and of j; got "
                         + ", ".join(types[i].str_long() for i in (0, 2, 1, 3)))
    left, right = (v * lnp.repeat(scale, x[2] // typeof(scale).shape[2], 2) for v, scale in (parts[:2], parts[2:]))
    return lnp.astype(_multiply(left, right), dtype)
