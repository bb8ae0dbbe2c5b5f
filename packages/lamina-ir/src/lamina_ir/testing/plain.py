"""Ops beside plain loops: a table says what an op gives as a function of NumPy arrays; all samples of these ops are tried."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import dtypes, evaluate_primitive, prims
from . import tolerance
from .samples import Sample, samples_of

__all__ = ["check_beside", "highest", "lowest", "samples_in"]

Table = Mapping[str, Callable[..., Any]]


def samples_in(table: Table) -> list[Sample]:
    """All samples of the ops that a table names.

    Raises:
      ValueError: an op has none, so nothing of it would be tried.
    """
    found = []
    for name in table:
        rows = samples_of(getattr(prims, f"{name}_p"))
        if not rows:
            raise ValueError(f"samples_in: `{name}` has no samples; add some with lamina_ir.testing.samples.sample")
        found += rows
    return found


def check_beside(table: Table, sample: Sample) -> None:
    """Fail unless the op's meaning on a sample has the shapes and values that the table's function gives."""
    with np.errstate(all="ignore"):
        got = evaluate_primitive(sample.prim, sample.args, sample.params)
        want = table[sample.prim.name](*sample.args, **sample.params)
    for g, w in zip(got if sample.prim.multiple else (got,), want if sample.prim.multiple else (want,), strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert g.shape == w.shape, f"{sample.id}: shape {g.shape}, expected {w.shape}"
        wide = np.complex128 if dtypes.is_complex(g.dtype) else np.float64 if dtypes.is_inexact(g.dtype) else g.dtype
        tol = 20 * tolerance(g.dtype)
        np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=tol, atol=tol)


def lowest(dtype: Any) -> Any:
    """What a maximum over nothing is.

    >>> lowest(np.dtype("float32")), lowest(np.dtype("int8"))
    (-inf, -128)
    """
    return -np.inf if dtypes.is_inexact(dtype) else False if dtype.kind == "b" else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """What a minimum over nothing is.

    >>> highest(np.dtype("bool")), highest(np.dtype("int8"))
    (True, 127)
    """
    return np.inf if dtypes.is_inexact(dtype) else True if dtype.kind == "b" else np.iinfo(dtype).max
