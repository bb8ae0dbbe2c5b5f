"""Draws along mapped axes: a shape that names them gives each of their positions numbers of its own."""
from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from typing_extensions import override
from lamina_ir import ShapeError, config, dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_tracing import jit, lax
from lamina_tracing.extend import RENAMED_ERRORS, rename_errors, rename_error, typeof

from ._args import key_data_pair
from ._prng_impl import THREEFRY, fold_in_typed_key, is_typed
from ._typed_keys import can_unwrap_again, unwrap_key, wrap_like

__all__ = ["NamedShape", "fold_in_array", "fold_in_position", "takes_names"]

F = TypeVar("F", bound=Callable[..., Any])

_DRAW = docstring_entries("""
    key: a key, from `random.key` or `split`.
    shape: shape of the result; default: the shape that the parameters broadcast to.
    dtype: a float dtype; default float32 (float64 in 64-bit mode).
    a, b: shape parameters, positive; broadcast to `shape`.
    df: degrees of freedom, positive; broadcasts to `shape`.
    loc: the centre; broadcasts to `shape`.
    result: Array of `shape`.
    integers: Integer array of `shape`.
    ShapeError: `key` is not uint32[2], or the parameters do not broadcast to `shape`.
    DTypeError: `dtype` is not a dtype of this kind.
    """)


class NamedShape:
    """A shape to draw along mapped axes: sizes of the result's axes, and names of mapped ones with their sizes.

    A key that is the same for all positions of a mapped axis gives all of them the same numbers. With a named shape they are
    independent: position `k` draws with `fold_in(key, k)`, of several names one after the other in the order given. So the
    numbers are the same however the axis is mapped (with Threefry keys: those of other generators draw together under `vmap`).
    Every function here with a `shape` argument takes one.

    Args:
      sizes: of the result's axes at each position.
      named: sizes of mapped axes, by name.
    Raises:
      TypeError: a size is no integer.
      ShapeError: where it is drawn, if a mapped axis has another size.
      UnboundAxisError: where it is drawn, if a name is not bound.

    >>> from lamina_tracing import make_jaxpr
    >>> from lamina_random import NamedShape, PRNGKey, normal
    >>> shape = NamedShape(3, batch=8)
    >>> shape
    NamedShape(3, batch=8)
    >>> make_jaxpr(lambda: normal(PRNGKey(0), shape), axis_env=[("batch", 8)])().out_avals[0].varying_axes
    frozenset({'batch'})
    """

    __slots__ = ("named", "sizes")

    def __init__(self, *sizes: int, **named: int) -> None:
        self.sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        self.named = named
        for word, size in [*enumerate(self.sizes), *named.items()]:
            if isinstance(size, bool) or not hasattr(size, "__index__"):
                what = f"size {word}" if isinstance(word, int) else f"the size of {word!r}"
                raise TypeError(f"NamedShape: {what} must be an integer; got {type(size).__name__}: {size!r:.80}")

    @override
    def __repr__(self) -> str:
        return f"NamedShape({', '.join([*map(repr, self.sizes), *(f'{k}={v}' for k, v in self.named.items())])})"

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedShape) and (self.sizes, tuple(self.named.items())) == (
            other.sizes, tuple(other.named.items()))

    @override
    def __hash__(self) -> int:
        return hash((self.sizes, tuple(self.named.items())))


def _fold_in_core(key: Any, data: Any) -> Any:
    aval = typeof(data)
    if aval.shape or not (dtypes.is_integer(aval.dtype) or dtypes.is_float(aval.dtype) or dtypes.is_bool(aval.dtype)):
        raise ShapeError(f"fold_in: data must be a rank-0 integer; got {aval.str_long()}; use vmap for several")
    if is_typed(key):
        return fold_in_typed_key(key, lax.convert_element_type(data, np.uint32))
    k0, k1 = key_data_pair("fold_in", key)
    pair = lax.threefry2x32(k0, k1, np.uint32(0), lax.convert_element_type(data, np.uint32))
    return lax.concatenate([lax.reshape(y, (1,)) for y in pair], 0)


fold_in_array = jit(rename_errors(_fold_in_core, "fold_in"), inline=True)  # `fold_in` of a key and an array


def fold_in_position(call: str, key: Any, shape: NamedShape) -> Any:
    """The key of this position of the axes that the shape names."""
    given, key = key, unwrap_key(call, key, "fold_in")
    for name, size in shape.named.items():
        if (n := lax.axis_size((name,))) != size:
            raise ShapeError(f"{call}: shape is {shape}, but the mapped axis {name!r} has {n} positions; give {name}={n}")
        key = fold_in_array(key, lax.axis_index((name,)))
    return wrap_like(key, given)


def takes_names(fun: F) -> F:
    """Make a draw, whose first argument is the key, accept a typed key, and a `NamedShape` for its `shape`.

    Its docstring may use the entries that draws share, see `fill_docstring`."""
    fill_docstring(_DRAW)(fun)
    at = list(signature(fun).parameters).index("shape")

    @functools.wraps(fun)
    def draw(*args: Any, **settings: Any) -> Any:
        try:
            if args:
                args = (unwrap_key(fun.__name__, args[0]), *args[1:])
            elif "key" in settings:
                settings["key"] = unwrap_key(fun.__name__, settings["key"])
            if not can_unwrap_again():  # of the user's key: those given to other draws in here are ours
                with config.legacy_prng_key("allow"), config.default_prng_impl(THREEFRY):
                    return draw(*args, **settings)
            shape = args[at] if len(args) > at else settings["shape"] if "shape" in settings else None
            if shape.__class__ is not NamedShape:
                return fun(*args, **settings)
            given = signature(fun).bind(*args, **settings)
            given.arguments.update(key=fold_in_position(fun.__name__, given.arguments["key"], shape), shape=shape.sizes)
            return fun(*given.args, **given.kwargs)
        except RENAMED_ERRORS as error:
            rename_error(fun.__name__, error, fun)
            raise
    return draw  # type: ignore[return-value]
