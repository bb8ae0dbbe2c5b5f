"""Arrays like a traced one, and grids between traced ends."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import lax
from .._core.args import resolve_requested_dtype
from .._core.tracer import typeof
from ._registry import as_array, broadcast, cast, common, inexact, row, rows, shape_of, stretched

__all__: list[str] = []


def _filled(name: str, value: int) -> None:
    @row(name)
    def like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
        return full_like(a, value, dtype, order, subok, shape)


@row("full_like")
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
              device: Any = None) -> Any:
    """Of ours, so it cannot be filled in place: `x.at[i].set(v)`, or join what was computed."""
    known = typeof(as_array(a))
    sizes = known.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    kind = known.dtype if dtype is None else resolve_requested_dtype(dtype)
    return stretched(cast(as_array(fill_value), kind), sizes)


_filled("zeros_like", 0)
_filled("ones_like", 1)
_filled("empty_like", 0)


@row("linspace")
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0, *, device: Any = None) -> Any:
    start, stop = broadcast(*map(inexact, common(start, stop)))
    parts = max(num - 1 if endpoint else num, 1)
    share = np.arange(num, dtype=typeof(start).dtype) / typeof(start).dtype.type(parts)
    share = share.reshape(num, *(1,) * len(shape_of(start)))
    out = rows["add"](rows["multiply"](start, 1 - share), rows["multiply"](stop, share))
    out = rows["moveaxis"](out, 0, axis) if axis else out
    out = out if dtype is None else cast(out, resolve_requested_dtype(dtype))
    return (out, lax.div(lax.sub(stop, start), lax.full_like(start, parts))) if retstep else out


@row("logspace")
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None,
             axis: int = 0) -> Any:
    out = rows["power"](base, linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else cast(out, resolve_requested_dtype(dtype))


@row("geomspace")
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    start, stop = map(inexact, common(start, stop))
    sign = lax.sign(start)
    logs = linspace(lax.log(lax.abs(start)), lax.log(lax.abs(stop)), num, endpoint, axis=axis)
    out = rows["multiply"](lax.exp(logs), sign)
    return out if dtype is None else cast(out, resolve_requested_dtype(dtype))


@row("meshgrid")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError(f"numpy.meshgrid: indexing must be 'xy' or 'ij'; got {indexing!r}")
    xs = [rows["ravel"](x) for x in xi]
    n = len(xs)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    out = [lax.reshape(x, [shape_of(x)[0] if i == order[k] else 1 for i in range(n)]) for k, x in enumerate(xs)]
    return tuple(out if sparse else broadcast_all(out))


def broadcast_all(xs: list[Any]) -> list[Any]:
    shape = np.broadcast_shapes(*map(shape_of, xs))
    return [stretched(x, shape) for x in xs]
