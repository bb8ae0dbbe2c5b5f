"""Compiled lamina.scipy: values match those stored in the tests of lamina-scipy, which NumPy computes there."""
import json
from pathlib import Path

import lamina
import numpy as np
import pytest
from lamina.scipy import special, stats

FROZEN = Path(__file__).parents[2] / "packages" / "lamina-scipy" / "tests"
SPECIAL = json.loads((FROZEN / "special_values.json").read_text())
# in units of the last place of float32, if more than 60
LOOSE = {"betainc": 2000, "gammainc": 300, "gammaincc": 300, "ndtr": 200, "erfc": 200, "hyp1f1": 300}


@pytest.mark.parametrize("name", SPECIAL)
def test_compiled_special_functions(name):
    want, points = np.array(SPECIAL[name]["is"]), np.array(SPECIAL[name]["at"], np.float32)
    got = np.asarray(lamina.jit(getattr(special, name))(*points), np.float64)
    fits = (np.abs(want) > 1e-37) & (np.abs(want) < 1e38)
    np.testing.assert_allclose(got[fits], want[fits], LOOSE.get(name, 60) * 1.2e-7, 1e-30)


@pytest.mark.parametrize("name", ["erfcinv", "erfcx", "dawsn", "loggamma", "boxcox", "boxcox1p", "comb"])
def test_compiled_special_functions_of_the_table_of_truth(name):
    rows = [row for row in json.loads((FROZEN / "special_truth.json").read_text())[name] if abs(row[1][0][0]) < 1e37]
    points = np.array([row[0] for row in rows], np.float32).T
    want, size = np.array([row[1][0] for row in rows]).T
    got = np.asarray(lamina.jit(getattr(special, name))(*points), np.float64)
    assert (np.abs(got - want) <= 60 * 1.2e-7 * size).all()


def test_compiled_hypergeometric_function():
    """Legendre's polynomials, elementary functions and a logarithm near 1."""
    x = np.float32([-30, -0.5, 0.25, 0.75, 0.9990234375])
    hyp2f1 = lamina.jit(special.hyp2f1)
    np.testing.assert_allclose(hyp2f1(np.float32(1), 1, 2, x), -np.log1p(-x) / x, 1e-5)
    np.testing.assert_allclose(hyp2f1(np.float32(2.5), 1.5, 1.5, x), (1 - x.astype(float)) ** -2.5, 2e-5)
    np.testing.assert_allclose(hyp2f1(np.float32(-2), 3, 1, (1 - x) / 2), (3 * x ** 2 - 1) / 2, 1e-5)


def test_invalid_parameters_give_nan():
    """jaxlib 0.10.2 returns uninitialized memory for `exp` of a select between numbers and NaN by one boolean."""
    x = np.linspace(-3, 3, 28, dtype=np.float32)
    for distribution, given in ((stats.norm, (0.0, -1.0)), (stats.gamma, (-1.0,)), (stats.geom, (0.0,)),
                                (stats.truncnorm, (2.0, 1.0))):
        assert np.isnan(getattr(distribution, "pdf" if hasattr(distribution, "pdf") else "pmf")(x, *given)).all()


@pytest.mark.parametrize("name", ["beta.logcdf", "t.logpdf", "truncnorm.logsf1", "cauchy.ppf", "poisson.cdf"])
def test_compiled_distributions(name):
    table = json.loads((FROZEN / "stats_values.json").read_text())[name]
    distribution, kind = name.rstrip("1").split(".")
    want, points = np.array(table["is"], float), np.array(table["at"], np.float32)
    got = np.asarray(getattr(getattr(stats, distribution), kind)(points, *table["with"]), np.float64)
    np.testing.assert_allclose(got, want, 5e-4, 2e-6)
