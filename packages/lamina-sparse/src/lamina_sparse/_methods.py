"""What the operators and methods of sparse arrays compute; `_types` imports it when one is called."""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_tracing import lax
from lamina_tracing.extend import Tracer, typeof

from ._bcoo import (bcoo_fromdense, bcoo_sort_indices, bcoo_sum_duplicates, bcoo_todense, bcoo_update_layout, from_scipy_sparse,
                    sum_duplicates)
from ._compressed import bcsr_from_bcoo, bcsr_fromdense, bcsr_to_bcoo, matrix_from_bcoo
from ._entries import flatten_batch, is_stored, mask_padding, scatter_rows, sparse_shape
from ._products import bcoo_dot_general, bcoo_multiply_sparse, gather_dense
from ._shape import (bcoo_broadcast_in_dim, bcoo_dynamic_slice, bcoo_gather, bcoo_reduce_sum, bcoo_reshape,
                     bcoo_rev, bcoo_slice, bcoo_squeeze, bcoo_transpose)
from ._types import BCOO, BCSR, COO, CSC, CSR, JAXSparse

__all__ = ["add", "astype", "bcoo_fromdense", "bcoo_sort_indices", "bcoo_todense", "bcoo_update_layout", "bcsr_from_bcoo",
           "bcsr_fromdense", "bcsr_to_bcoo", "divide", "from_scipy_sparse", "getitem", "map_stored", "matmul",
           "matrix_from_bcoo", "multiply", "power", "reshape", "subtract", "sum_axes", "sum_duplicates", "transpose"]

def _to_operand(x: Any) -> Any:
    """Return the array of a dense operand, or NotImplemented."""
    return lnp.asarray(x) if isinstance(x, (int, float, complex, np.ndarray, np.generic)) or hasattr(x, "aval") or (
        hasattr(x, "dtype") and hasattr(x, "shape")) else NotImplemented

def matmul(a: Any, b: Any) -> Any:
    """`a @ b`, of which one is sparse."""
    left, right = (x.to_bcoo() if isinstance(x, JAXSparse) else _to_operand(x) for x in (a, b))
    if left is NotImplemented or right is NotImplemented:
        return NotImplemented
    m, n = left.ndim, right.ndim
    if not m or not n:
        raise ValueError("matmul: operands must have at least 1 dimension; use * to multiply by a number")
    contracting = (m - 1,), (max(n - 2, 0),)
    batch = min(m - 2, n - 2)
    if m > 2 and n > 2 and (m != n or left.shape[:batch] != right.shape[:batch]):
        raise NotImplementedError(f"matmul: batch dimensions must be equal; got operands of shapes "
                                  f"{tuple(left.shape)} and "
                                  f"{tuple(right.shape)}. Use bcoo_broadcast_in_dim first")
    dims = tuple(range(batch)) if m > 2 and n > 2 else ()
    if left.shape[-1] != right.shape[contracting[1][0]]:
        raise ShapeError(f"matmul: the last dimension of the left operand must be as large as dimension "
                         f"{contracting[1][0]} of the "
                         f"right one; got operands of shapes {tuple(left.shape)} and {tuple(right.shape)}")
    out = bcoo_dot_general(left, right, dimension_numbers=(contracting, (dims, dims)))
    if n > 2 and not dims and m > 1:  # [left free (m - 1), right batch, columns]
        order = [*range(m - 1, m - 1 + n - 2), *range(m - 1), m + n - 3]
        out = out.transpose(order) if isinstance(out, JAXSparse) else lnp.transpose(out, order)
    return out

def multiply(mat: Any, other: Any) -> Any:
    """`mat * other` for a sparse `mat`."""
    if isinstance(other, JAXSparse):
        return bcoo_multiply_sparse(mat.to_bcoo(), other.to_bcoo())
    v = other if isinstance(other, (int, float, complex)) else _to_operand(other)
    if v is NotImplemented:
        return v
    mat = unique(mat) if dtypes.is_bool(mat.dtype) else mat
    if not np.ndim(v):
        return mat.replace_data(mat.data * v)
    bcoo = mat.to_bcoo()
    return bcoo.replace_data(bcoo.data * gather_dense("multiply", bcoo, v))

def divide(mat: Any, other: Any) -> Any:
    """`mat / other`; only a sparse array divided by a dense one is sparse."""
    if isinstance(other, JAXSparse):
        raise NotImplementedError("divide: division by a sparse array has a dense result. Use todense() of it")
    v = other if isinstance(other, (int, float, complex)) else _to_operand(other)
    if v is NotImplemented:
        return v
    mat = unique(mat) if dtypes.is_bool(mat.dtype) else mat
    if not np.ndim(v):
        return mat.replace_data(mat.data / v)
    bcoo = mat.to_bcoo()
    return bcoo.replace_data(bcoo.data / gather_dense("divide", bcoo, v, fill=1))

def add(a: Any, b: Any) -> Any:
    """`a + b`: sparse if both are, otherwise dense."""
    if isinstance(a, JAXSparse) and isinstance(b, JAXSparse):
        return _add_sparse(a.to_bcoo(), b.to_bcoo())
    mat, dense = (a, b) if isinstance(a, JAXSparse) else (b, a)
    dense = _to_operand(dense)
    if dense is NotImplemented:
        return dense
    if tuple(dense.shape) != mat.shape:
        raise NotImplementedError(f"add: a dense operand must have the shape {mat.shape} of the sparse one; got "
                                  f"{tuple(dense.shape)}. "
                                  "The result would be dense: use todense() first if that is intended")
    flat = flatten_batch(unique(mat).to_bcoo() if dtypes.is_bool(mat.dtype) else mat.to_bcoo())
    dtype = lnp.result_type(mat.data, dense)
    sizes = sparse_shape(flat)
    if not sizes or dtypes.is_bool(np.dtype(dtype)):
        return bcoo_todense(flat) + dense
    data, indices = mask_padding(flat.data, flat.indices, is_stored(flat.indices, sizes), sizes)
    return lnp.astype(dense, dtype) + scatter_rows(sizes, indices, lnp.astype(data, dtype))

def subtract(a: Any, b: Any) -> Any:
    """`a - b`: sparse if both are, otherwise dense."""
    operands = [x if isinstance(x, JAXSparse) else _to_operand(x) for x in (a, b)]
    if any(x is NotImplemented for x in operands):
        return NotImplemented
    dtype = np.dtype(lnp.result_type(*[x.data if isinstance(x, JAXSparse) else x for x in operands]))
    left, right = (x.astype(dtype) for x in operands)  # before the sign changes: unsigned integers wrap
    return add(left, -right)


def _add_sparse(a: BCOO, b: BCOO) -> BCOO:
    if a.shape != b.shape:
        raise ShapeError(f"add: sparse operands must have one shape; got {a.shape} and {b.shape}. Use "
                         f"bcoo_broadcast_in_dim first")
    if a.n_dense != b.n_dense:
        raise NotImplementedError(f"add: operands must have the same number of dense dimensions; got {a.n_dense} and "
                                  f"{b.n_dense}. "
                                  "Use update_layout(n_dense=0)")
    n_batch = min(a.n_batch, b.n_batch)
    a, b = flatten_batch(a, n_batch), flatten_batch(b, n_batch)
    dtype = lnp.result_type(a.data, b.data)
    lead = a.shape[:n_batch]
    parts = []
    for mat in (a, b):
        parts.append((lnp.broadcast_to(lnp.astype(mat.data, dtype), lead + mat.data.shape[n_batch:]),
                      lnp.broadcast_to(mat.indices, lead + mat.indices.shape[n_batch:])))
    data, indices = (lnp.concatenate(list(x), n_batch) for x in zip(*parts, strict=True))
    made = BCOO((data, indices), shape=a.shape)
    return bcoo_sum_duplicates(made, nse=made.nse) if dtypes.is_bool(np.dtype(dtype)) else made

def unique(mat: JAXSparse) -> JAXSparse:
    """Return the array with one entry for each index, for functions of elements that are not linear."""
    if getattr(mat, "unique_indices", False):
        return mat
    bcoo = mat.to_bcoo()
    bcoo = bcoo_sum_duplicates(bcoo, nse=bcoo.nse)
    if isinstance(mat, BCSR):
        return bcsr_from_bcoo(bcoo)
    return bcoo if isinstance(mat, BCOO) else matrix_from_bcoo(type(mat), bcoo)


def astype(mat: JAXSparse, dtype: Any) -> JAXSparse:
    """Convert the elements. Entries of one index are added before if the conversion is not linear."""
    to, given = dtypes.canonicalize(dtype), np.dtype(mat.dtype)
    is_linear = to == given or dtypes.is_inexact(to) and not dtypes.is_bool(given)
    mat = mat if is_linear else unique(mat)
    return mat.replace_data(lnp.astype(mat.data, to))

def map_stored(function: Callable[..., Any], mat: JAXSparse) -> JAXSparse:
    """Apply an elementwise function with `f(0) = 0` to the elements."""
    mat = unique(mat)
    return mat.replace_data(function(mat.data))

def power(mat: JAXSparse, exponent: Any) -> JAXSparse:
    """`mat ** exponent` for a positive number."""
    if not isinstance(exponent, (int, float)) or exponent <= 0:
        raise NotImplementedError(f"power: the exponent of a sparse array must be a positive number, otherwise the "
                                  f"result is dense; "
                                  f"got {exponent!r:.60}. Use todense() first")
    return map_stored(lambda data: data ** exponent, mat)

def sum_axes(mat: BCOO, axis: Any, keepdims: bool = False) -> Any:
    """`mat.sum(axis)`: dense if no dimensions are left."""
    if dtypes.is_bool(mat.dtype) or dtypes.is_integer(mat.dtype):
        mat = astype(mat, lnp.sum(lnp.zeros(1, mat.dtype)).dtype).to_bcoo()
    axes = range(mat.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    out = bcoo_reduce_sum(mat, axes=tuple(axes))
    if keepdims:
        kept = [a for a in range(mat.ndim) if a not in [int(a) % mat.ndim for a in axes]]
        return bcoo_reshape(out, new_sizes=[n if a in kept else 1 for a, n in enumerate(mat.shape)])
    return out if out.ndim else bcoo_todense(out)

def transpose(mat: JAXSparse, axes: Sequence[int] | None) -> Any:
    """`mat.transpose(axes)` in the format of the array; CSR becomes CSC."""
    if isinstance(mat, (BCOO, BCSR)):
        order = tuple(range(mat.ndim))[::-1] if axes is None else tuple(axes)
        out = bcoo_transpose(mat.to_bcoo(), permutation=order)
        return out if isinstance(mat, BCOO) else bcsr_from_bcoo(out)
    if axes is not None and tuple(a % 2 for a in axes) == (0, 1):
        return mat
    shape = mat.shape[::-1]
    if isinstance(mat, COO):
        return COO((mat.data, mat.col, mat.row), shape=shape, rows_sorted=mat.cols_sorted, cols_sorted=mat.rows_sorted)
    assert isinstance(mat, (CSR, CSC))
    return (CSC if isinstance(mat, CSR) else CSR)((mat.data, mat.indices, mat.indptr), shape=shape)

def reshape(mat: BCOO, shape: Sequence[Any]) -> BCOO:
    """`mat.reshape(*shape)`; one size may be -1."""
    sizes = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)
    if sizes.count(-1) == 1:
        known = int(np.prod([n for n in sizes if n != -1], dtype=np.int64))
        if not known or mat.size % known:
            raise ValueError(f"reshape: sizes must divide the {mat.size} elements; got {tuple(sizes)}")
        sizes[sizes.index(-1)] = mat.size // known
    return bcoo_reshape(mat, new_sizes=sizes)

def _parse_index(index: Any, ndim: int) -> list[Any]:
    """Return an entry for each dimension, and a None for each new one."""
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum(1 for item in items if item is not None and not isinstance(item, EllipsisType))
    dots = [i for i, item in enumerate(items) if isinstance(item, EllipsisType)]
    if used > ndim or len(dots) > 1:
        raise IndexError(f"sparse array of {ndim} dimensions: too many indices; got {index!r:.60}")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * (ndim - used), *items[at + 1:]]

def getitem(mat: BCOO, index: Any) -> Any:
    """`mat[index]` for integers, slices, None, `...` and one vector of integers."""
    items = _parse_index(index, mat.ndim)
    axis, squeezed = 0, []
    for item in items:
        if item is None:
            continue
        if isinstance(item, slice):
            mat = _slice_axis(mat, axis, item)
        elif isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            i, n = operator.index(item), mat.shape[axis]
            if not -n <= i < n:
                raise IndexError(f"sparse array: index {i} must be within the size {n} of dimension {axis}")
            mat = _slice_axis(mat, axis, slice(i % n, i % n + 1))
            squeezed.append(axis)
        else:
            vector = lnp.asarray(item) if not isinstance(item, (str, list)) else None
            if vector is None or not dtypes.is_integer(typeof(vector).dtype) or vector.ndim > 1:
                raise TypeError("sparse array: an index must consist of integers, slices, None, ... and one vector of "
                                "integers; got "
                                f"{item!r:.60}. Use todense()[...]")
            mat, is_scalar = _take_axis(mat, axis, vector)
            squeezed += [axis] if is_scalar else []
        axis += 1
    mat = bcoo_squeeze(mat, dimensions=squeezed) if squeezed else mat
    kept = [item for item in items if item is None or isinstance(item, slice) or getattr(item, "ndim", 0) == 1]
    if None in [x if x is None else 0 for x in kept]:
        places = [i for i, item in enumerate(kept) if item is not None]
        sizes = iter(mat.shape)
        shape = [1 if item is None else next(sizes) for item in kept]
        mat = bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=places)
    return mat

def _take_axis(mat: BCOO, axis: int, vector: Any) -> tuple[BCOO, bool]:
    """Select indices of one axis that are an array, perhaps traced."""
    n = mat.shape[axis]
    vector = lnp.where(vector < 0, vector + n, vector)
    if not vector.ndim:
        sizes = [1 if a == axis else m for a, m in enumerate(mat.shape)]
        return bcoo_dynamic_slice(mat, [vector if a == axis else 0 for a in range(mat.ndim)], sizes), True
    if not isinstance(vector, Tracer) and vector.size and not 0 <= int(lnp.min(vector)) <= int(lnp.max(vector)) < n:
        raise IndexError(f"sparse array: indices must be within the size {n} of dimension {axis}")
    numbers = lax.GatherDimensionNumbers(tuple(range(1, mat.ndim)), (axis,), (axis,))
    out = bcoo_gather(mat, vector[:, None], numbers, [1 if a == axis else m for a, m in enumerate(mat.shape)], mode="clip")
    return bcoo_transpose(out, permutation=[*range(1, axis + 1), 0, *range(axis + 1, mat.ndim)]), False

def _slice_axis(mat: BCOO, axis: int, item: slice) -> BCOO:
    start, stop, step = item.indices(mat.shape[axis])
    if step < 0:
        count = len(range(start, stop, step))
        start, stop, step, is_reversed = start + (count - 1) * step, start + 1, -step, True
        start, stop = (0, 0) if not count else (start, stop)
    else:
        stop, is_reversed = max(stop, start), False
    if (start, stop, step) != (0, mat.shape[axis], 1):
        mat = bcoo_slice(mat, start_indices=[start if a == axis else 0 for a in range(mat.ndim)],
                         limit_indices=[stop if a == axis else n for a, n in enumerate(mat.shape)],
                         strides=[step if a == axis else 1 for a in range(mat.ndim)])
    return bcoo_rev(mat, (axis,)) if is_reversed else mat
