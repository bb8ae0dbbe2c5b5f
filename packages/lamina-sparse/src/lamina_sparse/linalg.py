"""Linear systems with sparse matrices."""
from __future__ import annotations

from importlib import import_module
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import custom_linear_solve
from lamina_ir import ShapeDtypeStruct
from lamina_ir.typing import Value
from lamina_tracing import Array, ArrayLike, pure_callback
from lamina_tracing.extend import typeof

from ._products import bcoo_dot_general
from ._types import BCOO, CSR

__all__ = ["spsolve"]


def _solve_on_host(data: Any, indices: Any, indptr: Any, b: Any, *, transpose: bool) -> Any:
    scipy = import_module("scipy.sparse")
    solve = import_module("scipy.sparse.linalg").spsolve
    n, work = b.shape[-1], np.result_type(data.dtype, np.float32)
    matrix = scipy.csr_matrix((data.astype(work), indices, indptr), shape=(n, n))
    matrix.sum_duplicates()
    return np.atleast_1d(solve((matrix.T if transpose else matrix).tocsc(), b.astype(work))).astype(b.dtype)


def _solve(data: Value, indices: Value, indptr: Value, b: Value, transpose: bool) -> Value:
    def run(*arrays: Any) -> Any:
        return _solve_on_host(*arrays, transpose=transpose)
    return pure_callback(run, ShapeDtypeStruct(b.shape, typeof(b).dtype), data, indices, indptr, b)


def spsolve(data: ArrayLike, indices: ArrayLike, indptr: ArrayLike, b: ArrayLike, tol: float = 1e-6, reorder: int = 1) -> Array:
    """Solve `A x = b` for a sparse square matrix in CSR format, with SciPy on the host.

    Args:
      data, indices, indptr: the matrix, as in `CSR`: vectors `[nse]`, `[nse]` and `[n + 1]`.
      b: the right-hand side `[n]`.
      tol, reorder: ignored; settings of another solver.
    Returns:
      The solution `[n]`.
    Raises:
      ModuleNotFoundError: SciPy is not installed.
      TypeError: indices are not integers.
      ValueError: the shapes do not fit.

    Derivatives: with respect to `data` and `b`, of any order, in both modes.
    Source: SciPy's `scipy.sparse.linalg.spsolve` (SuperLU). A singular matrix gives NaN or infinity, with its warning.

    >>> spsolve(np.array([2., 4.]), np.array([0, 1]), np.array([0, 1, 2]), np.array([1., 2.]))
    Array([0.5, 0.5], dtype=float32)
    """
    try:
        import_module("scipy.sparse")
    except ModuleNotFoundError:
        raise ModuleNotFoundError("spsolve: needs SciPy; install it with `pip install lamina-sparse[scipy]`",
                                  name="scipy") from None
    right = lnp.asarray(b)
    if right.ndim != 1:
        raise ValueError(f"spsolve: b must be a vector; got the shape {tuple(right.shape)}. Use vmap for several")
    n = right.shape[0]
    matrix = CSR((data, indices, indptr), shape=(n, n))
    dtype = np.dtype(lnp.result_type(matrix.data, right, np.float32))
    values, right = lnp.astype(matrix.data, dtype), lnp.astype(right, dtype)
    columns, ends = matrix.indices, matrix.indptr

    def matvec(x: Value) -> Value:
        mat: BCOO = CSR((values, columns, ends), shape=(n, n)).to_bcoo()
        return bcoo_dot_general(mat, x, dimension_numbers=(((1,), (0,)), ((), ())))
    return custom_linear_solve(matvec, right, lambda _, y: _solve(values, columns, ends, y, False),
                               lambda _, y: _solve(values, columns, ends, y, True))
