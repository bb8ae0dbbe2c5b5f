"""`jax._src.lax.lax`: helpers on the dtypes of operands."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir.layers import explain_absent_names
from lamina_ir.typing import Value
from lamina_tracing import lax
from lamina_tracing.extend import typeof

__all__: list[str] = []


def _const(example: Value, val: Any) -> Any:
    """Return a Python scalar as an array of the dtype of `example`; the scalar itself if `example` is a weak scalar."""
    aval = typeof(example)
    return val if aval.weak_type and not aval.shape and not hasattr(val, "dtype") else np.asarray(val, aval.dtype)


def _convert_element_type(operand: Value, new_dtype: Any = None, weak_type: bool = False, sharding: object = None) -> Any:
    """Return the operand with another dtype.

    Args:
      operand: an array or a scalar.
      new_dtype: the dtype; None keeps it.
      weak_type: must be False, or the type of the operand be weak and of this dtype.
      sharding: must be None.
    """
    aval = typeof(operand)
    dtype = aval.dtype if new_dtype is None else np.dtype(new_dtype)
    if sharding is not None:
        raise ValueError("_convert_element_type: sharding must be None; use jax.lax.with_sharding_constraint")
    if weak_type and aval.weak_type and aval.dtype == dtype:
        return operand
    if weak_type:
        raise ValueError(f"_convert_element_type: weak_type must be False for a new dtype; got {dtype.name} for "
                         f"{aval.dtype.name}")
    return lax.convert_element_type(operand, dtype)


def _zeros(x: Value) -> Any:
    return lax.full_like(x, 0)


def _ones(x: Value) -> Any:
    return lax.full_like(x, 1)


def _zero(x: Value) -> Any:
    return lax.full_like(x, 0, shape=())


def _one(x: Value) -> Any:
    return lax.full_like(x, 1, shape=())


def _dtype(x: Value) -> np.dtype:
    return typeof(x).dtype


explain_absent_names(globals())
