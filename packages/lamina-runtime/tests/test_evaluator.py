import numpy as np
import pytest
from lamina_ir import ShapeError, prims
from lamina_runtime import Array, device_put
from lamina_runtime._dispatch.eager import XlaEvaluator
from lamina_tracing import lax, hooks
from lamina_tracing.extend import bind, jaxpr_as_fun, stage, typeof

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_runtime_sets_the_evaluator_hook():
    assert isinstance(hooks.evaluator, XlaEvaluator) and type(lax.add(1.0, 2.0)) is Array


def test_eager_primitives_with_and_without_params():
    np.testing.assert_allclose(lax.sin(X), np.sin(X), rtol=1e-6)
    np.testing.assert_array_equal(lax.reduce_sum(device_put(X), (1,)), X.sum(1))
    np.testing.assert_array_equal(lax.transpose(X, (1, 0)), X.T)
    keys, values = lax.sort((np.int32([3, 1, 2]), np.float32([0, 1, 2])), num_keys=1)
    np.testing.assert_array_equal(keys, [1, 2, 3])
    np.testing.assert_array_equal(values, [1, 2, 0])


def test_weak_types_are_kept():
    assert lax.add(1.0, 2.0).weak_type and not lax.add(np.float32(1), np.float32(2)).weak_type


def test_programs_and_calls_run_on_values():
    closed, _ = stage(lambda x, y: [lax.add(x, y), lax.neg(x)], [typeof(X), typeof(X)])
    a, b = hooks.evaluator.program(closed, [X, X])
    np.testing.assert_array_equal(a, 2 * X)
    np.testing.assert_array_equal(b, -X)
    np.testing.assert_array_equal(jaxpr_as_fun(closed)(X, X)[0], 2 * X)
    out, = bind(prims.xla_call_p, X, X, call_jaxpr=stage(lambda x, y: [lax.mul(x, y)], [typeof(X)] * 2)[0], name="f",
                donated_invars=(), inline=False, device=None, backend=None)
    np.testing.assert_array_equal(out, X * X)


def test_type_errors_come_from_the_type_rule():
    with pytest.raises((ShapeError, TypeError)):
        lax.add(X, X[0])


def test_array_copies():
    value = np.zeros(3, np.float32)
    x = hooks.evaluator.array(value, typeof(value))
    value += 1
    assert np.asarray(x).sum() == 0
