"""Systems of equations by iteration: the matrix is known by its products alone.

Trees are flattened into one vector, on which all three methods work. Derivatives solve a system of the transposed
matrix by the same method, and go through no iteration.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import custom_linear_solve, linear_transpose
from lamina_ir import ShapeError, trees
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_numpy.extend import to_inexact
from lamina_numpy.flatten_util import ravel_pytree
from lamina_tracing import eval_shape, lax
from lamina_tracing.extend import typeof

__all__ = ["bicgstab", "cg", "gmres"]

_SOLVER = docstring_entries("""
    A: a linear function from trees of arrays to trees like them, or a matrix `[n, n]`.
    b: the right side: an array, or a tree of arrays.
    x0: the initial guess, a tree like `b`; None for zeros.
    tol, atol: tolerances: the norm of the residual is at most `max(tol * norm of b, atol)`.
    maxiter: maximal number of steps; None for ten times the number of elements of `b`.
    M: an approximate inverse of A, given like A; None for the identity.
    ShapeError: A or `M` is not a square matrix or does not fit `b`; `x0` or the result of A is not a tree like `b`.
    TypeError: A or `M` is neither a function nor an array; a leaf of `b` is neither an array nor a number.
    """)


@fill_docstring(_SOLVER)
def cg(A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None,
       M: Any = None) -> tuple[Any, Any]:
    """The solution x of `A x = b` by conjugate gradients, for Hermitian positive definite A.

    Args: {A, b, x0, tol, atol, maxiter, M}
    Returns:
      `(x, info)`: a tree like `b`, and an int32: 0 where the tolerance is met, else how many steps were made.
    Raises: {ShapeError, TypeError}

    Derivative: in `b` and in what A is made of, by one more such system; none in `x0`.
    Source: Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems" (1952).

    >>> x, info = cg(lambda x: 2 * x, np.array([2., 4.]))
    >>> x, int(info)
    (Array([1., 2.], dtype=float32), 0)
    """
    return _solve("cg", _cg, A, b, x0, tol, atol, maxiter, M)


@fill_docstring(_SOLVER)
def bicgstab(A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None,
             M: Any = None) -> tuple[Any, Any]:
    """The solution x of `A x = b` by stabilized biconjugate gradients, for any square A.

    Args:
      {A, b, x0, tol, atol}
      maxiter: at most so many steps, of two products each; None for ten times as many as there are numbers in `b`.
      {M}
    Returns:
      `(x, info)`: a tree like `b`, and an int32. It is 0 where the tolerance is met, else the number of steps that
      were made (at least 1): too few, or those before the method broke down.
    Raises: {ShapeError, TypeError}

    Derivative: in `b` and in what A is made of, by a system of the transpose; none in `x0`.
    Source: van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG" (1992).

    >>> x, info = bicgstab(np.array([[4., 1.], [-1., 3.]]), np.array([5., 2.]))
    >>> x.round(3), int(info)
    (Array([1., 1.], dtype=float32), 0)
    """
    return _solve("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M)


@fill_docstring(_SOLVER)
def gmres(A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, restart: int = 20,
          maxiter: int | None = None, M: Any = None, solve_method: str = "batched") -> tuple[Any, Any]:
    """The solution x of `A x = b` by generalized minimal residuals, for any square A.

    Args:
      {A, b, x0, tol, atol}
      restart: so many vectors are kept before the method begins anew.
      maxiter: how often it begins at most; None for ten times as many as there are numbers in `b`.
      {M}
      solve_method: "batched" or "incremental"; the same is computed whichever is named.
    Returns:
      `(x, info)`: a tree like `b`, and an int32: 0 where the tolerance is met, else how often the method began.
    Raises:
      ValueError: `solve_method` is another word, or `restart` below 1.
      {ShapeError, TypeError}

    Derivative: in `b` and in what A is made of, by a system of the transpose; none in `x0`.
    Source: Saad and Schultz, "GMRES: a generalized minimal residual algorithm" (1986), preconditioned from the right.

    >>> x, info = gmres(np.array([[4., 1.], [-1., 3.]]), np.array([5., 2.]))
    >>> x.round(3), int(info)
    (Array([1., 1.], dtype=float32), 0)
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"gmres: solve_method must be 'batched' or 'incremental'; got {solve_method!r}")
    if restart < 1:
        raise ValueError(f"gmres: restart must be a number of vectors, at least 1; got {restart}")

    def method(a: Any, m: Any, b: Any, x: Any, limit: Any, most: int) -> Any:
        return _gmres(a, m, b, x, limit, most, min(restart, typeof(b).shape[0]))
    return _solve("gmres", method, A, b, x0, tol, atol, maxiter, M)


def _check_like(call: str, argument: str, x: Any, b: Any) -> None:
    """ShapeError unless `x` is a tree like `b`."""
    same = trees.tree_structure(x) == trees.tree_structure(b)
    if not same or any(p.shape != typeof(q).shape for p, q in zip(trees.tree_leaves(x), trees.tree_leaves(b))):
        def describe(tree: Any) -> str:
            return str(trees.tree_map(lambda leaf: tuple(leaf.shape), tree))
        raise ShapeError(f"{call}: {argument} must be a tree like b; got shapes {describe(x)}, expected {describe(b)}")


def _make_operator(call: str, name: str, given: Any, b: Any) -> Callable[[Any], Any]:
    """A linear function on trees like `b`, checked."""
    if callable(given):
        _check_like(call, f"what {name} gives", eval_shape(given, b), b)
        return given
    t = typeof(to_inexact(call, given))
    n = typeof(b).shape if not isinstance(b, (tuple, list, dict)) and trees.tree_leaves(b) else ()
    if len(n) != 1 or t.shape != (n[0], n[0]):
        raise ShapeError(f"{call}: {name} as a matrix is [n, n] and b then an array [n]; got {t.str_long()} and b "
                          f"{trees.tree_map(lambda leaf: typeof(leaf).str_long(), b)}")
    return lambda x: lnp.matmul(given, x)


def _solve(call: str, method: Any, A: Any, b: Any, x0: Any, tol: Any, atol: Any, maxiter: int | None, M: Any) -> Any:
    b = trees.tree_map(lambda leaf: lnp.asarray(to_inexact(call, leaf)), b)
    apply = _make_operator(call, "A", A, b)
    b = trees.tree_map(lambda leaf, made: lnp.astype(leaf, np.result_type(typeof(leaf).dtype, made.dtype)), b,
                        eval_shape(apply, b))  # a complex matrix has complex solutions
    refine = _make_operator(call, "M", M, b) if M is not None else lambda x: x
    if x0 is not None:
        x0 = trees.tree_map(lambda leaf: lnp.asarray(to_inexact(call, leaf)), x0)
        _check_like(call, "x0", x0, b)
    right, unravel = ravel_pytree(b)
    n, d = typeof(right).shape[0], typeof(right).dtype
    start = lnp.zeros_like(right) if x0 is None else lnp.astype(lax.stop_gradient(ravel_pytree(x0)[0]), d)
    most = 10 * n if maxiter is None else int(maxiter)

    def flatten(f: Any) -> Any:
        return lambda v: lnp.astype(ravel_pytree(f(unravel(v)))[0], d)

    def make_solver(refine: Any) -> Any:
        def solve(a: Any, c: Any) -> Any:
            limit = lnp.maximum(tol * _norm(c), atol)
            return method(a, refine, c, start, limit, most)
        return solve

    precondition = flatten(refine)
    precondition_transposed = (lambda v: v) if M is None else lambda v: linear_transpose(precondition, v)(v)[0]
    x, info = custom_linear_solve(flatten(apply), right, make_solver(precondition),
                                  make_solver(precondition_transposed), has_aux=True)
    return unravel(x), info


def _norm(x: Any) -> Any:
    return lnp.sqrt(lnp.sum(lnp.real(lnp.conj(x) * x)))


def _make_info(r: Any, limit: Any, steps: Any) -> Any:
    """Return 0 if the residual is within the limit, else the number of steps."""
    return lnp.where(_norm(r) <= limit, 0, lnp.maximum(steps, 1)).astype(np.int32)


def _cg(a: Any, m: Any, b: Any, x: Any, limit: Any, most: int) -> Any:
    r = b - a(x)
    z = m(r)

    def is_running(state: Any) -> Any:
        _, r, _, rz, k = state
        return (_norm(r) > limit) & (k < most) & (rz != 0)

    def step(state: Any) -> Any:
        x, r, p, rz, k = state
        ap = a(p)
        alpha = rz / lnp.vdot(p, ap)
        x, r = x + alpha * p, r - alpha * ap
        z = m(r)
        new = lnp.vdot(r, z)
        return x, r, z + new / rz * p, new, k + 1

    x, r, _, _, k = lax.while_loop(is_running, step, (x, r, z, lnp.vdot(r, z), np.int32(0)))
    return x, _make_info(r, limit, k)


def _bicgstab(a: Any, m: Any, b: Any, x: Any, limit: Any, most: int) -> Any:
    r = b - a(x)
    shadow = r
    one, zero = lnp.ones((), typeof(b).dtype), lnp.zeros_like(b)

    def is_running(state: Any) -> Any:
        _, r, _, _, _, sound, k = state
        return (_norm(r) > limit) & (k < most) & sound

    def step(state: Any) -> Any:
        x, r, p, rho, v, _, k = state
        new = lnp.vdot(shadow, r)
        p = r + new / rho * p
        over = m(p)
        v = a(over)
        down = lnp.vdot(shadow, v)
        alpha = new / down
        s = r - alpha * v
        smooth = m(s)
        t = a(smooth)
        size = lnp.vdot(t, t)
        omega = lnp.where(size == 0, 0, lnp.vdot(t, s) / lnp.where(size == 0, 1, size))
        sound = (new != 0) & (down != 0)
        ended = _norm(s) <= limit
        omega = lnp.where(ended, 0, omega)
        x2 = x + alpha * over + omega * smooth
        r2 = s - omega * t
        x, r = lnp.where(sound, x2, x), lnp.where(sound, r2, r)
        p = p - omega * v
        factor = lnp.where(omega == 0, 1, omega)
        return x, r, p, new * factor / lnp.where(alpha == 0, 1, alpha), v, sound & ((omega != 0) | ended), k + 1

    x, r, *_, k = lax.while_loop(is_running, step, (x, r, zero, one, zero, np.bool_(True), np.int32(0)))
    return x, _make_info(r, limit, k)


def _gmres(a: Any, m: Any, b: Any, x: Any, limit: Any, most: int, size: int) -> Any:
    d = typeof(b).dtype
    eps = np.finfo(d).eps

    def grow(j: Any, state: Any) -> Any:
        q, h = state
        w = a(m(q[j]))
        before = _norm(w)
        column: Any = 0
        for _ in range(2):  # twice is enough
            along = lnp.matmul(lnp.conj(q), w)
            w = w - lnp.matmul(along, q)
            column = column + along
        after = _norm(w)
        new = after > 10 * eps * before
        w = lnp.where(new, w / lnp.where(new, after, 1), 0)
        column = column + lnp.where(lnp.arange(size + 1) == j + 1, lnp.where(new, after, 0), 0)
        return lax.dynamic_update_slice(q, w[None], (j + 1, 0)), lax.dynamic_update_slice(h, column[:, None], (0, j))

    def is_running(state: Any) -> Any:
        _, _, length, better, k = state
        return (length > limit) & (k < most) & better

    def cycle(state: Any) -> Any:
        x, r, length, _, k = state
        q = lnp.zeros((size + 1, typeof(b).shape[0]), d).at[0].set(r / length)
        q, h = lax.fori_loop(0, size, grow, (q, lnp.zeros((size + 1, size), d)))
        wanted = lnp.where(lnp.arange(size + 1) == 0, length, 0).astype(d)
        y = lnp.linalg.lstsq(h, wanted)[0]
        x2 = x + m(lnp.matmul(y, q[:size]))
        r2 = b - a(x2)
        shorter = _norm(r2) < length
        return (lnp.where(shorter, x2, x), lnp.where(shorter, r2, r), lnp.where(shorter, _norm(r2), length), shorter,
                k + 1)

    r = b - a(x)
    x, r, _, _, k = lax.while_loop(is_running, cycle, (x, r, _norm(r), np.bool_(True), np.int32(0)))
    return x, _make_info(r, limit, k)
