"""NumPy implementations of the matrix factorizations: LAPACK through `numpy.linalg` where it has the function.

Where a factorization is not unique (sign of a reflection, choice of the pivot), the choice is that of LAPACK.
Householder reflectors `H = I - tau v v^H` with `v[0] = 1` map x to `beta e_1`. beta is real and has the opposite sign
to `Re x[0]`.
"""
from __future__ import annotations


import math

import numpy as np

from ..._types.avals import shaped
from ...typing import Function, ParamValue, Value

__all__: list[str] = []


def per_matrix(infer: Function, cores: tuple[int, ...], fun: Function, stacks: bool = False) -> Function:
    """Return an implementation for stacks of matrices; a matrix with a `LinAlgError` gives NaN.

    Args:
      infer: the type rule of the primitive.
      cores: for each operand the number of its axes that belong to one matrix (or vector); the others are batch axes.
      fun: `fun(*arrays, **params)` on one matrix, returning an array or a tuple.
      stacks: whether `fun` takes stacks of matrices too. It is called on each matrix only if it fails on all of them.
    """
    def implementation(*xs: Value, **params: ParamValue) -> Value:
        with np.errstate(all="ignore"):
            if stacks or xs[0].ndim == cores[0]:
                try:
                    return fun(*xs, **params)
                except np.linalg.LinAlgError:
                    pass
            out = infer(*[shaped(x.shape, x.dtype) for x in xs], **params)
            avals = out if isinstance(out, tuple) else (out,)
            made = [np.zeros(a.shape, a.dtype) for a in avals]
            for at in np.ndindex(xs[0].shape[:xs[0].ndim - cores[0]]):
                try:
                    results = fun(*[x[at] for x in xs], **params)
                    results = results if isinstance(results, tuple) else (results,)
                except np.linalg.LinAlgError:
                    results = (np.nan,) * len(made)
                for whole, part in zip(made, results):
                    whole[at] = part
            return tuple(made) if isinstance(out, tuple) else made[0]
    return implementation


def reflector(x: Value) -> tuple[Value, Value, Value]:
    """Return `(beta, tau, v)` of the reflector that maps x to beta e_1, as LAPACK's larfg does."""
    alpha, rest = x[0], x[1:]
    v = np.concatenate([np.ones(1, x.dtype), np.zeros_like(rest)])
    # Already a real multiple of e_1: tau = 0 gives H = I, as in larfg.
    if not np.any(rest) and np.imag(alpha) == 0:
        return alpha, x.dtype.type(0), v
    # The opposite sign of Re alpha, so that alpha - beta does not cancel.
    beta = -np.copysign(np.linalg.norm(x), np.real(alpha))
    v[1:] = rest / (alpha - beta)
    return beta, (beta - alpha) / beta, v


def adjoint(x: Value) -> Value:
    """x^H."""
    return np.conj(np.swapaxes(x, -1, -2))


def cholesky(x: Value) -> Value:
    """Return the lower triangular L with x = L L^H, from the lower triangle of x; NaN if x is not positive definite."""
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        if x.ndim > 2:
            raise
        return np.tril(np.full_like(x, np.nan))


def lu(x: Value) -> tuple[Value, Value, Value]:
    """LU decomposition with row exchanges: the pivot has the largest |re| + |im|, the first of equals.

    NumPy does not return the factors that its LAPACK computes, so columns are eliminated here.
    """
    m, n = x.shape[-2:]
    a = x.reshape(math.prod(x.shape[:-2]), m, n).copy()
    pivots = np.zeros((len(a), min(m, n)), np.int32)
    if len(a) < 4:
        for one, exchanges in zip(a, pivots):
            eliminate(one, exchanges)
    else:
        eliminate_stack(a, pivots)
    pivots = pivots.reshape(*x.shape[:-2], min(m, n))
    return a.reshape(x.shape), pivots, pivots_to_permutation(pivots, permutation_size=m)


def _size(x: Value) -> Value:
    return np.abs(x.real) + np.abs(x.imag) if np.iscomplexobj(x) else np.abs(x)


def eliminate(a: Value, pivots: Value) -> None:
    """Replace a matrix by its factors, and write the row exchanges to `pivots`."""
    for k in range(len(pivots)):
        pivots[k] = p = k + int(_size(a[k:, k]).argmax())
        if p != k:
            row = a[k].copy()
            a[k], a[p] = a[p], row
        # A zero pivot means that the rest of the column is zero; as in getrf, elimination continues.
        below = a[k + 1:, k]
        if a[k, k] != 0:
            below /= a[k, k]
        rest = a[k + 1:, k + 1:]
        rest -= below[:, None] * a[k, k + 1:]


def eliminate_stack(a: Value, pivots: Value) -> None:
    """Do the same for matrices `[b, m, n]` and `pivots` `[b, min(m, n)]`, one column of all matrices at a time."""
    each = np.arange(len(a))
    for k in range(pivots.shape[1]):
        pivots[:, k] = p = k + np.argmax(_size(a[:, k:, k]), axis=1)
        a[each, k], a[each, p] = a[each, p], a[each, k]
        pivot, below = a[:, k, k, None], a[:, k + 1:, k]
        below /= np.where(pivot == 0, a.dtype.type(1), pivot)
        rest = a[:, k + 1:, k + 1:]
        rest -= below[:, :, None] * a[:, k, None, k + 1:]


def solve(a: Value, b: Value) -> Value:
    """Return y with a y = b."""
    return np.linalg.solve(a, b)


def slogdet(x: Value) -> tuple[Value, Value]:
    """Return the sign (of size 1, or 0) and the logarithm of the size of the determinant."""
    return tuple(np.linalg.slogdet(x))


def pivots_to_permutation(pivots: Value, *, permutation_size: int) -> Value:
    """Return the permutation that results from exchanging row k with row pivots[k], for k = 0, 1, ..."""
    out = np.empty((*pivots.shape[:-1], permutation_size), np.int32)
    for at in np.ndindex(pivots.shape[:-1]):
        order = list(range(permutation_size))
        for k, p in enumerate(pivots[at].tolist()):
            order[k], order[p] = order[p], order[k]
        out[at] = order
    return out


def geqrf(x: Value) -> tuple[Value, Value]:
    """Return a matrix with R in the upper triangle and the reflectors' tails below it, and the reflectors' taus."""
    packed, taus = np.linalg.qr(x, mode="raw")
    return np.swapaxes(packed, -1, -2), taus  # NumPy gives the transpose, in LAPACK's order of memory


def householder_product(a: Value, taus: Value) -> Value:
    """Return the first columns of H_1 H_2 ... H_k; the tail of v_k is below the diagonal of column k.

    The product is I - V T V^H with T = (I + D S)^-1 D, D = diag(taus), S = striu(V^H V) (Schreiber and Van Loan 1989).
    """
    m, n = a.shape[-2:]
    k = taus.shape[-1]
    v = np.tril(a[..., :k], -1) + np.eye(m, k, dtype=a.dtype)
    vh, one = adjoint(v), np.eye(m, n, dtype=a.dtype)
    inner = np.eye(k, dtype=a.dtype) + taus[..., :, None] * np.triu(vh @ v, 1)
    return one - v @ np.linalg.solve(inner, taus[..., :, None] * (vh @ one))


def qr(x: Value, *, full_matrices: bool, pivoting: bool) -> tuple[Value, ...]:
    """Return Q and R, and with pivoting the column permutation that puts the largest remaining column first."""
    if not pivoting:
        return tuple(np.linalg.qr(x, mode="complete" if full_matrices else "reduced"))
    if x.ndim > 2:
        raise np.linalg.LinAlgError  # one matrix at a time
    m, n = x.shape
    order, left = np.arange(n, dtype=np.int32), x.copy()
    for i in range(min(m, n)):
        p = i + int(np.argmax(np.linalg.norm(left[i:, i:], axis=0)))
        left[:, [i, p]] = left[:, [p, i]]
        order[[i, p]] = order[[p, i]]
        _, tau, v = reflector(left[i:, i])
        left[i:, i:] -= np.conj(tau) * np.outer(v, np.conj(v) @ left[i:, i:])
    return *qr(x[:, order], full_matrices=full_matrices, pivoting=False), order


def eigh(x: Value, *, lower: bool) -> tuple[Value, Value]:
    """Return eigenvectors (in columns) and ascending eigenvalues of the Hermitian matrix given by one triangle."""
    w, v = np.linalg.eigh(x, "L" if lower else "U")
    return v, w


def eig(x: Value, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool) -> tuple[Value, ...]:
    """Return eigenvalues, and eigenvectors of norm one in columns: u^H x = w u^H (left), x v = w v (right)."""
    if not compute_left_eigenvectors and not compute_right_eigenvectors:
        return (np.linalg.eigvals(x),)
    w, v = np.linalg.eig(x)
    out = [w]
    if compute_left_eigenvectors:
        # V^-1 x V = diag(w), so the rows of V^-1 are left eigenvectors.
        u = adjoint(np.linalg.inv(v))
        out.append(u / np.linalg.norm(u, axis=-2, keepdims=True))
    return (*out, v) if compute_right_eigenvectors else tuple(out)


def svd(x: Value, *, full_matrices: bool, compute_uv: bool) -> tuple[Value, ...]:
    """Return the singular values in descending order; then U and V^H."""
    if not compute_uv:
        return (np.linalg.svd(x, compute_uv=False),)
    u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
    return s, u, vh


def triangular_solve(a: Value, b: Value, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool,
                     unit_diagonal: bool) -> Value:
    """Solve with LAPACK, or by substitution where a pivot is zero or not finite. The other triangle is not read."""
    t = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        t[..., np.arange(a.shape[-1]), np.arange(a.shape[-1])] = 1
    t = np.conj(t) if conjugate_a and np.iscomplexobj(t) else t
    if transpose_a == left_side:  # x t = b is t^T x^T = b^T
        t = np.swapaxes(t, -1, -2)
    # Rows and columns in reverse order make a lower triangle an upper one.
    turn = slice(None, None, -1 if lower == (transpose_a != left_side) else 1)
    t, y = t[..., turn, turn], (b if left_side else np.swapaxes(b, -1, -2))[..., turn, :]
    x = solve_upper(t, y)[..., turn, :]
    return x if left_side else np.swapaxes(x, -1, -2)


def solve_upper(t: Value, b: Value) -> Value:
    """Solve t x = b for upper triangular t with zeros below the diagonal."""
    # The LU decomposition of such a matrix is the matrix itself. Zero pivots and infinities are left to substitution.
    try:
        x = np.linalg.solve(t, b)
        if np.isfinite(x).all():
            return x
    except np.linalg.LinAlgError:
        pass
    x = b.copy()
    for i in reversed(range(t.shape[-1])):
        known = np.squeeze(t[..., i, None, i + 1:] @ x[..., i + 1:, :], -2)
        x[..., i, :] = (x[..., i, :] - known) / t[..., i, i, None]
    return x


def tridiagonal_solve(dl: Value, d: Value, du: Value, b: Value) -> Value:
    """Solve T x = b, where T has dl below, d on and du above its diagonal; dl[0] and du[-1] are not read."""
    n = d.shape[-1]
    t, k = np.zeros((*d.shape, n), d.dtype), np.arange(n)
    t[..., k, k], t[..., k[1:], k[:-1]], t[..., k[:-1], k[1:]] = d, dl[..., 1:], du[..., :-1]
    return np.linalg.solve(t, b)


def hessenberg(x: Value) -> tuple[Value, Value]:
    """Return a matrix with Q^H x Q on and above the first subdiagonal and the reflectors' tails below it, and the
    taus."""
    a = x.copy()
    taus = np.zeros(max(len(a) - 1, 0), x.dtype)
    for k in range(len(taus)):
        beta, taus[k], v = reflector(a[k + 1:, k])
        a[k + 1, k], a[k + 2:, k] = beta, v[1:]
        # A similarity: H from the right on all rows, then H^H from the left.
        a[:, k + 1:] -= taus[k] * np.outer(a[:, k + 1:] @ v, np.conj(v))
        a[k + 1:, k + 1:] -= np.conj(taus[k]) * np.outer(v, np.conj(v) @ a[k + 1:, k + 1:])
    return a, taus


def tridiagonal(x: Value, *, lower: bool) -> tuple[Value, Value, Value, Value]:
    """Reduce to tridiagonal form: return a matrix with Q^H x Q and the reflectors' tails in one triangle, the diagonal,
    the off-diagonal and the taus."""
    n = len(x)
    half = np.tril(x, -1) if lower else np.triu(x, 1)
    a = half + np.conj(half.T) + np.diag(np.diagonal(x).real)
    out, taus, off = x.copy(), np.zeros(max(n - 1, 0), x.dtype), np.zeros(max(n - 1, 0), x.real.dtype)
    for k in range(n - 1):
        rest = np.arange(k + 1, n) if lower else np.arange(n - 2 - k, -1, -1)  # the reflected axes; v[0] is at the first
        at, column = (k, k) if lower else (n - 2 - k, n - 1 - k)
        beta, tau, v = reflector(a[rest, column])
        h = np.eye(len(rest)) - tau * np.outer(v, np.conj(v))
        block = np.ix_(rest, rest)
        a[block] = np.conj(h.T) @ a[block] @ h
        taus[at], off[at] = tau, np.real(beta)
        out[rest, column] = np.concatenate([[beta], v[1:]])
    diagonal = np.real(np.diagonal(a))
    np.fill_diagonal(out, diagonal)
    return out, diagonal, off, taus


def schur(x: Value, *, compute_schur_vectors: bool) -> tuple[Value, ...]:
    """Schur decomposition x = Q T Q^H with T upper triangular; for real x T has 2 by 2 diagonal blocks for complex
    pairs.

    Each step splits off one invariant subspace: one eigenvector, or the real and imaginary parts of one.
    """
    n = len(x)
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError
    t, q = x.copy(), np.eye(n, dtype=x.dtype)
    k = 0
    while k < n:
        # Deflation: in an orthonormal basis that begins with the subspace, the entries below its diagonal block are
        # zero.
        w, v = np.linalg.eig(t[k:, k:])
        at = int(np.argmin(np.abs(np.imag(w)))) if np.isrealobj(x) else 0
        first = v[:, at]
        if np.isrealobj(x) and np.imag(w[at]) != 0:
            space = np.stack([first.real, first.imag], 1)
        else:
            space = (first.real if np.isrealobj(x) else first)[:, None]
        step = space.shape[1]
        rotation = np.eye(n, dtype=x.dtype)
        rotation[k:, k:] = np.linalg.qr(np.concatenate([space, np.eye(n - k, dtype=x.dtype)], 1))[0]
        if step == 2:
            # Rotate the pair's block B by the angle h with tan 2h = (b11 - b00) / (b01 + b10): then its diagonal
            # entries are equal, the standard form of a pair.
            block = rotation[:, k:].T @ t @ rotation[:, k:]
            half = np.arctan2(block[1, 1] - block[0, 0], block[0, 1] + block[1, 0]) / 2
            c, s = np.cos(half), np.sin(half)
            rotation[:, k:k + 2] = rotation[:, k:k + 2] @ np.array([[c, -s], [s, c]])
        t, q = np.conj(rotation.T) @ t @ rotation, q @ rotation
        t[k + step:, k:k + step] = 0
        k += step
    return (t, q) if compute_schur_vectors else (t,)
