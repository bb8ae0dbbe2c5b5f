"""Reference for the tests: a loop over the examples in plain NumPy."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_batching import vmap
from lamina_ir import trees
from lamina_ir.testing import assert_close


def looped(one: Callable[..., Any], args: Sequence[Any], in_axes: Sequence[int | None], out_axes: int = 0) -> list[Any]:
    """Apply `one`, a function of NumPy arrays, to each example and stack the flat results."""
    size = next(np.shape(a)[axis] for a, axis in zip(args, in_axes) if axis is not None)
    rows = [trees.tree_leaves(one(*[a if axis is None else np.take(a, i, axis) for a, axis in zip(args, in_axes)]))
            for i in range(size)]
    return [np.stack([np.asarray(r) for r in column], out_axes) for column in zip(*rows)]


def check(fun: Callable[..., Any], one: Callable[..., Any], args: Sequence[Any], in_axes: Sequence[int | None],
          out_axes: int = 0, slack: float = 10.0, **options: Any) -> None:
    """Check that `vmap(fun)` equals a loop over `one`, the same function in NumPy."""
    got = trees.tree_leaves(vmap(fun, tuple(in_axes), out_axes, **options)(*args))
    want = looped(one, args, in_axes, out_axes)
    assert len(got) == len(want), f"{len(got)} results, expected {len(want)}"
    for g, w in zip(got, want):
        g = np.asarray(g)
        assert_close(g, w.astype(g.dtype) if w.dtype.kind == g.dtype.kind else w, slack=slack)
