"""The operations of `operation_programs.py` in PyTorch, on the same numbers and in the same order in memory.

usage: python benchmarks/torch_operations.py FILE.json [PART ...], with an interpreter that has PyTorch

It also measures the machine's limits: FLOP per second of a product in float32, bytes per second of a copy. All figures
are in processor time.
"""
from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

IMAGES, KERNELS, ROWS = (8, 32, 32, 64), (3, 3, 64, 64), (2048, 512)


def array(*shape: int, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def images(*shape: int) -> Any:
    """Return images whose last axis in memory is that of the channels, as in `operation_programs.py`."""
    return array(*shape).movedim(-1, 1)


def kernels(*shape: int) -> Any:
    """Return kernels of shape [..., in, out] in PyTorch's order [out, in, ...]."""
    return array(*shape, seed=1).movedim((-1, -2), (0, 1)).contiguous()


def gradient(fun: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """Return a call that computes the value and its gradients, with the value as the cotangent."""
    leaves = [a.detach().clone().requires_grad_() for a in args]

    def call() -> Any:
        y = fun(*leaves)
        return torch.autograd.grad(y, leaves, y.detach())
    return call


def convolutions() -> dict[str, Callable[[], Callable[[], Any]]]:
    def forward(groups: int, *shape: int) -> Callable[[], Any]:
        x, w = images(*IMAGES), kernels(*shape)
        return lambda: F.conv2d(x, w, padding=shape[0] // 2, groups=groups)

    def of_input(groups: int, *shape: int) -> Callable[[], Any]:
        x, w = images(*IMAGES), kernels(*shape)
        return lambda: torch.nn.grad.conv2d_input(x.shape, w, x, padding=1, groups=groups)

    def of_kernels(groups: int, *shape: int) -> Callable[[], Any]:
        x, w = images(*IMAGES), kernels(*shape)
        return lambda: torch.nn.grad.conv2d_weight(x, w.shape, x, padding=1, groups=groups)

    def loop() -> Callable[[], Any]:
        x, start = images(8, 16, 16, 32), kernels(3, 3, 32, 32)

        def call() -> Any:
            w = start
            for _ in range(3):
                w = w - 1e-4 * torch.nn.grad.conv2d_weight(x, w.shape, x, padding=1)
            return w
        return call

    def sequence() -> Callable[[], Any]:
        x, w = images(16, 256, 64), kernels(4, 1, 64)
        return lambda: F.conv1d(F.pad(x, (1, 2)), w, groups=64)

    def volume() -> Callable[[], Any]:
        x, w = images(2, 12, 12, 12, 16), kernels(3, 3, 3, 16, 16)
        return lambda: torch.nn.grad.conv3d_weight(x, w.shape, x, padding=1)

    def transposed() -> Callable[[], Any]:
        x, w = images(8, 16, 16, 32), kernels(3, 3, 32, 32)
        return gradient(lambda w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), w)

    def pooling(size: int, stride: int) -> Callable[[], Any]:
        return gradient(lambda x: F.max_pool2d(x, size, stride, ceil_mode=True), images(*IMAGES))

    def pointwise() -> Callable[[], Any]:
        return gradient(F.conv2d, images(*IMAGES), kernels(1, 1, 64, 64))

    depthwise, grouped = (64, 3, 3, 1, 64), (16, 3, 3, 4, 64)
    return {
        "depthwise": lambda: forward(*depthwise), "depthwise_input_gradient": lambda: of_input(*depthwise),
        "depthwise_kernel_gradient": lambda: of_kernels(*depthwise), "depthwise_sequence": sequence,
        "groups": lambda: forward(*grouped), "groups_input_gradient": lambda: of_input(*grouped),
        "groups_kernel_gradient": lambda: of_kernels(*grouped), "convolution": lambda: forward(1, *KERNELS),
        "convolution_input_gradient": lambda: of_input(1, *KERNELS),
        "convolution_kernel_gradient": lambda: of_kernels(1, *KERNELS), "convolution_loop": loop,
        "volume_kernel_gradient": volume, "transposed_kernel_gradient": transposed,
        "pointwise_convolution": lambda: forward(1, 1, 1, 64, 64), "pointwise_convolution_gradient": pointwise,
        "pooling": lambda: (lambda x: lambda: F.max_pool2d(x, 2, 2))(images(*IMAGES)),
        "pooling_gradient": lambda: pooling(2, 2), "overlapping_pooling_gradient": lambda: pooling(3, 2)}


def positive(x: Any) -> Any:
    return torch.exp(1e-3 * x)


def layer_norm(x: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


def product_in_bfloat16(x: Any) -> Any:
    x = x.to(torch.bfloat16)
    return x @ x


def sort_by_two_keys(x: Any, y: Any) -> Any:
    y, order = torch.sort(y)
    x, again = torch.sort(torch.round(x)[order], stable=True)
    return x, y[again]


def sort_of_pairs(x: Any, y: Any) -> Any:
    x, order = torch.sort(x)
    return x, y[order]


def take_rows(x: Any) -> Any:
    return torch.index_select(x, 0, (torch.arange(4096) * 1237) % x.shape[0])


def on_arrays(fun: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Any]:
    arrays = [array(*shape, seed=n) for n, shape in enumerate(shapes)]
    return lambda: fun(*arrays)


def gradient_on_arrays(fun: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Any]:
    return gradient(fun, *[array(*shape, seed=n) for n, shape in enumerate(shapes)])


def pulled_back(fun: Callable[..., Any]) -> Callable[[], Any]:
    """Return a call of the gradient at random rows, with random rows as the cotangent."""
    x, g = array(*ROWS).requires_grad_(), array(*ROWS, seed=1)
    return lambda: torch.autograd.grad(fun(x), x, g)


SQUARE, LONG, MIDDLE, SMALL = (1000, 1000), (1_000_000,), (100_000,), (256, 16, 16)
OPERATIONS: dict[str, Callable[[], Callable[[], Any]]] = {
    **convolutions(),
    "softmax": lambda: on_arrays(lambda x: torch.softmax(x, -1), ROWS),
    "softmax_gradient": lambda: pulled_back(lambda x: torch.softmax(x, -1)),
    "layer_norm": lambda: on_arrays(layer_norm, ROWS),
    "layer_norm_gradient": lambda: pulled_back(layer_norm),
    "bfloat16_product": lambda: on_arrays(product_in_bfloat16, (512, 512)),
    "bfloat16_product_gradient": lambda: gradient_on_arrays(product_in_bfloat16, (512, 512)),
    "bfloat16_matrix_times_vector": lambda: on_arrays(
        lambda x, y: x.to(torch.bfloat16) @ y.to(torch.bfloat16), (2048, 2048), (2048,)),
    "top_k": lambda: on_arrays(lambda x: torch.topk(x, 10), SQUARE),
    "top_k_gradient": lambda: gradient_on_arrays(lambda x: torch.topk(x, 10)[0], SQUARE),
    "top_k_of_a_long_row": lambda: on_arrays(lambda x: torch.topk(x, 10), LONG),
    "top_k_of_integers": lambda: on_arrays(lambda x: torch.topk((x * 1e6).to(torch.int32), 10), (200_000,)),
    "argmax_of_columns": lambda: on_arrays(lambda x: torch.argmax(x, 0), SQUARE),
    "histogram": lambda: on_arrays(lambda x: torch.histc(x, 64), LONG),
    "cumulative_sum": lambda: on_arrays(lambda x: torch.cumsum(x, 0), LONG),
    "cumulative_sum_gradient": lambda: gradient_on_arrays(lambda x: torch.cumsum(x, 0), LONG),
    "cumulative_sum_of_rows": lambda: on_arrays(lambda x: torch.cumsum(x, 1), SQUARE),
    "cumulative_product": lambda: on_arrays(lambda x: torch.cumprod(positive(x), 1), SQUARE),
    "cumulative_product_gradient": lambda: gradient_on_arrays(lambda x: torch.cumprod(positive(x), 1), SQUARE),
    "sort_of_pairs": lambda: on_arrays(sort_of_pairs, MIDDLE, MIDDLE),
    "sort_by_two_keys": lambda: on_arrays(sort_by_two_keys, MIDDLE, MIDDLE),
    "sort_gradient": lambda: gradient_on_arrays(lambda x: torch.sort(x)[0], MIDDLE),
    "argsort": lambda: on_arrays(lambda x: torch.argsort(x, stable=True), MIDDLE),
    "take_along_axis": lambda: on_arrays(lambda x: torch.gather(x, 1, torch.argsort(x[:, :16], 1)), ROWS),
    "take_rows": lambda: on_arrays(take_rows, ROWS),
    "take_rows_gradient": lambda: gradient_on_arrays(take_rows, ROWS),
    "small_products": lambda: on_arrays(torch.bmm, SMALL, SMALL),
    "small_products_gradient": lambda: gradient_on_arrays(torch.bmm, SMALL, SMALL),
    "padding": lambda: on_arrays(lambda x: F.pad(x, (0, 0, 1, 1, 1, 1)), IMAGES)}


def best_of(run: Callable[[], Any], calls: int = 5, repeats: int = 7) -> float:
    """Return the best processor time of a call, in microseconds."""
    run()
    found = math.inf
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            run()
        found = min(found, (time.process_time() - start) / calls)
    return found * 1e6


def limits() -> dict[str, float]:
    """Return the machine's FLOP and bytes per microsecond of processor time."""
    x, source = array(1024, 1024), array(1 << 26)
    target = torch.empty_like(source)
    return {"flop": 2 * 1024 ** 3 / best_of(lambda: x @ x, 3, 15),
            "bytes": 2 * source.nbytes / best_of(lambda: target.copy_(source), 1)}


def main() -> None:
    wanted, found = sys.argv[2:], {f"limit_{name}": value for name, value in limits().items()}
    for name, make in OPERATIONS.items():
        row = f"operation_{name}"
        if not wanted or any(part in row for part in wanted):
            found[row] = best_of(make())
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
