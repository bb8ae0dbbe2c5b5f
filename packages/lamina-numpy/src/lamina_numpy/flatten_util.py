"""Trees of arrays as one vector, and back."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina_ir import dtypes, trees
from lamina_tracing import lax
from lamina_tracing.extend import Tracer, typeof

from ._core.axes import join

__all__ = ["flatten_pytree", "ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All elements of a tree's arrays as one vector, and the way back.

    Args:
      pytree: tree of arrays and numbers.
    Returns:
      `(vector, unravel)`: a vector `[n]` in the dtype the leaves promote to, the default float if there are
      none, and a function that converts such a vector back to the tree. Leaves get their old shapes and dtypes. If
      they all have one dtype, they get the dtype of the given vector.
    Raises:
      TypeError: a leaf is neither an array nor a number.
      ValueError: `unravel` is given an array of another shape.
      TypeError: `unravel` is given an array of another dtype, where the leaves are not all of the vector's.

    Derivative: linear where all leaves are floats.
    Source: meaning of `jax.flatten_util.ravel_pytree`.

    >>> v, unravel = ravel_pytree({"a": 1.0, "b": np.array([2.0, 3.0], np.float32)})
    >>> v
    Array([1., 2., 3.], dtype=float32)
    >>> unravel(2 * v)["b"]
    Array([4., 6.], dtype=float32)
    """
    leaves, tree = trees.tree_flatten(pytree)
    avals = [typeof(x) for x in leaves]
    if not leaves:
        return lax.full((0,), 0, dtypes.canonical_float()), lambda _: trees.tree_unflatten(tree, [])
    dtype, _ = dtypes.promote(*[(a.dtype, a.weak_type) for a in avals])
    flat = [lax.reshape(lax.convert_element_type(x, dtype), (a.size,)) for x, a in zip(leaves, avals)]
    vector = join(flat, 0)
    total, mixed = sum(a.size for a in avals), any(a.dtype != dtype for a in avals)

    def unravel(v: Any) -> Any:
        if typeof(v).shape != (total,):
            raise ValueError(f"unravel: expected a vector of shape ({total},); got {typeof(v).str_long()}")
        if mixed and typeof(v).dtype != dtype:
            raise TypeError(f"unravel: expected a vector of dtype {dtype}, which the leaves promote to; "
                            f"got {typeof(v).str_long()}")
        found, start, traced = [], 0, isinstance(v, Tracer)
        for a in avals:  # eagerly one compiled slice serves every leaf of a size
            part = lax.slice_in_dim(v, start, start + a.size, 1, 0) if traced else \
                lax.dynamic_slice(v, (start,), (a.size,), allow_negative_indices=False)
            part = lax.reshape(part, a.shape)
            found.append(lax.convert_element_type(part, a.dtype) if mixed else part)
            start += a.size
        return trees.tree_unflatten(tree, found)

    return vector, unravel


flatten_pytree = ravel_pytree
