"""Lowering of `dot_general`.

On CPUs three forms are not emitted as dots. Without free axes on either side, it is a product and a sum in one loop. So
is a large matrix of bfloat16 times a vector, since XLA would first write the matrix in float32. A
contraction of a few elements with a long result is unrolled, one product per element. For many pairs of short
vectors this is faster than XLA's dot or reduce, because the loop over the result is vectorised. It rounds differently;
with `preferred_element_type` equal to the operands' dtype XLA's dot is used.
"""
from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from lamina_ir import dtypes, prims, shaped

from .._emit.rule_tables import lowering_rules, platform_rules

__all__: list[str] = []

_F32, _I32 = np.dtype("float32"), np.dtype("int32")
_LARGE = 1 << 18  # elements of a matrix in bfloat16 from which a product with a vector is a loop
_FEW, _MANY = 8, 4096  # most contracted elements that are unrolled; results from which the longer compile time pays off


def _free(ndim, contract, batch):
    return tuple(a for a in range(ndim) if a not in contract and a not in batch)


# --- the plain form -----------------------------------------------------------------------------------------------
def dot_general_lowering(ctx, x, y, *, dimension_numbers, precision, preferred_element_type):
    (xa, ya), out = ctx.avals_in, ctx.aval_out
    attrs = {}
    if isinstance(precision, prims.DotAlgorithmPreset):
        return _dot_by_algorithm(ctx, x, y, dimension_numbers, precision)
    if precision is not None:
        attrs["precision_config"] = ctx.precision(*(p.name for p in precision))
    if out.dtype == dtypes.BOOL:  # logical or of products: counted in int32
        counts = shaped(out.shape, _I32)
        made = _dot(ctx, x, y, _I32, counts, dimension_numbers, attrs)
        return ctx.compare(made, ctx.const(0, counts), "NE", counts)
    same = xa.dtype == ya.dtype and (xa.dtype == out.dtype or ctx.platform != "cpu")
    return _dot(ctx, x, y, None if same else out.dtype, out, dimension_numbers, attrs)


_SUMS = frozenset(map(np.dtype, ("float16", "float32", "float64", dtypes.bfloat16)))
_BITS = {"float16": (5, 10), "bfloat16": (8, 7), "tf32": (8, 10)}  # of exponent and mantissa


def _type_name(ctx, dtype):
    """Return the name of an element type in MLIR text: `f32`."""
    return str(ctx.type(shaped((), dtype))).removeprefix("tensor<").removesuffix(">")


def _dot_by_algorithm(ctx, x, y, dimension_numbers, preset):
    """Emit a dot with the attribute `algorithm`. Operands are stored in the dtype to which they are rounded; in float32 for
    "tf32" and for sums of several products, whose parts XLA makes."""
    (xa, ya), out, algorithm = ctx.avals_in, ctx.aval_out, preset.value
    sums = shaped(out.shape, out.dtype if algorithm.accumulation_type is None else algorithm.accumulation_type)
    if ctx.platform == "cpu":
        return _dot_of_rounded(ctx, x, y, dimension_numbers, algorithm, sums)
    if sums.dtype not in _SUMS:
        raise NotImplementedError(f"dot_general: with precision {preset.name} preferred_element_type must be float16, "
                                  f"bfloat16, float32 or float64; got {sums.dtype.name}")
    kind = algorithm.lhs_precision_type
    if kind == "any 8-bit float":
        stored, names = None, [_type_name(ctx, a.dtype) for a in (xa, ya)]
    else:
        stored = _F32 if kind == "tf32" or algorithm.num_primitive_operations > 1 else kind
        names = [kind if kind == "tf32" else _type_name(ctx, kind)] * 2
    text = (f"#stablehlo.dot_algorithm<lhs_precision_type = {names[0]}, rhs_precision_type = {names[1]}, accumulation_type = "
            f"{_type_name(ctx, sums.dtype)}, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = "
            f"{algorithm.num_primitive_operations}, allow_imprecise_accumulation = "
            f"{str(algorithm.allow_imprecise_accumulation).lower()}>")
    attrs = {"algorithm": ctx.attr(text), "precision_config": ctx.precision("DEFAULT", "DEFAULT")}
    return ctx.convert(_dot(ctx, x, y, stored, sums, dimension_numbers, attrs), sums, out)


def _dot_of_rounded(ctx, x, y, dimension_numbers, algorithm, sums):
    """Emit a dot of rounded operands, without the attribute: XLA's compiler for CPUs has few algorithms, and does not
    round the operands of some. The sums are in float32 or float64, and rounded at the end. XLA removes a conversion to a
    narrow dtype and back, so `reduce_precision` rounds."""
    kind = algorithm.lhs_precision_type
    wide = np.dtype("float64") if sums.dtype == np.dtype("float64") else _F32
    operands = []
    for v, aval in zip((x, y), ctx.avals_in, strict=True):
        v = ctx.convert(v, aval, shaped(aval.shape, wide))
        name = kind if isinstance(kind, str) else kind.name
        rounded = name in _BITS and algorithm.num_primitive_operations == 1
        operands.append(_round(ctx, v, shaped(aval.shape, wide), name) if rounded else v)
    left, right = operands
    made = _dot(ctx, left, right, None, shaped(sums.shape, wide), dimension_numbers, {})
    made = _round(ctx, made, shaped(sums.shape, wide), sums.dtype.name)
    return ctx.convert(made, shaped(sums.shape, wide), ctx.aval_out)


def _round(ctx, v, aval, name):
    if name not in _BITS:
        return v
    exponent, mantissa = _BITS[name]
    return ctx.op("stablehlo.reduce_precision", (v,), aval, exponent_bits=ctx.i32(exponent), mantissa_bits=ctx.i32(mantissa))


def _dot(ctx, x, y, dtype, out, dimension_numbers, attrs):
    (lc, rc), (lb, rb) = dimension_numbers
    if dtype is not None:
        x, y = (ctx.convert(v, a, shaped(a.shape, dtype)) for v, a in zip((x, y), ctx.avals_in, strict=True))
    numbers = (f"#stablehlo.dot<lhs_batching_dimensions = {list(lb)}, rhs_batching_dimensions = {list(rb)}, "
               f"lhs_contracting_dimensions = {list(lc)}, rhs_contracting_dimensions = {list(rc)}>")
    return ctx.op("stablehlo.dot_general", (x, y), out, dot_dimension_numbers=ctx.attr(numbers), **attrs)


# --- loops on CPUs ------------------------------------------------------------------------------------------------
def dot_general_cpu(ctx, x, y, *, dimension_numbers, precision, preferred_element_type):
    xa, ya = ctx.avals_in
    if xa.dtype != dtypes.BOOL and not isinstance(precision, prims.DotAlgorithmPreset):
        (lc, rc), (lb, rb) = dimension_numbers
        xs, ys = xa.shape, ya.shape
        short = prod([xs[a] for a in lc])
        narrow = min(prod([xs[a] for a in _free(len(xs), lc, lb)]), prod([ys[a] for a in _free(len(ys), rc, rb)]))
        if lc and 0 < short <= _FEW and short * narrow <= 2 * _FEW and ctx.aval_out.size >= _MANY and (
                preferred_element_type != xa.dtype):
            return _unroll(ctx, x, y, dimension_numbers)
        if _is_narrow_matrix_times_vector(ctx, dimension_numbers):
            return _multiply_by_vector(ctx, x, y, dimension_numbers)
        if len(lb) + len(lc) == len(xs) == len(ys):
            return _multiply_and_sum(ctx, x, y, dimension_numbers)
    return dot_general_lowering(ctx, x, y, dimension_numbers=dimension_numbers, precision=precision,
                                preferred_element_type=preferred_element_type)


def _sum_dtype(dtype):
    return _F32 if dtypes.is_float(dtype) and dtype.itemsize < 4 else dtype


def _multiply_and_sum(ctx, x, y, numbers):
    """Multiply operands without free axes, transposed to (batch, contracted), and sum over the contracted axes."""
    (lc, rc), (lb, rb) = numbers
    (xa, ya), out = ctx.avals_in, ctx.aval_out
    wide = _sum_dtype(out.dtype)
    x = _transpose(ctx, ctx.convert(x, xa, shaped(xa.shape, wide)), shaped(xa.shape, wide), lb + lc)
    y = _transpose(ctx, ctx.convert(y, ya, shaped(ya.shape, wide)), shaped(ya.shape, wide), rb + rc)
    full, summed = shaped(out.shape + tuple(xa.shape[a] for a in lc), wide), shaped(out.shape, wide)
    made = ctx.op("stablehlo.multiply", (x, y), full)
    if lc:
        zero = ctx.const(0, shaped((), wide))
        made = ctx.op("stablehlo.reduce", (made, zero), summed, regions=[ctx.reducer_region("stablehlo.add", summed)],
                      dimensions=ctx.i64s(range(len(lb), len(xa.shape))))
    return ctx.convert(made, summed, out)


def _is_narrow_matrix_times_vector(ctx, numbers):
    (lc, _), (lb, _) = numbers
    xa, ya = ctx.avals_in
    return len(lc) == 1 and not lb and {len(xa.shape), len(ya.shape)} == {1, 2} and (
        xa.dtype == ya.dtype == dtypes.bfloat16) and max(xa.size, ya.size) >= _LARGE and min(xa.size, ya.size) > 0 and (
        ctx.is_unpartitioned)


def _multiply_by_vector(ctx, x, y, numbers):
    """Multiply a matrix by a vector in float32, in one loop that reads the matrix once."""
    (lc, rc), _ = numbers
    (xa, ya), out = ctx.avals_in, ctx.aval_out
    (matrix, aval, axis), (vector, line) = ((x, xa, lc[0]), (y, ya)) if len(xa.shape) == 2 else ((y, ya, rc[0]), (x, xa))
    whole, zero = shaped(aval.shape, _F32), ctx.const(0, shaped((), _F32))
    vector = ctx.op("stablehlo.broadcast_in_dim", (ctx.convert(vector, line, shaped(line.shape, _F32)),), whole,
                    broadcast_dimensions=ctx.i64s([axis]))
    made = ctx.op("stablehlo.multiply", (ctx.convert(matrix, aval, whole), vector), whole)
    made = ctx.op("stablehlo.reduce", (made, zero), shaped(out.shape, _F32), dimensions=ctx.i64s([axis]),
                  regions=[ctx.reducer_region("stablehlo.add", shaped((), _F32))])
    return ctx.convert(made, shaped(out.shape, _F32), out)


def _transpose(ctx, v, aval, order):
    if order == tuple(range(len(order))):
        return v
    moved = shaped(tuple(aval.shape[a] for a in order), aval.dtype)
    return ctx.op("stablehlo.transpose", (v,), moved, permutation=ctx.i64s(order))


def _unroll(ctx, x, y, numbers):
    """Emit sum over k of x[..., k] * y[..., k], with each factor broadcast to the result's axes (batch, lhs free, rhs
    free)."""
    (lc, rc), (lb, rb) = numbers
    (xa, ya), out = ctx.avals_in, ctx.aval_out
    wide = shaped(out.shape, _sum_dtype(out.dtype))
    lf, rf = _free(len(xa.shape), lc, lb), _free(len(ya.shape), rc, rb)
    nb, nl = len(lb), len(lf)
    x_at = dict(zip(lb + lf, range(nb + nl), strict=True))
    y_at = dict(zip(rb + rf, (*range(nb), *range(nb + nl, nb + nl + len(rf))), strict=True))
    total = None
    for k in product(*(range(xa.shape[a]) for a in lc)):
        term = ctx.op("stablehlo.multiply", (_factor(ctx, x, xa, dict(zip(lc, k, strict=True)), x_at, wide),
                                             _factor(ctx, y, ya, dict(zip(rc, k, strict=True)), y_at, wide)), wide)
        total = term if total is None else ctx.op("stablehlo.add", (total, term), wide)
    return ctx.convert(total, wide, out)


def _factor(ctx, v, aval, fixed, out_dims, out):
    """Slice `v` at the fixed indices and broadcast it, with its other axes at `out_dims` of the result."""
    start = [fixed.get(a, 0) for a in range(len(aval.shape))]
    limit = [fixed[a] + 1 if a in fixed else n for a, n in enumerate(aval.shape)]
    cut = shaped(tuple(1 if a in fixed else n for a, n in enumerate(aval.shape)), aval.dtype)
    kept = [a for a in range(len(aval.shape)) if a not in fixed]
    if cut.shape != aval.shape:
        v = ctx.op("stablehlo.slice", (v,), cut, start_indices=ctx.i64s(start), limit_indices=ctx.i64s(limit),
                   strides=ctx.i64s([1] * len(start)))
    order = sorted(kept, key=out_dims.__getitem__)
    rest = shaped(tuple(aval.shape[a] for a in kept), aval.dtype)
    v = ctx.reshape(v, rest)
    v = ctx.convert(v, rest, shaped(rest.shape, out.dtype))
    v = _transpose(ctx, v, shaped(rest.shape, out.dtype), tuple(kept.index(a) for a in order))
    if rest.shape == out.shape:
        return v
    return ctx.op("stablehlo.broadcast_in_dim", (v,), out, broadcast_dimensions=ctx.i64s([out_dims[a] for a in order]))


lowering_rules.define(prims.dot_general_p, dot_general_lowering)
platform_rules("cpu").define(prims.dot_general_p, dot_general_cpu)
