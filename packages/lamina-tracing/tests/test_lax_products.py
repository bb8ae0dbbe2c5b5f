"""dot_general and the functions based on it."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ShapeError, config
from lamina_tracing import lax, make_jaxpr


def assert_equal(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-5, atol=1e-5)


X, Y = np.ones((8, 3), np.float32), np.ones((3, 2), np.float32)


def params(fun):
    return make_jaxpr(fun)(X, Y).jaxpr.eqns[0].params


def test_dot_prints_its_dimension_numbers():
    text = str(make_jaxpr(lax.dot)(X, Y))
    assert "dot_general[dimension_numbers=(((1,), (0,)), ((), ())) precision=None preferred_element_type=None] a b" \
        in " ".join(text.split()).replace("dot_general[ ", "dot_general[").replace("None ]", "None]")


def test_precision_comes_from_argument_or_config():
    high, highest = lax.Precision.HIGH, lax.Precision.HIGHEST
    assert params(lambda x, y: lax.dot(x, y, precision="high"))["precision"] == (high, high)
    with config.default_matmul_precision("float32"):
        assert params(lax.dot)["precision"] == (highest, highest)
        assert params(lambda x, y: lax.dot(x, y, precision=high))["precision"] == (high, high)


def test_dot_of_vectors_and_matrices():
    assert_equal(lax.dot(X, Y), X @ Y)
    assert_equal(lax.dot(X, Y[:, 0]), X @ Y[:, 0])
    assert_equal(lax.batch_matmul(X[None], Y[None])[0], X @ Y)
    with pytest.raises(ShapeError, match=r"lhs float32\[3,2\], rhs float32\[8,3\]"):
        lax.dot(Y, X)


def test_indices_may_be_lists_and_dtype_a_string():
    out = lax.dot_general(X, Y, (([1], [0]), ([], [])), preferred_element_type="float32")
    assert out.dtype == np.float32


@pytest.mark.parametrize("spec", ["ab,bc->ac", "ab,bc->ca", "ab,bc->a", "ab,cd->db", "ab,ab->ba", "ab,ac,ad->bd", "ab->a"])
def test_xeinsum_without_axis_names_is_einsum(spec):
    rng = np.random.default_rng(0)
    size = dict(a=2, b=3, c=4, d=2)
    xs = [rng.normal(size=[size[c] for c in term]).astype(np.float32) for term in spec.split("->")[0].split(",")]
    np.testing.assert_allclose(lax.xeinsum(spec, *xs), np.einsum(spec, *xs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec,said", [("ab,b", "one '->'"), ("aa->a", "may occur once"), ("a{i->a", "letters and then names"),
                                       ("a->b", "axis 'b' is in no operand"), ("a,b->ab", "for 2 operands; got 1"),
                                       ("a->a", "has 1 axes")])
def test_xeinsum_errors(spec, said):
    with pytest.raises(ValueError, match=said):
        lax.xeinsum(spec, np.ones((2, 2), np.float32))


def test_operands_of_different_dtypes_are_promoted():
    out = lax.dot(np.ones((2, 3), np.float32), np.ones(3, np.int32))
    assert out.dtype == np.float32 and out.tolist() == [3, 3]
    assert lax.dot(np.ones(3, np.float16), np.ones(3, np.float32)).dtype == np.float32


def test_boolean_product_with_preferred_element_type_counts():
    assert lax.dot(np.ones((2, 3), bool), np.ones(3, bool), preferred_element_type="int32").tolist() == [3, 3]


def test_precisions_by_name():
    assert lax.Precision("highest") is lax.Precision.HIGHEST


@pytest.mark.parametrize("fun, args", [(lax.dot_general, (X, Y, (((1,), (0,)), ((), ())))), (lax.reshape, (X, (24,)))])
def test_out_sharding_must_be_a_sharding(fun, args):
    assert_equal(fun(*args, out_sharding=None), fun(*args))
    with pytest.raises(TypeError, match=f"{fun.__name__}: out_sharding: expected a PartitionSpec, a NamedSharding or None"):
        fun(*args, out_sharding=("x",))
