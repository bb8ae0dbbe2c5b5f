"""Random samples of primitives with windows: dimension numbers, batching axes, modes, starts inside and outside."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import Draw, kind_of
from lamina_ir import Primitive
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from lamina_ir.testing.samples import Sample

__all__ = ["FAMILY"]

CLIP, FILL, PROMISE = GatherScatterMode
FLAGS = "indices_are_sorted", "unique_indices"


def windows(d: Draw, read: bool) -> tuple[Any, ...]:
    """Return operand shape, indices, window sizes and dimension numbers, for gather (`read`) or scatter."""
    shape = d.shape(1, 3)
    ndim = len(shape)
    paired = tuple(sorted(d.axes(ndim)[:1])) if d.int(0, 2) == 0 else ()
    others = [a for a in range(ndim) if a not in paired]
    removed = tuple(sorted(a for a in others if d.flag() and (shape[a] or not read)))
    mapped = tuple(a for a in d.axes(ndim) if a not in paired)
    sizes = tuple(min(n, 1) if a in removed or a in paired else d.int(min(n, 1), n) for a, n in enumerate(shape))
    batch = list(d.shape(len(paired), 2 + len(paired)))
    at = tuple(d.axes(len(batch), len(batch))[:len(paired)])
    for a, b in zip(paired, at):
        batch[b] = shape[a]
    span = len(others) - len(removed) + len(batch)
    window = tuple(sorted(d.axes(span, span)[:len(others) - len(removed)]))
    return shape, tuple(batch), sizes, window, removed, mapped, paired, at


def starts(d: Draw, shape: Any, sizes: Any, batch: Any, mapped: Any, inside: bool) -> np.ndarray:
    """Return window starts, inside or partly outside."""
    indices = np.zeros((*batch, len(mapped)), d.dtype("iu"))
    for k, a in enumerate(mapped):
        low, high = (0, shape[a] - sizes[a]) if inside else (-2, shape[a] + 1)
        indices[..., k] = d.rng.integers(0 if kind_of(indices.dtype) == "u" else low, high + 1, batch)
    return indices


def index_flags(shape: Any, sizes: Any, indices: np.ndarray, mapped: Any, paired: Any) -> dict[str, bool]:
    """Return whether starts are sorted, and whether windows are separate once clamped."""
    rows = [indices[at].astype(int) for at in np.ndindex(*indices.shape[:-1])]
    inside = [tuple(np.clip(r, 0, [shape[a] - sizes[a] for a in mapped])) for r in rows]
    apart = not paired and len(set(inside)) == len(inside) and all(sizes[a] == 1 for a in mapped)
    return {"indices_are_sorted": not paired and sorted(map(tuple, rows)) == list(map(tuple, rows)),
            "unique_indices": apart}


def indexing(d: Draw, prim: Primitive) -> Sample:
    name, dtype = prim.name, d.dtype("fciub")
    if name.startswith("dynamic"):
        shape = d.shape(0, 3)
        sizes = tuple(d.int(0, n) for n in shape)
        at = tuple(np.asarray(d.int(0 if kind_of(t) == "u" else -2, n + 1), t)
                   for n, t in ((n, d.dtype("iu")) for n in shape))
        if name == "dynamic_slice":
            return Sample(prim, (d.array(shape, dtype), *at), {"slice_sizes": sizes})
        return Sample(prim, (d.array(shape, dtype), d.array(sizes, dtype), *at), {})
    shape, batch, sizes, window, removed, mapped, paired, at = windows(d, read=name == "gather")
    mode = d.pick((CLIP, FILL, PROMISE))
    indices = starts(d, shape, sizes, batch, mapped, mode is PROMISE)
    flags = index_flags(shape, sizes, indices, mapped, paired) if d.flag() else dict.fromkeys(FLAGS, False)
    if name == "gather":
        return Sample(prim, (d.array(shape, dtype), indices), {
            "dimension_numbers": GatherDimensionNumbers(window, removed, mapped, paired, at), "slice_sizes": sizes,
            "mode": mode,
            "fill_value": d.array((), dtype).item() if mode is FILL and d.flag() else None, **flags})
    kept = iter([n for a, n in enumerate(sizes) if a not in removed and a not in paired])
    rest = iter(batch)
    span = len(window) + len(batch)
    updates = tuple(next(kept) if a in window else next(rest) for a in range(span))
    ordered = name in ("scatter_min", "scatter_max")
    make = d.distinct if ordered else d.array
    n = int(np.prod(shape, dtype=int))
    both = make((n + int(np.prod(updates, dtype=int)),), dtype)
    if name == "scatter":  # the order of updates to one element is not specified
        both[n:] = both[n:n + 1].sum()
    return Sample(prim, (both[:n].reshape(shape), indices, both[n:].reshape(updates)), {
        "dimension_numbers": ScatterDimensionNumbers(window, removed, mapped, paired, at),
        "mode": mode, **flags})


FAMILY: dict[str, Callable[[Draw, Primitive], Sample]] = {"indexing": indexing}
