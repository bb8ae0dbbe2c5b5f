"""Lowering of the convolution. Operands of two dtypes are converted to that of the result; complex ones are split into
parts."""
from __future__ import annotations

from lamina_ir import dtypes, prims, shaped

from ..._emit.rule_tables import lowering_rules

__all__: list[str] = []


def _spec(spec, first, second):
    names = {spec[0]: first, spec[1]: second, **{a: str(k) for k, a in enumerate(spec[2:])}}
    return "[" + ", ".join(names[a] for a in range(len(spec))) + "]"


def conv_general_dilated_lowering(ctx, lhs, rhs, **params):
    la, ra = ctx.avals_in
    return emit_convolution(ctx, lhs, rhs, la, ra, ctx.aval_out, **params)


def emit_convolution(ctx, lhs, rhs, la, ra, out, *, batch_group_count, dimension_numbers, feature_group_count,
                     lhs_dilation, padding, precision, preferred_element_type, rhs_dilation, window_strides):
    """Emit a convolution of operands of types `la` and `ra` with a result of type `out`."""
    if not la.size or not ra.size or not out.size:  # empty sums
        return ctx.const(0, out)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    numbers = f"{_spec(lhs_spec, 'b', 'f')}x{_spec(rhs_spec, 'o', 'i')}->{_spec(out_spec, 'b', 'f')}"
    attrs = dict(batch_group_count=batch_group_count, feature_group_count=feature_group_count,
                 dimension_numbers=ctx.attr(f"#stablehlo.conv<{numbers}>"))
    if window_strides:
        attrs.update(window_strides=ctx.i64s(window_strides), padding=ctx.matrix(padding),
                     lhs_dilation=ctx.i64s(lhs_dilation), rhs_dilation=ctx.i64s(rhs_dilation))
    if precision is not None:
        attrs["precision_config"] = ctx.precision(*(p.name for p in precision))
    if la.dtype != ra.dtype or (la.dtype != out.dtype and ctx.platform == "cpu"):
        lhs, rhs = (ctx.convert(v, a, shaped(a.shape, out.dtype)) for v, a in ((lhs, la), (rhs, ra)))
        la, ra = (shaped(a.shape, out.dtype) for a in (la, ra))

    def conv(x, y, aval):
        return ctx.op("stablehlo.convolution", (x, y), aval, **attrs)

    if not dtypes.is_complex(la.dtype):
        return conv(lhs, rhs, out)
    (a, b), (c, d) = _parts(ctx, lhs, la), _parts(ctx, rhs, ra)
    part = shaped(out.shape, dtypes.real_dtype(out.dtype))
    real = ctx.op("stablehlo.subtract", (conv(a, c, part), conv(b, d, part)), part)
    imag = ctx.op("stablehlo.add", (conv(a, d, part), conv(b, c, part)), part)
    return ctx.op("stablehlo.complex", (real, imag), out)


def _parts(ctx, v, aval):
    part = shaped(aval.shape, dtypes.real_dtype(aval.dtype))
    return ctx.op("stablehlo.real", (v,), part), ctx.op("stablehlo.imag", (v,), part)


lowering_rules.define(prims.conv_general_dilated_p, conv_general_dilated_lowering)
