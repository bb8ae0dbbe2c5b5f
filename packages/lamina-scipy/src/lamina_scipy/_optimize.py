"""Minima of functions."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import value_and_grad
from lamina_ir import ShapeError, dtypes
from lamina_numpy.extend import to_inexact
from lamina_tracing import ArrayLike, lax
from lamina_tracing.extend import typeof

__all__ = ["OptimizeResults", "minimize"]

_OPTIONS = {"maxiter": None, "gtol": 1e-5, "norm": np.inf, "line_search_maxiter": 20}


class OptimizeResults(NamedTuple):
    """What `minimize` gives.

    Attributes:
      x: where the search ended, `[n]`.
      success: whether a point of small gradient was found.
      status: 0 for that, 1 after `maxiter` steps, 2 where no better point was found along the line, 3 where the
        function or its gradient is not finite.
      fun: the function there.
      jac: its gradient there, `[n]`.
      hess_inv: an approximation of the inverse of its second derivatives, `[n, n]`.
      nfev, njev: how often the function and its gradient were computed.
      nit: how many steps were made.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(fun: Callable[..., Any], x0: ArrayLike, args: tuple[Any, ...] = (), *, method: str, tol: float | None = None,
             options: Mapping[str, Any] | None = None) -> OptimizeResults:
    """A local minimum of a function of several numbers, from its gradients.

    Args:
      fun: takes a vector `[n]` and `args`, gives a real number; traced and differentiated.
      x0: real array `[n]`: where to begin.
      args: more arguments of `fun`.
      method: "BFGS" (in any case of letters).
      tol: the `gtol` where the options have none.
      options: `maxiter`, the maximal number of steps, by default `200 n`. `gtol`, the bound on the norm of the
        gradient, by default 1e-5. `norm`, the order of that norm, by default inf. `line_search_maxiter`, the maximal
        number of points along a line, by default 20.
    Returns:
      `OptimizeResults`; look at its `success`.
    Raises:
      ValueError: `method` is another word, or `options` has another name.
      ShapeError: `x0` is no vector, or `fun` gives no single number.
      TypeError: `fun` is no function, `args` no tuple, or `x0` holds no real numbers.

    Derivative: forward only, through the steps; the reverse one is refused, as the number of steps is not known.
    Source: Nocedal and Wright, "Numerical Optimization" (2006), algorithms 6.1, 3.5 and 3.6.

    >>> found = minimize(lambda x: ((x - np.array([1., 2.])) ** 2).sum(), np.zeros(2), method="BFGS")
    >>> found.x.round(3), bool(found.success)
    (Array([1., 2.], dtype=float32), True)
    """
    if not isinstance(method, str) or method.lower() != "bfgs":
        raise ValueError(f"minimize: method must be 'BFGS'; got {method!r}")
    given = dict(options or {})
    unknown = sorted(set(given) - set(_OPTIONS))
    if unknown:
        raise ValueError(f"minimize: options may have {', '.join(_OPTIONS)}; got {', '.join(unknown)}")
    if not callable(fun):
        raise TypeError(f"minimize: fun must be a function; got {type(fun).__name__}")
    if not isinstance(args, tuple):
        raise TypeError(f"minimize: args must be a tuple of arguments; got {type(args).__name__}. Write (value,) for one")
    if tol is not None:
        given.setdefault("gtol", tol)
    x = lnp.asarray(to_inexact("minimize", x0))
    t = typeof(x)
    if len(t.shape) != 1:
        raise ShapeError(f"minimize: x0 must be a vector [n]; got {t.str_long()}. Ravel it, and reshape it in fun")
    if dtypes.is_complex(t.dtype):
        raise TypeError(f"minimize: x0 must contain real numbers; got {t.str_long()}")

    def evaluate(x: Any) -> Any:
        def value(x: Any) -> Any:
            y = fun(x, *args)
            if typeof(y).shape != ():
                raise ShapeError(f"minimize: fun must return a single number; got {typeof(y).str_long()}")
            return lnp.astype(y, t.dtype)
        return value_and_grad(value)(x)

    return _bfgs(evaluate, x, **{**_OPTIONS, **given})


class _State(NamedTuple):
    x: Any
    f: Any
    g: Any
    h: Any
    k: Any
    evaluations: Any
    status: Any  # -1 while it goes on


def _bfgs(evaluate: Any, x: Any, maxiter: Any, gtol: Any, norm: Any, line_search_maxiter: int) -> OptimizeResults:
    n, d = typeof(x).shape[0], typeof(x).dtype
    most = 200 * n if maxiter is None else maxiter
    f, g = evaluate(x)
    one = lnp.eye(n, dtype=d)

    def compute_status(f: Any, g: Any) -> Any:
        small = lnp.linalg.norm(g, norm) <= gtol if n else np.bool_(True)
        finite = lnp.isfinite(f) & lnp.isfinite(g).all()
        return lnp.where(finite, lnp.where(small, 0, -1), 3).astype(np.int32)

    def step(s: _State) -> _State:
        p = -lnp.matmul(s.h, s.g)
        uphill = lnp.vdot(p, s.g) >= 0  # by rounding alone: begin anew along the gradient
        h = lnp.where(uphill, one, s.h)
        p = lnp.where(uphill, -s.g, p)
        first = lnp.where(s.k == 0, lnp.minimum(1, 1 / lnp.maximum(lnp.linalg.norm(s.g), _tiny(d))), 1)
        a, f, g, found, tried = _search_line(evaluate, s.x, s.f, s.g, p, first, line_search_maxiter)
        moved, y = a * p, g - s.g
        curve = lnp.vdot(y, moved)
        good = found & (curve > 0)
        rho = lnp.where(good, 1 / lnp.where(good, curve, 1), 0)
        scale = lnp.where(s.k == 0, curve / lnp.maximum(lnp.vdot(y, y), _tiny(d)), 1)
        h = lnp.where(good, scale * h, h)
        left = one - rho * lnp.outer(moved, y)
        h = lnp.where(good, lnp.matmul(lnp.matmul(left, h), left.T) + rho * lnp.outer(moved, moved), h)
        status = lnp.where(found, compute_status(f, g), 2).astype(np.int32)
        return _State(lnp.where(found, s.x + moved, s.x), lnp.where(found, f, s.f), lnp.where(found, g, s.g), h,
                      s.k + 1, s.evaluations + tried, status)

    zero = np.int32(0)
    end = lax.while_loop(lambda s: (s.status < 0) & (s.k < most), step,
                          _State(x, f, g, one, zero, np.int32(1), compute_status(f, g)))
    status = lnp.where(end.status < 0, 1, end.status).astype(np.int32)
    return OptimizeResults(end.x, status == 0, status, end.f, end.g, end.h, end.evaluations, end.evaluations, end.k)


def _tiny(d: Any) -> Any:
    return np.finfo(d).tiny


class _Line(NamedTuple):
    a: Any  # the next point, and what is known of the best one and of the other end
    low: Any
    f_low: Any
    g_low: Any
    s_low: Any
    high: Any
    bracketed: Any
    done: Any
    k: Any


def _search_line(evaluate: Any, x: Any, f0: Any, g0: Any, p: Any, a: Any, most: int) -> Any:
    """A step along p with enough descent and a derivative that is small enough: both Wolfe conditions, or the first.

    Returns:
      the step, function and gradient there, whether there is any descent, and how many points were tried.
    """
    d = typeof(x).dtype
    s0 = lnp.vdot(g0, p)

    def is_running(line: _Line) -> Any:
        return ~line.done & (line.k < most)

    def try_next(line: _Line) -> _Line:
        a = line.a
        f, g = evaluate(x + a * p)
        s = lnp.vdot(g, p)
        enough = (f <= f0 + 1e-4 * a * s0) & (f < line.f_low) & lnp.isfinite(g).all()  # NaN is not enough
        done = enough & (lnp.abs(s) <= -0.9 * s0)
        turned = enough & lnp.where(line.bracketed, s * (line.high - line.low) >= 0, s >= 0)
        high = lnp.where(enough, lnp.where(turned, line.low, line.high), a)
        bracketed = line.bracketed | ~enough | turned
        # the minimum of the parabola through the better end, its derivative and the other end's value; where that is
        # known: here
        low = lnp.where(enough, a, line.low)
        width = high - low
        gap, s_low = f - line.f_low, line.s_low
        inner = -s_low * (a - line.low) ** 2 / (2 * (gap - s_low * (a - line.low)))
        guess = lnp.where(enough, width / 2, inner)
        safe = lnp.isfinite(guess) & (guess / width > 0.1) & (guess / width < 0.9)
        guess = lnp.where(safe, guess, width / 2)
        next_a = lnp.where(bracketed, low + guess, 2 * a)
        f_low, s_low = lnp.where(enough, f, line.f_low), lnp.where(enough, s, line.s_low)
        return _Line(next_a.astype(d), low, f_low, lnp.where(enough, g, line.g_low), s_low, high, bracketed, done, line.k + 1)

    zero = lnp.zeros((), d)
    line = lax.while_loop(is_running, try_next,
                          _Line(lnp.asarray(a, d), zero, f0, g0, s0, zero, np.bool_(False), np.bool_(False),
                                               np.int32(0)))
    return line.low, line.f_low, line.g_low, line.low > 0, line.k
