"""What the functions of this module share: matrices checked and made float, adjoints, products in full precision."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_numpy.extend import to_inexact
from lamina_tracing import lax
from lamina_tracing.extend import typeof

__all__ = ["adjoint", "diagonal", "make_diagonal", "mm", "promote_all", "to_matrices", "triangle"]


def to_matrices(call: str, a: Any, square: bool = False, argument: str = "a") -> Any:
    """`a` in a float dtype that factorisations have: half precision goes through float32."""
    a = to_inexact(call, lnp.asarray(a) if isinstance(a, (list, tuple)) else a)
    t = typeof(a)
    if len(t.shape) < 2:
        raise ShapeError(f"{call}: expected matrices in the last two axes of {argument}; got {t.str_long()}")
    if square and t.shape[-1] != t.shape[-2]:
        raise ShapeError(f"{call}: expected square matrices in the last two axes of {argument}; got {t.str_long()}")
    return lnp.asarray(a, np.float32 if t.dtype.itemsize < 4 else t.dtype)


def promote_all(call: str, *xs: Any) -> list[Any]:
    """Arrays in one float dtype that factorisations have; their shapes stay."""
    xs = tuple(to_inexact(call, lnp.asarray(x) if isinstance(x, (list, tuple)) else x) for x in xs)
    d, _ = dtypes.promote(*[(typeof(x).dtype, typeof(x).weak_type) for x in xs])
    return [lnp.asarray(x, np.float32 if d.itemsize < 4 else d) for x in xs]


def adjoint(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return lnp.conj(lnp.matrix_transpose(x))


def mm(x: Any, y: Any) -> Any:
    """The product of matrices, in the full precision of their dtype on any platform."""
    return lnp.matmul(x, y, precision="highest")


def diagonal(x: Any) -> Any:
    """The diagonals of matrices `[..., n, n]`, `[..., n]`."""
    return lnp.diagonal(x, 0, -2, -1)


def make_diagonal(d: Any) -> Any:
    """Matrices `[..., n, n]` with `d` `[..., n]` on their diagonals."""
    return lnp.expand_dims(d, -1) * lnp.eye(typeof(d).shape[-1], dtype=typeof(d).dtype)


def triangle(a: Any, lower: bool) -> Any:
    """Return Hermitian matrices from one triangle of `a`; the other is not read, so its derivative is zero."""
    part = lnp.tril(a, -1) if lower else lnp.triu(a, 1)
    d = diagonal(a)
    if dtypes.is_complex(typeof(a).dtype):
        d = lax.complex(lax.real(d), lnp.zeros_like(lax.real(d)))
    return part + adjoint(part) + make_diagonal(d)
