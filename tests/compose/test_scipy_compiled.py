"""What lamina.scipy computes when it is compiled: the values its room holds frozen, which there NumPy computes."""
import json
from pathlib import Path

import lamina
import numpy as np
import pytest
from lamina.scipy import special

FROZEN = Path(__file__).parents[2] / "packages" / "lamina-scipy" / "tests"
SPECIAL = json.loads((FROZEN / "special_values.json").read_text())
# in units of the last place of float32, where it is more than 60
LOOSE = {"betainc": 2000, "gammainc": 300, "gammaincc": 300, "ndtr": 200, "erfc": 200, "hyp1f1": 300}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name):
    want, points = np.array(SPECIAL[name]["is"]), np.array(SPECIAL[name]["at"], np.float32)
    got = np.asarray(lamina.jit(getattr(special, name))(*points), np.float64)
    fits = (np.abs(want) > 1e-37) & (np.abs(want) < 1e38)
    np.testing.assert_allclose(got[fits], want[fits], LOOSE.get(name, 60) * 1.2e-7, 1e-30)
