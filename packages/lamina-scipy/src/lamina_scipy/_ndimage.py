"""Images at places between their elements."""
from __future__ import annotations

import itertools as itertools
from collections.abc import Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes
from lamina_numpy.extend import ignore_strict_promotion, to_inexact
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import typeof

__all__ = ["map_coordinates"]

_MODES = ("constant", "nearest", "wrap", "mirror", "reflect")


def map_coordinates(input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = "constant",
                    cval: ArrayLike = 0.0) -> Array:
    """The values of an array at places that need not be whole numbers.

    Args:
      input: number array with as many axes as there are coordinates.
      coordinates: real arrays that broadcast with each other, one per axis: positions along it.
      order: 0 for the nearest element, the one further from 0 of two that are as near; 1 for the weighted mean of those
        around.
      mode: the elements beyond the edges: "constant" `cval`, "nearest" the last element, "wrap" the array again,
        "mirror" the array reflected at the centre of its last element, "reflect" at its edge.
      cval: a number, for "constant".
    Returns:
      Array of the shape that the coordinates broadcast to, in the dtype of `input`; means of integers are rounded,
      halves away from 0.
    Raises:
      NotImplementedError: `order` is above 1, or `mode` is another word.
      ShapeError: there are not as many coordinates as axes, or they do not broadcast; an axis is empty.
      DTypeError: complex coordinates.
      TypeError: `input` or a coordinate is neither an array nor a number.

    Derivative: in `input` and, of order 1, in the coordinates, to the right at whole numbers.
    Source: meaning of `scipy.ndimage.map_coordinates`, whose "grid-constant" and "grid-wrap" are "constant" and
      "wrap" here, as in JAX.

    >>> map_coordinates(np.array([[1., 2.], [3., 5.]]), [[0.5, 1.], [0.5, 0.25]], 1)
    Array([2.75, 3.5 ], dtype=float32)
    """
    if not isinstance(order, (int, np.integer)) or order not in (0, 1):
        raise NotImplementedError(f"map_coordinates: order must be 0 or 1; got {order!r}")
    if mode not in _MODES:
        raise NotImplementedError(f"map_coordinates: mode must be one of {', '.join(map(repr, _MODES))}; got {mode!r}")
    if not np.iterable(coordinates):
        raise TypeError(f"map_coordinates: coordinates must be a sequence of arrays, one per axis; got {coordinates!r:.80}")
    places = [lnp.asarray(c) if isinstance(c, (list, tuple)) else c for c in coordinates]
    return _map_compiled(input, places, cval, int(order), mode)


@ignore_strict_promotion
def _map_core(input: Any, places: list[Any], cval: Any, order: int, mode: str) -> Any:
    call = "map_coordinates"
    to_inexact(call, input)
    t = typeof(input)
    if len(places) != len(t.shape):
        raise ShapeError(f"{call}: expected a coordinate for each axis of input; got {len(places)} for {t.str_long()}")
    if 0 in t.shape:
        raise ShapeError(f"{call}: expected an input with elements; got {t.str_long()}")
    places = lnp.broadcast_arrays(*[to_inexact(call, c) for c in places])
    if any(dtypes.is_complex(typeof(c).dtype) for c in places):
        raise DTypeError(f"{call}: expected real coordinates")
    around = [_find_neighbours(c, size, order, mode) for c, size in zip(places, t.shape)]
    exact = dtypes.inexact_dtype_for(t.dtype)
    outside = lnp.asarray(cval, t.dtype)
    total: Any = 0
    for corner in itertools.product(*around):
        value = lnp.asarray(input)[tuple(index for index, _, _ in corner)]
        for _, inside, _ in corner:
            if inside is not None:
                value = lnp.where(inside, value, outside)
        for _, _, weight in corner:
            if weight is not None:
                value = value * lnp.astype(weight, exact)
        total = total + value
    if not dtypes.is_inexact(t.dtype) and order:
        total = lax.round(total)  # halves away from 0, as the places below; NumPy's are even
    return lnp.astype(total, t.dtype)


_map_compiled = jit(_map_core, static_argnames=("order", "mode"), inline=True)


def _find_neighbours(c: Any, size: int, order: int, mode: str) -> list[Any]:
    """(index, whether it is inside, weight) of each element around a position along one axis."""
    if order == 0:
        below = lax.round(c)
        found = [(below, None)]
    else:
        below = lnp.floor(c)
        upper = c - below
        found = [(below, 1 - upper), (below + 1, upper)]
    out = []
    for place, weight in found:
        inside = (place >= 0) & (place < size) if mode == "constant" else None
        out.append((_fold_index(place, size, mode), inside, weight))
    return out


def _fold_index(place: Any, size: int, mode: str) -> Any:
    """Whole numbers, as positions within `0, ..., size - 1`; folded as floats, which no far place overflows."""
    if mode == "wrap":
        place = lnp.mod(place, size)
    elif mode == "mirror":
        period = max(2 * (size - 1), 1)
        place = (size - 1) - lnp.abs(lnp.mod(place, period) - (size - 1)) if size > 1 else lnp.zeros_like(place)
    elif mode == "reflect":
        place = lnp.mod(place, 2 * size)
        place = lnp.where(place >= size, 2 * size - 1 - place, place)
    return lnp.astype(lnp.clip(place, 0, size - 1), np.int32)
