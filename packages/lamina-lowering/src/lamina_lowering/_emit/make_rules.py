"""Functions that make lowering rules: computation in another dtype, calls of compiled functions of other libraries."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from lamina_ir import ShapedArray, dtypes, shaped
from lamina_ir.typing import Function, ParamValue

from .rule_context import Context
from .._typing import AttributeValue, IrValue, OpResults

__all__ = ["compute_in", "ffi_lowering"]


def compute_in(dtype: np.dtype | str | type, rule: Function) -> Function:
    """Make a rule that computes in another dtype: operands are converted to it, and the result is converted back.

    Args:
      dtype: a dtype in which the operation is supported, as float32 for operations that CPUs lack in bfloat16.
      rule: `rule(ctx, *values, aval=...)`, which emits on values of type `aval` (the result's shape in `dtype`).
    Returns:
      A rule for `lowering_rules`.

    >>> from lamina_ir import parse, prims
    >>> from lamina_lowering import lower, lowering_rules
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> rule = compute_in("float64", lambda ctx, x, *, aval: ctx.op("stablehlo.sine", (x,), aval))
    >>> with lowering_rules.override(prims.tanh_p, rule):
    ...     "tensor<3xf64>" in lower(program).as_text()
    True
    """
    def wide(ctx: Context, /, *xs: IrValue, **params: ParamValue) -> IrValue:
        out = ctx.aval_out
        aval = shaped(out.shape, dtype)
        made = rule(ctx, *(ctx.convert(x, a, shaped(a.shape, dtype)) for x, a in zip(xs, ctx.avals_in, strict=True)),
                    aval=aval, **params)
        return ctx.convert(made, aval, out)
    return wide


def ffi_lowering(call_target_name: str, *, operand_layouts: Sequence[Sequence[int]] | None = None,
                 result_layouts: Sequence[Sequence[int]] | None = None,
                 backend_config: Mapping[str, AttributeValue] | None = None, has_side_effect: bool = False,
                 operand_output_aliases: Mapping[int, int] | None = None) -> Function:
    """Make a rule that calls a compiled function of another library (XLA's FFI, version 4 of the custom call API).

    Its operands and results are those of the equation; the equation's params become its attributes.

    Args:
      call_target_name: the name under which the function is registered with the compiler.
      operand_layouts, result_layouts: for each array its axes, the contiguous one first; None for row-major.
      backend_config: more attributes: bools, ints (i64), floats (f64), NumPy scalars of their type, strings,
        one-dimensional NumPy arrays, or MLIR attributes.
      has_side_effect: whether the call stays if its results are not used.
      operand_output_aliases: operand -> result that may share its memory.
    Returns:
      A rule for `lowering_rules`, or for a platform's table.
    Raises:
      TypeError: an attribute is of another kind. Raised when the rule is used.

    >>> from lamina_ir import parse, prims
    >>> from lamina_lowering import lower, lowering_rules
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> with lowering_rules.override(prims.tanh_p, ffi_lowering("my_tanh", backend_config={"steps": 3})):
    ...     "@my_tanh(%arg0) {api_version = 4 : i32, backend_config = {steps = 3 : i64}" in lower(program).as_text()
    True
    """
    if not isinstance(call_target_name, str):
        raise TypeError(f"ffi_lowering: expected the name of a compiled function; got {type(call_target_name).__name__}: "
                        f"{call_target_name!r:.60}")

    def rule(ctx: Context, /, *xs: IrValue, **params: ParamValue) -> OpResults:
        attributes = {k: _attribute(call_target_name, k, v) for k, v in {**(backend_config or {}), **params}.items()}
        outs = [v.aval for v in ctx.eqn.outvars]
        aliases = ", ".join([f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if len(outs) > 1 else ''}], "
                             f"operand_index = {i}, operand_tuple_indices = []>" for i, o in (operand_output_aliases
                                                                                              or {}).items()])
        return ctx.op("stablehlo.custom_call", xs, *outs, call_target_name=call_target_name, api_version=ctx.i32(4),
                      has_side_effect=has_side_effect,
                      backend_config=ctx.attr("{" + ", ".join([f"{k} = {v}" for k, v in attributes.items()]) + "}"),
                      operand_layouts=_layouts(ctx, ctx.avals_in, operand_layouts),
                      result_layouts=_layouts(ctx, outs, result_layouts), output_operand_aliases=ctx.attr(f"[{aliases}]"))
    return rule


def _layouts(ctx: Context, avals: Sequence[ShapedArray], given: Sequence[Sequence[int]] | None) -> IrValue:
    orders = [[*range(a.ndim)][::-1] for a in avals] if given is None else [[*order] for order in given]
    if [sorted(order) for order in orders] != [[*range(a.ndim)] for a in avals]:
        raise ValueError(f"ffi_lowering: layouts must have the axes of each of {', '.join([a.str_long() for a in avals])}; got "
                         f"{orders}")
    texts = [f"dense<{order}> : tensor<{len(order)}xindex>" if order else "dense<> : tensor<0xindex>" for order in orders]
    return ctx.attr("[" + ", ".join(texts) + "]")


def _attribute(target: str, name: str, value: AttributeValue) -> str:
    """Return the MLIR text of an attribute."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join([c if c.isprintable() and c not in '"\\' and c.isascii() else "".join(
            [f"\\{b:02X}" for b in c.encode()]) for c in value])
        return f'"{escaped}"'
    if type(value) is int:
        return f"{value} : i64"
    if type(value) is float:
        return f"{_real(value, 'f64')} : f64"
    if isinstance(value, np.generic) or isinstance(value, np.ndarray) and value.ndim == 1:
        d = np.asarray(value).dtype
        kind = {"i": "i", "u": "ui", "f": "f"}.get(d.kind)
        if kind is not None and dtypes.short_name(d)[0] in "iuf":
            mlir_type = f"{kind}{d.itemsize * 8}"
            flat = [_real(x, mlir_type) if d.kind == "f" else str(int(x)) for x in np.atleast_1d(value)]
            if isinstance(value, np.generic):
                return f"{flat[0]} : {mlir_type}"
            if d.kind != "u":
                return f"array<{mlir_type}: {', '.join(flat)}>" if flat else f"array<{mlir_type}>"
    if hasattr(value, "context"):  # an MLIR attribute
        return str(value)
    raise TypeError(f"ffi_lowering: the attribute {name!r} of `{target}` must be a bool, an int, a float, a str, a NumPy "
                    "scalar or "
                    f"a one-dimensional NumPy array of ints or floats; got {type(value).__name__}: {value!r:.60}")


def _real(x: IrValue, mlir_type: str) -> str:
    """Return the text of a float for MLIR; values without a decimal form are written as their bits."""
    if np.isfinite(x):
        return f"{float(x):.17e}"
    bits = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}[mlir_type]
    return f"0x{int(np.asarray(x, mlir_type.replace('f', 'float')).view(bits)):0{int(mlir_type[1:]) // 4}X}"
