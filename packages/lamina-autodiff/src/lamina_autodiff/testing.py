"""Checks of derivatives against finite differences and against each other, for this room and for people who write ops."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_ir import config, dtypes, trees
from lamina_ir.testing import tolerance
from lamina_tracing.extend import bind, typeof

from .forward import jvp
from .reverse import vjp

__all__ = ["check_grads", "check_jvp", "check_sample", "check_vjp"]


def _host(x: Any) -> np.ndarray:
    a = np.asarray(x)
    return a.astype(np.complex128) if dtypes.is_complex(typeof(x).dtype) else a.astype(np.float64)


def _inner(a: Any, b: Any) -> Any:
    """The real pairing of two trees: complex numbers count as pairs of reals."""
    pairs = zip(trees.tree_leaves(a), trees.tree_leaves(b))
    return sum(np.real(np.sum(_host(x) * _host(y))) for x, y in pairs if typeof(x).dtype != dtypes.float0)


def _noise(rng: np.random.Generator, like: Any) -> Any:
    aval = typeof(like)
    if not dtypes.is_inexact(aval.dtype):
        return np.zeros(aval.shape, dtypes.float0)
    x = rng.normal(size=aval.shape)
    if dtypes.is_complex(aval.dtype):
        x = x + 1j * rng.normal(size=aval.shape)
    return np.asarray(x, aval.dtype)


def check_jvp(fun: Callable[..., Any], args: Sequence[Any], *, eps: float = 1e-2, rtol: float = 2e-2,
              atol: float = 2e-2, seed: int = 0) -> None:
    """The directional derivative of `fun` is that of central differences.

    Args:
      fun: function of arrays and trees of them.
      args: the point.
      eps: step of the differences.
      rtol, atol: tolerances on each element.
      seed: of the random direction.
    Raises:
      AssertionError: with both values.
    """
    rng = np.random.default_rng(seed)
    direction = trees.tree_map(lambda x: _noise(rng, x), tuple(args))
    _, tangent = jvp(fun, tuple(args), direction)

    def at(sign: float) -> Any:
        moved = trees.tree_map(lambda x, t: x if t.dtype == dtypes.float0 else
                               np.asarray(np.asarray(x) + sign * eps * t, typeof(x).dtype), tuple(args), direction)
        return fun(*moved)

    for t, plus, minus in zip(*map(trees.tree_leaves, (tangent, at(1.0), at(-1.0)))):
        if typeof(t).dtype != dtypes.float0:
            np.testing.assert_allclose(_host(t), (_host(plus) - _host(minus)) / (2 * eps), rtol=rtol, atol=atol)


def check_vjp(fun: Callable[..., Any], args: Sequence[Any], *, rtol: float = 1e-3, atol: float = 1e-3,
              seed: int = 0) -> None:
    """Pulling back is the transpose of pushing forward: `<ct, J t> == <J' ct, t>`.

    Raises:
      AssertionError: with both products.
    """
    rng = np.random.default_rng(seed)
    args = tuple(args)
    direction = trees.tree_map(lambda x: _noise(rng, x), args)
    out, tangent = jvp(fun, args, direction)
    ct = trees.tree_map(lambda o: _noise(rng, o), out)
    out_again, pull = vjp(fun, *args)
    for a, b in zip(trees.tree_leaves(out), trees.tree_leaves(out_again)):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)
    pulled = pull(ct)
    assert trees.tree_structure(pulled) == trees.tree_structure(args), "cotangents must have the arguments' structure"
    for a, b in zip(trees.tree_leaves(pulled), trees.tree_leaves(direction)):
        assert typeof(a).shape == b.shape and typeof(a).dtype == b.dtype, f"cotangent {typeof(a).long()} for {b.dtype}"
    np.testing.assert_allclose(_inner(ct, tangent), _inner(pulled, direction), rtol=rtol, atol=atol)


def check_grads(fun: Callable[..., Any], args: Sequence[Any], order: int = 2, modes: Sequence[str] = ("fwd", "rev"),
                atol: float | None = None, rtol: float | None = None, eps: float | None = None) -> None:
    """Derivatives of `fun` up to `order`, forward and reverse, against finite differences and each other.

    Args:
      fun: function of arrays and trees of them.
      args: the point.
      order: highest order of derivative.
      modes: of "fwd" and "rev".
      atol, rtol, eps: as for `check_jvp`; None for its defaults.
    Raises:
      AssertionError: a derivative is wrong.

    >>> check_grads(lambda x: x * x, (3.0,), order=2)
    """
    unknown = set(modes) - {"fwd", "rev"}
    atol, rtol, eps = 2e-2 if atol is None else atol, 2e-2 if rtol is None else rtol, 1e-2 if eps is None else eps
    if unknown:
        raise ValueError(f"check_grads: modes must be of 'fwd' and 'rev'; got {sorted(unknown)}")
    if "fwd" in modes:
        check_jvp(fun, args, eps=eps, rtol=rtol, atol=atol)
    if "rev" in modes:
        check_vjp(fun, args, rtol=rtol, atol=atol)
    if order > 1:
        args = tuple(args)
        rng = np.random.default_rng(order)
        if "fwd" in modes:
            direction = trees.tree_map(lambda x: _noise(rng, x), args)
            check_grads(lambda *xs: jvp(fun, xs, direction)[1], args, order - 1, modes, eps=eps, rtol=rtol, atol=atol)
        if "rev" in modes:
            ct = trees.tree_map(lambda o: _noise(rng, o), fun(*args))
            check_grads(lambda *xs: vjp(fun, *xs)[1](ct), args, order - 1, modes, eps=eps, rtol=rtol, atol=atol)


def check_sample(sample: Any, only: Sequence[int] | None = None) -> None:
    """One primitive on one sample, in 64-bit arithmetic: jvp against finite differences, vjp against jvp.

    Args:
      sample: a `lamina_ir.testing.samples.Sample`.
      only: positions of the operands to differentiate; default all inexact ones.
    """
    from lamina_ir.testing.samples import determined  # draws every sample when it is loaded
    wide = {} if sample.prim.subprograms else {"float32": "float64", "complex64": "complex128"}
    with config.enable_x64(True):
        full = [np.asarray(a, wide.get(a.dtype.name, a.dtype)) for a in sample.args]
        if not all(np.isfinite(a).all() for a in full if dtypes.is_inexact(a.dtype)):
            return  # there are no differences at infinity
        inexact = [i for i, a in enumerate(full) if dtypes.is_inexact(a.dtype) and (only is None or i in only)]

        def fun(*xs: Any) -> Any:
            args = list(full)
            for i, x in zip(inexact, xs):
                args[i] = x
            out = bind(sample.prim, *args, **sample.params)
            out = determined(sample.prim, out if sample.prim.multiple else (out,), bind)
            return [o for o in out if dtypes.is_inexact(typeof(o).dtype)]

        point = [full[i] for i in inexact]
        outs = fun(*point)
        coarse = max(tolerance(typeof(v).dtype) for v in [*point, *outs])
        if coarse < 1e-8 and all(np.isfinite(_host(o)).all() for o in outs):  # less than 64 bits say little
            check_jvp(fun, point, eps=1e-5, rtol=1e-3, atol=1e-4)
        slack = max(1e-7, 20 * coarse)
        check_vjp(fun, point, rtol=slack, atol=slack)
