"""Single compiled operations of 0.1 to 20 ms: those that are slow on CPUs in XLA, and common ones for comparison.

They are measured in processor time. `torch_operations.py` has the same operations in PyTorch.
"""
from __future__ import annotations

import time
from typing import Any

import numpy as np
from harness import array, lax, timed, xnp, xp

LAST = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}


def convolve(x: Any, w: Any, groups: int = 1) -> Any:
    n = x.ndim - 2
    return lax.conv_general_dilated(x, w, (1,) * n, "SAME", dimension_numbers=LAST[n], feature_group_count=groups)


def input_gradient(x: Any, w: Any, groups: int = 1) -> Any:
    return xp.vjp(lambda x: convolve(x, w, groups), x)[1](x)[0]


def kernel_gradient(x: Any, w: Any, groups: int = 1) -> Any:
    return xp.vjp(lambda w: convolve(x, w, groups), w)[1](x)[0]


def convolution_loop(x: Any, w: Any) -> Any:
    """Return the kernels after three steps of gradient descent in a loop."""
    return lax.fori_loop(0, 3, lambda i, w: w - 1e-4 * kernel_gradient(x, w), w)


def transposed_gradient(x: Any, w: Any) -> Any:
    def transposed(w: Any) -> Any:
        return lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=LAST[2])
    y, pull = xp.vjp(transposed, w)
    return pull(y)[0]


def pooling_gradient(x: Any, size: int, stride: int) -> Any:
    y, pull = xp.vjp(lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), "SAME"), x)
    return pull(y)[0]


def gradient(fun: Any, *args: Any) -> Any:
    """Return the gradients of `fun`, with its result as the cotangent."""
    y, pull = xp.vjp(fun, *args)
    return pull(y)


def pooling(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


def positive(x: Any) -> Any:
    """Return numbers whose products neither overflow nor vanish."""
    return xnp.exp(1e-3 * x)


def take_rows(x: Any) -> Any:
    return xnp.take(x, (xnp.arange(4096) * 1237) % x.shape[0], axis=0)


def layer_norm(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6)


def product_in_bfloat16(x: Any) -> Any:
    x = x.astype(xnp.bfloat16)
    return x @ x


IMAGES, KERNELS, ROWS = (8, 32, 32, 64), (3, 3, 64, 64), (2048, 512)
OPERATIONS = {
    "depthwise": (lambda x, w: convolve(x, w, 64), (IMAGES, (3, 3, 1, 64))),
    "depthwise_input_gradient": (lambda x, w: input_gradient(x, w, 64), (IMAGES, (3, 3, 1, 64))),
    "depthwise_kernel_gradient": (lambda x, w: kernel_gradient(x, w, 64), (IMAGES, (3, 3, 1, 64))),
    "depthwise_sequence": (lambda x, w: convolve(x, w, 64), ((16, 256, 64), (4, 1, 64))),
    "groups": (lambda x, w: convolve(x, w, 16), (IMAGES, (3, 3, 4, 64))),
    "groups_input_gradient": (lambda x, w: input_gradient(x, w, 16), (IMAGES, (3, 3, 4, 64))),
    "groups_kernel_gradient": (lambda x, w: kernel_gradient(x, w, 16), (IMAGES, (3, 3, 4, 64))),
    "convolution": (convolve, (IMAGES, KERNELS)),
    "convolution_input_gradient": (input_gradient, (IMAGES, KERNELS)),
    "convolution_kernel_gradient": (kernel_gradient, (IMAGES, KERNELS)),
    "convolution_loop": (convolution_loop, ((8, 16, 16, 32), (3, 3, 32, 32))),
    "volume_kernel_gradient": (kernel_gradient, ((2, 12, 12, 12, 16), (3, 3, 3, 16, 16))),
    "transposed_kernel_gradient": (transposed_gradient, ((8, 16, 16, 32), (3, 3, 32, 32))),
    "pointwise_convolution": (convolve, (IMAGES, (1, 1, 64, 64))),
    "pointwise_convolution_gradient": (lambda x, w: gradient(convolve, x, w), (IMAGES, (1, 1, 64, 64))),
    "pooling": (pooling, (IMAGES,)),
    "pooling_gradient": (lambda x: pooling_gradient(x, 2, 2), (IMAGES,)),
    "overlapping_pooling_gradient": (lambda x: pooling_gradient(x, 3, 2), (IMAGES,)),
    "softmax": (lambda x: xp.nn.softmax(x), (ROWS,)),
    "softmax_gradient": (lambda x, y: xp.vjp(xp.nn.softmax, x)[1](y)[0], (ROWS, ROWS)),
    "layer_norm": (layer_norm, (ROWS,)),
    "layer_norm_gradient": (lambda x, y: xp.vjp(layer_norm, x)[1](y)[0], (ROWS, ROWS)),
    "bfloat16_product": (product_in_bfloat16, ((512, 512),)),
    "bfloat16_matrix_times_vector": (lambda x, y: x.astype(xnp.bfloat16) @ y.astype(xnp.bfloat16), ((2048, 2048), (2048,))),
    "bfloat16_product_gradient": (lambda x: gradient(product_in_bfloat16, x), ((512, 512),)),
    "top_k": (lambda x: lax.top_k(x, 10), ((1000, 1000),)),
    "top_k_gradient": (lambda x: gradient(lambda x: lax.top_k(x, 10)[0], x), ((1000, 1000),)),
    "top_k_of_a_long_row": (lambda x: lax.top_k(x, 10), ((1_000_000,),)),
    "top_k_of_integers": (lambda x: lax.top_k((x * 1e6).astype(np.int32), 10), ((200_000,),)),
    "argmax_of_columns": (lambda x: xnp.argmax(x, 0), ((1000, 1000),)),
    "histogram": (lambda x: xnp.histogram(x, 64)[0], ((1_000_000,),)),
    "cumulative_sum": (xnp.cumsum, ((1_000_000,),)),
    "cumulative_sum_of_rows": (lambda x: xnp.cumsum(x, 1), ((1000, 1000),)),
    "cumulative_sum_gradient": (lambda x: gradient(xnp.cumsum, x), ((1_000_000,),)),
    "cumulative_product": (lambda x: xnp.cumprod(positive(x), 1), ((1000, 1000),)),
    "cumulative_product_gradient": (lambda x: gradient(lambda x: xnp.cumprod(positive(x), 1), x), ((1000, 1000),)),
    "sort_of_pairs": (lambda x, y: lax.sort((x, y), num_keys=1), ((100_000,), (100_000,))),
    "sort_by_two_keys": (lambda x, y: lax.sort((xnp.round(x), y), num_keys=2), ((100_000,), (100_000,))),
    "sort_gradient": (lambda x: gradient(xnp.sort, x), ((100_000,),)),
    "argsort": (xnp.argsort, ((100_000,),)),
    "take_along_axis": (lambda x: xnp.take_along_axis(x, xnp.argsort(x[:, :16], 1), 1), (ROWS,)),
    "take_rows": (take_rows, (ROWS,)),
    "take_rows_gradient": (lambda x: gradient(take_rows, x), (ROWS,)),
    "small_products": (lambda x, y: x @ y, ((256, 16, 16), (256, 16, 16))),
    "small_products_gradient": (lambda x, y: gradient(lambda x, y: x @ y, x, y), ((256, 16, 16), (256, 16, 16))),
    "padding": (lambda x: xnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (IMAGES,)),
}


def _running(name: str) -> Any:
    fun, shapes = OPERATIONS[name]

    def set_up() -> Any:
        call, arrays = xp.jit(fun), [array(*shape, seed=n) for n, shape in enumerate(shapes)]
        return lambda: call(*arrays)
    set_up.__name__ = f"operation_{name}"
    return set_up


for _name in OPERATIONS:
    timed(5, 7, clock=time.process_time)(_running(_name))
