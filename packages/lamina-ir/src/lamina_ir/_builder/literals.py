"""Types of numbers and arrays as operands of a `Builder`, and conversion of Python numbers to literals."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._types import dtypes
from .._util.short_repr import short_repr
from .._types.avals import ShapedArray, aval_of, shaped
from ..errors import DTypeError, LaminaError
from .._core.primitive import Primitive
from .._core.jaxpr import Atom, Literal
from .._core.region_view import RegionView
from ..typing import Params, Value
from .._typing import Operand

__all__ = ["NUMBER_TYPES", "convert_numbers", "format_types", "infer_array_type", "make_number_literal"]

NUMBER_TYPES = (bool, int, float, complex)
_KINDS = (dtypes.is_bool, dtypes.is_integer, dtypes.is_float, dtypes.is_complex)


def format_types(avals: Sequence[ShapedArray]) -> str:
    """Format types for messages: `float32[3], int32[]`."""
    return ", ".join([a.str_long() for a in avals]) or "none"


def infer_array_type(where: str, x: Value) -> ShapedArray:
    """Return the type of an array or scalar, with its own dtype; for a Python number the default dtype of its kind."""
    try:
        aval = aval_of(x)
    except TypeError:
        raise TypeError(f"{where}must be a variable, a literal, an array or a number; got {short_repr(x)}") from None
    dtype = getattr(x, "dtype", None)
    return shaped(aval.shape, aval.dtype if dtype is None else dtypes.as_dtype(dtype))


def make_number_literal(where: str, x: Any, dtype: np.dtype, weak: bool = False) -> Literal:
    """Return a Python number as a literal of this dtype; raise DTypeError if it is not representable."""
    kind = next((k for k, holds in enumerate(_KINDS) if holds(dtype)), -1)
    try:
        if NUMBER_TYPES.index(type(x)) > kind or kind > 0 and type(x) is bool:
            raise OverflowError
        np.asarray(x, dtype)
    except (OverflowError, ValueError, TypeError):
        raise DTypeError(f"{where}{x!r} is not representable as {dtypes.long_name(dtype)}") from None
    return Literal(NUMBER_TYPES[kind](x), shaped((), dtype, weak))


def convert_numbers(prim: Primitive, atoms: Sequence[Operand], params: Params) -> list[Atom]:
    """Convert Python numbers among the operands to literals.

    A literal gets the dtype that a nested program expects for the operand, or else the dtype of the other operands.
    """
    if not any(type(a) in NUMBER_TYPES for a in atoms):
        return list(atoms)
    others = [a.aval.dtype for a in atoms if type(a) not in NUMBER_TYPES]
    found = []
    for i, a in enumerate(atoms):
        if type(a) in NUMBER_TYPES:
            dtype = _dtype_in_region(prim, params, len(atoms), i) or _dtype_like(a, others, prim.elementwise)
            a = make_number_literal(f"op `{prim.name}`: operand {i} ", a, dtype or aval_of(a).dtype)
        found.append(a)
    return found


def _dtype_in_region(prim: Primitive, params: Params, count: int, i: int) -> np.dtype | None:
    if prim.region_signature is None or not prim.region_signature.operands:
        return None
    try:
        return RegionView(prim, params, count).inner_aval(i).dtype
    except (LaminaError, LookupError):  # the type rule will report the mismatch
        return None


def _dtype_like(x: Any, others: Sequence[np.dtype], elementwise: bool) -> np.dtype | None:
    """Return the first dtype of the other operands that can represent the number, or None. If operands may have
    different dtypes, an integer becomes only an integer."""
    kind = NUMBER_TYPES.index(type(x))
    if kind == 0:
        return None
    last = len(_KINDS) if elementwise or kind > 1 else kind + 1
    return next((d for d in others if any(holds(d) for holds in _KINDS[kind:last])), None)
