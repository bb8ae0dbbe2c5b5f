"""Arrays of the runtime behave like those without one; lamina-numpy's own tests run the same checks on these."""
import lamina
import lamina.numpy as jnp
import pytest
from lamina_numpy.testing import checks
from lamina_tracing.extend import HostArray

CHECKS = checks()


def test_arrays_are_those_of_the_runtime():
    assert type(jnp.zeros(2)) is not HostArray and isinstance(jnp.zeros(2), lamina.Array)


@pytest.mark.parametrize("name", CHECKS)
def test_array_behaviour(name):
    CHECKS[name]()
