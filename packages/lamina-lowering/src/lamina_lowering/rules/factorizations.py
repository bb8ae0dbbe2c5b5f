"""Lowering of matrix factorizations and solvers: LAPACK on CPUs, cuSOLVER on CUDA, and StableHLO operations elsewhere.

Empty operands never reach a kernel.
"""
from __future__ import annotations

import numpy as np

import lamina_ir  # loads its `Builder` at the first use
from lamina_ir import dtypes, prims, shaped

from .._emit.rule_tables import lowering_rules, platform_rules
from ._kernels import (I32, empty_results, slice_leading, bool_attr, call_kernel, call_lapack, char_attr, mask_failed,
                       as_matrices, transpose_matrix, select_triangle)

__all__: list[str] = []

_cuda = platform_rules("cuda")


def _skip_empty(rule):
    """Wrap a rule so that empty operands give constants."""
    def guarded(ctx, *xs, **params):
        if any(a.size == 0 for a in ctx.avals_in):
            made = empty_results(ctx, params)
            return made if ctx.eqn.primitive.multiple else made[0]
        return rule(ctx, *xs, **params)
    return guarded


def _split_type(aval):
    """Return (batch shape, rows, columns, dtype, type of info)."""
    batch = aval.shape[:-2]
    return batch, *aval.shape[-2:], aval.dtype, shaped(batch, I32)


# --- cholesky, triangular_solve ---------------------------------------------------------------------------------------
def cholesky_native(ctx, x):
    aval = ctx.aval_out
    return select_triangle(ctx, ctx.op("stablehlo.cholesky", (x,), aval, lower=True), aval, lower=True)


def cholesky_cpu(ctx, x):
    aval = ctx.aval_out
    info = _split_type(aval)[4]
    made, failed = call_lapack(ctx, "potrf", aval.dtype, (x,), as_matrices(aval), [(aval, True), (info, False)],
                          uplo=char_attr("L"))
    whole, = mask_failed(ctx, (made,), (aval,), failed, info)
    return select_triangle(ctx, whole, aval, lower=True)


def _conj(ctx, x, aval):
    part = shaped(aval.shape, dtypes.real_dtype(aval.dtype))
    imag = ctx.op("stablehlo.negate", (ctx.op("stablehlo.imag", (x,), part),), part)
    return ctx.op("stablehlo.complex", (ctx.op("stablehlo.real", (x,), part), imag), aval)


def triangular_solve_native(ctx, a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    aval = ctx.aval_in
    # The operation transposes, or transposes and conjugates. Conjugation alone is applied to the operand.
    conjugate_a = conjugate_a and dtypes.is_complex(aval.dtype)
    if conjugate_a and not transpose_a:
        a = _conj(ctx, a, aval)
    how = ("ADJOINT" if conjugate_a else "TRANSPOSE") if transpose_a else "NO_TRANSPOSE"
    return ctx.op("stablehlo.triangular_solve", (a, b), ctx.aval_out, left_side=left_side, lower=lower,
                  unit_diagonal=unit_diagonal, transpose_a=ctx.enum("transpose", how))


def triangular_solve_cpu(ctx, a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    aval, out = ctx.avals_in
    conjugate_a = conjugate_a and dtypes.is_complex(aval.dtype)
    if conjugate_a and not transpose_a:
        a = _conj(ctx, a, aval)
    how = ("C" if conjugate_a else "T") if transpose_a else "N"
    return call_lapack(ctx, "trsm", aval.dtype, (a, b), as_matrices(aval, out), as_matrices(out), ((0, 1),),
                  side=char_attr("L" if left_side else "R"), uplo=char_attr("L" if lower else "U"), trans_x=char_attr(how),
                  diag=char_attr("U" if unit_diagonal else "N"))[0]


# --- lu ---------------------------------------------------------------------------------------------------------------
def _emit_permutation(ctx, pivots, aval, out):
    """Convert pivots, counted from 0, to a permutation: a loop that exchanges rows in order."""
    n = len(out.shape)
    axis, count = n - 1, shaped((), I32)
    batch, steps = out.shape[:-1], aval.shape[-1]
    one, flat = shaped((*batch, 1), I32), shaped(batch, I32)
    places = ctx.iota(out, axis)
    zero, limit, step = ctx.const(0, count), ctx.const(steps, count), ctx.const(1, count)

    def repeat(ctx, v):
        return ctx.op("stablehlo.broadcast_in_dim", (v,), out, broadcast_dimensions=ctx.i64s(range(n)))

    def pick(ctx, v, i):
        return ctx.op("stablehlo.dynamic_slice", (v, *[zero] * axis, i), one, slice_sizes=ctx.i64s(one.shape))

    # Step i exchanges positions i and p = pivots[i]: order[p] goes to i, order[i] to p. Since p differs along the
    # batch, it is read and written by masks over the axis instead of an index.
    def exchange(ctx, i, order):
        here = repeat(ctx, pick(ctx, order, i))
        other = ctx.compare(places, repeat(ctx, pick(ctx, pivots, i)), "EQ", out)
        found = ctx.op("stablehlo.reduce", (ctx.select(other, order, ctx.const(0, out), out), zero), flat,
                       dimensions=ctx.i64s([axis]), regions=[ctx.reducer_region("stablehlo.add", flat)])
        there = ctx.op("stablehlo.broadcast_in_dim", (found,), out, broadcast_dimensions=ctx.i64s(range(axis)))
        this = ctx.compare(places, ctx.broadcast(i, count, out), "EQ", out)
        swapped = ctx.select(this, there, ctx.select(other, here, order, out), out)
        return ctx.op("stablehlo.add", (i, step), count), swapped

    regions = [ctx.region([count, out], lambda ctx, i, order: ctx.compare(i, limit, "LT", count)),
               ctx.region([count, out], exchange)]
    return ctx.op("stablehlo.while", (zero, places), count, out, regions=regions)[1]


def lu_pivots_to_permutation_lowering(ctx, pivots, *, permutation_size):
    aval = shaped(ctx.aval_in.shape, I32)
    return _emit_permutation(ctx, ctx.convert(pivots, ctx.aval_in, aval), aval, ctx.aval_out)


def _lu(call):
    def rule(ctx, x):
        out, pivots, order = ctx.avals_out
        info = _split_type(out)[4]
        made, exchanged, failed = call(ctx, "getrf", out.dtype, (x,), as_matrices(out),
                                       [(out, True), (pivots, False), (info, False)])
        # LAPACK counts pivots from 1.
        exchanged = ctx.op("stablehlo.subtract", (exchanged, ctx.const(1, pivots)), pivots)
        # info > 0 means a zero pivot: the factorization is complete and only a solve would fail. info < 0 is an
        # error.
        lu, = mask_failed(ctx, (made,), (out,), failed, info, "LT")
        return lu, exchanged, _emit_permutation(ctx, exchanged, pivots, order)
    return rule


# --- qr ---------------------------------------------------------------------------------------------------------------
def _geqrf(call):
    def rule(ctx, x):
        out, taus = ctx.avals_out
        return call(ctx, "geqrf", out.dtype, (x,), as_matrices(out), [(out, True), (taus, False)])
    return rule


def _orgqr(ctx, call, a, taus, aval, tau_aval):
    return call(ctx, "orgqr", aval.dtype, (a, taus), [(aval, True), (tau_aval, False)], as_matrices(aval))[0]


def _householder_product(call):
    return lambda ctx, a, taus: _orgqr(ctx, call, a, taus, *ctx.avals_in)


def _qr(call):
    def rule(ctx, x, *, full_matrices, pivoting):
        aval, (q, r, *order) = ctx.aval_in, ctx.avals_out
        batch, m, n, dtype, _ = _split_type(aval)
        taus = shaped((*batch, min(m, n)), dtype)
        if pivoting:
            # jpvt = 0 marks a free column, so all columns take part in the pivoting. The result counts from 1.
            free = ctx.const(0, order[0])
            packed, order_made, factors = call(
                ctx, "geqp3", dtype, (x, free), [(aval, True), (order[0], False)],
                [(aval, True), (order[0], False), (taus, False)], ((0, 0), (1, 1)))
            order = [ctx.op("stablehlo.subtract", (order_made, ctx.const(1, order[0])), order[0])]
        else:
            # Packed: R in the upper triangle, the Householder vectors below it.
            packed, factors = call(ctx, "geqrf", dtype, (x,), as_matrices(aval), [(aval, True), (taus, False)])
        # orgqr makes as many columns as its operand has, from n Householder vectors.
        if q.shape[-1] > n:  # columns are added that complete the basis
            tails = ctx.op("stablehlo.pad", (packed, ctx.const(0, shaped((), dtype))), q,
                           edge_padding_low=ctx.i64s([0] * len(q.shape)), interior_padding=ctx.i64s([0] * len(q.shape)),
                           edge_padding_high=ctx.i64s([0] * (len(q.shape) - 1) + [q.shape[-1] - n]))
        else:
            tails = slice_leading(ctx, packed, aval, q.shape)
        upper = select_triangle(ctx, slice_leading(ctx, packed, aval, r.shape), r, lower=False)
        return _orgqr(ctx, call, tails, factors, q, taus), upper, *order
    return rule


# --- eigenvalues and singular values ----------------------------------------------------------------------------------
def eigh_cpu(ctx, x, *, lower):
    v, w = ctx.avals_out
    info = _split_type(v)[4]
    *made, failed = call_lapack(ctx, "syevd", v.dtype, (x,), as_matrices(v), [(v, True), (w, False), (info, False)],
                           uplo=char_attr("L" if lower else "U"), mode=char_attr("V"))
    return mask_failed(ctx, made, (v, w), failed, info)


def eig_cpu(ctx, x, *, compute_left_eigenvectors, compute_right_eigenvectors):
    aval, w = ctx.aval_in, ctx.avals_out[0]
    info = _split_type(aval)[4]
    vectors = shaped(aval.shape, w.dtype)
    real = not dtypes.is_complex(aval.dtype)
    # Real geev returns real and imaginary parts of the eigenvalues as two vectors.
    values = [(shaped(w.shape, aval.dtype), False)] * 2 if real else [(w, False)]
    *made, left, right, failed = call_lapack(
        ctx, "geev", aval.dtype, (x,), as_matrices(aval), [*values, (vectors, True), (vectors, True), (info, False)],
        (), compute_left=char_attr("V" if compute_left_eigenvectors else "N"),
        compute_right=char_attr("V" if compute_right_eigenvectors else "N"))
    outs = [ctx.op("stablehlo.complex", made, w) if real else made[0]]
    outs += [left] * compute_left_eigenvectors + [right] * compute_right_eigenvectors
    return mask_failed(ctx, outs, ctx.avals_out, failed, info)


def svd_cpu(ctx, x, *, compute_uv, full_matrices):
    aval, s = ctx.aval_in, ctx.avals_out[0]
    batch, m, n, dtype, info = _split_type(aval)
    # Mode "N" computes no vectors, but the kernel wants results of the full shape.
    u, vh = ctx.avals_out[1:] if compute_uv else (shaped((*batch, m, m), dtype), shaped((*batch, n, n), dtype))
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    _, *made, failed = call_lapack(ctx, "gesdd", dtype, (x,), as_matrices(aval),
                              [(aval, True), (s, False), (u, True), (vh, True), (info, False)], mode=char_attr(mode))
    return mask_failed(ctx, made[:len(ctx.avals_out)], ctx.avals_out, failed, info)


def schur_cpu(ctx, x, *, compute_schur_vectors):
    aval = ctx.aval_in
    batch, n, _, dtype, info = _split_type(aval)
    w = shaped((*batch, n), dtype)
    values = [(w, False)] * (1 if dtypes.is_complex(dtype) else 2)
    t, q, *_, failed = call_lapack(ctx, "gees", dtype, (x,), as_matrices(aval),
                              [(aval, True), (aval, True), *values, (info, False), (info, False)],
                              mode=char_attr("V" if compute_schur_vectors else "N"), sort=char_attr("N"))
    return mask_failed(ctx, (t, q)[:len(ctx.avals_out)], ctx.avals_out, failed, info)


# --- reductions to nearly triangular form, tridiagonal solves ---------------------------------------------------------
def hessenberg_cpu(ctx, x):
    out, taus = ctx.avals_out
    # A 1x1 matrix is in Hessenberg form already.
    if not taus.size:
        return x, ctx.const(0, taus)
    info = _split_type(out)[4]
    *made, failed = call_lapack(ctx, "gehrd", out.dtype, (x,), as_matrices(out),
                           [(out, True), (taus, False), (info, False)], low="1 : i32",
                           high=f"{out.shape[-1]} : i32")
    return mask_failed(ctx, made, ctx.avals_out, failed, info)


def _tridiagonal(call, text):
    def rule(ctx, x, *, lower):
        out, d, e, taus = ctx.avals_out
        if not taus.size:  # 1x1: the diagonal is the real part of the element
            diagonal = ctx.convert(ctx.reshape(x, shaped(d.shape, out.dtype)), shaped(d.shape, out.dtype), d)
            back = ctx.reshape(ctx.convert(diagonal, d, shaped(d.shape, out.dtype)), out)
            return back, diagonal, ctx.const(0, e), ctx.const(0, taus)
        info = _split_type(out)[4]
        *made, failed = call(ctx, "sytrd", out.dtype, (x,), as_matrices(out),
                             [(out, True), (d, False), (e, False), (taus, False), (info, False)], **text(lower))
        return mask_failed(ctx, made, ctx.avals_out, failed, info)
    return rule


def tridiagonal_solve_cpu(ctx, dl, d, du, b):
    diagonal, out = ctx.avals_in[1], ctx.aval_out
    info = _split_type(out)[4]
    vectors = [(diagonal, False)] * 3
    *_, made, failed = call_lapack(ctx, "gtsv", out.dtype, (dl, d, du, b), [*vectors, (out, True)],
                              [*vectors, (out, True), (info, False)], ((0, 0), (1, 1), (2, 2), (3, 3)))
    return mask_failed(ctx, (made,), (out,), failed, info)[0]


# --- systems and determinants: programs of other primitives -----------------------------------------------------------
def solve_lowering(ctx, a, b):
    """Emit a = P^T L U and two triangular solves."""
    build, batch = lamina_ir.Builder(), tuple(range(ctx.aval_out.ndim - 2))
    x, right = (build.input(aval) for aval in ctx.avals_in)
    factors, _, order = build.op("lu", x)  # type: ignore[misc]
    n = len(batch)
    rows = prims.GatherDimensionNumbers(offset_dims=(n + 1,), collapsed_slice_dims=(n,), start_index_map=(n,),
                                        operand_batching_dims=batch, start_indices_batching_dims=batch)
    y = build.op("gather", right, build.op("expand_dims", order, dimensions=(n + 1,)), dimension_numbers=rows,
                 slice_sizes=(1,) * (n + 1) + ctx.aval_out.shape[-1:], mode=prims.GatherScatterMode.PROMISE_IN_BOUNDS,
                 fill_value=None, indices_are_sorted=False, unique_indices=True)
    for lower in (True, False):
        y = build.op("triangular_solve", factors, y, left_side=True, lower=lower, transpose_a=False, conjugate_a=False,
                     unit_diagonal=lower)
    return ctx.body(build.build(y), (a, b), "solve")[0]


def slogdet_lowering(ctx, x):
    """Emit the product of the signs of the pivots and row exchanges, and the sum of the logarithms of their sizes."""
    sign, size = ctx.avals_out
    aval, batch = ctx.aval_in, sign.ndim
    build = lamina_ir.Builder()
    factors, pivots, _ = build.op("lu", build.input(aval))  # type: ignore[misc]
    vectors = aval.shape[:-1]
    at = [build.op("iota", dtype=I32, shape=aval.shape, dimension=batch + i) for i in range(2)]
    zero = build.op("broadcast_in_dim", np.zeros((), aval.dtype), shape=aval.shape, broadcast_dimensions=())
    diagonal = build.op("reduce_sum", build.op("select", build.op("eq", *at), factors, zero), axes=(batch + 1,))
    absolute = build.op("abs", diagonal)
    moved = build.op("ne", pivots, build.op("iota", dtype=I32, shape=vectors, dimension=batch))
    one = build.op("broadcast_in_dim", np.ones((), aval.dtype), shape=vectors, broadcast_dimensions=())
    signs = build.op("select", moved, build.op("neg", one), one)
    if dtypes.is_complex(aval.dtype):
        none = build.op("broadcast_in_dim", np.ones((), size.dtype), shape=vectors, broadcast_dimensions=())
        divisor = build.op("select", build.op("gt", absolute, build.op("sub", none, none)), absolute, none)
        diagonal = build.op("div", diagonal, build.op("complex", divisor, build.op("sub", none, none)))
    else:
        diagonal = build.op("sign", diagonal)
    signs = build.op("reduce_prod", build.op("mul", signs, diagonal), axes=(batch,))
    made = build.build(signs, build.op("reduce_sum", build.op("log", absolute), axes=(batch,)))
    return ctx.body(made, (x,), "slogdet")


# --- CUDA: kernels of the same shape under other names ----------------------------------------------------------------
_CUSOLVER = frozenset(["getrf", "geqrf", "orgqr", "sytrd"])


def cusolver(ctx, name, dtype, operands, ins, outs, aliases=((0, 0),), **attributes):
    """Call the cuSOLVER kernel of a LAPACK routine."""
    if name not in _CUSOLVER:
        raise NotImplementedError(f"lowering of `{ctx.eqn.primitive.name}` for cuda: jaxlib has no kernel for {name}; use "
                                  "pivoting=False, or run it on a CPU")
    return call_kernel(ctx, f"cusolver_{name}_ffi", operands, ins, outs, attributes, aliases)


def eigh_cuda(ctx, x, *, lower):
    v, w = ctx.avals_out
    info = _split_type(v)[4]
    *made, failed = call_kernel(ctx, "cusolver_syevd_ffi", (x,), as_matrices(v), [(v, True), (w, False), (info, False)],
                           {"algorithm": "0 : ui8", "lower": bool_attr(lower)}, ((0, 0),))
    return mask_failed(ctx, made, (v, w), failed, info)


def eig_cuda(ctx, x, *, compute_left_eigenvectors, compute_right_eigenvectors):
    """Call geev in complex arithmetic, also for a real matrix."""
    if compute_left_eigenvectors:
        raise NotImplementedError("lowering of `eig` for cuda: cuSOLVER finds right eigenvectors only; use "
                                  "compute_left_eigenvectors=False, or run it on a CPU")
    aval, w = ctx.aval_in, ctx.avals_out[0]
    whole = shaped(aval.shape, w.dtype)
    if aval.dtype != w.dtype:
        x = ctx.convert(x, aval, whole)
    _, values, _, right, failed = call_kernel(
        ctx, "cusolver_geev_ffi", (x,), as_matrices(whole),
        [(whole, True), (w, False), (whole, True), (whole, True), (_split_type(aval)[4], False)],
        {"left": "false", "right": bool_attr(compute_right_eigenvectors)}, ((0, 0),))
    return mask_failed(ctx, [values, right][:len(ctx.avals_out)], ctx.avals_out, failed, _split_type(aval)[4])


def svd_cuda(ctx, x, *, compute_uv, full_matrices):
    """Call gesvd, which needs at least as many rows as columns.

    For a wide matrix x^T = U S V^H is decomposed, so x = (V^H)^T S U^T.
    """
    aval, s = ctx.aval_in, ctx.avals_out[0]
    wide = aval.shape[-2] < aval.shape[-1]
    if wide:
        x, aval = transpose_matrix(ctx, x, aval)
    batch, m, n, dtype, info = _split_type(aval)
    u = shaped((*batch, m, m if full_matrices else n), dtype)
    vh = shaped((*batch, n, n), dtype)
    _, s_made, u_made, vh_made, failed = call_kernel(
        ctx, "cusolver_gesvd_ffi", (x,), as_matrices(aval),
        [(aval, True), (s, False), (u, True), (vh, True), (info, False)],
        {"full_matrices": bool_attr(full_matrices), "compute_uv": bool_attr(compute_uv), "transposed": "false"}, ((0, 0),))
    made = [s_made, u_made, vh_made]
    if wide:
        made = [s_made, transpose_matrix(ctx, vh_made, vh)[0], transpose_matrix(ctx, u_made, u)[0]]
    return mask_failed(ctx, made[:len(ctx.avals_out)], ctx.avals_out, failed, info)


def tridiagonal_solve_cuda(ctx, dl, d, du, b):
    diagonal, out = ctx.avals_in[1], ctx.aval_out
    more = max(3 - diagonal.shape[-1], 0)  # cuSPARSE needs at least three equations; the added ones have the solution 0
    if more:
        lows, highs = [0] * len(out.shape), [0] * len(out.shape)
        highs[-2] = more
        dl, d, du = [ctx.pad(x, ctx.const(fill, shaped((), out.dtype)), diagonal, lows[1:], [*lows[2:], more], lows[1:])
                     for x, fill in ((dl, 0), (d, 1), (du, 0))]
        b = ctx.pad(b, ctx.const(0, shaped((), out.dtype)), out, lows, highs, lows)
    n, whole = diagonal.shape[-1] + more, (*out.shape[:-2], diagonal.shape[-1] + more, out.shape[-1])
    longer, solved = shaped((*diagonal.shape[:-1], n), out.dtype), shaped(whole, out.dtype)
    made, = call_kernel(ctx, "cusparse_gtsv2_ffi", (dl, d, du, b), [*[(longer, False)] * 3, (solved, True)],
                   as_matrices(solved), {}, ((0, 3),))
    return slice_leading(ctx, made, solved, out.shape)


_define = lowering_rules.define
_define(prims.cholesky_p, _skip_empty(cholesky_native))
_define(prims.triangular_solve_p, _skip_empty(triangular_solve_native))
_define(prims.lu_pivots_to_permutation_p, _skip_empty(lu_pivots_to_permutation_lowering))
_define(prims.lu_p, _skip_empty(_lu(call_lapack)))
_define(prims.solve_p, _skip_empty(solve_lowering))
_define(prims.slogdet_p, slogdet_lowering)
_define(prims.geqrf_p, _skip_empty(_geqrf(call_lapack)))
_define(prims.householder_product_p, _skip_empty(_householder_product(call_lapack)))
_define(prims.qr_p, _skip_empty(_qr(call_lapack)))
_define(prims.eigh_p, _skip_empty(eigh_cpu))
_define(prims.eig_p, _skip_empty(eig_cpu))
_define(prims.svd_p, _skip_empty(svd_cpu))
_define(prims.schur_p, _skip_empty(schur_cpu))
_define(prims.hessenberg_p, _skip_empty(hessenberg_cpu))
_define(prims.tridiagonal_p, _skip_empty(_tridiagonal(call_lapack, lambda lower: {"uplo": char_attr("L" if lower else "U")})))
_define(prims.tridiagonal_solve_p, _skip_empty(tridiagonal_solve_cpu))

platform_rules("cpu").define(prims.cholesky_p, _skip_empty(cholesky_cpu))
platform_rules("cpu").define(prims.triangular_solve_p, _skip_empty(triangular_solve_cpu))

_cuda.define(prims.lu_p, _skip_empty(_lu(cusolver)))
_cuda.define(prims.geqrf_p, _skip_empty(_geqrf(cusolver)))
_cuda.define(prims.householder_product_p, _skip_empty(_householder_product(cusolver)))
_cuda.define(prims.qr_p, _skip_empty(_qr(cusolver)))
_cuda.define(prims.eigh_p, _skip_empty(eigh_cuda))
_cuda.define(prims.eig_p, _skip_empty(eig_cuda))
_cuda.define(prims.svd_p, _skip_empty(svd_cuda))
_cuda.define(prims.tridiagonal_p, _skip_empty(_tridiagonal(cusolver, lambda lower: {"lower": bool_attr(lower)})))
_cuda.define(prims.tridiagonal_solve_p, _skip_empty(tridiagonal_solve_cuda))
for _prim in (prims.schur_p, prims.hessenberg_p):
    _cuda.declare_missing(_prim, "jaxlib has no CUDA kernel for it; run it on a CPU, with lamina.device_put or "
                                 "jit(..., backend='cpu')")
