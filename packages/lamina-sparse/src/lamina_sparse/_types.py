"""The classes of sparse arrays. Each is a pytree: its arrays are the children, its shape and flags are static.

A BCOO array has `n_batch` batch dimensions, then `n_sparse` sparse ones, then `n_dense` dense ones. `data` has the shape
`[*batch, nse, *dense]`, `indices` has `[*batch, nse, n_sparse]`; a batch dimension may have size 1 in one of them. An entry
whose index is outside of the sparse shape is padding and counts as 0.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, ClassVar, Self, TypeVar

import lamina_numpy as lnp
import numpy as np
from lamina_ir import LaminaError, dtypes, trees
from lamina_ir.typing import Tree, Value
from lamina_tracing import Array, DTypeLike
from lamina_tracing.extend import typeof
from typing_extensions import override

__all__ = ["BCOO", "BCSR", "COO", "CSC", "CSR", "CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError",
           "SparseEfficiencyWarning", "check_bcoo", "check_sizes"]

_S = TypeVar("_S", bound="JAXSparse")


class SparseEfficiencyError(LaminaError, ValueError):
    """A change of layout would store many more elements than before.

    Fix: keep the layout, or pass `on_inefficient="warn"` or None.
    """

    code: ClassVar[str] = "LAM1703"


class SparseEfficiencyWarning(UserWarning):
    """An operation on a sparse array is correct but inefficient."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """Never given; the name exists so that programs can filter it."""


def check_sizes(call: str, name: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return sizes as a tuple of ints, or raise."""
    try:
        found = tuple([operator.index(n) for n in sizes])
    except TypeError:
        raise TypeError(f"{call}: {name} must be a sequence of integers; got {sizes!r:.60}") from None
    if any(n < 0 for n in found):
        raise ValueError(f"{call}: {name} must not be negative; got {found}")
    return found


def check_bcoo(call: str, name: str, mat: Any) -> BCOO:
    """Return `mat` if it is a BCOO, or raise."""
    if not isinstance(mat, BCOO):
        fix = "Use its method to_bcoo()" if isinstance(mat, JAXSparse) else "Use BCOO.fromdense"
        raise TypeError(f"{call}: {name} must be a BCOO; got {type(mat).__name__}. {fix}")
    return mat


def _to_array(call: str, name: str, x: Any) -> Any:
    if isinstance(x, JAXSparse):
        raise TypeError(f"{call}: {name} must be a dense array; got {type(x).__name__}")
    return lnp.asarray(x)


def _to_indices(call: str, name: str, x: Any) -> Any:
    made = _to_array(call, name, x)
    if not dtypes.is_integer(typeof(made).dtype):
        raise TypeError(f"{call}: {name} must be an array of integers; got {typeof(made).str_long()}. Use "
                        f"astype('int32')")
    if isinstance(x, (np.ndarray, list, tuple)) and np.size(x) and np.min(x) < 0:
        raise ValueError(f"{call}: {name} must not be negative; got {np.min(x)}. Entries past the end are padding")
    return made


def _methods() -> Any:
    return import_module(f"{__package__}._methods")  # it needs these classes


class JAXSparse:
    """Base class of the sparse arrays.

    Attributes:
      shape: the shape of the array.
    """

    data: Array
    shape: tuple[int, ...]
    __array_ufunc__: ClassVar[None] = None  # NumPy's operators leave the operation to this class
    __array_priority__: ClassVar[int] = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, args: tuple[Any, ...], *, shape: Sequence[int]) -> None:
        self.shape = check_sizes(type(self).__name__, "shape", shape)

    # --- facts ---
    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    @property
    def nse(self) -> int:
        """The number of stored elements (of one batch)."""
        raise NotImplementedError

    @override
    def __repr__(self) -> str:
        parts = [f"{self.dtype}{list(self.shape)}", f"nse={self.nse}"]
        parts += [f"{name}={n}" for name in ("n_batch", "n_dense") if (n := getattr(self, name, 0))]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len of a sparse array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise TypeError(f"the truth value of {self!r} is not defined; use bool(x.todense().any())")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError(f"{self!r} is sparse; use its method todense()")

    # --- conversions ---
    def to_bcoo(self) -> BCOO:
        """Return the array as a BCOO."""
        raise NotImplementedError

    def _arrays(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _flags(self) -> dict[str, Any]:
        return {}

    def replace_data(self, data: Value) -> Self:
        """Return an array with the same indices and other stored elements."""
        return self.tree_unflatten(self.tree_flatten()[1], (data, *self._arrays()[1:]))

    def todense(self) -> Array:
        """Return the dense array."""
        return _methods().bcoo_todense(self.to_bcoo())

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the array with another dtype."""
        return _methods().astype(self, dtype)

    def block_until_ready(self) -> Self:
        """Wait until the arrays are computed."""
        for x in self._arrays():
            if hasattr(x, "block_until_ready"):
                x.block_until_ready()
        return self

    # --- functions ---
    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Sum over all axes (a dense scalar), or over some (a sparse array)."""
        return _methods().sum_axes(self.to_bcoo(), axis, keepdims)

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """Permute the axes; by default reverse them."""
        return _methods().transpose(self, axes)

    @property
    def T(self) -> Any:
        return self.transpose()

    def reshape(self, *shape: Any) -> Any:
        """Return the same elements in another shape; one size may be -1."""
        return _methods().reshape(self.to_bcoo(), shape)

    def __getitem__(self, index: Any) -> Any:
        return _methods().getitem(self.to_bcoo(), index)

    def __neg__(self) -> Self:
        return self.replace_data(-self.data)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Any:
        return _methods().map_stored(lnp.abs, self)

    def __pow__(self, exponent: Any) -> Any:
        return _methods().power(self, exponent)

    def __matmul__(self, other: Any) -> Any:
        return _methods().matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _methods().matmul(other, self)

    def __mul__(self, other: Any) -> Any:
        return _methods().multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _methods().divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _methods().divide(other, self)

    def __add__(self, other: Any) -> Any:
        return _methods().add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _methods().subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return _methods().subtract(other, self)

    def _compare(self, other: Any) -> Any:
        raise NotImplementedError(f"comparison of {self!r}: the result would be dense. Use todense() first")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compare

    # --- pytree ---
    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return self._arrays(), (self.shape, tuple(self._flags().items()))

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Sequence[Tree]) -> Self:
        return _make(cls, children, aux[0], dict(aux[1]))


def _make(cls: type[_S], arrays: Sequence[Any], shape: tuple[int, ...], flags: dict[str, Any]) -> _S:
    """Make a sparse array without checks: in a pytree the children may be anything."""
    made = object.__new__(cls)
    made.shape = shape
    for name, value in (*zip(cls._fields, arrays, strict=True), *flags.items()):  # type: ignore[attr-defined]
        setattr(made, name, value)
    return made


def _adapt_shape(shape: tuple[int, ...], n_batch: int, ranks: list[int], arrays: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape of an array whose children lost or got leading batch dimensions: `vmap`, `pmap` and `scan` map
    the children. `ranks` are the expected numbers of dimensions."""
    sizes = [getattr(x, "shape", None) for x in arrays]
    if any(not isinstance(s, tuple) for s in sizes):
        return shape
    change = {len(s) - rank for s, rank in zip(sizes, ranks, strict=True) if s is not None}
    more = change.pop()
    if not more or change or n_batch + more < 0:
        return shape
    try:
        batch = np.broadcast_shapes(*[s[:n_batch + more] for s in sizes if s is not None])
    except ValueError:
        return shape
    return batch + shape[n_batch:]


class BCOO(JAXSparse):
    """Batched array in coordinate format.

    Args:
      args: `(data, indices)`.
      shape: the shape of the dense array.
      indices_sorted: whether the indices of each batch are in lexicographic order.
      unique_indices: whether no two entries of a batch have the same index; padding may repeat.
    Raises:
      TypeError: `indices` is not an array of integers, or an argument is not an array.
      ValueError: the shapes do not fit, or an index is negative.

    >>> import numpy as np
    >>> BCOO((np.array([1., 2.]), np.array([[0, 1], [2, 0]])), shape=(3, 2)).todense()
    Array([[0., 1.],
           [0., 0.],
           [2., 0.]], dtype=float32)
    """

    indices: Array
    indices_sorted: bool
    unique_indices: bool
    _fields = ("data", "indices")
    _layout: tuple[int, int]  # n_batch and the rank of data, also while the children are not arrays

    def __init__(self, args: tuple[Any, Any], *, shape: Sequence[int], indices_sorted: bool = False,
                 unique_indices: bool = False) -> None:
        super().__init__(args, shape=shape)
        if not isinstance(args, (tuple, list)) or len(args) != 2:
            raise ValueError(f"BCOO: args must be the pair (data, indices); got {type(args).__name__}")
        self.data, self.indices = _to_array("BCOO", "data", args[0]), _to_indices("BCOO", "indices", args[1])
        self._check()
        self._layout = (self.n_batch, len(self.data.shape))
        # without sparse dimensions no index marks padding: several entries have one index
        self.indices_sorted = bool(indices_sorted)
        self.unique_indices = bool(unique_indices) and (self.n_sparse > 0 or self.nse <= 1)

    def _check(self) -> None:
        data, indices = tuple(self.data.shape), tuple(self.indices.shape)
        what = f"got data of shape {data}, indices of shape {indices} and shape={self.shape}"
        if len(indices) < 2:
            raise ValueError(f"BCOO: indices must have the shape [*batch, nse, n_sparse]; {what}")
        b = self.n_batch
        if len(data) <= b or b + self.n_sparse > self.ndim or len(data) != self.ndim - self.n_sparse + 1:
            raise ValueError(f"BCOO: data must have the shape [*batch, nse, *dense] for indices [*batch, nse, "
                             f"n_sparse]; {what}")
        if data[b] != indices[b] or data[b + 1:] != self.shape[b + self.n_sparse:]:
            raise ValueError(f"BCOO: data and indices must have the same nse, and data the dense sizes of the shape; "
                             f"{what}")
        largest = np.iinfo(self.indices.dtype).max
        if max(self.shape[b:b + self.n_sparse], default=0) > largest:
            raise ValueError(f"BCOO: indices of dtype {self.indices.dtype.name} hold sizes up to {largest}; got "
                             f"shape={self.shape}. Use a larger index dtype; int64 needs enable_x64")
        if any(n not in (1, s) or m not in (1, s) for n, m, s in zip(data, indices, self.shape[:b], strict=False)):
            raise ValueError(f"BCOO: batch dimensions must have the sizes of the shape, or 1; {what}")
        if b and np.broadcast_shapes(data[:b], indices[:b]) != self.shape[:b]:
            self.data = lnp.broadcast_to(self.data, self.shape[:b] + data[b:])

    @property
    @override
    def nse(self) -> int:
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        n = len(self.indices.shape) - 2
        if n < 0:
            raise ValueError(f"BCOO: vmap, pmap and scan map leading batch dimensions of a BCOO; the one of shape "
                             f"{self.shape} "
                             "had none. Use update_layout(n_batch=1)")
        return n

    @property
    def n_sparse(self) -> int:
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        return len(self.data.shape) - 1 - self.n_batch

    @override
    def to_bcoo(self) -> BCOO:
        return self

    @override
    def _arrays(self) -> tuple[Any, ...]:
        return self.data, self.indices

    @override
    def _flags(self) -> dict[str, Any]:
        return {"indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}

    @override
    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return self._arrays(), (self.shape, tuple(self._flags().items()), self._layout)

    @classmethod
    @override
    def tree_unflatten(cls, aux: Any, children: Sequence[Tree]) -> Self:
        shape, flags, (n_batch, rank) = aux
        adapted = _adapt_shape(shape, n_batch, [rank, n_batch + 2], children)
        more = len(adapted) - len(shape)
        return _make(cls, children, adapted, {**dict(flags), "_layout": (n_batch + more, rank + more)})

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: DTypeLike = np.int32, n_dense: int = 0,
                  n_batch: int = 0) -> BCOO:
        """As `bcoo_fromdense`."""
        return _methods().bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """Convert a sparse matrix or array of SciPy, without batch or dense dimensions."""
        return _methods().from_scipy_sparse(mat, index_dtype, n_dense, n_batch)

    def update_layout(self, *, n_batch: int | None = None, n_dense: int | None = None,
                      on_inefficient: str | None = "error") -> BCOO:
        """As `bcoo_update_layout`."""
        return _methods().bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """As `bcoo_sum_duplicates`; `remove_zeros` also removes stored zeros."""
        return _methods().sum_duplicates(self, nse, remove_zeros)

    def sort_indices(self) -> BCOO:
        """As `bcoo_sort_indices`."""
        return _methods().bcoo_sort_indices(self)


class BCSR(JAXSparse):
    """Batched array in compressed row format: two sparse dimensions between batch and dense ones.

    Args:
      args: `(data, indices, indptr)` of the shapes `[*batch, nse, *dense]`, `[*batch, nse]` and `[*batch, rows + 1]`: row
        i has the entries from `indptr[i]` to `indptr[i + 1]`, whose columns are in `indices`. Entries from
        `indptr[-1]` on are padding.
      shape: the shape of the dense array.
      indices_sorted, unique_indices: as in `BCOO`.
    Raises:
      TypeError: indices are not integers, or an argument is not an array.
      ValueError: the shapes do not fit, or an index is negative.

    >>> import numpy as np
    >>> BCSR((np.array([1., 2.]), np.array([1, 0]), np.array([0, 1, 2])), shape=(2, 2)).todense()
    Array([[0., 1.],
           [2., 0.]], dtype=float32)
    """

    indices: Array
    indptr: Array
    indices_sorted: bool
    unique_indices: bool
    _fields = ("data", "indices", "indptr")
    _batch: int  # n_batch, also while the children are not arrays

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int], indices_sorted: bool = False,
                 unique_indices: bool = False) -> None:
        super().__init__(args, shape=shape)
        if not isinstance(args, (tuple, list)) or len(args) != 3:
            raise ValueError(f"BCSR: args must be (data, indices, indptr); got {type(args).__name__}")
        self.data = _to_array("BCSR", "data", args[0])
        self.indices, self.indptr = (_to_indices("BCSR", n, x) for n, x in zip(("indices", "indptr"), args[1:], strict=True))
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        data, indices, indptr = (tuple(x.shape) for x in self._arrays())
        b = len(indices) - 1
        want = (*self.shape[:b], indices[-1] if indices else 0, *self.shape[b + 2:])
        if b < 0 or self.ndim < b + 2 or data != want or indices != want[:b + 1] or (
                indptr != (*self.shape[:b], self.shape[b] + 1)):
            raise ValueError("BCSR: data, indices and indptr must have the shapes [*batch, nse, *dense], [*batch, "
                             "nse] and "
                             f"[*batch, rows + 1]; got {data}, {indices} and {indptr} with shape={self.shape}")
        self._batch = b

    @property
    @override
    def nse(self) -> int:
        return self.indices.shape[-1]

    @property
    def n_batch(self) -> int:
        return len(self.indices.shape) - 1

    @property
    def n_sparse(self) -> int:
        return 2

    @property
    def n_dense(self) -> int:
        return len(self.data.shape) - 1 - self.n_batch

    @override
    def to_bcoo(self) -> BCOO:
        return _methods().bcsr_to_bcoo(self)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """Convert a BCOO with two sparse dimensions."""
        return _methods().bcsr_from_bcoo(arr)

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: DTypeLike = np.int32, n_dense: int = 0,
                  n_batch: int = 0) -> BCSR:
        """As `bcsr_fromdense`."""
        return _methods().bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """Convert a sparse matrix of SciPy."""
        return cls.from_bcoo(_methods().from_scipy_sparse(mat, index_dtype, n_dense, n_batch))

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """As `bcsr_sum_duplicates`; `remove_zeros` also removes stored zeros."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    @override
    def _arrays(self) -> tuple[Any, ...]:
        return self.data, self.indices, self.indptr

    @override
    def _flags(self) -> dict[str, Any]:
        return {"indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}

    @override
    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return self._arrays(), (self.shape, tuple(self._flags().items()), self._batch)

    @classmethod
    @override
    def tree_unflatten(cls, aux: Any, children: Sequence[Tree]) -> Self:
        shape, flags, n_batch = aux
        adapted = _adapt_shape(shape, n_batch, [len(shape) - 1, n_batch + 1, n_batch + 1], children)
        return _make(cls, children, adapted, {**dict(flags), "_batch": n_batch + len(adapted) - len(shape)})


class _Matrix(JAXSparse):
    """A sparse matrix of three vectors."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int]) -> None:
        super().__init__(args, shape=shape)
        name = type(self).__name__
        if not isinstance(args, (tuple, list)) or len(args) != 3:
            raise ValueError(f"{name}: args must be ({', '.join(self._fields)}); got {type(args).__name__}")
        self.data = _to_array(name, "data", args[0])
        for field, x in zip(self._fields[1:], args[1:], strict=True):
            setattr(self, field, _to_indices(name, field, x))
        sizes = [tuple(x.shape) for x in self._arrays()]
        nse = sizes[0]
        if self.ndim != 2 or len(nse) != 1 or sizes != [nse, nse, self._last_shape(nse)]:
            raise ValueError(f"{name}: expected a matrix and vectors {', '.join(self._fields)} that fit it; got shapes "
                             f"{', '.join(map(str, sizes))} and shape={self.shape}")

    def _last_shape(self, nse: tuple[int, ...]) -> tuple[int, ...]:
        return nse

    @property
    @override
    def nse(self) -> int:
        return self.data.shape[0]

    @override
    def _arrays(self) -> tuple[Any, ...]:
        return tuple([getattr(self, field) for field in self._fields])

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> Self:
        """Convert a dense matrix."""
        return _methods().matrix_from_bcoo(cls, BCOO.fromdense(mat, nse=nse, index_dtype=index_dtype))

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike | None = None) -> Self:
        """Convert a sparse matrix of SciPy."""
        return _methods().matrix_from_bcoo(cls, BCOO.from_scipy_sparse(mat, index_dtype=index_dtype))


class COO(_Matrix):
    """Matrix in coordinate format: `args` are `(data, row, col)`, vectors of length nse.

    >>> import numpy as np
    >>> COO((np.array([1., 2.]), np.array([0, 1]), np.array([1, 0])), shape=(2, 2)).T.todense()
    Array([[0., 2.],
           [1., 0.]], dtype=float32)
    """

    row: Array
    col: Array
    _fields = ("data", "row", "col")

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int], rows_sorted: bool = False,
                 cols_sorted: bool = False) -> None:
        super().__init__(args, shape=shape)
        self.rows_sorted, self.cols_sorted = bool(rows_sorted), bool(cols_sorted)

    @override
    def _flags(self) -> dict[str, Any]:
        return {"rows_sorted": self.rows_sorted, "cols_sorted": self.cols_sorted}

    @override
    def to_bcoo(self) -> BCOO:
        return BCOO((self.data, lnp.stack([self.row, self.col], 1)), shape=self.shape)


class CSR(_Matrix):
    """Matrix in compressed row format: `args` are `(data, indices, indptr)`, as in `BCSR`.

    >>> import numpy as np
    >>> CSR((np.array([1., 2.]), np.array([1, 0]), np.array([0, 1, 2])), shape=(2, 2)).T
    CSC(float32[2, 2], nse=2)
    """

    indices: Array
    indptr: Array
    _fields = ("data", "indices", "indptr")

    @override
    def _last_shape(self, nse: tuple[int, ...]) -> tuple[int, ...]:
        return (self.shape[0] + 1,)

    @override
    def to_bcoo(self) -> BCOO:
        return _methods().bcsr_to_bcoo(BCSR(self._arrays(), shape=self.shape))


class CSC(_Matrix):
    """Matrix in compressed column format: the transpose has these `(data, indices, indptr)` as a `CSR`.

    >>> import numpy as np
    >>> CSC((np.array([1., 2.]), np.array([1, 0]), np.array([0, 1, 2])), shape=(2, 2)).todense()
    Array([[0., 2.],
           [1., 0.]], dtype=float32)
    """

    indices: Array
    indptr: Array
    _fields = ("data", "indices", "indptr")

    @override
    def _last_shape(self, nse: tuple[int, ...]) -> tuple[int, ...]:
        return (self.shape[1] + 1,)

    @override
    def to_bcoo(self) -> BCOO:
        return CSR(self._arrays(), shape=self.shape[::-1]).to_bcoo().transpose()


for _class in (BCOO, BCSR, COO, CSR, CSC):
    trees.register_pytree_node(_class, operator.methodcaller("tree_flatten"), _class.tree_unflatten)
