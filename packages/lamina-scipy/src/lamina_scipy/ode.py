"""Ordinary differential equations: `odeint`, by an explicit method with steps of its own choice, and its adjoint.

The state is one vector, whatever tree it comes as. The reverse derivative integrates the adjoint equation backwards
from one output time to the one before, so that it needs no more memory than the outputs; the forward one is not
defined.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import closure_convert, custom_vjp, vjp
from lamina_ir import ShapeError, dtypes, trees
from lamina_numpy.extend import ignore_strict_promotion, to_inexact
from lamina_numpy.flatten_util import ravel_pytree
from lamina_tracing import ArrayLike, eval_shape, lax
from lamina_tracing.extend import rename_errors, typeof

__all__ = ["odeint"]

# Dormand and Prince, "A family of embedded Runge-Kutta formulae" (1980), RK5(4)7M: places, weights of the derivatives
# before, the
# difference of both results; and the dense output of Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I"
# (1993), II.6.
_PLACES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_WEIGHTS = [[1 / 5], [3 / 40, 9 / 40], [44 / 45, -56 / 15, 32 / 9], [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
            [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656], [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784,
             11 / 84]]
_ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])
_DENSE = np.array([-12715105075 / 11282082432, 0, 87487479700 / 32700410799, -10690763975 / 1880347072,
                   701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423])


@rename_errors
def odeint(func: Callable[..., Any], y0: Any, t: ArrayLike, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8,
           mxstep: float = np.inf, hmax: float = np.inf) -> Any:
    """The solution of `dy/dt = func(y, t, *args)` at given times.

    Args:
      func: takes the state, the time and `args`; gives the derivative, a tree like the state.
      y0: the state at `t[0]`, a tree of float or complex arrays.
      t: real array `[n]`: ascending, or descending, n at least 1.
      *args: trees of arrays that `func` takes; what it closes over may be differentiated in, too.
      rtol, atol: the error of a step is to be `atol + rtol * size of the state` at most, a root mean square over its
        numbers. Below ten units of the last place of the dtype `rtol` is taken for that.
      mxstep: at most so many steps from one time to the next.
      hmax: longest step.
    Returns:
      A tree like `y0`, with a new axis `[n, ...]` in front. NaN from the first time on that was not reached in
      `mxstep` steps, or where steps became too short for the dtype.
    Raises:
      ShapeError: `t` is no vector, or empty; what `func` gives is no tree like `y0`.
      TypeError: `func` is no function, `t` is complex, or `y0` holds what is neither an array nor a number.

    Derivative: reverse, in `y0`, `t`, `args` and what `func` closes over, by the adjoint equation: as accurate as the
      tolerances make it. A forward one is refused.
    Source: meaning of `jax.experimental.ode.odeint`; Dormand and Prince (1980); Pontryagin's adjoint, as in Chen,
      Rubanova, Bettencourt and Duvenaud, "Neural ordinary differential equations" (2018), appendix B.

    >>> odeint(lambda y, t: -y, 1., np.array([0., 1., 2.])).round(4)
    Array([1.    , 0.3679, 0.1353], dtype=float32)
    """
    if not callable(func):
        raise TypeError(f"odeint: func must be a function of the state and the time; got {type(func).__name__}")
    y0 = trees.tree_map(lambda y: lnp.asarray(to_inexact("odeint", y)), y0)
    t = lnp.asarray(to_inexact("odeint", t))
    if len(typeof(t).shape) != 1 or typeof(t).shape[0] == 0:
        raise ShapeError(f"odeint: t must be a vector of times, at least one; got {typeof(t).str_long()}")
    if dtypes.is_complex(typeof(t).dtype):
        raise TypeError(f"odeint: t must contain real numbers; got {typeof(t).str_long()}")
    args = trees.tree_map(lnp.asarray, args)
    derivative = eval_shape(func, y0, t[0], *args)
    if trees.tree_structure(derivative) != trees.tree_structure(y0) or any(
            a.shape != typeof(b).shape for a, b in zip(trees.tree_leaves(derivative), trees.tree_leaves(y0))):
        raise ShapeError("odeint: func gives a tree like y0; got shapes "
                         f"{trees.tree_map(lambda a: tuple(a.shape), derivative)}, expected "
                         f"{trees.tree_map(lambda b: tuple(typeof(b).shape), y0)}")
    flat, whole = ravel_pytree(y0)
    d = typeof(flat).dtype

    def evaluate_flat(y: Any, t: Any, *args: Any) -> Any:
        return lnp.astype(ravel_pytree(func(whole(y), t, *args))[0], d)

    closed, more = closure_convert(evaluate_flat, flat, t[0], *args)
    plan = (float(rtol), float(atol), float(mxstep), float(hmax))
    out = _odeint(closed, plan, flat, t, (*args, *more))
    return _stack_trees(out, whole)


def _stack_trees(out: Any, whole: Any) -> Any:
    """Rows of numbers as one tree, its leaves stacked."""
    parts, where = [], 0
    like = eval_shape(whole, out[0])
    for leaf in trees.tree_leaves(like):
        n = int(np.prod(leaf.shape))
        part = out[:, where:where + n].reshape(-1, *leaf.shape)
        parts.append(part if dtypes.is_complex(leaf.dtype) or not dtypes.is_complex(typeof(part).dtype) else lnp.real(part))
        parts[-1] = lnp.astype(parts[-1], leaf.dtype)
        where += n
    return trees.tree_unflatten(trees.tree_structure(like), parts)


def _rms(x: Any) -> Any:
    """The root mean square; of nothing 0."""
    n = max(typeof(x).shape[0], 1)
    return lnp.sqrt(lnp.sum(lnp.square(lnp.abs(x))) / n)


@ignore_strict_promotion
def _solve(f: Any, plan: Any, y0: Any, t: Any) -> Any:
    """States `[n, size]` at the times, `f(y, t)` being the derivative; times ascend or descend."""
    rtol, atol, most, longest = plan
    real = np.finfo(typeof(y0).dtype).dtype
    eps = np.finfo(real).eps
    rtol = max(rtol, 10 * float(eps))
    way = lnp.where(t[-1] >= t[0], 1, -1).astype(typeof(t).dtype)

    def g(y: Any, s: Any) -> Any:
        return f(y, s * way) * way.astype(real)

    times = t * way
    derivative = g(y0, times[0])
    h = _choose_first_step(g, y0, times[0], derivative, rtol, atol, longest)

    def step(state: Any) -> Any:
        y, k0, s, h, before, _, steps = state
        derivatives = [k0]
        for place, weights in zip(_PLACES, _WEIGHTS):
            moved = sum(w * k for w, k in zip(weights, derivatives) if w) * h.astype(real)
            derivatives.append(g(y + moved, s + place.astype(s.dtype) * h))
        new = y + moved  # the last row of weights is the result's own
        step = h.astype(real)
        error = sum(e * k for e, k in zip(_ERROR, derivatives) if e) * step
        ratio = _rms(error / (atol + rtol * lnp.maximum(lnp.abs(y), lnp.abs(new))))
        good = ratio <= 1  # NaN is not
        change = lnp.where(lnp.isfinite(ratio), 0.9 * lnp.maximum(ratio, 1e-10) ** -0.2, 0.1)
        change = lnp.clip(change, 0.2, lnp.where(good, 10.0, 1.0))
        difference = new - y
        third = step * derivatives[0] - difference
        curve = (difference, third, difference - step * derivatives[-1] - third,
                 step * sum(w * k for w, k in zip(_DENSE, derivatives) if w))
        piece = (y, curve, s, h)
        kept = trees.tree_map(lambda a, b: lnp.where(good, a, b), (new, derivatives[-1], s + h, piece), (y, k0, s, before))
        h = lnp.minimum(h * change.astype(h.dtype), longest).astype(h.dtype)
        short = s + h <= s
        return (kept[0], kept[1], kept[2], h, kept[3], short, steps + 1)

    def step_to(carry: Any, goal: Any) -> Any:
        def is_running(state: Any) -> Any:
            _, _, s, _, _, short, steps = state
            return (s < goal) & ~short & (steps < most)

        state = lax.while_loop(is_running, step, (*carry, lnp.asarray(0, np.int32)))
        state = state[:6]
        origin, curve, start, length = state[4]
        share = lnp.where(length == 0, 0, (goal - start) / lnp.where(length == 0, 1, length)).astype(real)
        a, b, c, e = curve
        y = origin + share * (a + (1 - share) * (b + share * (c + (1 - share) * e)))
        y = lnp.where(goal > state[2], np.nan, y)  # not reached
        return state, y

    zero = lnp.zeros_like(y0)
    still = (y0, (zero, zero, zero, zero), times[0], lnp.zeros_like(times[0]))
    _, out = lax.scan(step_to, (y0, derivative, times[0], h, still, lnp.asarray(False)), times[1:])
    return lnp.concatenate([y0[None], out])


def _choose_first_step(g: Any, y: Any, s: Any, derivative: Any, rtol: float, atol: float, longest: float) -> Any:
    """Hairer, Norsett and Wanner, II.4: as long as the second derivative allows."""
    scale = atol + rtol * lnp.abs(y)
    d0, d1 = _rms(y / scale), _rms(derivative / scale)
    rough = lnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / lnp.where(d1 == 0, 1, d1))
    d2 = _rms((g(y + rough.astype(typeof(y).dtype) * derivative,
                 s + rough.astype(s.dtype)) - derivative) / scale) / rough
    top = lnp.maximum(d1, d2)
    fine = lnp.where(top <= 1e-15, lnp.maximum(1e-6, rough * 1e-3), (0.01 / lnp.where(top == 0, 1, top)) ** 0.2)
    h = lnp.minimum(lnp.minimum(100 * rough, fine), longest).astype(s.dtype)
    least = 16 * np.finfo(np.asarray(0, s.dtype).dtype).eps * lnp.maximum(lnp.abs(s), 1e-30)
    return lnp.maximum(lnp.where(lnp.isfinite(h), h, least), least).astype(s.dtype)


@partial(custom_vjp, nondiff_argnums=(0, 1))
def _odeint(f: Any, plan: Any, y0: Any, t: Any, args: Any) -> Any:
    return _solve(lambda y, s: f(y, s, *args), plan, y0, t)


def _odeint_forward(f: Any, plan: Any, y0: Any, t: Any, args: Any) -> Any:
    out = _odeint(f, plan, y0, t, args)
    return out, (out, t, args)


def _odeint_backward(f: Any, plan: Any, kept: Any, ct: Any) -> Any:
    """The adjoint a runs back as `da/dt = -a df/dy`, and what `args` get is the integral of `a df/dargs`."""
    out, t, args = kept
    leaves, tree = trees.tree_flatten(args)
    moving = [i for i, leaf in enumerate(leaves) if dtypes.is_inexact(typeof(leaf).dtype)]
    flat, whole = ravel_pytree([leaves[i] for i in moving])
    n, own = typeof(out).shape[1], typeof(out).dtype
    d = np.result_type(own, typeof(flat).dtype)

    def merge_leaves(flat: Any) -> Any:
        full = list(leaves)
        for i, leaf in zip(moving, whole(flat)):
            full[i] = leaf
        return trees.tree_unflatten(tree, full)

    def field(y: Any, s: Any, flat: Any) -> Any:
        return f(y, s, *merge_leaves(flat))

    def adjoint(state: Any, s: Any) -> Any:
        y, a = _cast(state[:n], own), _cast(state[n:2 * n], own)
        derivative, back = vjp(lambda y, flat: field(y, s, flat), y, flat)
        by_y, by_flat = back(a)
        return lnp.concatenate([lnp.astype(x, d) for x in (derivative, -by_y, -by_flat)])

    def step_back(carry: Any, at: Any) -> Any:
        (a, total), (y, given, here, before) = carry, at
        start = lnp.concatenate([lnp.astype(x, d) for x in (y, a + given, total)])
        end = _solve(adjoint, plan, start, lnp.stack([here, before]))[1]
        return (_cast(end[n:2 * n], own), end[2 * n:]), lnp.real(lnp.sum(given * field(y, here, flat)))

    nothing = lnp.zeros_like(out[0]), lnp.zeros(typeof(flat).shape, d)
    (a, total), by_times = lax.scan(step_back, nothing, (out[1:], ct[1:], t[1:], t[:-1]), reverse=True)
    by_first = -lnp.real(lnp.sum(a * field(out[0], t[0], flat)))  # who begins later has less way to go
    by_t = lnp.astype(lnp.concatenate([by_first[None], by_times]), typeof(t).dtype)
    found: list[Any] = [np.zeros(typeof(leaf).shape, dtypes.float0) for leaf in leaves]
    for i, x in zip(moving, whole(_cast(total, typeof(flat).dtype))):
        found[i] = x
    return a + ct[0], by_t, trees.tree_unflatten(tree, found)


def _cast(x: Any, d: Any) -> Any:
    """`x` in a dtype, its real part where that is real."""
    return lnp.astype(lnp.real(x) if dtypes.is_complex(typeof(x).dtype) and not dtypes.is_complex(d) else x, d)


_odeint.defvjp(_odeint_forward, _odeint_backward)
