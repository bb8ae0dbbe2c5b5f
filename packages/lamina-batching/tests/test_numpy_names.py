"""`vmap` of NumPy functions that lamina_tracing implements, compared with a loop over the examples."""
import numpy as np
import pytest
from lamina_batching import vmap
from lamina_batching.testing import check_numpy_call
from lamina_tracing import hooks, jit
from lamina_tracing.testing import numpy_calls

CALLS = numpy_calls(core_only=True)[::2]


@pytest.fixture(autouse=True)
def without_lamina_numpy(monkeypatch):
    monkeypatch.setattr(hooks.operators, "find_numpy_function", lambda name: None)


@pytest.mark.filterwarnings("ignore:.*numpy.fix.*:DeprecationWarning")
@pytest.mark.parametrize("call", CALLS, ids=[f"{c.name}-{i}" for i, c in enumerate(CALLS)])
def test_vmap_equals_loop(call):
    check_numpy_call(call)


def test_jit_of_vmap_of_numpy_function():
    def f(x):
        return np.dot(x, x) + np.max(np.matmul(x[:, None], x[None, :]) + np.eye(3, dtype=np.float32))
    xs = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(jit(vmap(f))(xs), [f(x) for x in xs], rtol=1e-5)
