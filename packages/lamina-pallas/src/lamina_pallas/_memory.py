"""Reads and writes with masks: `load`, `store`, `swap`, and the `atomic` functions.

The positions of a grid run one after the other, so every read and write is atomic.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_ir.typing import Tree, Value
from lamina_numpy import broadcast_to
from lamina_refs import Ref, RefView, Slice, new_ref
from lamina_refs import addupdate as _addupdate
from lamina_tracing import lax
from lamina_tracing.extend import typeof

from ._blocks import fill_value

__all__ = ["atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor",
           "load", "store", "swap"]

_AnyRef = Ref | RefView
_ENTRIES = docstring_entries("""
    val: an array that broadcasts to the part.
    mask: booleans that broadcast to the part; elements where it is False are not changed.
    TypeError: the dtypes do not fit.
    ValueError: the shapes do not fit.
    """)


def _extend(ref: _AnyRef, idx: Tree) -> tuple[_AnyRef, tuple[int, ...]]:
    """Return a longer copy of a reference in which no `Slice` of an index is moved, and the shape of the original."""
    shape = tuple(ref.shape)
    entries = idx if type(idx) is tuple else (idx,)
    extra, axis = [0] * len(shape), 0
    for k, entry in enumerate(entries):
        if entry is Ellipsis:
            axis = len(shape) - len([e for e in entries[k + 1:] if e is not None])
        elif entry is not None:
            extra[axis] = entry.size * entry.stride if type(entry) is Slice else 0
            axis += 1
    fill = np.array(fill_value(ref.dtype)).astype(ref.dtype)
    return new_ref(lax.pad(ref[...], fill, [(0, n, 0) for n in extra])), shape


def _choose(mask: Value, value: Value, other: Value) -> Value:
    shape, dtype = typeof(other).shape, typeof(other).dtype
    return lax.select(broadcast_to(mask, shape), broadcast_to(lax.convert_element_type(value, dtype), shape), other)


@fill_docstring(_ENTRIES)
def load(ref: _AnyRef, idx: Tree, *, mask: Value = None, other: Value = None, **options: Any) -> Value:
    """Read a part of a reference.

    Args:
      ref: the reference.
      idx: an index, as of `ref[idx]`.
      mask: booleans that broadcast to the part; elements where it is False are not read, so the index may exceed the
        reference there.
      other: the value of these elements; None: not specified.
      **options: `cache_modifier`, `eviction_policy` and `volatile` have no effect.
    Returns:
      An array.
    Raises: {TypeError, ValueError}

    Source: jax.experimental.pallas.load

    >>> from lamina_refs import ds
    >>> load(new_ref(np.arange(3.)), ds(1, 4), mask=np.arange(4) < 2, other=0.)
    Array([1., 2., 0., 0.], dtype=float32)
    """
    if mask is None:
        return ref[idx]
    value = _extend(ref, idx)[0][idx]
    if other is None:
        return value
    other = broadcast_to(lax.convert_element_type(other, typeof(value).dtype), typeof(value).shape)
    return _choose(mask, value, other)


@fill_docstring(_ENTRIES)
def store(ref: _AnyRef, idx: Tree, val: Value, *, mask: Value = None, **options: Any) -> None:
    """Write to a part of a reference.

    Args:
      ref: the reference.
      idx: an index, as of `ref[idx]`.
      {val}
      mask: booleans that broadcast to the part; elements where it is False are not written.
      **options: `eviction_policy` has no effect.
    Returns:
      None.
    Raises: {TypeError, ValueError}

    Source: jax.experimental.pallas.store

    >>> from lamina_refs import ds
    >>> ref = new_ref(np.zeros(3, np.float32))
    >>> store(ref, ds(1, 4), np.float32(5), mask=np.arange(4) < 2)
    >>> ref
    Ref([0., 5., 5.], dtype=float32)
    """
    swap(ref, idx, val, mask=mask)


@fill_docstring(_ENTRIES)
def swap(ref: _AnyRef, idx: Tree, val: Value, *, mask: Value = None, **options: Any) -> Value:
    """Write to a part of a reference, and return its old value.

    Args:
      ref, idx, val, mask, **options: as of `store`.
    Returns:
      An array.
    Raises: {TypeError, ValueError}

    Source: jax.experimental.pallas.swap

    >>> swap(new_ref(np.arange(3)), 1, 9)
    Array(1, dtype=int32)
    """
    if mask is None:
        old = ref[idx]
        ref[idx] = val
        return old
    longer, shape = _extend(ref, idx)
    old = longer[idx]
    longer[idx] = _choose(mask, val, old)
    ref[...] = lax.slice(longer[...], (0,) * len(shape), shape)
    return old


def _make_atomic(name: str, does: str, combine: Callable[[Value, Value], Value], result: int) -> Callable[..., Value]:
    def atomic(x_ref: _AnyRef, idx: Tree, val: Value, *, mask: Value = None) -> Value:
        old = load(x_ref, idx, mask=mask)
        new = broadcast_to(lax.convert_element_type(val, typeof(old).dtype), typeof(old).shape)
        return swap(x_ref, idx, combine(old, new), mask=mask)

    atomic.__name__ = atomic.__qualname__ = name
    atomic.__doc__ = f"""{does} a part of a reference, and return its old value.

    Args:
      x_ref: the reference.
      idx: an index, as of `x_ref[idx]`; it names each element once.
      {{val, mask}}
    Returns:
      The old value of the part.
    Raises: {{TypeError, ValueError}}

    Source: jax.experimental.pallas.{name}

    >>> ref = new_ref(np.array([4, 5, 6], np.int32))
    >>> {name}(ref, 1, 3), ref
    (Array(5, dtype=int32), Ref([4, {result}, 6], dtype=int32))
    """
    return fill_docstring(_ENTRIES)(atomic)


@fill_docstring(_ENTRIES)
def atomic_add(x_ref: _AnyRef, idx: Tree, val: Value, *, mask: Value = None) -> Value:
    """Add to a part of a reference, and return its old value.

    Args:
      x_ref: the reference.
      idx: an index, as of `x_ref[idx]`; elements that it names several times are added to several times.
      {val, mask}
    Returns:
      The old value of the part.
    Raises: {TypeError, ValueError}

    Source: jax.experimental.pallas.atomic_add

    >>> ref = new_ref(np.arange(3))
    >>> atomic_add(ref, 1, 5), ref
    (Array(1, dtype=int32), Ref([0, 6, 2], dtype=int32))
    """
    if mask is not None:
        return _masked_add(x_ref, idx, val, mask=mask)
    old = x_ref[idx]
    _addupdate(x_ref, idx, val)
    return old


_masked_add = _make_atomic("atomic_add", "Add to", lax.add, 8)
atomic_and = _make_atomic("atomic_and", "Combine with bitwise and", lax.bitwise_and, 1)
atomic_max = _make_atomic("atomic_max", "Take the maximum with", lax.max, 5)
atomic_min = _make_atomic("atomic_min", "Take the minimum with", lax.min, 3)
atomic_or = _make_atomic("atomic_or", "Combine with bitwise or", lax.bitwise_or, 7)
atomic_xchg = _make_atomic("atomic_xchg", "Replace", lambda old, new: new, 3)
atomic_xor = _make_atomic("atomic_xor", "Combine with bitwise xor", lax.bitwise_xor, 6)


@fill_docstring(_ENTRIES)
def atomic_cas(ref: _AnyRef, cmp: Value, val: Value) -> Value:
    """Replace the value of a scalar reference if it equals another, and return the old value.

    Args:
      ref: a reference of shape ().
      cmp: what it is compared with.
      val: the new value.
    Returns:
      The old value, a scalar.
    Raises: {TypeError, ValueError}

    Source: jax.experimental.pallas.atomic_cas

    >>> ref = new_ref(np.int32(3))
    >>> atomic_cas(ref, 3, 7), ref
    (Array(3, dtype=int32), Ref(7, dtype=int32))
    """
    old = ref[...]
    ref[...] = _choose(lax.eq(old, lax.convert_element_type(cmp, typeof(old).dtype)), val, old)
    return old
