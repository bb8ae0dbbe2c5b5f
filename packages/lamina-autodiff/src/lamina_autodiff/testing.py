"""Check derivatives against finite differences and against each other; for authors of primitives, too."""
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from lamina_ir import config, dtypes, trees
from lamina_ir.testing import tolerance as tolerance_of
from lamina_ir.typing import Function, Value
from lamina_tracing import enable_x64
from lamina_tracing.extend import bind, typeof

from ._engine.arg_checks import check_function
from ._api.forward import jvp
from ._api.reverse import vjp

if TYPE_CHECKING:  # its samples of NumPy functions take time to import
    from lamina_tracing.testing import NumPyCall

__all__ = ["Tolerance", "check_grads", "check_jvp", "check_numpy_call", "check_sample", "check_transpose", "check_vjp"]

Tolerance = float | Mapping[Any, float] | None  # a dict maps dtypes to tolerances


def _host(x: Any) -> np.ndarray:
    """Convert to a NumPy array of float64 or complex128."""
    a = np.asarray(x)
    return a.astype(np.complex128) if dtypes.is_complex(typeof(x).dtype) else a.astype(np.float64)


def _inner(a: Any, b: Any) -> Any:
    """Return the pairing Re(sum(a * b)) of two trees, without conjugation; float0 leaves are skipped."""
    pairs = zip(trees.tree_leaves(a), trees.tree_leaves(b))
    return sum(np.real(np.sum(_host(x) * _host(y))) for x, y in pairs if typeof(x).dtype != dtypes.float0)


def _draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Draw numbers of magnitude 0.5 to 1.5 and random sign, so that a wrong factor is visible."""
    return rng.uniform(0.5, 1.5, shape) * rng.choice((-1.0, 1.0), shape)


def _noise(rng: np.random.Generator, like: Any) -> Any:
    """Draw a random tangent of the type of `like`; zeros of dtype float0 for integers."""
    aval = typeof(like)
    if not dtypes.is_inexact(aval.dtype):
        return np.zeros(aval.shape, dtypes.float0)
    x = _draw(rng, aval.shape)
    if dtypes.is_complex(aval.dtype):
        x = x + 1j * _draw(rng, aval.shape)
    return np.asarray(x, aval.dtype)


def _difference(fun: Function, args: tuple[Value, ...], direction: Any, eps: float) -> Any:
    """Return the directional derivative of `fun` by central differences: a list with None for integer results."""
    def at(sign: float) -> Any:
        moved = trees.tree_map(lambda x, t: x if t.dtype == dtypes.float0 else
                               np.asarray(np.asarray(x) + sign * eps * t, typeof(x).dtype), args, direction)
        return trees.tree_leaves(fun(*moved))

    return [(_host(plus) - _host(minus)) / (2 * eps) if dtypes.is_inexact(typeof(plus).dtype) else None
            for plus, minus in zip(at(1.0), at(-1.0))]


def check_jvp(f: Function, f_jvp: Function, args: Sequence[Value], atol: Tolerance = None,
              rtol: Tolerance = None, eps: float | None = None, err_msg: str = "", *, seed: int = 0) -> None:
    """Check a forward derivative of a function against central differences.

    Args:
      f: function of arrays and trees of them.
      f_jvp: `(primals, tangents) -> (output, tangent of the output)`, such as `partial(jvp, f)`.
      args: the point.
      atol, rtol: tolerances on each element: a number, or a dict from dtypes to numbers (other dtypes get the default);
        None for 0.02.
      eps: step of the differences; None for 0.01.
      err_msg: prefix of the error message.
      seed: seed of the random direction.
    Raises:
      AssertionError: the values differ; the message shows both.

    >>> from functools import partial
    >>> check_jvp(lambda x: x * x, partial(jvp, lambda x: x * x), (3.0,))
    """
    primals, atol_of, rtol_of, eps, _, direction = _prepare(args, atol, rtol, eps, seed)
    _, tangent = f_jvp(primals, direction)
    for t, d in zip(trees.tree_leaves(tangent), _difference(f, primals, direction, eps)):
        if d is not None:
            dtype = typeof(t).dtype
            np.testing.assert_allclose(_host(t), d, rtol=rtol_of(dtype), atol=atol_of(dtype),
                                       err_msg=f"{err_msg}jvp against finite differences")


def _prepare(args: Sequence[Value], atol: Tolerance, rtol: Tolerance, eps: float | None, seed: int) -> Any:
    """Return the arguments as a tuple, the tolerances by dtype, the step, a generator, and a random direction."""
    primals, rng = tuple(args), np.random.default_rng(seed)
    direction = trees.tree_map(lambda x: _noise(rng, x), primals)
    return primals, _by_dtype("atol", atol), _by_dtype("rtol", rtol), 1e-2 if eps is None else eps, rng, direction


def check_vjp(f: Function, f_vjp: Function, args: Sequence[Value], atol: Tolerance = None,
              rtol: Tolerance = None, eps: float | None = None, err_msg: str = "", *, seed: int = 0) -> None:
    """Check a reverse derivative of a function against central differences: `<J^T ct, t> == <ct, J t>`.

    Args:
      f: function of arrays and trees of them.
      f_vjp: `(*args) -> (output, pull)`, such as `partial(vjp, f)`.
      args, eps, err_msg, seed: as for `check_jvp`.
      atol, rtol: as for `check_jvp`; with dicts, the largest tolerance among the results' dtypes is used, since one
        number is compared for all results.
    Raises:
      AssertionError: the products differ; the message shows both.

    >>> from functools import partial
    >>> check_vjp(lambda x: x * x, partial(vjp, lambda x: x * x), (3.0,))
    """
    primals, atol_of, rtol_of, eps, rng, direction = _prepare(args, atol, rtol, eps, seed)
    ct, pulled = _pull_random(f, f_vjp, primals, direction, rng)
    expected = sum(np.real(np.sum(_host(c) * d)) for c, d in zip(
        trees.tree_leaves(ct), _difference(f, primals, direction, eps)) if d is not None)
    moved = [c.dtype for c in map(typeof, trees.tree_leaves(ct)) if c.dtype != dtypes.float0] or [np.dtype(np.float32)]
    np.testing.assert_allclose(_inner(pulled, direction), expected, rtol=max(map(rtol_of, moved)),
                               atol=max(map(atol_of, moved)), err_msg=f"{err_msg}vjp against finite differences")


def _by_dtype(name: str, given: Tolerance) -> Callable[[Any], float]:
    """Return a function from dtypes to tolerances."""
    if not isinstance(given, Mapping):
        return lambda dtype: 2e-2 if given is None else given
    try:
        table = {dtypes.as_dtype(d): float(t) for d, t in given.items()}
    except (TypeError, ValueError) as e:
        raise TypeError(f"check_grads: {name} must be a number or a dict from dtypes to numbers; got {given!r}") from e
    return lambda dtype: table.get(dtype, 2e-2)


def _pull_random(f: Function, f_vjp: Function, args: tuple[Value, ...], direction: Any,
                 rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw a cotangent and pull it back; check that the result has the tree and types of the arguments."""
    out, pull = f_vjp(*args)
    for a, b in zip(trees.tree_leaves(out), trees.tree_leaves(f(*args)), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)
    ct = trees.tree_map(lambda o: _noise(rng, o), out)
    pulled = pull(ct)
    assert trees.tree_structure(pulled) == trees.tree_structure(args), "cotangents must have the arguments' structure"
    for a, b in zip(trees.tree_leaves(pulled), trees.tree_leaves(direction)):
        assert typeof(a).shape == b.shape and typeof(a).dtype == b.dtype, f"cotangent {typeof(a).str_long()} for {b.dtype}"
    return ct, pulled


def check_transpose(f: Function, args: Sequence[Value], tolerance: float = 1e-3) -> None:
    """Check that `vjp` is the transpose of `jvp`: `<ct, J t> == <J^T ct, t>`; uses no finite differences.

    Raises:
      AssertionError: the products differ; the message shows both.

    >>> check_transpose(lambda x: x * x, (3.0,))
    """
    args = tuple(args)
    rng = np.random.default_rng(0)
    direction = trees.tree_map(lambda x: _noise(rng, x), args)
    tangent = jvp(f, args, direction)[1]
    ct, pulled = _pull_random(f, functools.partial(vjp, f), args, direction, rng)
    np.testing.assert_allclose(_inner(ct, tangent), _inner(pulled, direction), rtol=tolerance, atol=tolerance)


def check_grads(f: Function, args: Sequence[Value], order: int = 2,
                modes: str | Sequence[str] = ("fwd", "rev"), atol: Tolerance = None, rtol: Tolerance = None,
                eps: float | None = None) -> None:
    """Check derivatives of `f` up to `order`, forward and reverse, against finite differences.

    Args:
      f: function of arrays and trees of them.
      args: the point.
      order: highest order of derivative.
      modes: "fwd", "rev", or a sequence of both.
      atol, rtol, eps: as for `check_jvp`.
    Raises:
      AssertionError: a derivative is wrong.

    >>> check_grads(lambda x: x * x, (3.0,), order=2)
    """
    check_function("check_grads", f)
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    unknown = set(modes) - {"fwd", "rev"}
    if unknown:
        raise ValueError(f"check_grads: modes must be of 'fwd' and 'rev'; got {sorted(unknown)}")
    _check_grads(f, tuple(args), order, modes, {"atol": atol, "rtol": rtol, "eps": eps}, "check_grads: ")


def _check_grads(f: Function, args: tuple[Value, ...], order: int, modes: tuple[str, ...],
                 options: dict[str, Any], path: str) -> None:
    rng = np.random.default_rng(order)
    if "fwd" in modes:
        check_jvp(f, functools.partial(jvp, f), args, err_msg=path, **options)
        if order > 1:
            direction = trees.tree_map(lambda x: _noise(rng, x), args)
            _check_grads(lambda *xs: jvp(f, xs, direction)[1], args, order - 1, modes, options, path + "jvp of ")
    if "rev" in modes:
        check_vjp(f, functools.partial(vjp, f), args, err_msg=path, **options)
        if order > 1:
            ct = trees.tree_map(lambda o: _noise(rng, o), f(*args))
            _check_grads(lambda *xs: vjp(f, *xs)[1](ct), args, order - 1, modes, options, path + "vjp of ")


def check_sample(sample: Any, only: Sequence[int] | None = None) -> None:
    """Check a primitive on one sample in 64-bit arithmetic: jvp against finite differences, vjp against jvp.

    Args:
      sample: a `lamina_ir.testing.samples.Sample`.
      only: positions of the operands to differentiate; default all inexact ones.
    """
    from lamina_ir.testing.samples import canonicalize_results  # noqa: PLC0415  loading the module draws all samples

    wide = {} if sample.prim.subprograms else {"float32": "float64", "complex64": "complex128"}
    with config.enable_x64(True):
        full = [np.asarray(a, wide.get(a.dtype.name, a.dtype)) for a in sample.args]
        if not all(np.isfinite(a).all() for a in full if dtypes.is_inexact(a.dtype)):
            return  # finite differences are undefined at infinity
        inexact = [i for i, a in enumerate(full) if dtypes.is_inexact(a.dtype) and (only is None or i in only)]
        if not inexact:
            return  # nothing to differentiate

        def fun(*xs: Any) -> Any:
            args = list(full)
            for i, x in zip(inexact, xs):
                args[i] = x
            out = bind(sample.prim, *args, **sample.params)
            out = canonicalize_results(sample.prim, out if sample.prim.multiple else (out,), bind)
            return [o for o in out if dtypes.is_inexact(typeof(o).dtype)]

        point = [full[i] for i in inexact]
        outs = fun(*point)
        coarse = max(tolerance_of(typeof(v).dtype) for v in [*point, *outs])
        if coarse < 1e-8 and all(np.isfinite(_host(o)).all() for o in outs):  # else differences are too inaccurate
            check_jvp(fun, functools.partial(jvp, fun), point, eps=1e-5, rtol=1e-3, atol=1e-4)
        check_transpose(fun, point, max(1e-7, 20 * coarse))


_SYMMETRIC = ("linalg.cholesky", "linalg.eigvalsh")  # NumPy reads only one triangle of the operand
_STEP = 1e-6


def check_numpy_call(call: NumPyCall) -> None:
    """Check the derivatives of a call of a NumPy function, in both modes and in 64 bits, against finite differences.

    Args:
      call: one of `lamina_tracing.testing.numpy_calls()` that is smooth.
    Raises:
      AssertionError: the values or derivatives differ; the message shows both.

    >>> from lamina_tracing.testing import NumPyCall
    >>> check_numpy_call(NumPyCall("sin", (np.array([0.5, 2.0]),), {}))
    """
    fun, xs = call.scalar_function(), call.traced()
    rng = np.random.default_rng(0)
    along = [rng.normal(size=x.shape) for x in xs]
    if call.name in _SYMMETRIC:
        along = [(d + np.swapaxes(d, -1, -2)) / 2 for d in along]
    ahead, behind = [x + _STEP * d for x, d in zip(xs, along)], [x - _STEP * d for x, d in zip(xs, along)]
    expected = (fun(*ahead) - fun(*behind)) / (2 * _STEP)
    with enable_x64():
        value, tangent = jvp(fun, tuple(xs), tuple(along))
        _, pull_back = vjp(fun, *xs)
        paired = sum(float(np.sum(np.asarray(g) * d)) for g, d in zip(pull_back(np.float64(1)), along))
    np.testing.assert_allclose(value, fun(*xs), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(float(tangent), expected, rtol=2e-6, atol=2e-8)
    np.testing.assert_allclose(paired, float(tangent), rtol=1e-9, atol=1e-12)
