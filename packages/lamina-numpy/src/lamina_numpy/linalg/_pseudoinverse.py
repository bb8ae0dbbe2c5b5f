"""The pseudo-inverse and its slope, also where singular values that are not zero are cut off."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp, custom_linear_solve
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._contract import products
from .._elementwise import ufuncs
from .._ground.choosing import choose_by
from .._ground.publishing import public
from .._shape import layout
from ._decompositions import adjoint, matrices, svd
from ._solving import above, beside, inverses, of_largest

__all__ = ["pinv"]

_matmul = products.matmul


@custom_jvp
def _pinv(a: Any, rtol: Any) -> Any:
    return _pinv_svd(a, rtol, False)


def _pinv_svd(a: Any, rtol: Any, hermitian: bool) -> Any:
    u, s, vh = svd(a, False, True, hermitian)
    inverse = inverses(s, above("pinv", s, of_largest(s, rtol)))
    return _matmul(adjoint(vh), ufuncs.multiply(layout.expand_dims(inverse, -1), adjoint(u)))


@_pinv.defjvp
def _pinv_jvp(primals: Any, tangents: Any) -> Any:
    """Golub and Pereyra (1973), 4.12, for matrices whose rank does not change."""
    (a, rtol), da = primals, tangents[0]
    p = _pinv(a, rtol)
    ph, dah = adjoint(p), adjoint(da)
    first = ufuncs.negative(_matmul(_matmul(p, da), p))
    second, third = _matmul(_matmul(p, ph), dah), _matmul(dah, _matmul(ph, p))
    second = ufuncs.subtract(second, _matmul(_matmul(second, a), p))
    third = ufuncs.subtract(third, _matmul(p, _matmul(a, third)))
    return p, ufuncs.add(first, ufuncs.add(second, third))


@custom_jvp
def _pinv_cut(a: Any, rtol: Any) -> Any:
    """With a limit that may cut off what is not zero."""
    return _pinv_svd(a, rtol, False)


@_pinv_cut.defjvp
def _pinv_cut_jvp(primals: Any, tangents: Any) -> Any:
    (a, rtol), da = primals, tangents[0]
    p = _pinv_cut(a, rtol)
    between = _kept_beside_cut(a, p, da, rtol)
    turned = adjoint(_kept_beside_cut(adjoint(a), adjoint(p), adjoint(da), rtol))
    return p, ufuncs.subtract(ufuncs.add(between, turned), _matmul(_matmul(p, da), p))


def _kept_beside_cut(a: Any, p: Any, da: Any, rtol: Any) -> Any:
    """The part of the slope of `p` from left singular vectors that are cut off to right ones that are kept.

    An element of it, times the difference of both squared singular values, is known: a linear system for all of them,
    solved by singular vectors without their derivatives, which do not exist where singular values are equal.
    """
    onto, kept = _matmul(p, a), _matmul(a, _matmul(p, a))
    rest = ufuncs.subtract(a, kept)
    squares, cut = _matmul(adjoint(kept), kept), _matmul(rest, adjoint(rest))
    right = _matmul(onto, adjoint(da))
    right = ufuncs.subtract(right, _matmul(right, _matmul(a, p)))
    right = ufuncs.add(right, _matmul(_matmul(p, da), adjoint(rest)))
    u, s, vh = svd(lax.stop_gradient(a), False)
    good = above("pinv", s, of_largest(s, lax.stop_gradient(rtol)))
    inverse, row = inverses(s, good), layout.expand_dims(good, -1)
    inverse = layout.expand_dims(ufuncs.square(inverse), -1)
    gap = ufuncs.subtract(ufuncs.square(layout.expand_dims(s, -1)), ufuncs.square(layout.expand_dims(s, -2)))
    mixed = lax.bitwise_and(*layout.broadcast_arrays(row, lax.bitwise_not(layout.expand_dims(good, -2))))
    more = ufuncs.subtract(inverses(gap, mixed), choose_by(mixed, inverse, 0))

    def times(x: Any) -> Any:
        inner = _matmul(onto, ufuncs.add(x, _matmul(x, cut)))
        return ufuncs.subtract(ufuncs.add(_matmul(squares, x), x), inner)

    def solve(_: Any, c: Any) -> Any:
        y = _matmul(vh, c)
        z = ufuncs.add(ufuncs.multiply(inverse, y), _matmul(ufuncs.multiply(more, _matmul(y, u)), adjoint(u)))
        return ufuncs.add(c, _matmul(adjoint(vh), ufuncs.subtract(z, choose_by(row, y, 0))))

    def transposed(_: Any, c: Any) -> Any:
        return ufuncs.conj(solve(_, ufuncs.conj(c)))

    return custom_linear_solve(times, right, solve, transposed)


@public("hermitian")
def pinv(a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *,
         rcond: ArrayLike | None = None) -> Array:
    """The pseudo-inverse of Moore and Penrose, by singular values.

    Args:
      a: number array `[..., m, n]`.
      rtol: singular values up to this times the largest count as zero; one number, or one per matrix; None for 10
        max(m, n) times the precision of the dtype.
      hermitian: the matrices are Hermitian: their eigenvalues are computed instead.
      rcond: an older name of `rtol`, heeded where `rtol` is None.
    Returns:
      Array `[..., n, m]`, in the inverse units of `a`; half precision is computed in float32, integers and booleans
      in float.
    Raises:
      ValueError: `a` has fewer than two axes, or is not square although `hermitian`.
      ShapeError: `rtol` does not broadcast to the matrices.
      TypeError: `a` is neither an array nor a number.

    Derivative: Golub and Pereyra (1973), equation 4.12; holds where the rank does not change. With `rtol` that of the
      matrix whose small singular values are cut off.
    Source: meaning of `numpy.linalg.pinv`.

    >>> pinv(np.array([[2., 0.], [0., 0.]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    a = matrices("pinv", a, square=hermitian)
    t = typeof(a)
    d = dtypes.real_of(t.dtype)
    rtol = rcond if rtol is None else rtol
    if not t.size:
        return lax.broadcast_in_dim(np.zeros((), t.dtype), (*t.shape[:-2], t.shape[-1], t.shape[-2]), ())
    if rtol is None:
        limit = np.asarray(10 * max(t.shape[-2:]) * float(np.finfo(d).eps), d)
        return _pinv_svd(a, limit, True) if hermitian else _pinv(a, limit)
    limit = beside("pinv", rtol, d)
    return _pinv_svd(a, limit, True) if hermitian else _pinv_cut(a, limit)
