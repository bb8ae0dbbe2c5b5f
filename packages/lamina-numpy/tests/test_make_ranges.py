"""Ranges whose base is an array or traced; bounds that are refused; files of arrays."""
from __future__ import annotations

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_autodiff import grad


def test_the_base_of_logspace_may_be_traced_or_an_array():
    assert grad(lambda b: jnp.sum(jnp.logspace(0.0, 2.0, 3, base=b)))(2.0) == 5
    base = np.array([2.0, 3.0])
    np.testing.assert_allclose(np.asarray(jnp.logspace(0, 2, 3, base=base)), np.logspace(0, 2, 3, base=base), rtol=1e-6)
    got = jnp.logspace(np.array([0.0, 1.0]), 2, 3, base=base, axis=-1)
    np.testing.assert_allclose(np.asarray(got), np.logspace([0, 1], 2, 3, base=base, axis=-1), rtol=1e-6)
    assert jnp.logspace(np.float16(0), 2, 3).dtype == np.float16


@pytest.mark.parametrize("bounds", [(0.0, 8.0), (8.0, 0.0), (0.0, 0.0), (-1.0, 8.0)])
def test_no_ratio_leads_from_or_to_zero_or_across_it(bounds):
    assert np.isnan(np.asarray(jnp.geomspace(*bounds, 3))).all()


@pytest.mark.parametrize("bounds, error", [((1j, 3), TypeError), ((3j,), TypeError), ((0, 3, np.complex64(1)), TypeError),
                                           ((np.inf,), ValueError), ((np.nan,), ValueError), ((0, 3, 0), ValueError)])
def test_arange_refuses(bounds, error):
    with pytest.raises(error, match="arange: "):
        jnp.arange(*bounds)


def test_bfloat16_survives_a_file(tmp_path):
    x = jnp.array([1.0, 2.5], "bfloat16")
    jnp.save(tmp_path / "x.npy", x)
    got = jnp.load(tmp_path / "x.npy")
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(got), np.asarray(x))
