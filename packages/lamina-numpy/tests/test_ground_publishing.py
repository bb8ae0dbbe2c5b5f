"""What people see of a published function is the function they called: its name, home, text and signature."""
from __future__ import annotations

import inspect

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_tracing import jit, make_jaxpr

HOMES = {"lamina_numpy": jnp, "lamina_numpy.linalg": jnp.linalg, "lamina_numpy.fft": jnp.fft}
SHOWN = [(home, name) for home, module in HOMES.items() for name in module.__all__
         if callable(f := getattr(module, name)) and not isinstance(f, type) and not hasattr(np.lib, f.__name__)
         and (f.__module__ or "").startswith("lamina_numpy")]


@pytest.mark.parametrize("home, name", SHOWN)
def test_functions_bear_their_public_name(home, name):
    """An alias bears the name it stands for."""
    shown = getattr(HOMES[home], name)
    assert getattr(HOMES[shown.__module__], shown.__name__) is shown
    assert shown.__qualname__ == shown.__name__ and not shown.__name__.startswith(("_", "eager"))
    assert shown.__doc__ and inspect.signature(shown).parameters is not None
    plain = getattr(shown, "__wrapped__", shown)
    assert plain.__name__ == shown.__name__ and inspect.signature(plain) == inspect.signature(shown)
    assert "lamina_numpy" in inspect.getsourcefile(plain)


@pytest.mark.parametrize("fun, args", [(jnp.where, (True, "a", 1)), (jnp.power, ("a", 2)), (jnp.power, (2.0, "a"))])
def test_errors_call_functions_by_their_name(fun, args):
    with pytest.raises(TypeError, match=fun.__name__) as caught:
        fun(*args)
    assert "eager" not in str(caught.value) and "_three" not in str(caught.value)


@pytest.mark.parametrize("call, op", [
    (lambda x: jnp.where(x > 0, x, 0), "where"), (lambda x: jnp.power(x, 2), "power"), (lambda x: jnp.roll(x, 1), "roll"),
    (lambda x: jnp.nonzero(x, size=2), "nonzero"), (lambda x: jnp.einsum("i->", x), "einsum")])
def test_a_traced_call_writes_equations_and_no_call(call, op):
    text = str(make_jaxpr(call)(np.arange(3.0, dtype=np.float32)))
    assert "xla_call" not in text and op not in text
    np.testing.assert_array_equal(np.asarray(jit(call)(np.arange(3.0))), np.asarray(call(np.arange(3.0))))


def test_a_python_exponent_is_part_of_the_program():
    assert "integer_pow[y=3]" in str(make_jaxpr(lambda x: jnp.power(x, 3))(2.0))
    assert float(jnp.power(2.0, 3)) == 8 and float(jnp.power(2.0, 4)) == 16
