"""Each function equals NumPy's, eager and traced; the dtype is that of NumPy's result under lamina's dtype rules."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import dtypes
from lamina_tracing import jit

import lamina_numpy as lnp

from lamina_numpy.conformance.table import USES, Use, find_function, leaves

pytestmark = pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")  # by NumPy 2.5


def compute_expected(use: Use) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in leaves(find_function(np, use.name)(*use.args, **use.options))]


def close(got: Any, want: np.ndarray, what: str) -> None:
    g = np.asarray(got)
    assert g.shape == want.shape, f"{what}: shape {g.shape}, expected {want.shape}"
    exact = dtypes.canonicalize(want.dtype).kind in "biu"
    if not exact or dtypes.is_inexact(g.dtype):
        scale = max(1.0, float(np.max(np.abs(np.nan_to_num(want, posinf=0, neginf=0)), initial=0)))
        wide, expected = g.astype(np.complex128), want.astype(np.complex128)
        np.testing.assert_allclose(wide, expected, rtol=2e-4, atol=2e-5 * scale, err_msg=what)
    else:
        np.testing.assert_array_equal(g, want, err_msg=what)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.id)
def test_function_equals_numpy(use: Use) -> None:
    arrays = [lnp.asarray(a) if isinstance(a, np.ndarray) else a for a in use.args]
    got = leaves(find_function(lnp, use.name)(*arrays, **use.options))
    want = compute_expected(use)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        close(g, w, use.id)
        if isinstance(g, lnp.ndarray):
            kinds = [dtypes.canonicalize(w.dtype)]
            if w.dtype == np.int64 and use.name == "histogram":  # counts can be weights, which are floats
                kinds.append(np.dtype("float32"))
            assert g.dtype in kinds, f"{use.id}: {g.dtype}, expected {kinds[0]}"


# The result lengths of these depend on values, or their arguments are part of the program.
UNTRACED = {"shape", "ndim", "size", "nonzero", "argwhere", "flatnonzero", "unique", "union1d", "intersect1d", "setdiff1d",
            "setxor1d", "bincount", "repeat"}


@pytest.mark.parametrize("use", [u for k, u in enumerate(USES) if k % 2 and u.name not in UNTRACED], ids=lambda use: use.id)
def test_traced_function_equals_numpy(use: Use) -> None:
    at = [k for k, a in enumerate(use.args) if isinstance(a, np.ndarray) and (dtypes.is_inexact(a.dtype) or k == 0)]

    def f(*values: Any) -> Any:
        args = list(use.args)
        for k, value in zip(at, values):
            args[k] = value
        return find_function(lnp, use.name)(*args, **use.options)

    for g, w in zip(leaves(jit(f)(*[use.args[k] for k in at])), compute_expected(use), strict=True):
        close(g, w, use.id)
