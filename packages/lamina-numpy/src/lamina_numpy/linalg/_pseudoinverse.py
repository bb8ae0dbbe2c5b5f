"""The pseudo-inverse and its derivative, also where singular values that are not zero are cut off."""
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp, custom_linear_solve
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._products import products
from .._elementwise import ufuncs
from .._core.select import choose_by
from .._core.public_api import public_api
from .._shape import layout
from ._decompositions import adjoint, svd, to_matrices
from ._solving import align_limit, invert_values, is_above, scale_by_largest

__all__ = ["pinv"]

_matmul = products.matmul


@partial(custom_jvp, nondiff_argnums=(2, 3))
def pinv_of_rank(a: Any, rtol: Any, hermitian: bool, cut: bool) -> Any:
    """`cut`: the limit may cut off what is not zero."""
    return _compute_from_svd(rtol, *svd(a, False, True, hermitian))[0]


def _compute_from_svd(rtol: Any, u: Any, s: Any, vh: Any) -> tuple[Any, Any]:
    """The pseudo-inverse, and which singular values it is made of."""
    good = is_above("pinv", s, scale_by_largest(s, rtol))
    return _matmul(adjoint(vh), ufuncs.multiply(layout.expand_dims(invert_values(s, good), -1), adjoint(u))), good


@partial(custom_jvp, nondiff_argnums=(2, 3))
def _compute_parts(a: Any, rtol: Any, hermitian: bool, cut: bool) -> tuple[Any, ...]:
    """Return P = pinv(a), the projectors 1 - K P and 1 - P K, and, if `cut`, the part a - K that is cut off.

    K is the part of a that is kept. The derivatives of all are made of these alone: as differences they would lose the
    digits of the condition twice."""
    u, s, vh = svd(a, False, True, hermitian)
    p, good = _compute_from_svd(rtol, u, s, vh)
    kept = [choose_by(layout.expand_dims(good, -2), x, 0) for x in (u, adjoint(vh))]
    rests = [ufuncs.subtract(np.eye(typeof(x).shape[-2], dtype=typeof(x).dtype), _matmul(x, adjoint(x))) for x in kept]
    if cut:
        rests.append(_matmul(ufuncs.multiply(u, layout.expand_dims(choose_by(good, 0, s), -2)), vh))
    return p, *rests


def _compute_turns(args: Any, da: Any, hermitian: bool, cut: bool) -> Any:
    """Return all parts, the change of `a` that counts, and the rotations of right and left singular vectors.

    These are the rotations of vectors that are kept to those that are cut off. Each is an element of `da` and, where
    something is cut off, a share of the other."""
    parts = _compute_parts(args[0], args[1], hermitian, cut)
    da = ufuncs.multiply(0.5, ufuncs.add(da, adjoint(da))) if hermitian else da
    p, left, right, *rest = parts
    ph, dah = adjoint(p), adjoint(da)
    turn, back = _matmul(_matmul(right, dah), ph), _matmul(_matmul(left, da), p)
    if cut:
        more = _matmul(_matmul(_matmul(adjoint(rest[0]), da), p), ph)
        turn = _solve_kept(args, hermitian, p, rest[0], ufuncs.add(turn, more))
        back = ufuncs.add(back, _matmul(_matmul(rest[0], turn), p))
    return parts, da, turn, back


def _solve_kept(args: Any, hermitian: bool, p: Any, rest: Any, right: Any) -> Any:
    """x of x - R^H R x P P^H = right, R being what is cut off: by singular vectors without their derivatives, which do not
    exist where singular values are equal."""
    squares, inverse = _matmul(adjoint(rest), rest), _matmul(p, adjoint(p))
    a, rtol = map(lax.stop_gradient, args)
    _, s, vh = svd(a, False, True, hermitian)
    good = is_above("pinv", s, scale_by_largest(s, rtol))
    ratio = ufuncs.multiply(layout.expand_dims(choose_by(good, 0, s), -1),
                            layout.expand_dims(invert_values(s, good), -2))
    ratio = ufuncs.square(ratio)  # below 1
    more = ufuncs.divide(ratio, ufuncs.subtract(1, ratio))

    def solve(_: Any, c: Any) -> Any:
        inner = _matmul(_matmul(vh, c), adjoint(vh))
        return ufuncs.add(c, _matmul(_matmul(adjoint(vh), ufuncs.multiply(more, inner)), vh))

    return custom_linear_solve(lambda x: ufuncs.subtract(x, _matmul(_matmul(squares, x), inverse)), right, solve,
                               lambda _, c: ufuncs.conj(solve(_, ufuncs.conj(c))))


def _differentiate(p: Any, da: Any, turn: Any, back: Any) -> Any:
    """Golub and Pereyra (1973), 4.12, for matrices whose rank does not change."""
    turned = ufuncs.add(_matmul(turn, p), _matmul(p, adjoint(back)))
    return ufuncs.subtract(turned, _matmul(_matmul(p, da), p))


@pinv_of_rank.defjvp
def _pinv_jvp(hermitian: bool, cut: bool, primals: Any, tangents: Any) -> Any:
    parts, *turns = _compute_turns(primals, tangents[0], hermitian, cut)
    return parts[0], _differentiate(parts[0], *turns)


@_compute_parts.defjvp
def _compute_parts_jvp(hermitian: bool, cut: bool, primals: Any, tangents: Any) -> Any:
    parts, da, turn, back = _compute_turns(primals, tangents[0], hermitian, cut)
    p, left, right, *rest = parts
    changes = [_differentiate(p, da, turn, back), *[ufuncs.negative(ufuncs.add(x, adjoint(x))) for x in (back, turn)]]
    if cut:
        turned = ufuncs.add(_matmul(rest[0], turn), _matmul(adjoint(back), rest[0]))
        changes.append(ufuncs.subtract(_matmul(_matmul(left, da), right), turned))
    return parts, tuple(changes)


@public_api("hermitian")
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
    a = to_matrices("pinv", a, square=hermitian)
    t = typeof(a)
    d = dtypes.real_dtype(t.dtype)
    rtol = rcond if rtol is None else rtol
    if not t.size:
        return lax.broadcast_in_dim(np.zeros((), t.dtype), (*t.shape[:-2], t.shape[-1], t.shape[-2]), ())
    limit = np.asarray(10 * max(t.shape[-2:]) * float(np.finfo(d).eps), d) if rtol is None else align_limit("pinv", rtol, d)
    return pinv_of_rank(a, limit, hermitian, rtol is not None)
