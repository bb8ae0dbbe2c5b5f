"""Functions with custom batching rules."""
import numpy as np
import pytest
from lamina_batching import custom_vmap, sequential_vmap, vmap
from lamina_ir import ShapeError
from lamina_tracing import jit, lax, make_jaxpr

X = np.arange(3, dtype=np.float32)


def scaled(rule):
    @custom_vmap
    def f(x, y):
        return lax.mul(lax.sin(x), y)
    f.def_vmap(rule)
    return f


def test_rule_receives_batch_at_axis_0():
    seen = []

    def rule(size, batched, x, y):
        seen.append((size, batched, np.shape(x), np.shape(y)))
        return x, batched[0]

    f = scaled(rule)
    assert vmap(f, (0, None))(X, 2.0).tolist() == [0.0, 1.0, 2.0]
    assert vmap(f, (1, None))(np.ones((2, 3), np.float32), 2.0).shape == (3, 2)
    assert seen == [(3, [True, False], (3,), ()), (3, [True, False], (3, 2), ())]
    assert jit(vmap(f, (0, None)))(X, 2.0).tolist() == vmap(jit(f), (0, None))(X, 2.0).tolist() == [0.0, 1.0, 2.0]
    assert f(0.0, 1.0) == 0.0 and "custom_vmap_call" in str(make_jaxpr(f)(0.0, 1.0))


def test_results_may_be_unbatched():
    f = scaled(lambda size, batched, x, y: (lax.sin(y), False))
    np.testing.assert_allclose(vmap(f, (0, None))(X, 2.0), np.full(3, np.sin(2.0)), rtol=1e-6)


@pytest.mark.parametrize(("rule", "kind", "words"), [
    (lambda size, batched, x, y: x, TypeError, "must return a pair"),
    (lambda size, batched, x, y: ((x, x), True), TypeError, "of the structure `f` returns"),
    (lambda size, batched, x, y: (x, (True, True)), TypeError, "out_batched like its output"),
    (lambda size, batched, x, y: (x, False), ShapeError, r"result 0 as float32\[\], not batched; got float32\[3\]")])
def test_wrong_rules_are_rejected_by_name(rule, kind, words):
    with pytest.raises(kind, match=f"custom_vmap of `f`: its rule .*{words}"):
        vmap(scaled(rule), (0, None))(X, 2.0)


def test_missing_rule_and_mapped_closure_are_rejected():
    with pytest.raises(AttributeError, match="has no batching rule yet"):
        custom_vmap(lambda x: x)(1.0)

    def closing(w):
        f = custom_vmap(lambda x: lax.mul(x, w))
        f.def_vmap(lambda size, batched, x: (x, True))
        return f(2.0 * w)

    with pytest.raises(TypeError, match="closes over a value that is being mapped"):
        vmap(closing)(X)


def test_sequential_vmap():
    assert vmap(sequential_vmap(lambda x: x * 2))(X).tolist() == [0.0, 2.0, 4.0]


def test_python_scalars_returned_by_function_become_arrays():
    f = custom_vmap(lambda x: (1, x))
    f.def_vmap(lambda size, batched, x: ((1, x), (False, batched[0])))
    assert [(o.dtype.name, o.weak_type) for o in f(4.0)] == [("int32", True), ("float32", True)]
