"""Functions of this package as implementations of NumPy's functions on traced values.

NumPy passes `numpy.linalg.solve(x, y)` with a traced `x` to lamina_tracing, which calls the function that `find`
returns. That function takes NumPy's arguments. It converts what differs from the function of this package: the order of
parameters, keywords without meaning here, lists in place of arrays, the dtypes of a few integer functions, tuples in
place of lists.
"""
from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, lax
from lamina_tracing.extend import typeof

from ._core.conversion import asarray

__all__ = ["NAMES_BY_POSITION", "find"]

Function = Callable[..., Any]
# NumPy function -> number of leading parameters that agree, and the names of those that follow in NumPy.
NAMES_BY_POSITION: dict[str, tuple[int, str]] = {
    "argpartition": (3, "kind order"), "argsort": (2, "kind order"), "broadcast_to": (2, "subok"),
    "compress": (3, "out"), "concatenate": (2, "out"), "copy": (1, "order subok"), "dot": (2, "out"),
    "empty_like": (2, "order subok shape"),
    "full_like": (3, "order subok shape"), "histogram": (3, "density weights"), "histogram2d": (4, "density weights"),
    "histogramdd": (3, "density weights"), "linalg.matrix_rank": (1, "tol hermitian"),
    "linalg.pinv": (1, "rcond hermitian"), "ones_like": (2, "order subok shape"),
    "partition": (3, "kind order"), "sort": (2, "kind order"),
    "trim_zeros": (2, "axis"), "unravel_index": (2, "order"), "zeros_like": (2, "order subok shape"),
    **{f"fft.{name}": (4, "out") for name in (
        "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn",
        "irfftn")}}
# Keywords that are dropped: with any value if it is None here, else with these values.
_DROPPED: dict[str, tuple[Any, ...] | None] = {
    "kind": None, "order": None, "subok": None, "casting": None, "out": (None,), "axis": (None,), "like": (None,),
    "mean": (None,), "stable": (None, False, True), "weights": (None,), "dtype": (None,), "where": (True, None)}
_RETURN_TUPLES = ("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "gradient", "meshgrid")


def find(name: str) -> Function | None:
    """Return the implementation of a NumPy function, such as `linalg.pinv` or `add.accumulate`, or None."""
    return _find(name)


@lru_cache(maxsize=512)
def _find(name: str) -> Function | None:
    adapter = _ADAPTERS.get(name)
    if adapter is not None:
        return adapter
    found = _public(name)
    return found if found is None or "." in name and not name.startswith(("linalg.", "fft.")) else _adapt(name, found)


def _public(name: str) -> Function | None:
    """Return a public function of this package by its dotted name."""
    found: Any = sys.modules[__package__]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else None


def _adapt(name: str, function: Function) -> Function:
    """Wrap a function of this package so that it takes NumPy's arguments."""
    parameters = inspect.signature(function).parameters
    any_keyword = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    leading, following = NAMES_BY_POSITION.get(name, (sys.maxsize, ""))
    names = following.split()
    arrays, all_arrays = _array_parameters(parameters)
    makes_tuple = name in _RETURN_TUPLES

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > leading:
            kwargs |= zip(names, args[leading:])
            args = args[:leading]
        if kwargs:
            kwargs = {key: _as_array(x) if key in arrays else x for key, x in kwargs.items()
                      if key in parameters and key != "stable" or _is_needed(name, key, x, any_keyword)}
        for x in args:
            if type(x) in (list, tuple):
                args = tuple([_as_array(x) if all_arrays or i in arrays else x for i, x in enumerate(args)])
                break
        out = function(*args, **kwargs)
        if type(out) is list and makes_tuple:
            return tuple(out)
        return _strengthen(out, args) if getattr(out, "weak_type", False) else out
    return call


def _strengthen(out: Any, args: tuple[Any, ...]) -> Any:
    """Return a weakly typed result with its dtype fixed, unless all arrays among the arguments are weakly typed."""
    arrays = [x for x in args if isinstance(x, np.ndarray | Array)]
    return lax.convert_element_type(out, out.dtype) if any(not typeof(x).weak_type for x in arrays) else out


def _array_parameters(parameters: Any) -> tuple[frozenset[Any], bool]:
    """Return the names and positions of the parameters that are one array, and whether all positional ones are."""
    found: set[Any] = set()
    for i, (name, p) in enumerate(parameters.items()):
        is_array = "ArrayLike" in str(p.annotation) and not str(p.annotation).startswith("Sequence")
        if is_array and p.kind is p.VAR_POSITIONAL:
            return frozenset(found), True
        if is_array:
            found |= {name, i}
    return frozenset(found), False


def _as_array(x: Any) -> Any:
    return asarray(x) if type(x) in (list, tuple) else x


def _is_needed(name: str, key: str, value: Any, any_keyword: bool) -> bool:
    """Return whether a keyword has an effect; raise NotImplementedError if the function does not have it."""
    if any_keyword:
        return True
    dropped = _DROPPED.get(key, ())
    if value is np._NoValue or dropped is None or any(value is v for v in dropped):
        return False
    raise NotImplementedError(f"numpy.{name} of a traced value: the argument {key}= is not supported; leave it out, or "
                              "use the function of lamina_numpy")


# --- functions whose dtypes differ from NumPy's -----------------------------------------------------------------------


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    found = _public(name)
    assert found is not None
    return _adapt(name, found)(*args, **kwargs)


def _is_exact(x: Any) -> bool:
    return not dtypes.is_inexact(typeof(x).dtype)


def _cumulative(name: str, axis: int | None = None) -> Function:
    """Return a cumulative sum or product that counts small integers in the default integer, as NumPy does."""
    def cumulative(a: Any, axis: int | None = axis, dtype: Any = None, out: None = None) -> Any:
        x = _as_array(a)
        known = typeof(x).dtype
        default = dtypes.canonical_int()
        if dtype is None and _is_exact(x) and known.itemsize <= default.itemsize:
            dtype = f"u{default.name}" if known.kind == "u" else default.name
        return _call(name, x, axis, dtype)
    return cumulative


def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    x, y = _call("ravel", a), _call("ravel", v)
    return _convolve_integers(x, y, mode) if _is_exact(x) and _is_exact(y) else _call("convolve", x, y, mode)


def _convolve_integers(x: Any, y: Any, mode: str) -> Any:
    """Convolve in integers: the windows of the longer operand times the reversed shorter one."""
    if typeof(x).size < typeof(y).size:
        x, y = y, x
    n, m = typeof(x).size, typeof(y).size
    if not m:
        raise ValueError("numpy.convolve: both arrays must have elements")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"numpy.convolve: mode must be 'full', 'same' or 'valid'; got {mode!r}")
    windows = _call("take", _call("pad", x, m - 1), np.arange(n + m - 1)[:, None] + np.arange(m))
    out = _call("matmul", windows, lax.rev(y, (0,)))
    start, length = {"full": (0, n + m - 1), "same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)}[mode]
    return lax.slice_in_dim(out, start, start + length)


def _correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    x, y = _call("ravel", a), _call("ravel", v)
    if not (_is_exact(x) and _is_exact(y)):
        return _call("correlate", x, y, mode)
    if typeof(x).size >= typeof(y).size or mode != "same":
        return _convolve_integers(x, lax.rev(y, (0,)), mode)
    return lax.rev(_convolve_integers(y, lax.rev(x, (0,)), mode), (0,))  # NumPy centres on the longer operand


def _polyder(p: Any, m: int = 1) -> Any:
    p = _as_array(p)
    if not _is_exact(p):
        return _call("polyder", p, m)
    for _ in range(m):
        n = typeof(p).size
        exponents = np.arange(n - 1, 0, -1, dtype=dtypes.canonical_int())
        p = _call("multiply", lax.slice_in_dim(p, 0, max(n - 1, 0)), exponents)
    return p


def _define_known_for_reals(name: str, value: bool) -> Function:
    """Return `isreal` or `iscomplex`, whose result is known if the dtype is real."""
    def test(x: Any) -> Any:
        x = _as_array(x)
        return _call(name, x) if dtypes.is_complex(typeof(x).dtype) else np.full(typeof(x).shape, value)
    return test


def _cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
         aweights: Any = None, *, dtype: Any = None) -> Any:
    return _call("cov", _cast_to(m, dtype), _cast_to(y, dtype), rowvar, bias, ddof, fweights, aweights)


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, bias: Any = None, ddof: Any = None, *,
              dtype: Any = None) -> Any:
    # `bias` and `ddof` of older NumPy versions have no effect
    return _call("corrcoef", _cast_to(x, dtype), _cast_to(y, dtype), rowvar)


def _in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    return _call("isin", _call("ravel", ar1), ar2, assume_unique, invert)


def _cast_to(x: Any, dtype: Any) -> Any:
    return x if x is None or dtype is None else _call("astype", _as_array(x), dtype)


def _with_correction(name: str) -> Function:
    """Return `nanvar` or `nanstd` with `correction`, another name of `ddof`."""
    def deviation(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
                  keepdims: Any = np._NoValue, *, where: Any = True, mean: Any = None,
                  correction: Any = np._NoValue) -> Any:
        ddof = ddof if correction is np._NoValue else correction
        given = {"keepdims": keepdims, "where": None if where is True else where, "mean": mean}
        return _call(name, a, axis, dtype, None, ddof, **{k: x for k, x in given.items() if x is not np._NoValue})
    return deviation


_ADAPTERS: dict[str, Function] = {
    **{name: _cumulative(name) for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")},
    "add.accumulate": _cumulative("cumsum", 0), "multiply.accumulate": _cumulative("cumprod", 0),
    "convolve": _convolve, "correlate": _correlate, "polymul": lambda a1, a2: _convolve(a1, a2), "polyder": _polyder,
    "isreal": _define_known_for_reals("isreal", True), "iscomplex": _define_known_for_reals("iscomplex", False),
    "in1d": _in1d, "cov": _cov, "corrcoef": _corrcoef,
    "nanvar": _with_correction("nanvar"), "nanstd": _with_correction("nanstd")}
