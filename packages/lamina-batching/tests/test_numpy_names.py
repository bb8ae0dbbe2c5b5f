"""`vmap` of NumPy functions that lamina_tracing implements, compared with a loop over the examples."""
import numpy as np
import pytest
from lamina_batching import vmap
from lamina_tracing import enable_x64, hooks, jit
from lamina_tracing.testing import numpy_calls

CALLS = numpy_calls(core_only=True)[::2]


@pytest.fixture(autouse=True)
def without_lamina_numpy(monkeypatch):
    monkeypatch.setattr(hooks.operators, "find_numpy_function", lambda name: None)


def flat(out):
    return [v for x in out for v in flat(x)] if isinstance(out, (list, tuple)) else [out]


@pytest.mark.filterwarnings("ignore:.*numpy.fix.*:DeprecationWarning")
@pytest.mark.parametrize("call", CALLS, ids=[f"{c.name}-{i}" for i, c in enumerate(CALLS)])
def test_vmap_equals_loop(call):
    f, xs = call.function(), call.traced()
    many = [np.stack([x, x * 1.25]) for x in xs]
    with enable_x64():
        got = flat(vmap(lambda *v: tuple(flat(f(*v))))(*many))
        for i in (0, 1):
            for g, w in zip(got, flat(f(*[m[i] for m in many])), strict=True):
                g = np.asarray(g)
                rtol = 2e-6 if np.asarray(w).dtype == np.float32 else 1e-8
                np.testing.assert_allclose(g[i] if g.ndim > np.ndim(w) else g, w, rtol=rtol, atol=1e-10)


def test_jit_of_vmap_of_numpy_function():
    def f(x):
        return np.dot(x, x) + np.max(np.matmul(x[:, None], x[None, :]) + np.eye(3, dtype=np.float32))
    xs = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(jit(vmap(f))(xs), [f(x) for x in xs], rtol=1e-5)
