"""Small matrix algebra on stacks of matrices (the last two axes), linear in its first operand, for the rules beside it."""
from __future__ import annotations

import numpy as np
from lamina_ir import dtypes, prims
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

__all__ = ["adjoint", "columns", "diagonal", "eye", "gaps", "hermitian_of", "imaginary", "matmul", "on_diagonal",
           "permute_rows", "real_part", "rows", "solve", "tril", "triu", "turned", "vector_to"]


def turned(x):
    """x^T."""
    n = len(typeof(x).shape)
    return lax.transpose(x, (*range(n - 2), n - 1, n - 2))


def adjoint(x):
    """x^H."""
    x = turned(x)
    return lax.conj(x) if dtypes.is_complex(typeof(x).dtype) else x


def matmul(a, b):
    n = len(typeof(a).shape)
    batch = tuple(range(n - 2))
    return lax.dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)), precision=lax.Precision.HIGHEST)


def _below(shape, offset):
    """Where column <= row + offset."""
    m, n = shape[-2:]
    row = lax.broadcasted_iota(np.int32, (m, n), 0)
    mask = lax.le(lax.broadcasted_iota(np.int32, (m, n), 1), lax.add(row, np.int32(offset)))
    return lax.broadcast_in_dim(mask, shape, (len(shape) - 2, len(shape) - 1))


def tril(x, offset=0):
    t = typeof(x)
    return lax.select(_below(t.shape, offset), x, scalar(0, t.dtype))


def triu(x, offset=0):
    t = typeof(x)
    return lax.select(_below(t.shape, offset - 1), scalar(0, t.dtype), x)


def _on(shape):
    m, n = shape[-2:]
    mask = lax.eq(lax.broadcasted_iota(np.int32, (m, n), 0), lax.broadcasted_iota(np.int32, (m, n), 1))
    return lax.broadcast_in_dim(mask, shape, (len(shape) - 2, len(shape) - 1))


def eye(shape, dtype):
    return lax.convert_element_type(_on(shape), dtype)


def diagonal(x):
    """The diagonal of square matrices as vectors."""
    t = typeof(x)
    return lax.reduce_sum(lax.select(_on(t.shape), x, scalar(0, t.dtype)), (len(t.shape) - 1,))


def vector_to(v, shape, axis):
    """Vectors `[..., n]` along the rows (axis -1) or columns (axis -2) of matrices."""
    n = len(shape)
    return lax.broadcast_in_dim(v, shape, (*range(n - 2), n + axis))


def on_diagonal(v):
    """diag(v)."""
    t = typeof(v)
    shape = (*t.shape, t.shape[-1])
    return lax.select(_on(shape), vector_to(v, shape, -2), scalar(0, t.dtype))


def real_part(x):
    """Re x, in the dtype of x."""
    dtype = typeof(x).dtype
    return lax.convert_element_type(lax.real(x), dtype) if dtypes.is_complex(dtype) else x


def imaginary(x):
    """i Im x; call it for complex x only."""
    return lax.sub(x, real_part(x))


def hermitian_of(t, lower):
    """The Hermitian matrix that one triangle of t describes."""
    half = tril(t, -1) if lower else triu(t, 1)
    return lax.add(lax.add(half, adjoint(half)), on_diagonal(real_part(diagonal(t))))


def gaps(w):
    """F with F[i, j] = 1 / (w[j] - w[i]), zero on the diagonal."""
    t = typeof(w)
    shape = (*t.shape, t.shape[-1])
    one = eye(shape, t.dtype)
    apart = lax.sub(vector_to(w, shape, -1), vector_to(w, shape, -2))
    return lax.sub(lax.div(scalar(1, t.dtype), lax.add(apart, one)), one)


def rows(x, start, stop):
    return lax.slice_in_dim(x, start, stop, axis=len(typeof(x).shape) - 2)


def columns(x, start, stop):
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


def solve(factors, order, b):
    """a^-1 b from the packed factors and row order of `lu`."""
    flags = {"left_side": True, "transpose_a": False, "conjugate_a": False}
    y = bind(prims.triangular_solve_p, factors, permute_rows(b, order), lower=True, unit_diagonal=True,
             **flags)
    return bind(prims.triangular_solve_p, factors, y, lower=False, unit_diagonal=False, **flags)
