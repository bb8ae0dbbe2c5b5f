"""Arrays without a runtime answer as those of a runtime do; `tests/public_api/test_arrays.py` runs the same checks on these."""
import pytest
from lamina_numpy import asarray
from lamina_numpy.testing import checks
from lamina_tracing.extend import HostArray

CHECKS = checks()


def test_there_is_no_runtime_here():
    assert type(asarray(1.0)) is HostArray


@pytest.mark.parametrize("name", CHECKS)
def test_arrays_answer(name):
    CHECKS[name]()
