"""Numbers and arrays among the operands of programs built by hand: which types they have, and Python's numbers as literals."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from ._excerpt import excerpt
from .avals import ShapedArray, aval_of, shaped
from .errors import DTypeError, LaminaError
from .primitive import Primitive
from .program import Literal
from .wiring import Wired

__all__ = ["NUMBERS", "array_type", "number", "types_text", "with_numbers"]

NUMBERS = (bool, int, float, complex)
_KINDS = (dtypes.is_bool, dtypes.is_integer, dtypes.is_float, dtypes.is_complex)


def types_text(avals: Sequence[ShapedArray]) -> str:
    """`float32[3], int32[]`."""
    return ", ".join([a.long() for a in avals]) or "none"


def array_type(where: str, x: Any) -> ShapedArray:
    """The type of an array or scalar, of its own dtype; of a Python number that which lamina computes in."""
    try:
        aval = aval_of(x)
    except TypeError:
        raise TypeError(f"{where}must be a variable, a literal, an array or a number; got {excerpt(x)}") from None
    dtype = getattr(x, "dtype", None)
    return shaped(aval.shape, aval.dtype if dtype is None else dtypes.as_dtype(dtype))


def number(where: str, x: Any, dtype: np.dtype, weak: bool = False) -> Literal:
    """A Python number as a literal of this dtype."""
    kind = next((k for k, holds in enumerate(_KINDS) if holds(dtype)), -1)
    try:
        if NUMBERS.index(type(x)) > kind or kind > 0 and type(x) is bool:
            raise OverflowError
        np.asarray(x, dtype)
    except (OverflowError, ValueError, TypeError):
        raise DTypeError(f"{where}{x!r} is no {dtypes.long_name(dtype)}") from None
    return Literal(NUMBERS[kind](x), shaped((), dtype, weak))


def with_numbers(prim: Primitive, atoms: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The operands with literals for Python numbers: of the type that a nested program takes, or else of that of the operands
    beside them."""
    if not any(type(a) in NUMBERS for a in atoms):
        return list(atoms)
    beside = [a.aval.dtype for a in atoms if type(a) not in NUMBERS]
    found = []
    for i, a in enumerate(atoms):
        if type(a) in NUMBERS:
            dtype = _type_inside(prim, params, len(atoms), i) or _type_beside(a, beside, prim.elementwise)
            a = number(f"op `{prim.name}`: operand {i} ", a, dtype or aval_of(a).dtype)
        found.append(a)
    return found


def _type_inside(prim: Primitive, params: dict[str, Any], count: int, i: int) -> np.dtype | None:
    if prim.flow is None or not prim.flow.operands:
        return None
    try:
        return Wired(prim, params, count).type_inside(i).dtype
    except (LaminaError, LookupError):  # the op itself will say what does not fit
        return None


def _type_beside(x: Any, beside: Sequence[np.dtype], elementwise: bool) -> np.dtype | None:
    """The first dtype beside `x` that the number can have; where operands need not be of one type, integers stay integers."""
    kind = NUMBERS.index(type(x))
    if kind == 0:
        return None
    last = len(_KINDS) if elementwise or kind > 1 else kind + 1
    return next((d for d in beside if any(holds(d) for holds in _KINDS[kind:last])), None)
