"""Products of BCOO arrays with dense and sparse ones: contractions and elementwise products."""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_batching import vmap
from lamina_ir import ShapeError
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_ir.typing import Value
from lamina_numpy.extend import work_dtype
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax
from lamina_tracing.extend import typeof

from ._bcoo import BCOO_ENTRIES, bcoo_sum_duplicates, bcoo_update_layout, merge_booleans
from ._entries import (batch_shape, dense_shape, expand, flatten_batch, gather_rows, is_known, is_stored, join, mask_padding,
                       scatter_rows, sparse_shape, take_columns)
from ._shape import bcoo_reshape, bcoo_transpose
from ._types import BCOO, JAXSparse, check_bcoo

__all__ = ["bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_multiply_dense", "bcoo_multiply_sparse", "gather_dense"]

_ENTRIES = {**BCOO_ENTRIES, **docstring_entries("""
    dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`, as in `lax.dot_general`.
    preferred_element_type: dtype of the result; None promotes those of the operands.
    """)}
Dims = tuple[int, ...]
Numbers = tuple[tuple[Dims, Dims], tuple[Dims, Dims]]


def _read_numbers(call: str, lhs: Any, rhs: Any, dimension_numbers: Any) -> Numbers:
    """Return dimension numbers as tuples of nonnegative ints, or raise."""
    try:
        (lc, rc), (lb, rb) = [[tuple([int(a) for a in part]) for part in pair] for pair in dimension_numbers]
    except (TypeError, ValueError):
        raise TypeError(f"{call}: dimension_numbers must be ((lhs_contracting, rhs_contracting), (lhs_batch, "
                        f"rhs_batch)); got "
                        f"{dimension_numbers!r:.80}") from None
    for x, dims in ((lhs, (*lc, *lb)), (rhs, (*rc, *rb))):
        if len(set(dims)) < len(dims) or any(not 0 <= a < x.ndim for a in dims):
            raise ValueError(f"{call}: dimension_numbers must name distinct dimensions of the shape {tuple(x.shape)}; "
                             f"got "
                             f"{dimension_numbers}")
    if [lhs.shape[a] for a in (*lc, *lb)] != [rhs.shape[a] for a in (*rc, *rb)]:
        raise ShapeError(f"{call}: contracting and batch dimensions must have equal sizes; got operands of shapes "
                         f"{tuple(lhs.shape)} and {tuple(rhs.shape)} with {dimension_numbers}")
    return (lc, rc), (lb, rb)


def _free(ndim: int, *used: Sequence[int]) -> list[int]:
    return [a for a in range(ndim) if not any(a in dims for dims in used)]


@functools.partial(jit, static_argnames=("numbers", "precision", "dtype"))
def _dot_dense(mat: BCOO, x: Value, *, numbers: Numbers, precision: Any, dtype: Any) -> Value:
    """Return sparse times dense: gather rows of `x` at the entries, multiply, and add them up by their free indices."""
    (lc, rc), (lb, rb) = numbers
    flat = flatten_batch(mat)
    k = flat.n_sparse
    # pairs of dimensions that both operands have: sparse ones are gathered, dense ones are left to `dot_general`
    pairs = [*zip(lb, rb, strict=True), *zip(lc, rc, strict=True)]
    gathered = [pair for pair in pairs if pair[0] < k]
    dense_batch = [pair for pair in zip(lb, rb, strict=True) if pair[0] >= k]
    dense_contracting = [pair for pair in zip(lc, rc, strict=True) if pair[0] >= k]
    free = _free(x.ndim, rc, rb)
    rest = [a for a in range(x.ndim) if a not in [r for _, r in gathered]]
    work = work_dtype(dtype)
    sizes = sparse_shape(flat)
    data, indices = mask_padding(lnp.astype(flat.data, work), flat.indices, is_stored(flat.indices, sizes), sizes)
    rows = gather_rows(lnp.transpose(lnp.astype(x, work), [*[r for _, r in gathered], *rest]),
                       take_columns(indices, [le for le, _ in gathered]))
    if not flat.n_dense and not dense_batch and not dense_contracting:
        products = lnp.reshape(data, data.shape + (1,) * len(free)) * rows
    else:
        def position(r: int) -> int:
            return 1 + rest.index(r)
        products = lax.dot_general(data, rows, (
            (tuple([le - k + 1 for le, _ in dense_contracting]), tuple([position(r) for _, r in dense_contracting])),
            ((0, *[le - k + 1 for le, _ in dense_batch]), (0, *[position(r) for _, r in dense_batch]))), precision=precision)
    # products: [n, dense batch, dense free of mat, free of x]
    out_columns = [*[le for le in lb if le < k], *[a for a in _free(k, lc, lb)]]
    out_sizes = tuple([sizes[a] for a in out_columns])
    total = scatter_rows(out_sizes, take_columns(indices, out_columns), products)
    have = [*out_columns, *[le for le, _ in dense_batch], *_free(flat.ndim, lc, lb, range(k))]
    want = [*lb, *_free(flat.ndim, lc, lb)]
    return lnp.astype(lnp.transpose(total, [*[have.index(a) for a in want], *range(len(have), total.ndim)]), dtype)


def _pairs_bound(left: BCOO, right: BCOO, left_free: Sequence[int], right_free: Sequence[int]) -> int:
    """Return an upper bound of the number of pairs of entries that have one key."""
    bounds = [left.nse * right.nse]
    if right.unique_indices:
        bounds.append(left.nse * math.prod([right.shape[a] for a in right_free]))
    if left.unique_indices:
        bounds.append(right.nse * math.prod([left.shape[a] for a in left_free]))
    return min(bounds)


def _join_arrays(left: BCOO, right: BCOO, left_keys: Sequence[int], right_keys: Sequence[int],
                 left_out: Sequence[int], right_out: Sequence[int], dtype: Any) -> BCOO:
    """Return the products of all pairs of entries with equal keys, at `left_out` of the left and `right_out` of the right
    index. Neither has batch dimensions."""
    left_stored, right_stored = (is_stored(mat.indices, sparse_shape(mat)) for mat in (left, right))
    i, j, is_pair = join(take_columns(left.indices, left_keys), take_columns(right.indices, right_keys),
                         left_stored, right_stored,
                         _pairs_bound(left, right, _free(left.n_sparse, left_keys), _free(right.n_sparse, right_keys)))
    data = lnp.astype(left.data, dtype)[i] * lnp.astype(right.data, dtype)[j]
    columns = [take_columns(left.indices, left_out)[i], lnp.astype(take_columns(right.indices, right_out)[j],
                                                                   typeof(left.indices).dtype)]
    sizes = (*[left.shape[a] for a in left_out], *[right.shape[a] for a in right_out])
    data, indices = mask_padding(data, lnp.concatenate(columns, -1), is_pair, sizes)
    return BCOO((data, indices), shape=sizes + data.shape[1:])


def _dot_sparse(lhs: BCOO, rhs: BCOO, numbers: Numbers, dtype: Any) -> BCOO:
    (lc, rc), (lb, rb) = numbers
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError("bcoo_dot_general: the product of two sparse arrays must have no dense dimensions; "
                                  "got n_dense="
                                  f"{lhs.n_dense} and {rhs.n_dense}. Use update_layout(n_dense=0), or todense() of one")
    n = len(lb)
    is_batched = n > 0 and sorted(lb) == list(range(lhs.n_batch)) and sorted(rb) == list(range(rhs.n_batch))
    if is_batched and not is_known(lhs, rhs):  # one product for each batch
        mats = [bcoo_transpose(mat, permutation=[*dims, *range(n, mat.ndim)]) for mat, dims in ((lhs, lb), (rhs, rb))]
        full = [BCOO((expand(mat.data, batch_shape(mat)), expand(mat.indices, batch_shape(mat))), shape=mat.shape,
                     unique_indices=mat.unique_indices) for mat in mats]
        inner: Numbers = ((tuple([a - n for a in lc]), tuple([a - n for a in rc])), ((), ()))
        product = functools.partial(_dot_sparse, numbers=inner, dtype=dtype)
        for _ in range(n):
            product = vmap(product)  # type: ignore[assignment]
        return product(*full)
    left, right = flatten_batch(lhs), flatten_batch(rhs)
    made = _join_arrays(left, right, [*lb, *lc], [*rb, *rc], [*lb, *_free(left.ndim, lc, lb)], _free(right.ndim, rc, rb), dtype)
    if is_batched:
        return bcoo_update_layout(made, n_batch=n, on_inefficient=None)
    return bcoo_sum_duplicates(made, nse=made.size) if made.size < made.nse else made


@fill_docstring(_ENTRIES)
def bcoo_dot_general(lhs: BCOO | ArrayLike, rhs: BCOO | ArrayLike, *, dimension_numbers: Any, precision: Any = None,
                     preferred_element_type: DTypeLike | None = None) -> BCOO | Array:
    """Contract a sparse array with a dense or a sparse one.

    Args:
      lhs, rhs: BCOO or dense arrays; at least one is a BCOO.
      {dimension_numbers}
      precision: precision of products over dense dimensions.
      {preferred_element_type}
    Returns:
      A dense array; a BCOO if both operands are sparse. Its indices may repeat. Outside of `jit` it stores the products that
      there are; under `jit` as many as there may be.
    Raises:
      TypeError: an argument has another type.
      ShapeError: the sizes differ.
      NotImplementedError: both operands are sparse, and one has dense dimensions.

    Source: JAX's function of this name.

    >>> x = BCOO.fromdense(np.array([[0, 3], [4, 0]]))
    >>> bcoo_dot_general(x, np.array([1, 2]), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([6, 4], dtype=int32)
    """
    call = "bcoo_dot_general"
    if not isinstance(lhs, JAXSparse) and not isinstance(rhs, JAXSparse):
        raise TypeError(f"{call}: lhs or rhs must be a BCOO; got {type(lhs).__name__} and {type(rhs).__name__}. Use "
                        "lax.dot_general")
    left, right = (merge_booleans(check_bcoo(call, name, x)) if isinstance(x, JAXSparse) else lnp.asarray(x)
                   for name, x in (("lhs", lhs), ("rhs", rhs)))
    numbers = _read_numbers(call, left, right, dimension_numbers)
    dtype = lnp.result_type(*[x.data if isinstance(x, BCOO) else x for x in (left, right)])
    dtype = np.dtype(dtype if preferred_element_type is None else preferred_element_type)
    if isinstance(left, BCOO):
        if isinstance(right, BCOO):
            return _dot_sparse(left, right, numbers, dtype)
        return _dot_dense(left, right, numbers=numbers, precision=precision, dtype=dtype)
    contracting, batch = numbers
    out = _dot_dense(right, left, numbers=(contracting[::-1], batch[::-1]), precision=precision, dtype=dtype)
    n, r = len(batch[0]), right.ndim - len(contracting[0]) - len(batch[0])
    return lnp.transpose(out, [*range(n), *range(n + r, out.ndim), *range(n, n + r)])


@fill_docstring(_ENTRIES)
def bcoo_dot_general_sampled(A: ArrayLike, B: ArrayLike, indices: ArrayLike, *, dimension_numbers: Any) -> Array:
    """Return some elements of a contraction of two dense arrays, without computing the others.

    Args:
      A, B: dense arrays.
      indices: integers `[*batch, nse, k]`: the elements, as in a BCOO whose batch dimensions are those of
        `dimension_numbers`.
      {dimension_numbers}
    Returns:
      An array `[*batch, nse, *rest]` of the elements, as the data of a BCOO. Elements outside of the result are 0.
    Raises:
      TypeError: an argument has another type.
      ShapeError: the sizes differ.
      NotImplementedError: `indices` has other batch dimensions.

    Source: JAX's function of this name.

    >>> x = np.arange(4.).reshape(2, 2)
    >>> bcoo_dot_general_sampled(x, x, np.array([[0, 1]]), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([3.], dtype=float32)
    """
    call = "bcoo_dot_general_sampled"
    a, b, at = lnp.asarray(A), lnp.asarray(B), lnp.asarray(indices)
    (ac, bc), (ab, bb) = _read_numbers(call, a, b, dimension_numbers)
    n = len(ab)
    if at.ndim != n + 2:
        raise NotImplementedError(f"{call}: indices must have the shape [*batch, nse, k] with {n} batch dimensions; "
                                  f"got "
                                  f"{tuple(at.shape)}")
    a_free, b_free = _free(a.ndim, ac, ab), _free(b.ndim, bc, bb)
    a, b = lnp.transpose(a, [*ab, *a_free, *ac]), lnp.transpose(b, [*bb, *b_free, *bc])
    k, i = at.shape[-1], len(a_free)
    if k > i + len(b_free):
        raise ShapeError(f"{call}: indices must have at most {i + len(b_free)} columns; got the shape "
                         f"{tuple(at.shape)}")
    c = len(ac)

    def sample(a: Value, b: Value, at: Value) -> Value:
        left, right = gather_rows(a, at[:, :i]), gather_rows(b, at[:, i:])
        m, k_left, k_right = len(left.shape) - c, min(k, i), max(k - i, 0)
        dims = (tuple(range(m, m + c)), tuple(range(len(right.shape) - c, len(right.shape))))
        if k_left < i:  # the index ends before the dimensions of A: the others, and B, are whole
            right = lnp.broadcast_to(b, (at.shape[0], *b.shape))
            dims = (dims[0], tuple(range(len(right.shape) - c, len(right.shape))))
        out = lax.dot_general(left, right, (dims, ((0,), (0,))))
        sizes = tuple(a.shape[:k_left]) + tuple(b.shape[:k_right])
        inside = is_stored(at, sizes)
        return lnp.where(lnp.expand_dims(inside, tuple(range(1, len(out.shape)))), out, lnp.zeros((), out.dtype))
    for _ in range(n):
        sample = vmap(sample)
    return sample(a, b, at)


def gather_dense(call: str, mat: BCOO, v: Value, fill: float = 0) -> Value:
    """Return the elements of `v`, broadcast to the shape of `mat`, at the entries: an array like `mat.data`."""
    if v.ndim > mat.ndim or any(n not in (1, m) for n, m in zip(v.shape[::-1], mat.shape[::-1], strict=False)):
        raise ShapeError(f"{call}: the dense operand must have a shape that broadcasts to {mat.shape}; got "
                         f"{tuple(v.shape)}. Use "
                         "todense() of the sparse one")
    if not v.ndim:
        return v
    v = lnp.reshape(v, (1,) * (mat.ndim - v.ndim) + tuple(v.shape))
    split = mat.ndim - mat.n_dense
    used = [a for a in range(split) if v.shape[a] != 1]
    if not used:
        return lnp.reshape(v, (1,) * (mat.n_batch + 1) + tuple(v.shape[split:]))
    if min(used) >= mat.n_batch and mat.n_batch:  # the same for all batches: broadcast indices stay as they are
        flat_indices = lnp.reshape(mat.indices, (math.prod(mat.indices.shape[:-1]), mat.n_sparse))
        batch = tuple(mat.indices.shape[:-2])
        columns = [a - mat.n_batch for a in used]
    else:
        flat = flatten_batch(mat)
        flat_indices, batch, columns = flat.indices, batch_shape(mat), used
    picked = lnp.reshape(v, [n for a, n in enumerate(v.shape) if a >= split or a in used])
    rows = gather_rows(picked, take_columns(flat_indices, columns), fill)
    return lnp.reshape(rows, (*batch, mat.nse, *rows.shape[1:]))


@fill_docstring(BCOO_ENTRIES)
def bcoo_multiply_dense(sp_mat: BCOO, v: ArrayLike) -> Array:
    """Multiply a sparse array by a dense one, elementwise.

    Args:
      sp_mat: a BCOO array.
      v: a dense array whose shape broadcasts to that of `sp_mat`.
    Returns:
      The data of the product, which has the indices of `sp_mat`.
    Raises:
      TypeError: an argument has another type.
      ShapeError: the shape of `v` does not broadcast.

    Source: JAX's function of this name.

    >>> bcoo_multiply_dense(BCOO.fromdense(np.array([0, 3])), np.array([5, 6]))
    Array([18], dtype=int32)
    """
    mat = check_bcoo("bcoo_multiply_dense", "sp_mat", sp_mat)
    return mat.data * gather_dense("bcoo_multiply_dense", mat, lnp.asarray(v))


@fill_docstring(BCOO_ENTRIES)
def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """Multiply two sparse arrays elementwise.

    Args:
      lhs, rhs: BCOO arrays of shapes that broadcast.
    Returns:
      A BCOO array. Outside of `jit` it stores the products that there are; under `jit` as many as there may be.
    Raises:
      TypeError: an argument has another type.
      ShapeError: the shapes do not broadcast.
      NotImplementedError: the numbers of dense dimensions differ.

    Source: JAX's function of this name.

    >>> x = BCOO.fromdense(np.array([0, 3]))
    >>> bcoo_multiply_sparse(x, x).todense()
    Array([0, 9], dtype=int32)
    """
    call = "bcoo_multiply_sparse"
    left, right = (merge_booleans(check_bcoo(call, name, x)) for name, x in (("lhs", lhs), ("rhs", rhs)))
    try:
        shape = np.broadcast_shapes(left.shape, right.shape)
    except ValueError:
        raise ShapeError(f"{call}: shapes must broadcast; got {left.shape} and {right.shape}") from None
    if left.n_dense != right.n_dense:
        raise NotImplementedError(f"{call}: operands must have the same number of dense dimensions; got "
                                  f"{left.n_dense} and "
                                  f"{right.n_dense}. Use update_layout(n_dense=0)")
    b = left.n_batch
    if not b or b != right.n_batch or left.shape[:b] != right.shape[:b] or left.ndim != right.ndim:
        return _multiply_flat(left, right, shape)
    if is_known(left, right):
        return bcoo_update_layout(_multiply_flat(left, right, shape), n_batch=b, on_inefficient=None)
    function: Any = bcoo_multiply_sparse
    for _ in range(b):
        function = vmap(function)
    return function(*[BCOO((expand(mat.data, batch_shape(mat)), expand(mat.indices, batch_shape(mat))), shape=mat.shape,
                           unique_indices=mat.unique_indices) for mat in (left, right)])


def _multiply_flat(left: BCOO, right: BCOO, shape: Dims) -> BCOO:
    """Multiply two arrays, whose shapes broadcast to `shape`, elementwise. The result has no batch dimensions."""
    left, right = flatten_batch(left), flatten_batch(right)
    left, right = (mat if mat.ndim == len(shape) else bcoo_reshape(mat, new_sizes=(1,) * (len(shape) - mat.ndim) + mat.shape)
                   for mat in (left, right))
    k = left.n_sparse
    from_right = [a for a in range(k) if left.shape[a] == 1 != right.shape[a]]  # the other dimensions: left, or equal
    keys = [a for a in range(k) if left.shape[a] == right.shape[a]]
    kept = [a for a in range(k) if a not in from_right]
    dtype = np.dtype(lnp.result_type(left.data, right.data))
    made = _join_arrays(left, right, keys, keys, kept, from_right, dtype)
    order = [[*kept, *from_right].index(a) for a in range(k)]
    return BCOO((made.data, take_columns(made.indices, order)), shape=shape[:k] + dense_shape(made),
                unique_indices=left.unique_indices and right.unique_indices)
