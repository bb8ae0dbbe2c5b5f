"""Functions of functions: `vectorize` and its older relatives, all by `vmap`."""
from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from lamina_batching import vmap
from lamina_ir.trees import tree_map
from lamina_tracing import ArrayLike, AxisLike
from lamina_tracing.extend import check_axis, typeof, wraps

from .._core.promotion import broadcast_shapes_of
from .._core.conversion import asarray
from .._shape.layout import expand_dims, squeeze

__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]

_NAME = r"\w+"
_TERM = rf"\((?:{_NAME}(?:,{_NAME})*)?\)"
_SIGNATURE = re.compile(rf"^{_TERM}(?:,{_TERM})*->{_TERM}(?:,{_TERM})*$")
_Dims = tuple[str, ...]


def parse_signature(signature: str) -> tuple[list[_Dims], list[_Dims]]:
    """Core dimensions of the inputs and outputs of `"(n,m),(m)->(n)"`."""
    text = "".join(signature.split())
    if not _SIGNATURE.match(text):
        raise ValueError(f"vectorize: not a valid gufunc signature: {signature}; expected the form (m,n),(n)->(m)")
    left, right = text.split("->")
    return _parse_terms(left), _parse_terms(right)


def _parse_terms(side: str) -> list[_Dims]:
    return [tuple(re.findall(_NAME, term)) for term in re.findall(_TERM, side)]


def _check_core_sizes(dims: dict[str, int], shape: Sequence[int], names: _Dims, where: str) -> None:
    for size, name in zip(shape, names):
        if name.isdigit():
            if int(name) != size:
                raise ValueError(f"core dimension of fixed size {name} has size {size} {where}")
        elif dims.setdefault(name, size) != size:
            raise ValueError(f"inconsistent size for core dimension {name!r}: {size} vs {dims[name]} {where}")


def _check_outputs(fun: Callable[..., Any], dims: dict[str, int], outputs: Sequence[_Dims],
                   where: str) -> Callable[..., Any]:
    """`fun` with its results checked against the output part of a signature."""
    def core(*args: Any) -> Any:
        out = fun(*args)
        if len(outputs) == 1:
            found = (out,) if not isinstance(out, tuple) else out
        elif not isinstance(out, tuple):
            raise TypeError(f"output must be a tuple when multiple outputs are expected, got: {out!r} {where}")
        else:
            found = out
        if len(found) != len(outputs):
            raise TypeError(f"wrong number of output arguments: expected {len(outputs)}, got {len(found)} {where}")
        sizes = dict(dims)
        for value, names in zip(found, outputs):
            shape = typeof(value).shape
            if len(shape) != len(names):
                raise ValueError(f"output shape {shape} does not match core dimensions {names} {where}")
            _check_core_sizes(sizes, shape, names, where)
        return out
    return core


def _collect_sizes(args: Sequence[Any], inputs: Sequence[_Dims], where: str) -> tuple[list[tuple[int, ...]],
                                                                                      dict[str, int]]:
    """(the shape left of the core dimensions of each argument, size of each core dimension)."""
    if len(args) != len(inputs):
        raise TypeError(f"wrong number of positional arguments: expected {len(inputs)}, got {len(args)} {where}")
    lead: list[tuple[int, ...]] = []
    dims: dict[str, int] = {}
    for a, names in zip(args, inputs):
        shape = typeof(a).shape
        n = len(names)
        if len(shape) < n:
            raise ValueError(f"input with shape {shape} does not have enough dimensions for all core dimensions {names} "
                             f"{where}")
        _check_core_sizes(dims, shape[len(shape) - n:], names, where)
        lead.append(shape[:len(shape) - n])
    return lead, dims


def _map_leading(fun: Callable[..., Any], args: list[Any], lead: list[tuple[int, ...]]) -> Any:
    """`fun` mapped over broadcast leading axes: one `vmap` per axis, none over axes an argument does not have."""
    full = broadcast_shapes_of("vectorize", tuple(lead))
    # present: for each argument the broadcast axes it really has. Axes of length 1 are dropped, not repeated; those that no
    # argument has (`alone`) are put back into the result.
    squeezed, present = [], []
    for a, own in zip(args, lead):
        offset = len(full) - len(own)
        ones = tuple(i for i, n in enumerate(own) if n == 1)
        squeezed.append(squeeze(a, ones) if ones else a)
        present.append({i + offset for i, n in enumerate(own) if n != 1})
    alone = []
    for axis in range(len(full) - 1, -1, -1):
        mapped = tuple(0 if axis in p else None for p in present)
        if all(m is None for m in mapped):
            alone.append(axis)
        else:
            fun = vmap(fun, in_axes=mapped)
    out = fun(*squeezed)
    if not alone:
        return out
    return tree_map(lambda x: expand_dims(x, tuple(alone)), out)


def vectorize(pyfunc: Callable[..., Any] | None = None, *, excluded: Collection[int | str] = frozenset(),
              signature: str | None = None) -> Callable[..., Any]:
    """A function that broadcasts: `pyfunc` mapped over the leading axes of its arguments.

    Args:
      pyfunc: takes and gives arrays with the core dimensions of `signature`, scalars without one; None gives a
        decorator.
      excluded: positions and names of arguments passed on as they are.
      signature: core dimensions as in NumPy's generalised ufuncs, `"(m,n),(n)->(m)"`; None for scalars.
    Returns:
      The broadcasting function: its results have the broadcast leading axes, then their core dimensions, in the
      dtypes that `pyfunc` gives.
    Raises:
      TypeError: `excluded` holds something else, or the number of arguments or results is wrong.
      ValueError: `signature` has another form, `excluded` a negative number, or an argument or result does not have
        its core dimensions, or their sizes differ.
      ShapeError: leading axes do not broadcast.

    Derivative: that of `pyfunc`.
    Source: meaning of `numpy.vectorize`; by `vmap`, one call of `pyfunc` for all elements.

    >>> vectorize(lambda a, b: a * b)(np.ones((2, 1)), np.ones(3)).shape
    (2, 3)
    >>> vectorize(lambda v: v.sum(), signature="(n)->()")(np.array([[1, 2], [3, 4]]))
    Array([3, 7], dtype=int32)
    """
    if pyfunc is None:
        return functools.partial(vectorize, excluded=excluded, signature=signature)
    if not callable(pyfunc):
        raise TypeError(f"vectorize: expected a function; got {type(pyfunc).__name__}: {pyfunc!r:.60}")
    if any(not isinstance(e, (str, int)) for e in excluded):
        raise TypeError(f"vectorize can only exclude integer or string arguments, but excluded={set(excluded)!r}")
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")
    skip = frozenset(excluded)
    parsed = None if signature is None else parse_signature(signature)
    where = f"on vectorized function with excluded={skip if not skip else set(skip)!r} and signature={signature!r}"

    @wraps(pyfunc, functools.WRAPPER_UPDATES)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        moving = [i for i in range(len(args)) if i not in skip]
        named = [k for k in kwargs if k not in skip] if parsed is None else []
        fixed = {k: v for k, v in kwargs.items() if k not in named}

        def fun(*values: Any) -> Any:
            full = list(args)
            for i, v in zip(moving, values):
                full[i] = v
            return pyfunc(*full, **fixed, **dict(zip(named, values[len(moving):])))
        values = [asarray(args[i]) for i in moving] + [asarray(kwargs[k]) for k in named]
        if not values:
            return pyfunc(*args, **kwargs)
        if parsed is None:
            return _map_leading(fun, values, [typeof(v).shape for v in values])
        lead, dims = _collect_sizes(values, parsed[0], where)
        return _map_leading(_check_outputs(fun, dims, parsed[1], where), values, lead)
    return vectorized


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Any:
    """A function of lines applied along an axis; its result takes that axis's place.

    Args:
      func1d: takes a line `[n]`, then `args` and `kwargs`; gives an array, or a tree of arrays, of one shape for
        all lines.
      axis: the axis of length n; negative counts from the end.
      arr: array `[*s, n, *t]` of any dtype, or a list.
      args, kwargs: passed on to `func1d` as they are.
    Returns:
      Array `[*s, ..., *t]` of what `func1d` gives, or a tree of such.
    Raises:
      ShapeError: `axis` names an axis that `arr` does not have.
      TypeError: `arr` is neither an array nor a number.

    Derivative: that of `func1d`.
    Source: meaning of `numpy.apply_along_axis`; one call of `func1d`, mapped by `vmap`.

    >>> apply_along_axis(lambda line: line[::-1], 1, np.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    arr = asarray(arr)
    n = len(typeof(arr).shape)
    at = check_axis("apply_along_axis", axis, n)
    fun: Callable[..., Any] = lambda line: func1d(line, *args, **kwargs)
    for i in range(1, n - at):
        fun = vmap(fun, in_axes=i, out_axes=-1)
    for _ in range(at):
        fun = vmap(fun, in_axes=0, out_axes=0)
    return fun(arr)


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: AxisLike) -> Any:
    """A reducing function applied over one axis after the other.

    Args:
      func: called as `func(a, axis)`; gives an array that keeps all axes, or drops this one.
      a: array of any dtype, or a list.
      axes: an int, or a tuple or list of ints; negative ones count from the end.
    Returns:
      Array with as many axes as `a`, those dropped of length 1, in the dtype that `func` gives.
    Raises:
      ShapeError: `axes` names an axis that `a` does not have.
      ValueError: `func` drops more than an axis.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `numpy.apply_over_axes`.

    >>> apply_over_axes(lambda a, axis: a.max(axis), np.array([[1, 4], [3, 2]]), (0, 1))
    Array([[4]], dtype=int32)
    """
    a = asarray(a)
    n = len(typeof(a).shape)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        at = check_axis("apply_over_axes", axis, n, "axes")
        b = func(a, at)
        if len(typeof(b).shape) == n - 1:
            b = expand_dims(b, at)
        elif len(typeof(b).shape) != n:
            raise ValueError(f"apply_over_axes: the function must keep or drop one axis; it made {typeof(b).str_long()}")
        a = b
    return a
