"""Complex functions of constants inside compiled programs."""
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import jit


@pytest.mark.parametrize("name", ["exp", "sqrt", "log", "tanh", "arcsin"])
def test_complex_constants_inside_compiled_programs(name):
    function = getattr(jnp, name)
    x = np.float32([0.5, 2.0])
    np.testing.assert_allclose(jit(lambda t: function(1j * t))(x), getattr(np, name)(np.complex64(1j) * x), rtol=1e-6)
    chosen = jit(lambda p: function(jnp.where(p, complex(np.nan, 0), 0.5j)))(np.array([True, False]))
    assert np.isnan(chosen[0]) and not np.isnan(chosen[1])
