import pytest
from lamina_ir import config
from lamina_tracing import jit, lax


def test_nan_raises_where_it_appears():
    f = jit(lambda x: lax.log(x))
    with config.debug_nans(True):
        assert float(f(1.0)) == 0
        for _ in range(2):
            with pytest.raises(FloatingPointError, match="NaN"):
                f(-1.0)
        with pytest.raises(FloatingPointError, match="`log`"):
            lax.log(-2.0)
    f(-1.0)
