"""Compare primitives with reference functions on NumPy arrays, given as a table, on all samples of these primitives."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._types import dtypes
from .. import evaluate_primitive, prims
from . import tolerance
from .samples import Sample, samples_of

__all__ = ["check_against_reference", "highest", "lowest", "samples_in"]

Table = Mapping[str, Callable[..., Any]]


def samples_in(table: Table) -> list[Sample]:
    """List all samples of the primitives in a table.

    Raises:
      ValueError: a primitive has no samples, so it would not be tested.
    """
    found = []
    for name in table:
        samples = samples_of(getattr(prims, f"{name}_p"))
        if not samples:
            raise ValueError(f"samples_in: `{name}` has no samples; add some with lamina_ir.testing.samples.sample")
        found += samples
    return found


def check_against_reference(table: Table, sample: Sample) -> None:
    """Fail unless the NumPy evaluation of a sample has the shapes and values of the table's function."""
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
    """Return the maximum of an empty array.

    >>> lowest(np.dtype("float32")), lowest(np.dtype("int8"))
    (-inf, -128)
    """
    return -np.inf if dtypes.is_inexact(dtype) else False if dtype.kind == "b" else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """Return the minimum of an empty array.

    >>> highest(np.dtype("bool")), highest(np.dtype("int8"))
    (True, 127)
    """
    return np.inf if dtypes.is_inexact(dtype) else True if dtype.kind == "b" else np.iinfo(dtype).max
