"""Binding and tracers: results and errors."""
import copy

import numpy as np
import pytest
from lamina_ir import (ConcretizationError, LeakedTracerError, TracerArrayError, TracerBoolError, TracerIntegerError,
                       UnboundAxisError)
from lamina_tracing import Array, eval_shape, jit, lax, make_jaxpr
from lamina_tracing.extend import AxisFrame, extend_axis_env, typeof

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def test_eager_primitives_return_arrays_that_convert_to_numpy():
    y = lax.sin(X)
    assert isinstance(y, Array) and not isinstance(X, Array)
    np.testing.assert_allclose(np.asarray(y), np.sin(X), rtol=1e-6)
    assert repr(lax.neg(np.float32(1.5))) == "Array(-1.5, dtype=float32)"


def test_python_scalars_are_weak():
    assert typeof(2.0).weak_type and not typeof(np.float32(2)).weak_type
    assert lax.mul(2.0, 3.0).weak_type
    assert not lax.mul(X, 2.0).weak_type


@pytest.mark.parametrize("use, error", [
    (bool, TracerBoolError), (int, TracerIntegerError), (float, ConcretizationError), (complex, ConcretizationError),
    (np.asarray, TracerArrayError), (lambda x: [1, 2][x], TracerIntegerError), (lambda x: x.item(), ConcretizationError),
    (lambda x: 1 in x, TracerBoolError)])
def test_tracer_cannot_convert_to_number(use, error):
    with pytest.raises(error, match="traced value int32"):
        make_jaxpr(use)(1)


def test_traced_length_error_names_alternative():
    for use, words in (range, "a length, a shape.*lax.fori_loop"), (lambda n: lax.full((n,), 0.0), "`lax.full`.*a size"):
        with pytest.raises(TracerIntegerError, match=f"{words}.*static_argnums"):
            jit(use)(3)


def test_truth_of_many_elements_is_ambiguous():
    with pytest.raises(ValueError, match="ambiguous"):
        make_jaxpr(bool)(X)


def test_tracing_works_after_error():
    with pytest.raises(TracerBoolError):
        jit(lambda x: 1 if x else 2)(3)
    assert jit(lambda x: x + 1)(3) == 4


def test_leaked_tracers_are_reported():
    kept = []
    jit(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(LeakedTracerError, match=r"`sin` at .*test_trace.py:\d+ .* was given a traced float32"):
        lax.sin(kept[0])
    with pytest.raises(LeakedTracerError):
        jit(lambda y: y + kept[0])(1.0)


def test_tracers_are_immutable_unhashable_and_copy_to_themselves():
    def f(x):
        assert copy.copy(x) is x and copy.deepcopy(x) is x
        with pytest.raises(TypeError, match=r"x\.at\[i\]\.set"):
            x[0] = 1
        with pytest.raises(TypeError):
            hash(x)
        assert len(x) == 2 and x.shape == (2, 3) and x.ndim == 2 and x.size == 6
        assert "Traced<ShapedArray(float32[2,3])>" in repr(x)
        return x
    jit(f)(X)


def test_unbound_axis_error_lists_bound_axes():
    with pytest.raises(UnboundAxisError, match="'j' is not bound; bound here: 'i'"), extend_axis_env(AxisFrame("i", 2)):
        lax.axis_index("j")
    with pytest.raises(NameError, match="bound here: none"):
        lax.psum(X, "i")


def test_psum_of_python_scalar_is_axis_size():
    with extend_axis_env(AxisFrame("i", 4)):
        assert lax.psum(1, "i") == 4 and type(lax.psum(2, "i")) is int


def test_array_priority_prefers_tracer_operators():
    out = make_jaxpr(lambda x: np.ones(3, np.float32) + x)(X)
    assert [e.primitive.name for e in out.eqns][-1] == "add"


@pytest.mark.parametrize("bad", [object(), "text", np.array(["a"]), np.array([None])])
def test_non_arrays_are_rejected(bad):
    with pytest.raises(TypeError):
        lax.sin(bad)
    with pytest.raises(TypeError, match="args\\[0\\]"):
        jit(lambda x: x)(bad)


def test_format_spec_of_traced_value_is_rejected():
    with pytest.raises(TypeError, match=r"f-string at .*float32\[\] has no known number.* Use debug.print"):
        jit(lambda x: f"{x:.2f}")(1.0)
    assert jit(lambda x: x * len(f"{x:>90}"))(1.0) == 90


class Holder:
    """An array of another library."""

    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return lax.neg(self.value)


@pytest.mark.parametrize("call", [
    lambda x: lax.sin(x), lambda x: lax.add(x, x), lambda x: lax.reduce_sum(x, (0,)),
    lambda x: jit(lambda y: lax.mul(y, 2.0))(x),
    lambda x: jit(lambda: lax.mul(x, 2.0))(), lambda x: lax.fori_loop(0, 2, lambda i, c: lax.add(c, 1.0), x),
    lambda x: lax.cond(True, lax.sin, lax.cos, x), lambda x: lax.concatenate([x, x], 0), lambda x: lax.scan(
        lambda c, r: (c, lax.sin(r)), 0.0, x)[1]])
def test_objects_convertible_to_arrays_are_accepted(call):
    np.testing.assert_array_equal(np.asarray(call(Holder(X))), np.asarray(call(lax.neg(X))))


def test_types_of_objects_convertible_to_arrays():
    assert typeof(Holder(X)).shape == (2, 3)
    assert str(make_jaxpr(lax.sin)(Holder(X))) == str(make_jaxpr(lax.sin)(X))
    assert eval_shape(lax.sin, Holder(X)).shape == (2, 3)
