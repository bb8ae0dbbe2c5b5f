"""Definition of each collective in plain NumPy: from the values of all members of an axis, in order, to their results.

`on_axes` applies a definition to an array whose leading axes are mapped axes: over one of them, several, or groups.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["CASES", "MEANING", "on_axes"]


def _parts(x: np.ndarray, n: int, axis: int, tiled: bool) -> list[np.ndarray]:
    pieces = np.split(x, n, axis)
    return pieces if tiled else [np.squeeze(p, axis) for p in pieces]


def _joined(xs: Sequence[np.ndarray], axis: int, tiled: bool) -> np.ndarray:
    return np.concatenate(xs, axis) if tiled else np.stack(xs, axis)


def _gathered(xs: Any, axis: int = 0, tiled: bool = False) -> Any:
    return [_joined(xs, axis, tiled) for _ in xs]


def _scattered(xs: Any, scatter_dimension: int = 0, tiled: bool = False) -> Any:
    return _parts(np.sum(xs, 0), len(xs), scatter_dimension, tiled)


def _exchanged(xs: Any, split_axis: int, concat_axis: int, tiled: bool = False) -> Any:
    sent = [_parts(x, len(xs), split_axis, tiled) for x in xs]
    return [_joined([s[k] for s in sent], concat_axis, tiled) for k in range(len(xs))]


def _permuted(xs: Any, perm: Any) -> Any:
    came = {to: source for source, to in perm}
    return [xs[came[k]] if k in came else np.zeros_like(x) for k, x in enumerate(xs)]


MEANING: dict[str, Callable[..., Any]] = {
    "psum": lambda xs: [np.sum(xs, 0)] * len(xs),
    "pmean": lambda xs: [np.mean(xs, 0)] * len(xs),
    "pmax": lambda xs: [np.max(xs, 0)] * len(xs),
    "pmin": lambda xs: [np.min(xs, 0)] * len(xs),
    "pargmax": lambda xs: [np.argmax(xs, 0).astype(np.int32)] * len(xs),
    "pargmin": lambda xs: [np.argmin(xs, 0).astype(np.int32)] * len(xs),
    "all_gather": _gathered,
    "psum_scatter": _scattered,
    "all_to_all": _exchanged,
    "pswapaxes": lambda xs, axis: _exchanged(xs, axis, axis),
    "ppermute": _permuted,
    "pshuffle": lambda xs, perm: [xs[j] for j in perm],
    "pbroadcast": lambda xs, source: [xs[source]] * len(xs),
    "axis_index": lambda xs: [np.int32(k) for k in range(len(xs))],
}

# Calls of each, for an axis of four members whose values are `[4, 4, k]`.
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("psum", {}), ("pmean", {}), ("pmax", {}), ("pmin", {}), ("pargmax", {}), ("pargmin", {}),
    ("all_gather", {}), ("all_gather", {"axis": 1}), ("all_gather", {"axis": 1, "tiled": True}),
    ("psum_scatter", {}), ("psum_scatter", {"scatter_dimension": 1, "tiled": True}),
    ("all_to_all", {"split_axis": 0, "concat_axis": 1}), ("all_to_all", {"split_axis": 1, "concat_axis": 0, "tiled": True}),
    ("pswapaxes", {"axis": 1}), ("ppermute", {"perm": [(0, 2), (1, 0), (3, 3)]}),
    ("ppermute", {"perm": [(j, (j + 1) % 4) for j in range(4)]}), ("pshuffle", {"perm": [2, 0, 3, 1]}),
    ("pbroadcast", {"source": 2}), ("axis_index", {}),
)


def on_axes(name: str, x: np.ndarray, params: dict[str, Any], axes: Sequence[int] = (0,), ranks: int = 1,
            groups: Any = None) -> np.ndarray:
    """Return the results of all members, in an array whose leading `ranks` axes are those of `x`.

    Args:
      name: the collective.
      x: values of all members; its first `ranks` axes are mapped axes.
      params: the parameters of the collective.
      axes: the mapped axes of the collective, the first varying slowest.
      ranks: the number of mapped axes.
      groups: lists of members, one per group; None: one group of all members.
    """
    rest = [a for a in range(ranks) if a not in axes]
    order = [*rest, *axes, *range(ranks, x.ndim)]
    moved = x.transpose(order)
    outer, own = moved.shape[:len(rest)], moved.shape[len(rest):ranks]
    flat = moved.reshape(int(np.prod(outer)), int(np.prod(own)), *x.shape[ranks:])
    results = []
    for members in flat:
        found: list[Any] = [None] * len(members)
        for group in groups or [range(len(members))]:
            for member, y in zip(group, MEANING[name]([members[m] for m in group], **params)):
                found[member] = y
        results.append(np.stack(found))
    whole = np.stack(results)
    whole = whole.reshape(*outer, *own, *whole.shape[2:])
    back = np.argsort([*rest, *axes])
    return whole.transpose([*back, *range(ranks, whole.ndim)])
