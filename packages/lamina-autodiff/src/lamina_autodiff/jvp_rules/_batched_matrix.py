"""Matrix algebra on batches of matrices (the last two axes), for the factorization rules.

All functions are linear in their first operand, so they can be applied to tangents.
"""
from __future__ import annotations

import numpy as np
from lamina_ir import dtypes, prims
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

__all__ = ["adjoint", "broadcast_vector", "diagonal", "diagonal_matrix", "eye", "hermitian_from_triangle",
           "imag_part", "lu_solve", "matmul", "matrix_transpose", "permute_rows", "real_part", "reciprocal_gaps",
           "slice_columns", "slice_rows", "tril", "triu"]


def matrix_transpose(x):
    """x^T."""
    n = len(typeof(x).shape)
    return lax.transpose(x, (*range(n - 2), n - 1, n - 2))


def adjoint(x):
    """x^H."""
    x = matrix_transpose(x)
    return lax.conj(x) if dtypes.is_complex(typeof(x).dtype) else x


def matmul(a, b):
    """a b, in the highest precision."""
    n = len(typeof(a).shape)
    batch = tuple(range(n - 2))
    return lax.dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)), precision=lax.Precision.HIGHEST)


def _lower_mask(shape, offset):
    """Return the mask of column <= row + offset."""
    m, n = shape[-2:]
    row = lax.broadcasted_iota(np.int32, (m, n), 0)
    mask = lax.le(lax.broadcasted_iota(np.int32, (m, n), 1), lax.add(row, np.int32(offset)))
    return lax.broadcast_in_dim(mask, shape, (len(shape) - 2, len(shape) - 1))


def tril(x, offset=0):
    """The entries with column <= row + offset; zero elsewhere."""
    t = typeof(x)
    return lax.select(_lower_mask(t.shape, offset), x, scalar(0, t.dtype))


def triu(x, offset=0):
    """The entries with column >= row + offset; zero elsewhere."""
    t = typeof(x)
    return lax.select(_lower_mask(t.shape, offset - 1), scalar(0, t.dtype), x)


def _diagonal_mask(shape):
    m, n = shape[-2:]
    mask = lax.eq(lax.broadcasted_iota(np.int32, (m, n), 0), lax.broadcasted_iota(np.int32, (m, n), 1))
    return lax.broadcast_in_dim(mask, shape, (len(shape) - 2, len(shape) - 1))


def eye(shape, dtype):
    return lax.convert_element_type(_diagonal_mask(shape), dtype)


def diagonal(x):
    """The diagonals of square matrices, as vectors."""
    t = typeof(x)
    return lax.reduce_sum(lax.select(_diagonal_mask(t.shape), x, scalar(0, t.dtype)), (len(t.shape) - 1,))


def broadcast_vector(v, shape, axis):
    """Broadcast vectors `[..., n]` to matrices: constant along columns (axis=-1), or along rows (axis=-2)."""
    n = len(shape)
    return lax.broadcast_in_dim(v, shape, (*range(n - 2), n + axis))


def diagonal_matrix(v):
    """diag(v)."""
    t = typeof(v)
    shape = (*t.shape, t.shape[-1])
    return lax.select(_diagonal_mask(shape), broadcast_vector(v, shape, -2), scalar(0, t.dtype))


def real_part(x):
    """Re x, in the dtype of x."""
    dtype = typeof(x).dtype
    return lax.convert_element_type(lax.real(x), dtype) if dtypes.is_complex(dtype) else x


def imag_part(x):
    """i Im x; call it for complex x only."""
    return lax.sub(x, real_part(x))


def hermitian_from_triangle(t, lower):
    """The Hermitian matrix given by one triangle of t; the imaginary part of the diagonal is ignored."""
    half = tril(t, -1) if lower else triu(t, 1)
    return lax.add(lax.add(half, adjoint(half)), diagonal_matrix(real_part(diagonal(t))))


def reciprocal_gaps(w):
    """F with F[i, j] = 1 / (w[j] - w[i]) off the diagonal, and 0 on it; infinite for equal entries of w."""
    t = typeof(w)
    shape = (*t.shape, t.shape[-1])
    one = eye(shape, t.dtype)  # added on the diagonal, so that 1 / (0 + 1) - 1 = 0 there
    difference = lax.sub(broadcast_vector(w, shape, -1), broadcast_vector(w, shape, -2))
    return lax.sub(lax.div(scalar(1, t.dtype), lax.add(difference, one)), one)


def slice_rows(x, start, stop):
    """x[..., start:stop, :]."""
    return lax.slice_in_dim(x, start, stop, axis=len(typeof(x).shape) - 2)


def slice_columns(x, start, stop):
    """x[..., :, start:stop]."""
    return lax.slice_in_dim(x, start, stop, axis=len(typeof(x).shape) - 1)


def permute_rows(x, order):
    """x[..., order, :]."""
    shape = typeof(x).shape
    if not typeof(x).size:
        return x
    nb = len(shape) - 2
    batch = tuple(range(nb))
    numbers = GatherDimensionNumbers(offset_dims=(nb + 1,), collapsed_slice_dims=(nb,), start_index_map=(nb,),
                                     operand_batching_dims=batch, start_indices_batching_dims=batch)
    return bind(prims.gather_p, x, lax.expand_dims(order, (nb + 1,)), dimension_numbers=numbers,
                slice_sizes=(1,) * (nb + 1) + (shape[-1],), mode=GatherScatterMode.PROMISE_IN_BOUNDS, fill_value=None,
                indices_are_sorted=False, unique_indices=True)


def lu_solve(factors, order, b):
    """a^-1 b from the packed factors and row permutation of `lu`."""
    flags = {"left_side": True, "transpose_a": False, "conjugate_a": False}
    y = bind(prims.triangular_solve_p, factors, permute_rows(b, order), lower=True, unit_diagonal=True,
             **flags)
    return bind(prims.triangular_solve_p, factors, y, lower=False, unit_diagonal=False, **flags)
