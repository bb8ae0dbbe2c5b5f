"""Find where the first NaN or infinity of a program comes from, by running it on the NumPy evaluator."""
from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, dtypes, evaluate
from lamina_ir.extend import observing_equations

from .._equations import Sources

__all__ = ["find_nonfinite", "has_nonfinite"]

Row = dict[str, Any]
_BEFORE = 3
_NAMES = {"nan": "NaN", "inf": "value that is infinite"}


class _Found(Exception):
    """Stops the evaluation at the first bad value."""


def _kind_of(value: Any) -> str | None:
    """Return `nan` or `inf` if an array has such a value, else None."""
    if not dtypes.is_inexact(value.dtype):
        return None
    if dtypes.is_complex(value.dtype):
        return _kind_of(value.real) or _kind_of(value.imag)
    with np.errstate(all="ignore"):
        if np.isnan(value).any():
            return "nan"
        return "inf" if np.isinf(value).any() else None


def has_nonfinite(results: Sequence[Any]) -> str | None:
    """Return `nan` or `inf` if a result has such a value, else None. Of results over processes, own shards are read."""
    kinds = set()
    for x in results:
        if hasattr(x, "dtype") and dtypes.is_inexact(np.dtype(x.dtype)):
            parts = [x] if getattr(x, "is_fully_addressable", True) else [s.data for s in x.addressable_shards]
            kinds.update([_kind_of(np.asarray(part)) for part in parts])
    return "nan" if "nan" in kinds else "inf" if "inf" in kinds else None


def find_nonfinite(closed: ClosedJaxpr, args: Sequence[Any], kind: str, sources: Sources,
                   equation_rows: dict[int, int], problems: list[str]) -> Row | None:
    """Return the row of the first equation whose result has a NaN or an infinity.

    Args:
      closed: the program.
      args: its flat arguments.
      kind: `nan` or `inf`: which of the two the results have. An infinity on the way to a NaN is not reported.
      sources: collects the files.
      equation_rows: id of an equation -> index of its row.
      problems: gets a sentence if the value does not occur on the NumPy evaluator.
    """
    before: deque[tuple[Eqn, Any]] = deque(maxlen=_BEFORE)
    found: list[Eqn] = []

    def observe(eqn: Eqn, operands: Any, results: Any) -> None:
        if eqn.primitive.subprograms:
            return  # its own equations were observed
        for members in results:
            if any(_kind_of(np.asarray(x)) == kind for x in members):
                found.append(eqn)
                raise _Found
        if results:
            before.append((eqn, results[0][0]))

    try:
        with observing_equations(observe), np.errstate(all="ignore"):
            evaluate(closed, *[np.asarray(x) for x in args])
    except _Found:
        eqn = found[0]
        return {"function": 0, "equation": equation_rows.get(id(eqn)), **sources.of(eqn.source), "kind": kind,
                "before": [_value_row(e, np.asarray(x), sources, k) for k, (e, x) in enumerate(reversed(before))]}
    except Exception as e:
        problems.append(f"The first {_NAMES[kind]} was not found, because the NumPy evaluator raised {type(e).__name__}.")
        return None
    problems.append(f"A result has a {_NAMES[kind]} that does not occur when the equations run one by one.")
    return None


def _value_row(eqn: Eqn, value: np.ndarray, sources: Sources, k: int) -> Row:
    return {"name": f"{eqn.primitive.name} ({k + 1} before)", "type": eqn.outvars[0].aval.str_long(),
            **sources.of(eqn.source), "summary": summarize(value)}


def summarize(value: np.ndarray) -> str:
    """Return the range of the values of an array as text.

    >>> summarize(np.float32([1, -2, np.inf]))
    'from -2 to 1, 1 infinite'
    """
    if not value.size:
        return "empty"
    if value.dtype == bool:
        return f"{int(value.sum())} of {value.size} true"
    if dtypes.is_complex(value.dtype):
        value = np.abs(value)
    if not dtypes.is_inexact(value.dtype):
        return f"{value}" if value.ndim == 0 else f"from {value.min()} to {value.max()}"
    wide = value.astype(np.float64)
    if wide.ndim == 0:
        return f"{float(wide):.6g}"
    finite = wide[np.isfinite(wide)]
    parts = [f"from {finite.min():.6g} to {finite.max():.6g}"] if finite.size else []
    parts += [f"{int(np.isnan(wide).sum())} NaN"] if np.isnan(wide).any() else []
    parts += [f"{int(np.isinf(wide).sum())} infinite"] if np.isinf(wide).any() else []
    return ", ".join(parts)
