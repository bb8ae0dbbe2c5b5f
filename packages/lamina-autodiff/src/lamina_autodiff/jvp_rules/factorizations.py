"""JVP rules of matrix factorizations: differentiate the defining equation, multiply by inverse factors, split.

References: Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008). Murray, "Differentiation of the Cholesky decomposition" (2016). Walter, Lehmann and Lamour, "On
evaluating higher-order derivatives of the QR decomposition of tall matrices with full column rank in forward and
reverse mode algorithmic differentiation" (2012). de Hoog, Anderssen and Lukas, "Differentiation of matrix functionals
using triangular factorization" (2011). Wan and Zhang, "Automatic differentiation for complex valued SVD" (2019).
Schreiber and Van Loan, "A storage-efficient WY representation for products of Householder transformations" (1989).

Below, dX is the tangent of X. For U with orthonormal columns, U^H U = 1 implies that Omega = U^H dU is skew-Hermitian.
"""
from __future__ import annotations

import numpy as np
from lamina_ir import dtypes, prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

from .._engine.rule_tables import declare_missing, jvp_rules, def_zero_jvp
from ._batched_matrix import (adjoint, broadcast_vector, diagonal, diagonal_matrix, divide_by_gaps, divide_or_zero, eye,
                              half_triangle, hermitian_from_triangle, imag_part, lu_solve, matmul, matrix_transpose,
                              permute_rows, real_part, slice_columns, slice_rows, tril, triu)

__all__: list[str] = []

def_zero_jvp(prims.lu_pivots_to_permutation_p)
declare_missing(prims.geqrf_p, "its packed form has no rule; use lax.linalg.qr")
declare_missing(prims.hessenberg_p, "the reduction is no smooth invariant of the matrix; use lax.linalg.eig")
declare_missing(prims.tridiagonal_p, "the reduction is no smooth invariant of the matrix; use lax.linalg.eigh")
declare_missing(prims.schur_p, "the Schur form has no rule; use lax.linalg.eig or eigh")


def _triangular(a, b, left, lower, adjoint_a=False, unit=False):
    """Return a^-1 b (`left`) or b a^-1 for triangular a; with `adjoint_a`, a^-H instead of a^-1."""
    conj = adjoint_a and dtypes.is_complex(typeof(a).dtype)
    return bind(prims.triangular_solve_p, a, b, left_side=left, lower=lower, transpose_a=adjoint_a, conjugate_a=conj,
                unit_diagonal=unit)


def cholesky_jvp(primals, tangents):
    """dL = L phi(L^-1 dA L^-H), phi the lower triangle with half the diagonal (Murray 2016, eq. 8)."""
    (x,), (t,) = primals, tangents
    l = bind(prims.cholesky_p, x)
    # A = L L^H gives L^-1 dA L^-H = L^-1 dL + (L^-1 dL)^H: a lower triangle plus its adjoint. phi recovers the
    # triangle; both summands contribute half of the diagonal.
    inner = _triangular(l, hermitian_from_triangle(t, True), left=False, lower=True, adjoint_a=True)
    return l, matmul(l, half_triangle(_triangular(l, inner, left=True, lower=True)))


def lu_jvp(primals, tangents):
    """With Y = L1^-1 (P dA)1 and B = tril(Y U1^-1, -1) on the leading k x k block: dL1 = L1 B, dU1 = triu(Y - B U1).

    B does not need the last column of U1, so its last diagonal entry may be 0 if there are no more rows. The remaining
    rows of L, or columns of U, follow from the corresponding block of P dA = dL U + L dU.
    """
    (x,), (t,) = primals, tangents
    out, pivots, order = bind(prims.lu_p, x)
    m, n = typeof(out).shape[-2:]
    k = min(m, n)
    t = permute_rows(t, order)
    # P dA = dL U + L dU gives Y = (L^-1 dL) U + dU: a strictly lower triangle times U, plus an upper one. `out` packs L
    # and U in one matrix; the triangular solves read only their own triangle of `square`.
    square = slice_columns(slice_rows(out, 0, k), 0, k)
    inner = _triangular(square, slice_columns(slice_rows(t, 0, k), 0, k), left=True, lower=True, unit=True)
    below = _strict_lower_of_quotient(inner, square)
    one = eye(typeof(square).shape, typeof(out).dtype)
    l1, u1 = lax.add(tril(square, -1), one), triu(square)
    dl1, du1 = matmul(l1, below), triu(lax.sub(inner, matmul(below, u1)))
    packed = lax.add(dl1, du1)
    if m > k:  # dA2 = dL2 U1 + L2 dU1
        right = lax.sub(slice_rows(t, k, m), matmul(slice_rows(out, k, m), du1))
        packed = _stack(packed, _triangular(square, right, left=False, lower=False), -2)
    elif n > k:  # dA2 = dL1 U2 + L1 dU2
        right = lax.sub(slice_columns(t, k, n), matmul(dl1, slice_columns(out, k, n)))
        packed = _stack(packed, _triangular(square, right, left=True, lower=True, unit=True), -1)
    return [out, pivots, order], [packed, None, None]


def _stack(a, b, axis):
    return lax.concatenate((a, b), len(typeof(a).shape) + axis)


def _strict_lower_of_quotient(y, r):
    """The strict lower triangle of y R^-1 for square y and R. The last column of R is not used, and may be singular."""
    k = typeof(y).shape[-1]
    if k < 2:
        return lax.full_like(y, 0)
    leading = slice_columns(slice_rows(r, 0, k - 1), 0, k - 1)
    quotient = _triangular(leading, slice_columns(y, 0, k - 1), left=False, lower=False)
    return tril(_stack(quotient, lax.full_like(slice_columns(y, 0, 1), 0), -1), -1)


def _square_qr_tangents(q, r, t):
    """dQ = Q Omega and dR = Q^T dA - Omega R for a real square Q."""
    y = matmul(adjoint(q), t)
    below = _strict_lower_of_quotient(slice_columns(y, 0, typeof(q).shape[-1]), r)
    omega = lax.sub(below, adjoint(below))
    return matmul(q, omega), triu(lax.sub(y, matmul(omega, r)))


def qr_jvp(primals, tangents, *, full_matrices, pivoting):
    """C = Q^H dA R^-1 = Omega + dR R^-1, where dR R^-1 is upper triangular.

    So the strict lower triangle of C determines the skew-Hermitian Omega. Its imaginary diagonal is chosen so that the
    diagonal of R stays real. Then dQ = Q Omega + (1 - Q Q^H) dA R^-1.

    If Q is square and real, the last column of dA R^-1 is not needed, so the last diagonal entry of R may be 0.
    """
    (x,), (t,) = primals, tangents
    outs = bind(prims.qr_p, x, full_matrices=full_matrices, pivoting=pivoting)
    q, r = outs[:2]
    m, n = typeof(x).shape[-2:]
    k = min(m, n)
    if pivoting:
        t = matrix_transpose(permute_rows(matrix_transpose(t), outs[2]))
    q1, r1 = slice_columns(q, 0, k), slice_rows(r, 0, k)
    if k == m and not dtypes.is_complex(typeof(x).dtype):
        dq, dr = _square_qr_tangents(q1, r1, t)
        return list(outs), [dq, dr] + [None] * pivoting
    moved = _triangular(slice_columns(r1, 0, k), slice_columns(t, 0, k), left=False, lower=False)  # dA R^-1
    # dQ has the component Q Omega in the range of Q, and `moved` minus its projection Q C outside.
    c = matmul(adjoint(q1), moved)
    below = tril(c, -1)
    omega = lax.sub(below, adjoint(below))
    if dtypes.is_complex(typeof(x).dtype):
        omega = lax.add(omega, diagonal_matrix(imag_part(diagonal(c))))
    dq = lax.sub(moved, matmul(q1, lax.sub(c, omega)))
    dr = triu(lax.sub(matmul(adjoint(q1), t), matmul(omega, r1)))
    if typeof(q).shape[-1] > k:
        q2 = slice_columns(q, k, m)  # full_matrices: dQ2 = -Q1 dQ1^H Q2 keeps the columns of Q2 orthogonal to Q1
        dq = _stack(dq, lax.neg(matmul(q1, matmul(adjoint(dq), q2))), -1)
        dr = _stack(dr, lax.full_like(slice_rows(r, k, m), 0), -2)
    return list(outs), [dq, dr] + [None] * pivoting


def eigh_jvp(primals, tangents, *, lower):
    """dw = diag(X), dV = V (F * X) for X = V^H dA V and F[i, j] = 1 / (w[j] - w[i]) (Giles 3.1).

    Where eigenvalues are equal, the vectors are determined up to a rotation, see `divide_by_gaps`.
    """
    (x,), (t,) = primals, tangents
    v, w = bind(prims.eigh_p, x, lower=lower)
    inner = matmul(adjoint(v), matmul(hermitian_from_triangle(t, lower), v))
    dw, turned = divide_by_gaps(inner, w)
    return [v, w], [matmul(v, turned), dw]


def _eigenvectors_jvp(t, w, v):
    """For A V = V diag(w), with X = V^-1 dA V: return dw = diag X and dV = V (F * X), normalized (Giles 3.2).

    An eigenvector is determined up to a complex factor, so dV is determined up to a multiple of each column of V. That
    multiple is chosen so that each column keeps length 1 and its largest entry stays real.
    """
    factors, _, order = bind(prims.lu_p, v)
    inner = lu_solve(factors, order, matmul(t, v))
    dw, turned = divide_by_gaps(inner, w)
    dv = matmul(v, turned)
    shape = typeof(v).shape
    if 0 in shape:
        return w, v
    axis = len(shape) - 2
    # Eigenvectors are unique up to a factor. The tangent holds their norm and the phase of their largest entry
    # constant.
    size = lax.abs(v)
    largest = lax.eq(lax.broadcasted_iota(np.int32, shape, axis),
                     lax.broadcast_in_dim(lax.argmax(size, axis, np.int32), shape, (*range(axis), axis + 1)))
    zero = scalar(0, typeof(v).dtype)
    top, dtop = (lax.reduce_sum(lax.select(largest, y, zero), (axis,)) for y in (v, dv))
    # Subtract the component of dv that changes the length (real), and the rotation of the largest entry (imaginary).
    growth = real_part(lax.reduce_sum(lax.mul(dv, lax.conj(v)), (axis,)))
    rotation = imag_part(lax.div(dtop, top))
    return dw, lax.sub(dv, lax.mul(broadcast_vector(lax.add(growth, rotation), shape, -1), v))


def eig_jvp(primals, tangents, *, compute_left_eigenvectors, compute_right_eigenvectors):
    """Left eigenvectors are right eigenvectors of A^H, whose eigenvalues are conj(w)."""
    (x,), (t,) = primals, tangents
    outs = bind(prims.eig_p, x, compute_left_eigenvectors=compute_left_eigenvectors, compute_right_eigenvectors=True)
    w, v = outs[0], outs[-1]
    t = lax.convert_element_type(t, typeof(w).dtype)
    dw, dv = _eigenvectors_jvp(t, w, v)
    made, tangent = [w], [dw]
    if compute_left_eigenvectors:
        made.append(outs[1])
        tangent.append(_eigenvectors_jvp(adjoint(t), lax.conj(w), outs[1])[1])
    if compute_right_eigenvectors:
        made.append(v)
        tangent.append(dv)
    return made, tangent


def svd_jvp(primals, tangents, *, compute_uv, full_matrices):
    """Return ds = diag A, dU = U (F * A + G * B) and dV = V (F * A - G * B).

    P = U^H dA V = A + B with A Hermitian and B skew-Hermitian. F[i, j] = 1 / (s[j] - s[i]) off the diagonal, and G[i,
    j] = 1 / (s[j] + s[i]).

    This is Giles 3.3 with (P S + S P^H) / (s[j]^2 - s[i]^2) split in partial fractions: for equal singular values only
    F is infinite. On the diagonal of G * B the phase of P is split equally between u and v (complex case). Outside the
    range of U, dU has the component (1 - U U^H) dA V / s; dV likewise.
    """
    (x,), (t,) = primals, tangents
    s, u, vh = bind(prims.svd_p, x, compute_uv=True, full_matrices=full_matrices and compute_uv)
    m, n = typeof(x).shape[-2:]
    k = min(m, n)
    dtype = typeof(u).dtype
    u1, v1 = slice_columns(u, 0, k), adjoint(slice_rows(vh, 0, k))
    p = matmul(adjoint(u1), matmul(t, v1))
    if not compute_uv:
        ds = diagonal(p)
        return [s], [lax.real(ds) if dtypes.is_complex(dtype) else ds]
    ph, half = adjoint(p), scalar(0.5, dtype)
    ds, stretched = divide_by_gaps(lax.mul(half, lax.add(p, ph)), s, m != n or dtypes.is_complex(dtype))
    shape = typeof(p).shape
    sums = lax.add(broadcast_vector(s, shape, -1), broadcast_vector(s, shape, -2))
    turned = divide_or_zero(lax.mul(half, lax.sub(p, ph)), sums)
    du, dv = matmul(u1, lax.add(stretched, turned)), matmul(v1, lax.sub(stretched, turned))
    if m > k:
        du = lax.add(du, _project_out(u1, _divide_columns(matmul(t, v1), s)))
        du = _extend_basis(du, u1, u, k)
    if n > k:
        dv = lax.add(dv, _project_out(v1, _divide_columns(matmul(adjoint(t), u1), s)))
        dv = _extend_basis(dv, v1, adjoint(vh), k)
    return [s, u, vh], [ds, du, adjoint(dv)]


def _divide_columns(x, s):
    return divide_or_zero(x, broadcast_vector(s, typeof(x).shape, -1))


def _project_out(u, x):
    """(1 - u u^H) x."""
    return lax.sub(x, matmul(u, matmul(adjoint(u), x)))


def _extend_basis(du, u1, u, k):
    """Append the tangents of the columns that complete the basis: dU2 = -U1 dU1^H U2 keeps them orthogonal to U1."""
    n = typeof(u).shape[-1]
    return du if n == k else _stack(du, lax.neg(matmul(u1, matmul(adjoint(du), slice_columns(u, k, n)))), -1)


def solve_jvp(primals, tangents):
    """dx = a^-1 (db - da x)."""
    (a, b), (da, db) = primals, tangents
    x = bind(prims.solve_p, a, b)
    right = db
    if da is not None:
        change = matmul(da, x)
        right = lax.neg(change) if db is None else lax.sub(db, change)
    return x, None if right is None else bind(prims.solve_p, a, right)


def slogdet_jvp(primals, tangents):
    """d log det(a) = tr(a^-1 da): its real part is that of the logarithm of the size, i times its imaginary part, times
    the sign, that of the sign."""
    (x,), (t,) = primals, tangents
    outs = sign, _ = bind(prims.slogdet_p, x)
    shape, dtype = typeof(x).shape, typeof(x).dtype
    inverse = bind(prims.solve_p, x, eye(shape, dtype))
    n = len(shape)
    change = lax.reduce_sum(lax.mul(matrix_transpose(inverse), t), (n - 2, n - 1))
    if not dtypes.is_complex(dtype):
        return outs, [None, change]
    return outs, [lax.mul(sign, imag_part(change)), lax.real(change)]


def triangular_solve_jvp(primals, tangents, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    """dx = op(a)^-1 (db - op(da) x)."""
    (a, b), (da, db) = primals, tangents
    params = {"left_side": left_side, "lower": lower, "transpose_a": transpose_a, "conjugate_a": conjugate_a,
              "unit_diagonal": unit_diagonal}
    x = bind(prims.triangular_solve_p, a, b, **params)
    right = db
    if da is not None:
        # The solver does not read the other triangle, nor a unit diagonal, so their tangents have no effect.
        da = tril(da, -1 if unit_diagonal else 0) if lower else triu(da, 1 if unit_diagonal else 0)
        da = lax.conj(da) if conjugate_a and dtypes.is_complex(typeof(da).dtype) else da
        da = matrix_transpose(da) if transpose_a else da
        change = lax.neg(matmul(da, x) if left_side else matmul(x, da))
        right = change if db is None else lax.add(db, change)
    return x, None if right is None else bind(prims.triangular_solve_p, a, right, **params)


def _shifted(x, by):
    """Shift the rows of x: row i of the result is row i - by of x, or zeros."""
    n = len(typeof(x).shape)
    pads = [(0, 0, 0)] * n
    pads[n - 2] = (by, -by, 0)
    return lax.pad(x, scalar(0, typeof(x).dtype), pads)


def tridiagonal_solve_jvp(primals, tangents):
    """dx = T^-1 (db - dT x), where dT x is computed diagonal by diagonal."""
    dl, d, du, b = primals
    x = bind(prims.tridiagonal_solve_p, dl, d, du, b)
    shape = typeof(x).shape
    right = tangents[3]
    for t, moved in zip(tangents, (_shifted(x, 1), x, _shifted(x, -1))):
        if t is not None:
            term = lax.neg(lax.mul(broadcast_vector(t, shape, -2), moved))
            right = term if right is None else lax.add(right, term)
    return x, None if right is None else bind(prims.tridiagonal_solve_p, dl, d, du, right)


def householder_product_jvp(primals, tangents):
    """Q = E - V T V^H E with T = (1 + D S)^-1 D, D = diag(tau), S = striu(V^H V); E are the first columns of 1.

    This is the WY form of the product of reflectors (Schreiber and Van Loan 1989). Its derivative needs
    dT = (1 + D S)^-1 (dD (1 - S T) - D dS T).
    """
    (a, taus), (da, dtaus) = primals, tangents
    q = bind(prims.householder_product_p, a, taus)
    k, n = typeof(taus).shape[-1], typeof(a).shape[-1]
    v = tril(slice_columns(a, 0, k), -1)
    v = lax.add(v, eye(typeof(v).shape, typeof(a).dtype))
    vh = adjoint(v)
    s = triu(matmul(vh, v), 1)
    shape = typeof(s).shape
    m = lax.mul(broadcast_vector(taus, shape, -2), s)  # D S; the solver assumes the unit diagonal of 1 + D S
    t = _triangular(m, diagonal_matrix(taus), left=True, lower=False, unit=True)
    w = slice_columns(vh, 0, n)
    change = None
    inner = None
    if dtaus is not None:  # dD (1 - S T)
        inner = lax.mul(broadcast_vector(dtaus, shape, -2), lax.sub(eye(shape, typeof(a).dtype), matmul(s, t)))
    if da is not None:
        dv = tril(slice_columns(da, 0, k), -1)
        dvh = adjoint(dv)
        ds = triu(lax.add(matmul(dvh, v), matmul(vh, dv)), 1)
        term = lax.neg(lax.mul(broadcast_vector(taus, shape, -2), matmul(ds, t)))
        inner = term if inner is None else lax.add(inner, term)
        change = lax.add(matmul(dv, matmul(t, w)), matmul(v, matmul(t, slice_columns(dvh, 0, n))))
    dt = _triangular(m, inner, left=True, lower=False, unit=True)
    term = matmul(v, matmul(dt, w))
    return q, lax.neg(term if change is None else lax.add(change, term))


jvp_rules.define(prims.cholesky_p, cholesky_jvp)
jvp_rules.define(prims.lu_p, lu_jvp)
jvp_rules.define(prims.qr_p, qr_jvp)
jvp_rules.define(prims.eigh_p, eigh_jvp)
jvp_rules.define(prims.eig_p, eig_jvp)
jvp_rules.define(prims.svd_p, svd_jvp)
jvp_rules.define(prims.solve_p, solve_jvp)
jvp_rules.define(prims.slogdet_p, slogdet_jvp)
jvp_rules.define(prims.triangular_solve_p, triangular_solve_jvp)
jvp_rules.define(prims.tridiagonal_solve_p, tridiagonal_solve_jvp)
jvp_rules.define(prims.householder_product_p, householder_product_jvp)
