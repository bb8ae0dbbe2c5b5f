"""Products: what operands they refuse, and vectors in the plane."""
import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_ir import ShapeError
from lamina_tracing import jit, lax


@pytest.mark.parametrize("fun, shapes", [(lnp.matvec, ((3,), (3,))), (lnp.matvec, ((2, 3), ())), (lnp.vecmat, ((3,), (3,))),
                                         (lnp.vecmat, ((), (2, 3)))])
def test_products_of_matrices_and_vectors_need_their_axes(fun, shapes):
    with pytest.raises(ShapeError, match=f"{fun.__name__}: expected"):
        fun(*map(np.ones, shapes))


@pytest.mark.parametrize("path, words", [([(0, 1)], "leaves 2 operands"), ([], "leaves 3"), ([(0, 5), (0, 1)], "not there"),
                                         ([(0, 0), (0, 1)], "twice")])
def test_einsum_refuses_a_path_that_does_not_fit(path, words):
    x = np.arange(3.)
    with pytest.raises(ValueError, match=words):
        lnp.einsum("i,i,i", x, x, x, optimize=path)
    assert lnp.einsum("i,i,i", x, x, x, optimize=[(0, 1), (0, 1)]) == 9


@pytest.mark.parametrize("subscripts", ["01,12->02", "01,12", "0b,bA->0A", "!b,b#->!#", "0 1, 12 -> 02"])
def test_einsum_takes_any_characters_as_labels(subscripts):
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(lnp.einsum(subscripts, x, y), x @ y)


def test_einsum_orders_labels_of_an_implicit_result():
    assert lnp.einsum("a0", np.ones((2, 3))).shape == (3, 2)
    assert lnp.einsum("0a", np.ones((2, 3))).shape == (2, 3)
    np.testing.assert_allclose(lnp.einsum("...0,0->...", np.ones((2, 3)), np.ones(3)), [3, 3])
    with pytest.raises(ValueError, match="'0-1' in '0-1,12->02' is not made of labels"):
        lnp.einsum("0-1,12->02", np.ones((2, 3)), np.ones((3, 4)))


@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["eager", "jit"])
def test_einsum_multiplies_with_the_given_function(how):
    calls = []

    def multiply(x, y, dimension_numbers, precision, preferred_element_type):
        calls.append((dimension_numbers, precision, preferred_element_type))
        return 2 * lax.dot_general(x, y, dimension_numbers, precision, preferred_element_type)

    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    f = how(lambda x, y: lnp.einsum("ij,jk->ik", x, y, precision="high", _dot_general=multiply))
    np.testing.assert_allclose(f(x, y), 2 * x @ y)
    assert calls == [((((1,), (0,)), ((), ())), "high", np.float32)]
    np.testing.assert_allclose(lnp.einsum("ij,jk,kl->il", x, y, y.T, _dot_general=multiply), 4 * x @ y @ y.T)
    assert len(calls) == 3


def test_einsum_with_a_function_that_closes_over_traced_values():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)

    @jit
    def f(x, y, scale):
        return lnp.einsum("ij,jk->ik", x, y, _dot_general=lambda *args, **kwargs: scale * lax.dot_general(*args, **kwargs))

    np.testing.assert_allclose(f(x, y, 3.0), 3 * x @ y)


@pytest.mark.parametrize("n, m", [(2, 3), (3, 2)])
def test_cross_products_of_the_plane_and_space_with_infinities(n, m):
    a, b = np.array([np.inf, 2., 3.]), np.array([4., np.inf, 6.])
    for x, y in ((a[:n], b[:m]), (b[:n], a[:m])):
        whole = [np.append(v, 0.) if len(v) == 2 else v for v in (x, y)]
        with np.errstate(invalid="ignore"):
            third = x[0] * y[1] - x[1] * y[0]
        first, second = ((x[1] * y[2], -x[0] * y[2]) if n == 2 else (-x[2] * y[1], x[2] * y[0]))
        np.testing.assert_array_equal(lnp.cross(x, y), [first, second, third])
        finite = [np.where(np.isinf(v), 5., v) for v in whole]
        np.testing.assert_array_equal(lnp.cross(finite[0][:n], finite[1][:m]), np.cross(*finite))


@pytest.mark.parametrize("fun, args", [(lnp.matmul, ()), (lnp.einsum, ("ij,jk->ik",))])
def test_out_sharding_must_be_a_sharding(fun, args):
    x = np.arange(6.).reshape(2, 3)
    np.testing.assert_array_equal(fun(*args, x, x.T, out_sharding=None), x @ x.T)
    with pytest.raises(TypeError, match=f"{fun.__name__}: out_sharding: expected a PartitionSpec, a NamedSharding or None"):
        fun(*args, x, x.T, out_sharding=("x", None))
