"""Guards against a fault of XLA on CPUs (jaxlib 0.10 to 0.12): inside of its `exponential` a NaN becomes an integer, which
has no value, so where the compiler sees that a NaN is a constant the result is what lies in memory, and where booleans
choose among constants of which one is NaN, as in `exp(where(p, nan, 0.))`, that choice is taken for one that never happens.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["keeping_nan", "nan_may_be_seen"]

_STEPS = 32  # operations that are looked at: what chooses stands near
_PASSED = frozenset("stablehlo." + name for name in (
    "select", "convert", "broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "concatenate", "pad", "copy", "add",
    "subtract", "multiply", "divide", "negate", "abs", "maximum", "minimum", "clamp", "log", "log_plus_one", "sqrt", "rsqrt",
    "floor",
    "ceil", "sign", "power", "exponential", "exponential_minus_one", "tanh", "sine", "cosine", "reduce_precision"))


def nan_may_be_seen(value: Any) -> bool:
    """Whether the compiler may see constants of NaN in what a value is computed of: there is one, or all numbers are constants
    among which booleans or positions choose."""
    todo, known, chosen = [value], True, False
    seen: set[Any] = set()
    while todo:
        v = todo.pop()
        if str(v.type).endswith(("xi1>", "<i1>")):
            chosen = True
            continue
        owner = v.owner
        name = str(getattr(owner, "name", ""))  # a block has none
        if name == "stablehlo.constant":
            if _is_nan(owner.attributes["value"]):
                return True
        elif name == "stablehlo.iota":
            chosen = True
        elif name not in _PASSED or len(seen) > _STEPS:
            known = False
        elif owner not in seen:
            seen.add(owner)
            todo += owner.operands
    return known and chosen


def _is_nan(attr: Any) -> bool:
    if not attr.is_splat:
        return False
    value = getattr(attr.get_splat_value(), "value", 0.0)
    return bool(value != value)


def keeping_nan(row: Callable[..., Any]) -> Callable[..., Any]:
    """The row of an op that is NaN where its operand is, held to that where the compiler would not."""
    def rule(ctx: Any, x: Any) -> Any:
        found, aval = row(ctx, x), ctx.aval_out
        if ctx.platform != "cpu" or aval.dtype.kind == "c" or not nan_may_be_seen(x):
            return found
        return ctx.select(ctx.compare(x, x, "NE", aval), x, found, aval)
    return rule
