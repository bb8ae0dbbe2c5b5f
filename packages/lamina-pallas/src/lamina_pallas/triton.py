"""Names of `jax.experimental.pallas.triton`: masked reads and writes of views, the `atomic` functions, products."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lamina_ir.typing import Value
from lamina_refs import Ref, RefView
from lamina_tracing import lax
from lamina_tracing.extend import typeof

from . import _memory
from ._memory import atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min, atomic_or, atomic_xchg, atomic_xor

__all__ = ["CompilerParams", "approx_tanh", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
           "atomic_xchg", "atomic_xor", "debug_barrier", "dot", "load", "max_contiguous", "store"]


class CompilerParams(SimpleNamespace):
    """Options of the compiler of kernels, as keyword arguments; they have no effect here."""


def load(ref: Ref | RefView, *, mask: Value = None, other: Value = None, **options: Any) -> Value:
    """Read a reference, or a part `ref.at[index]` of one.

    Args:
      ref: the reference or part.
      mask, other, **options: as of `lamina_pallas.load`.
    Returns:
      An array.
    Raises:
      TypeError, ValueError: dtypes or shapes do not fit.

    Source: jax.experimental.pallas.triton.load

    >>> import numpy as np
    >>> from lamina_refs import ds, new_ref
    >>> load(new_ref(np.arange(3.)).at[ds(1, 4)], mask=np.arange(4) < 2, other=0.)
    Array([1., 2., 0., 0.], dtype=float32)
    """
    parent, index = (ref.parent, ref.index) if isinstance(ref, RefView) else (ref, ...)
    return _memory.load(parent, index, mask=mask, other=other, **options)


def store(ref: Ref | RefView, val: Value, *, mask: Value = None, **options: Any) -> None:
    """Write to a reference, or to a part `ref.at[index]` of one.

    Args:
      ref: the reference or part.
      val, mask, **options: as of `lamina_pallas.store`.
    Returns:
      None.
    Raises:
      TypeError, ValueError: dtypes or shapes do not fit.

    Source: jax.experimental.pallas.triton.store

    >>> import numpy as np
    >>> from lamina_refs import new_ref
    >>> ref = new_ref(np.zeros(3, np.float32))
    >>> store(ref.at[1:], np.float32(5), mask=np.array([True, False]))
    >>> ref
    Ref([0., 5., 0.], dtype=float32)
    """
    parent, index = (ref.parent, ref.index) if isinstance(ref, RefView) else (ref, ...)
    _memory.store(parent, index, val, mask=mask, **options)


def dot(a: Value, b: Value, trans_a: bool = False, trans_b: bool = False, allow_tf32: bool | None = None,
        precision: Any = None) -> Value:
    """Multiply two matrices in float32, or integers in int32.

    Args:
      a, b: matrices.
      trans_a, trans_b: whether to transpose them first.
      allow_tf32: has no effect.
      precision: as of `lax.dot`.
    Returns:
      A matrix of float32 or int32.
    Raises:
      ShapeError: the lengths do not fit.

    Source: jax.experimental.pallas.triton.dot

    >>> import numpy as np
    >>> dot(np.ones((2, 3), np.float16), np.ones((2, 3), np.float16), trans_b=True).dtype
    dtype('float32')
    """
    numbers = (((0,) if trans_a else (1,), (1,) if trans_b else (0,)), ((), ()))
    kind = "int32" if typeof(a).dtype.kind in "iu" else "float32"
    return lax.dot_general(a, b, numbers, precision, kind)


def approx_tanh(x: Value) -> Value:
    """Return tanh(x), as accurate as `lax.tanh`.

    Args:
      x: an array of floats.
    Returns:
      An array.
    Raises:
      DTypeError: `x` is not of floats.

    Source: jax.experimental.pallas.triton.approx_tanh

    >>> import numpy as np
    >>> approx_tanh(np.float32(0))
    Array(0., dtype=float32)
    """
    return lax.tanh(x)


def debug_barrier() -> None:
    """Do nothing: the positions of a grid run one after the other.

    Returns:
      None.

    Source: jax.experimental.pallas.triton.debug_barrier

    >>> debug_barrier()
    """


def max_contiguous(x: Value, values: Any) -> Value:
    """Return `x`; a hint for compilers of kernels.

    Args:
      x: an integer, which may be traced.
      values: how many consecutive values follow.
    Returns:
      `x`.
    Raises:
      Nothing.

    Source: jax.experimental.pallas.triton.max_contiguous

    >>> max_contiguous(4, 2)
    4
    """
    return x
