"""Truth of numbers, and elements chosen by it: what `where` is made of."""
from __future__ import annotations

from typing import Any

from lamina_ir import dtypes, DTypeError, prims
from lamina_tracing import lax
from lamina_tracing.extend import typeof

from .promotion import aval, broadcast, broadcast_shapes_of, equation, literal, pair

__all__ = ["choose_by", "truth"]


def truth(call: str, x: Any, position: int = 0) -> Any:
    """`x` as booleans: whether each element differs from zero; of keys a TypeError."""
    a = aval(call, x, position)
    if a.dtype == dtypes.BOOL:
        return x
    if dtypes.is_key(a.dtype):
        raise DTypeError(f"{call}: a key has no truth value; got {a.str_long()}")
    return lax.ne(x, literal(0, a.dtype))

def choose_by(condition: Any, x: Any, y: Any) -> Any:
    """Three-argument `where`."""
    condition = truth("where", condition)
    c = typeof(condition).shape
    x, y = pair("where", x, y)
    a, b = typeof(x).shape, typeof(y).shape
    wide = a or b
    if c != wide and c and wide:
        shape = broadcast_shapes_of("where", (c, wide))
        condition = broadcast(condition, c, shape)
        x = broadcast(x, a, shape) if a else x
        y = broadcast(y, b, shape) if b else y
    return equation(prims.select_p, condition, x, y)
