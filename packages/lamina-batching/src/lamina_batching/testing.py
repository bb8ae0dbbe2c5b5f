"""Check batching against a loop over examples; for this package and for authors of primitives."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import Primitive, prims, trees
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import canonicalize_results
from lamina_tracing import enable_x64
from lamina_tracing.extend import bind
from lamina_tracing.testing import NumPyCall
from lamina_ir.typing import Function, Value

from .vmap import vmap

__all__ = ["check_numpy_call", "check_sample", "check_vmap", "make_other_example"]


def check_vmap(fun: Function, args: Sequence[Value], in_axes: Sequence[int | None], out_axes: int = 0,
               slack: float = 10.0) -> None:
    """Check that `vmap(fun)` equals the stacked results of `fun` on each example.

    Args:
      fun: function of one example.
      args: arrays; those with an axis in `in_axes` hold several examples along it.
      in_axes: one entry per argument.
      out_axes: axis along which results are stacked.
      slack: factor on the tolerance of each result's dtype.
    Raises:
      AssertionError: the values differ; the message shows both.

    >>> check_vmap(lambda x: x * 2, [np.ones((3, 2), np.float32)], [0])
    """
    size = next(a.shape[axis] for a, axis in zip(args, in_axes) if axis is not None)
    batched = trees.tree_leaves(vmap(fun, tuple(in_axes), out_axes)(*args))
    examples = [trees.tree_leaves(fun(*[a if axis is None else np.take(a, i, axis) for a, axis in zip(args, in_axes)]))
                for i in range(size)]
    for got, *expected in zip(batched, *examples):
        assert_close(got, np.stack([np.asarray(e) for e in expected], out_axes), slack=slack)


def make_other_example(prim: Primitive, x: np.ndarray, i: int, rng: np.random.Generator) -> np.ndarray:
    """Make the i-th example from the operand `x` of a primitive: `x` itself for i = 0, else a permutation of it.

    Operands of factorizations stay well conditioned: they are flipped and scaled. Integers stay unchanged, because they
    may be indices that depend on each other.
    """
    if not i or x.dtype.kind in "iu":
        return x
    if prim.family == "factorizations":
        return (np.flip(x) if i % 2 else x) * np.asarray(1 + i / 4, x.dtype)
    return rng.permutation(x.reshape(-1)).reshape(x.shape)


def check_sample(sample: Any, size: int = 3) -> None:
    """Check a primitive on one sample: batched in each operand alone and in all, at the first and the last axis.

    The reference is a loop over examples, except for `rng_bit_generator`, where the first key draws for all examples.
    """
    def fun(*xs: Any) -> Any:
        out = bind(sample.prim, *xs, **sample.params)
        return canonicalize_results(sample.prim, out if sample.prim.multiple else (out,), bind)

    if sample.prim is prims.rng_bit_generator_p:
        return _check_rng_bit_generator(sample, size)
    n = len(sample.args)
    rng = np.random.default_rng(0)
    patterns = {tuple(i == j for j in range(n)) for i in range(n)} | {(True,) * n} if n else set()
    for pattern, last in itertools.product(sorted(patterns), (False, True)):
        args: list[Value] = []
        axes: list[int | None] = []
        for x, on in zip(sample.args, pattern):
            if not on:
                args.append(x)
                axes.append(None)
                continue
            axis = x.ndim if last else 0
            args.append(np.stack([make_other_example(sample.prim, x, i, rng) for i in range(size)], axis))
            axes.append(axis)
        check_vmap(fun, args, axes)


def _check_rng_bit_generator(sample: Any, size: int) -> None:
    """Check that of several keys only the first one draws, for all examples, and advances."""
    def draw(key: Any, shape: tuple[int, ...]) -> Any:
        return bind(sample.prim, key, **{**sample.params, "shape": shape})

    (key,) = sample.args
    keys = np.stack([key + np.asarray(i, key.dtype) for i in range(size)])
    shape = tuple(sample.params["shape"])
    for axis in (0, 1):
        moved, bits = map(np.asarray, vmap(lambda k: draw(k, shape), axis)(np.moveaxis(keys, 0, axis)))
        first, wanted = draw(key, (size, *shape))
        assert_close(moved, np.concatenate([np.asarray(first)[None], keys[1:]]))
        if sample.params["algorithm"] is not prims.RandomAlgorithm.RNG_PHILOX:  # its bits differ between compilers
            assert_close(bits, np.asarray(wanted))


def check_numpy_call(call: NumPyCall) -> None:
    """Check `vmap` of a call of a NumPy function, in 64 bits, against a loop over two examples.

    Args:
      call: one of `lamina_tracing.testing.numpy_calls()`.
    Raises:
      AssertionError: the results differ; the message shows both.

    >>> check_numpy_call(NumPyCall("sum", (np.ones((2, 3)),), {"axis": 0}))
    """
    fun, examples = call.function(), [np.stack([x, x * 1.25]) for x in call.traced()]
    with enable_x64():
        batched = trees.tree_leaves(vmap(lambda *xs: tuple(trees.tree_leaves(fun(*xs))))(*examples))
        for i in (0, 1):
            for got, expected in zip(batched, trees.tree_leaves(fun(*[x[i] for x in examples])), strict=True):
                got = np.asarray(got)
                rtol = 2e-6 if np.asarray(expected).dtype == np.float32 else 1e-8
                np.testing.assert_allclose(got[i] if got.ndim > np.ndim(expected) else got, expected, rtol=rtol, atol=1e-10)
