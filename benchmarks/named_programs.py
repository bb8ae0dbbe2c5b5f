"""Programs of named axes, compared with jax 0.4.30, the last version with `xmap`, and with positional programs.

A twin of a row (`..._by_hand`) is that program written with `vmap` or `pmap`, in the same process.
"""
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import MODULE, array, lax, timed, xnp, xp

maps = importlib.import_module(MODULE + ".experimental.maps")  # ImportError where there is none: programs.py leaves them out
Mesh = importlib.import_module(MODULE + ".sharding").Mesh
xmap = maps.xmap

_A, _B = array(64, 256), array(256, 64, seed=1)
_X, _Y, _W, _BIAS = array(128, 32), array(128, 8, seed=1), array(32, 8, seed=2), array(8, seed=3)


def regression(x: Any, y: Any, w: Any, b: Any) -> Any:
    error = xnp.sum((y - (lax.xeinsum("{in},{in}->{}", x, w) + b)) ** 2, axis=("out",))
    return xnp.mean(error, axis=("batch",))


def product(**options: Any) -> Callable[..., Any]:
    return xmap(lambda a, b: xnp.vdot(a, b), ({0: "left"}, {1: "right"}), ["left", "right", ...], **options)


def loss(**options: Any) -> Callable[..., Any]:
    return xmap(lambda *args: regression(*args), (["batch", "in", ...], ["batch", "out", ...], ["in", "out", ...],
                                                  ["out", ...]), {}, **options)


def product_by_hand() -> Callable[..., Any]:
    return xp.jit(xp.vmap(xp.vmap(lambda a, b: xnp.vdot(a, b), (None, 1)), (0, None)))


def _twice(f: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    f(*args)
    return lambda: f(*args)


@timed(100)
def xmap_call_product() -> Any:
    return _twice(product(), _A, _B)


@timed(100)
def xmap_call_product_by_hand() -> Any:
    return _twice(product_by_hand(), _A, _B)


@timed(100)
def xmap_call_regression() -> Any:
    return _twice(loss(), _X, _Y, _W, _BIAS)


@timed(100)
def xmap_call_regression_by_hand() -> Any:
    def example(x: Any, y: Any, w: Any, b: Any) -> Any:
        return ((y - (x @ w + b)) ** 2).sum()
    return _twice(xp.jit(lambda x, y, w, b: xp.vmap(example, (0, 0, None, None))(x, y, w, b).mean()), _X, _Y, _W, _BIAS)


def _rows(x: Any) -> Any:
    """Return the shards on a mesh of eight devices, in the form for `pmap`."""
    return xp.pmap(lambda x: x)(xnp.reshape(x, (8, -1, *x.shape[1:])))


@timed(50)
def xmap_call_mesh_sum() -> Any:
    f = xmap(lambda x: lax.psum(xnp.sin(x), "i"), {0: "i"}, {}, axis_resources={"i": "x"})
    mesh = Mesh(np.array(xp.devices()[:8]), ("x",))
    mesh.__enter__()  # for the rest of the process: what is timed is the call
    split = xmap(lambda x: x, {0: "i"}, {0: "i"}, axis_resources={"i": "x"})(array(64, 1024))
    f(split)
    return lambda: f(split).block_until_ready()


@timed(50)
def xmap_call_mesh_sum_by_hand() -> Any:
    f = xp.pmap(lambda x: lax.psum(xnp.sin(x).sum(0), "i"), axis_name="i", out_axes=None)
    split = _rows(array(64, 1024))
    f(split)
    return lambda: f(split).block_until_ready()


@timed(3)
def trace_xmap_product() -> Any:
    return lambda: xp.make_jaxpr(product())(_A, _B) and None


@timed(3)
def trace_xmap_regression() -> Any:
    return lambda: xp.make_jaxpr(loss())(_X, _Y, _W, _BIAS) and None


@timed(3)
def trace_xmap_regression_gradient() -> Any:
    return lambda: xp.make_jaxpr(xp.grad(lambda *args: loss()(*args), (2, 3)))(_X, _Y, _W, _BIAS) and None


@timed(1, 3)
def first_result_xmap_product_mesh() -> Any:
    mesh = Mesh(np.array(xp.devices()[:4]).reshape(2, 2), ("x", "y"))

    def run() -> Any:
        with mesh:
            return product(axis_resources={"left": "x", "right": "y"})(_A, _B)
    return run


@timed(1, 3)
def first_result_xmap_regression() -> Any:
    return lambda: loss()(_X, _Y, _W, _BIAS)


_ROWS, _WIDE = array(64, 256), array(256, 512, seed=1)


def looped(rows: Any, weights: Any) -> Any:
    """Map 64 positions in 16 iterations."""
    f = xmap(lambda x, w: xnp.tanh(x @ w).sum(), ({0: "i"}, {}), {0: "i"}, axis_resources={"i": maps.SerialLoop(16)})
    return f(rows, weights)


def looped_by_hand(rows: Any, weights: Any) -> Any:
    def turn(_: None, some: Any) -> Any:
        return None, xp.checkpoint(lambda some: xp.vmap(lambda x: xnp.tanh(x @ weights).sum())(some))(some)
    return lax.scan(turn, None, rows.reshape(16, 4, 256))[1].reshape(64)


def _in_weights(f: Callable[..., Any]) -> Callable[..., Any]:
    return xp.jit(xp.grad(lambda rows, weights: f(rows, weights).sum(), 1))


@timed(50)
def xmap_call_loop() -> Any:
    return _twice(xp.jit(looped), _ROWS, _WIDE)


@timed(50)
def xmap_call_loop_by_hand() -> Any:
    return _twice(xp.jit(looped_by_hand), _ROWS, _WIDE)


@timed(20)
def xmap_call_loop_gradient() -> Any:
    return _twice(_in_weights(looped), _ROWS, _WIDE)


@timed(20)
def xmap_call_loop_gradient_by_hand() -> Any:
    return _twice(_in_weights(looped_by_hand), _ROWS, _WIDE)
