"""Matrix algebra on batches of matrices (the last two axes), for the factorization rules.

All functions are linear in their first operand, so they can be applied to tangents.
"""
from __future__ import annotations

import math
from functools import partial

import numpy as np
from lamina_ir import dtypes, prims, shaped
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode
from lamina_tracing import hooks, lax
from lamina_tracing.extend import EVALUATION, bind, scalar, trace_state, typeof

from .._api.custom_transpose import closed_linear_call

__all__ = ["adjoint", "broadcast_vector", "diagonal", "diagonal_matrix", "divide_by_gaps", "divide_or_zero", "eye",
           "half_triangle", "hermitian_from_triangle", "imag_part", "lu_solve", "matmul", "matrix_transpose", "permute_rows",
           "real_part", "slice_columns", "slice_rows", "tril", "triu"]


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


def _eager_constant(make, shape, dtype=bool):
    """Return matrices made by NumPy, which is cheaper than equations that are run one by one; None while staging."""
    if trace_state.trace is not EVALUATION or not isinstance(hooks.evaluator, hooks.NumPyEvaluator):
        return None
    one = make(*shape[-2:])
    return hooks.evaluator.array(one if len(shape) == 2 else np.broadcast_to(one, shape), shaped(shape, dtype))


def _lower_mask(shape, offset):
    """Return the mask of column <= row + offset."""
    known = _eager_constant(lambda m, n: np.tri(m, n, offset, dtype=bool), shape)
    if known is not None:
        return known
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


def half_triangle(x, lower=True):
    """One triangle of square matrices, with half their diagonal."""
    t = typeof(x)
    weights = _eager_constant(lambda m, n: 1 - 0.5 * np.eye(m, n), t.shape, t.dtype)
    if weights is None:
        weights = lax.select(_diagonal_mask(t.shape), lax.full(t.shape, 0.5, t.dtype), scalar(1, t.dtype))
    return lax.mul(tril(x) if lower else triu(x), weights)


def _diagonal_mask(shape):
    known = _eager_constant(np.eye, shape)
    if known is not None:
        return known
    m, n = shape[-2:]
    mask = lax.eq(lax.broadcasted_iota(np.int32, (m, n), 0), lax.broadcasted_iota(np.int32, (m, n), 1))
    return lax.broadcast_in_dim(mask, shape, (len(shape) - 2, len(shape) - 1))


def eye(shape, dtype):
    known = _eager_constant(np.eye, shape, dtype)
    return known if known is not None else lax.convert_element_type(_diagonal_mask(shape), dtype)


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
    half = half_triangle(t, lower)
    return lax.add(half, adjoint(half))


def _both(p, q):
    return lax.bitwise_and(p, q)


def _zero(dtype):
    return scalar(0, dtype)


def _largest(x):
    """The largest size in each matrix of a batch, in the shape of x."""
    shape = typeof(x).shape
    n = len(shape)
    return lax.broadcast_in_dim(lax.reduce_max(lax.abs(x), (n - 2, n - 1)), shape, tuple(range(n - 2)))


def _is_negligible(x, scale):
    """Where |x| is at the level of rounding errors of numbers as large as `scale`."""
    t = typeof(x)
    tolerance = 10.0 * math.sqrt(t.shape[-1]) * float(dtypes.finfo(dtypes.real_dtype(t.dtype)).eps)
    return lax.le(lax.abs(x), lax.mul(tolerance, scale))


def _quotients(x, divisor, masked):
    """x / divisor, but 0 where `masked`. The divisor is replaced there, so that derivatives are finite."""
    dtype = typeof(x).dtype
    divisor = lax.select(masked, scalar(1, typeof(divisor).dtype), divisor)
    return lax.div(lax.select(masked, _zero(dtype), x), lax.convert_element_type(divisor, dtype))


def _divide(divisor, x):
    no_divisor, nothing = lax.eq(divisor, _zero(typeof(divisor).dtype)), lax.eq(x, _zero(typeof(x).dtype))
    return _quotients(x, divisor, _both(no_divisor, nothing))


_divide_call = closed_linear_call(_divide, _divide)


def divide_or_zero(x, divisor):
    """x / divisor for matrices, linear in x, but 0 where both are 0."""
    return _divide_call(divisor, x) if typeof(x).size else x


# The derivative of eigenvectors has the quotients x[i, j] / (w[j] - w[i]). Where w[i] = w[j], only the eigenspace of
# both is determined. In forward mode, x[i, j] = 0 means that the vectors do not turn within it: the quotient is 0. Else
# the derivative does not exist.
#
# Reverse mode divides N = V^T ct, where ct are the cotangents of the vectors. A smooth function f of the matrix has a
# cotangent M within the eigenspace, and c[i] = M[i, i] is that of w. M[i, j] is 0 in two cases, where N[i, j] is 0 too:
# 1. f does not depend on the eigenspace: c[i] = c[j] = 0. (That M[i, j] alone is not 0 cannot be seen.)
# 2. f has the form V g(w) V^H there, with g not 0: N[i, j] = M[i, j] g, N[i, i] is not 0, and c[i] = c[j].
# Otherwise M[i, j] is not known, and 0 / 0 gives NaN. So it does for a form V g(w) V^H with g = 0. If f depends on w
# alone, there is no N, and M = diag(c).
#
# "0" means the level of rounding errors here. If the case is not known, the quotient is what the division gives: small
# eigenvalues and their cotangents may be accurate relative to their own size. A gap at the level of rounding errors of
# its own two eigenvalues counts as 0, so that the quotient is infinite or NaN instead of a wrong number.
#
# Second derivatives within an eigenspace are not finite if the direction turns the vectors. They do not follow from w,
# the cotangents and their tangents: for f = sum g(w) at the identity, with a direction off the diagonal, all tangents are
# 0, but the second derivative is g''(1).


def _gaps(w, shape):
    """The differences w[j] - w[i], the mask of those that are negligible, and the mask of the diagonal."""
    across, down = broadcast_vector(w, shape, -1), broadcast_vector(w, shape, -2)
    gap = lax.sub(across, down)
    size = lax.max(lax.abs(across), lax.abs(down))
    # A fixed small number of rounding errors: with more, large matrices of random numbers would have such gaps.
    rounding = lax.mul(8.0 * float(dtypes.finfo(dtypes.real_dtype(typeof(w).dtype)).eps), size)
    gap = lax.select(lax.le(lax.abs(gap), rounding), _zero(typeof(gap).dtype), gap)
    return gap, _is_negligible(gap, _largest(across)), _diagonal_mask(shape)


def _gap_quotients(w, operands):
    x, _ = operands
    gap, equal, on_diagonal = _gaps(w, typeof(x).shape)
    return _quotients(x, gap, lax.bitwise_or(on_diagonal, _both(equal, _is_negligible(x, _largest(x)))))


def _gap_quotients_transpose(w, ct):
    """Return the quotients, 0 for 0 / 0, and marks where `_split_transpose` decides: -1, or 1 if N[i, i] is not 0."""
    t = typeof(ct)
    gap, equal, on_diagonal = _gaps(w, t.shape)
    small = _is_negligible(ct, _largest(ct))
    seen = lax.bitwise_not(_diagonal_of_mask(small))
    marks = lax.select(_both(broadcast_vector(seen, t.shape, -1), broadcast_vector(seen, t.shape, -2)),
                       scalar(1, t.dtype), scalar(-1, t.dtype))
    marked = lax.bitwise_or(on_diagonal, _both(equal, small))
    no_gap = _both(marked, lax.eq(gap, _zero(typeof(gap).dtype)))
    return _quotients(ct, gap, no_gap), lax.select(marked, marks, _zero(t.dtype))


def _split(w, x):
    return lax.convert_element_type(diagonal(x), typeof(w).dtype), (x, x)


def _split_transpose(zero_turns, w, cts):
    ct_w, (ct, marks) = cts
    t = typeof(ct)
    on_diagonal = _diagonal_mask(t.shape)
    across, down = broadcast_vector(ct_w, t.shape, -1), broadcast_vector(ct_w, t.shape, -2)
    scale = _largest(across)
    marks = lax.real(marks) if dtypes.is_complex(t.dtype) else marks
    case_1 = _both(_is_negligible(across, scale), _is_negligible(down, scale))
    case_2 = _both(_is_negligible(lax.sub(across, down), scale), lax.gt(marks, 0.0))
    marked, known = lax.ne(marks, 0.0), lax.bitwise_or(case_1, case_2)
    no_gap = lax.eq(_gaps(w, t.shape)[0], _zero(typeof(w).dtype))
    undefined = _both(_both(no_gap, lax.bitwise_not(on_diagonal)), lax.bitwise_not(known))
    if zero_turns:
        at_zero = lax.eq(broadcast_vector(w, t.shape, -1), _zero(typeof(w).dtype))
        undefined = lax.bitwise_or(undefined, _both(_both(on_diagonal, at_zero), lax.bitwise_not(case_1)))
    ct = lax.select(_both(marked, known), _zero(t.dtype), ct)
    ct = lax.select(_both(marked, undefined), scalar(float("nan"), t.dtype), ct)
    return lax.add(ct, diagonal_matrix(lax.convert_element_type(ct_w, t.dtype)))


def _diagonal_of_mask(mask):
    shape = typeof(mask).shape
    return lax.reduce_or(_both(mask, _diagonal_mask(shape)), (len(shape) - 1,))


_gap_quotients_call = closed_linear_call(_gap_quotients, _gap_quotients_transpose)
_split_calls = {flag: closed_linear_call(_split, partial(_split_transpose, flag)) for flag in (False, True)}


def divide_by_gaps(x, w, zero_turns=False):
    """Return the diagonal of x, in the dtype of w, and x[i, j] / (w[j] - w[i]) off the diagonal and 0 on it.

    Linear in x; the comment above explains equal entries of w. `zero_turns` means that the vectors of an entry 0 of w
    are not determined. Then the derivative is NaN if the vectors are used and the cotangent of the entry is not 0.
    """
    if not typeof(x).size:
        return w, x
    dw, copies = _split_calls[zero_turns](w, x)
    return dw, _gap_quotients_call(w, copies)


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
