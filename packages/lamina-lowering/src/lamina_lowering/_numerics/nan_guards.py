"""Guards against an XLA bug on CPUs (jaxlib 0.10 to 0.12).

Its `exponential` converts a NaN to an integer, which is undefined. If the compiler knows that a NaN is constant, the
result is arbitrary memory. If booleans select among constants of
which one is NaN, as in `exp(where(p, nan, 0.))`, the compiler assumes that the NaN is never selected.
"""
from __future__ import annotations

from lamina_ir.typing import Function
from lamina_ir import Atom

from .._emit.rule_context import Context
from .._typing import IrOperation, IrValue

__all__ = ["may_fold_nan", "propagate_nan"]

_MAX_STEPS = 32  # most operations that are searched; the select is near
_TRANSPARENT = frozenset("stablehlo." + name for name in (
    "select", "convert", "broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "concatenate", "pad", "copy", "add",
    "subtract", "multiply", "divide", "negate", "abs", "maximum", "minimum", "clamp", "log", "log_plus_one", "sqrt", "rsqrt",
    "floor",
    "real", "imag", "complex",
    "ceil", "sign", "power", "exponential", "exponential_minus_one", "tanh", "sine", "cosine", "reduce_precision"))


def may_fold_nan(value: IrValue) -> bool:
    """Return whether the compiler may see a constant NaN in the operands of a value.

    That is so if one is a NaN constant, or if all are constants among which booleans or positions select.
    """
    todo, all_constant, selects = [value], True, False
    seen: set[Atom] = set()
    while todo:
        v = todo.pop()
        if str(v.type).endswith(("xi1>", "<i1>")):
            selects = True
            continue
        owner = v.owner
        name = str(getattr(owner, "name", ""))  # block arguments have no name
        if name == "stablehlo.constant":
            if _is_nan(owner):
                return True
        elif name == "stablehlo.iota":
            selects = True
        elif name not in _TRANSPARENT or len(seen) > _MAX_STEPS:
            all_constant = False
        elif owner not in seen:
            seen.add(owner)
            todo += owner.operands
    return all_constant and selects


def _is_nan(constant: IrOperation) -> bool:
    try:
        attr = constant.attributes["value"]
    except TypeError:
        # jaxlib's bindings have no class of complex elements. MLIR prints NaNs in hexadecimal; infinities too, for which
        # a guard is superfluous.
        return "0x" in constant.get_asm(large_elements_limit=2)
    if not attr.is_splat:
        return False
    value = getattr(attr.get_splat_value(), "value", 0.0)
    return bool(value != value)


def propagate_nan(inner: Function) -> Function:
    """Wrap the rule of a primitive that is NaN where its operand is, so that the compiled result is, too."""
    def rule(ctx: Context, x: IrValue) -> IrValue:
        found, aval = inner(ctx, x), ctx.aval_out
        if ctx.platform != "cpu" or aval.dtype.kind == "c" or not may_fold_nan(x):
            return found
        return ctx.select(ctx.compare(x, x, "NE", aval), x, found, aval)
    return rule
