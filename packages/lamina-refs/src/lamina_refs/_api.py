"""The functions that users call: `new_ref`, `freeze`, `get`, `set`, `swap`, `addupdate`, `discharge`."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import trees
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_ir.typing import Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import api_boundary

from ._ref import Ref, RefView, add_to_part, make_ref

__all__ = ["addupdate", "discharge", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]

_ENTRIES = docstring_entries("""
    ref: a reference, or a view `ref.at[...]`.
    idx: an index as of NumPy; None: the whole value.
    value: an array of the dtype of `ref` that broadcasts to the part, or a Python number.
    TypeError: `ref` is not a reference, or the dtype of the value does not fit.
    ValueError: the shape of the value does not fit.
    """)


@api_boundary
def new_ref(init_val: Value, *, memory_space: object = None, kind: str | None = None, pin: bool = False) -> Ref:
    """Make a mutable reference to an array.

    Args:
      init_val: the first value: an array or a number.
      memory_space, kind, pin: accepted for compatibility; have no effect.
    Returns:
      A `Ref` of the shape and dtype of `init_val`.
    Raises:
      TypeError: `init_val` is not an array or a number.

    Source: jax.new_ref

    >>> ref = new_ref(np.arange(3.))
    >>> ref[0] = 5
    >>> ref[...]
    Array([5., 1., 2.], dtype=float32)
    """
    return make_ref(init_val)


@api_boundary
def empty_ref(shape: Any, dtype: Any = np.float32, **options: object) -> Ref:
    """Make a mutable reference of a shape and dtype; its value is zeros.

    Args:
      shape: an array or other object with `shape` and `dtype`, or a tuple of ints.
      dtype: the dtype, if `shape` is a tuple.
      **options: as of `new_ref`.
    Returns:
      A `Ref`.
    Raises:
      TypeError: `shape` is neither.

    Source: jax.empty_ref

    >>> empty_ref((2,), np.int32)
    Ref([0, 0], dtype=int32)
    """
    if hasattr(shape, "shape") and hasattr(shape, "dtype"):
        shape, dtype = shape.shape, shape.dtype
    return new_ref(lax.full(tuple(shape), 0, dtype), **options)  # type: ignore[arg-type]


def _check_ref(call: str, ref: Any) -> Ref | RefView:
    if not isinstance(ref, (Ref, RefView)):
        raise TypeError(f"{call}: ref must be a mutable reference; got {type(ref).__name__}: {ref!r:.60}. Make one with "
                        "new_ref")
    return ref


@api_boundary
def freeze(ref: Ref) -> Value:
    """Return the value of a reference, which must not be used after it.

    Args:
      ref: a reference that the calling function made.
    Returns:
      An array.
    Raises:
      TypeError: `ref` is not a reference.
      ValueError: it was frozen before, or another function made it.

    Source: jax.freeze

    >>> freeze(new_ref(np.arange(3)))
    Array([0, 1, 2], dtype=int32)
    """
    found = _check_ref("freeze", ref)
    if isinstance(found, RefView):
        raise TypeError("freeze: ref must be a whole reference; got the view ref.at[...]")
    return found.freeze()


def free_ref(ref: Ref) -> None:
    """Drop the value of a reference, which must not be used after it.

    Args:
      ref: a reference that the calling function made.
    Returns:
      None.
    Raises:
      TypeError, ValueError: as `freeze`.

    Source: jax.free_ref

    >>> free_ref(new_ref(np.arange(3)))
    """
    freeze(ref)


def _index(idx: Tree) -> Tree:
    return Ellipsis if idx is None or (type(idx) is tuple and not idx) else idx


@api_boundary
@fill_docstring(_ENTRIES)
def get(ref: Ref | RefView, idx: Tree = None) -> Value:
    """Return `ref[idx]`.

    Args: {ref, idx}
    Returns:
      An array.
    Raises:
      TypeError: `ref` is not a reference.

    Source: jax.ref.get

    >>> get(new_ref(np.arange(3)), 1)
    Array(1, dtype=int32)
    """
    return _check_ref("get", ref)[_index(idx)]


@api_boundary
@fill_docstring(_ENTRIES)
def set(ref: Ref | RefView, idx: Tree, value: Value) -> None:
    """Perform `ref[idx] = value`.

    Args: {ref, idx, value}
    Returns:
      None.
    Raises: {TypeError, ValueError}

    Source: jax.ref.set

    >>> ref = new_ref(np.arange(3))
    >>> set(ref, 1, 9)
    >>> ref
    Ref([0, 9, 2], dtype=int32)
    """
    _check_ref("set", ref)[_index(idx)] = value


@api_boundary
@fill_docstring(_ENTRIES)
def swap(ref: Ref | RefView, idx: Tree, value: Value) -> Value:
    """Perform `ref[idx] = value` and return the old value of the part.

    Args: {ref, idx, value}
    Returns:
      An array.
    Raises: {TypeError, ValueError}

    Source: jax.ref.swap

    >>> swap(new_ref(np.arange(3)), 1, 9)
    Array(1, dtype=int32)
    """
    found = _check_ref("swap", ref)
    old = found[_index(idx)]
    found[_index(idx)] = value
    return old


@api_boundary
@fill_docstring(_ENTRIES)
def addupdate(ref: Ref | RefView, idx: Tree, x: Value) -> None:
    """Perform `ref[idx] += x`, where an index array that names an element twice adds to it twice.

    Args:
      {ref, idx}
      x: an array of the dtype of `ref` that broadcasts to the part, or a Python number.
    Returns:
      None.
    Raises: {TypeError, ValueError}

    Source: jax.ref.addupdate

    >>> ref = new_ref(np.zeros(2, np.float32))
    >>> addupdate(ref, np.array([0, 0]), 1.)
    >>> ref
    Ref([2., 0.], dtype=float32)
    """
    add_to_part(_check_ref("addupdate", ref), _index(idx), x)


def discharge(fun: Callable[..., Any]) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
    """Return a function of values for a function of references.

    Args:
      fun: function whose positional arguments are references, or trees of them. It may also close over arrays.
    Returns:
      A function of arrays in their place, which returns `(result of fun, final values)`. It can be transformed as any
      function of arrays.
    Raises:
      TypeError: an argument is not an array or a number.

    Source: jax.experimental.pallas, whose kernels are such functions

    >>> def kernel(x_ref, out_ref):
    ...     out_ref[...] = x_ref[...] * 2
    >>> discharge(kernel)(np.float32(3), np.float32(0))
    (None, (Array(3., dtype=float32), Array(6., dtype=float32)))
    """
    @functools.wraps(fun)
    def discharged(*values: Tree) -> tuple[Any, tuple[Any, ...]]:
        refs = trees.tree_map(lambda x: make_ref(x, "discharge"), values)
        out = fun(*refs)
        return out, trees.tree_map(lambda ref: ref.freeze(), refs)

    return discharged
