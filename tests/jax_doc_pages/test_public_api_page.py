"""The examples of the public API page that belong to this version, as written there."""
import types
from functools import partial

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import vmap


def close(a, b, rtol=1e-4):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-5)


def test_selu():
    @jax.jit
    def selu(x, alpha=1.67, lmbda=1.05):
        return lmbda * jax.numpy.where(x > 0, x, alpha * jax.numpy.exp(x) - alpha)

    key = jax.random.PRNGKey(0)
    x = jax.random.normal(key, (10,))
    close(selu(x), [-0.54485, 0.27744, -0.29255, -0.91421, -0.62452, -0.24748, -0.85743, -0.78232, 0.76827, 0.59566])


def test_disable_jit(capsys):
    @jax.jit
    def f(x):
        y = x * 2
        print("Value of y is", y)
        return y + 3

    assert f(jax.numpy.array([1, 2, 3])).tolist() == [5, 7, 9]
    assert "Value of y is Traced<ShapedArray(int32[3])>with<" in capsys.readouterr().out
    with jax.disable_jit():
        assert f(jax.numpy.array([1, 2, 3])).tolist() == [5, 7, 9]
    assert "Value of y is [2 4 6]" in capsys.readouterr().out


def test_make_jaxpr():
    def f(x): return jax.numpy.sin(jax.numpy.cos(x))
    close(f(3.0), -0.83602)
    assert [e.primitive.name for e in jax.make_jaxpr(f)(3.0).eqns] == ["cos", "sin"]
    assert {"cos", "sin", "neg", "mul"} >= {e.primitive.name for e in jax.make_jaxpr(jax.grad(f))(3.0).eqns}


def test_eval_shape():
    f = lambda A, x: jnp.tanh(jnp.dot(A, x))

    class MyArgArray(object):
        def __init__(self, shape, dtype):
            self.shape = shape
            self.dtype = jnp.dtype(dtype)

    out = jax.eval_shape(f, MyArgArray((2000, 3000), jnp.float32), MyArgArray((3000, 1000), jnp.float32))
    assert out.shape == (2000, 1000) and out.dtype == "float32"


def test_device_put_replicated_and_sharded():
    devices = jax.local_devices()
    x = jax.numpy.array([1., 2., 3.])
    y = jax.device_put_replicated(x, devices)
    assert np.allclose(y, jax.numpy.stack([x for _ in devices]))
    x = [jax.numpy.ones(5) for device in devices]
    assert np.allclose(jax.device_put_sharded(x, devices), jax.numpy.stack(x))
    x = [(i, jax.numpy.arange(i, i + 4)) for i in range(len(devices))]
    y = jax.device_put_sharded(x, devices)
    assert type(y) is tuple
    assert np.allclose(y[0], jax.device_put_sharded([a for a, b in x], devices))
    assert np.allclose(y[1], jax.device_put_sharded([b for a, b in x], devices))


def test_device_get():
    got = jax.device_get(jax.numpy.array([1., 2., 3.]))
    assert type(got) is np.ndarray and got.dtype == np.float32
    assert jax.device_get(1) == 1


def test_grad_and_jacobians():
    close(jax.grad(jax.numpy.tanh)(0.2), 0.961043)

    def f(x):
        return jnp.asarray([x[0], 5*x[2], 4*x[1]**2 - 2*x[2], x[2] * jnp.sin(x[0])])

    expected = [[1, 0, 0], [0, 0, 5], [0, 16, -2], [1.6209, 0, 0.84147]]
    close(jax.jacfwd(f)(jnp.array([1., 2., 3.])), expected)
    close(jax.jacrev(f)(jnp.array([1., 2., 3.])), expected)


def test_hessian():
    g = lambda x: x[0]**3 - 2*x[0]*x[1] - x[1]**6
    close(jax.hessian(g)(jax.numpy.array([1., 2.])), [[6, -2], [-2, -480]])
    f = lambda dct: {"c": jnp.power(dct["a"], dct["b"])}
    h = jax.hessian(f)({"a": jnp.arange(2.) + 1., "b": jnp.arange(2.) + 2.})
    close(h["c"]["a"]["a"], [[[2, 0], [0, 0]], [[0, 0], [0, 12]]])
    close(h["c"]["a"]["b"], [[[1, 0], [0, 0]], [[0, 0], [0, 12.317766]]])
    close(h["c"]["b"]["b"], [[[0, 0], [0, 0]], [[0, 0], [0, 3.843624]]])


def test_jvp_linearize_transpose_vjp():
    y, v = jax.jvp(jax.numpy.sin, (0.1,), (0.2,))
    close(y, 0.09983342)
    close(v, 0.19900084)

    def f(x): return 3. * jnp.sin(x) + jnp.cos(x / 2.)
    y, t = jax.jvp(f, (2.,), (3.,))
    close(y, 3.26819)
    close(t, -5.00753)
    assert repr(y).endswith("dtype=float32, weak_type=True)")
    y, f_jvp = jax.linearize(f, 2.)
    close(f_jvp(3.), -5.007528)
    close(f_jvp(4.), -6.676704)

    f = lambda x, y: 0.5 * x - 0.5 * y
    scalar = types.SimpleNamespace(shape=(), dtype=np.dtype(np.float32))
    a, b = jax.linear_transpose(f, scalar, scalar)(1.0)
    assert a == 0.5 and b == -0.5

    def f(x, y): return jax.numpy.sin(x), jax.numpy.cos(y)
    primals, f_vjp = jax.vjp(f, 0.5, 1.0)
    xbar, ybar = f_vjp((-0.7, 0.3))
    close(xbar, -0.61430776)
    close(ybar, -0.2524413)


def test_vmap():
    vv = lambda x, y: jnp.vdot(x, y)
    mv = vmap(vv, (0, None), 0)
    mm = vmap(mv, (None, 1), 1)
    x, y = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.arange(12.0, dtype=np.float32).reshape(3, 4)
    close(mm(x, y), x @ y)
    mv1 = vmap(vv, (0, 0), 0)
    mv2 = vmap(vv, (0, 1), 0)
    close(mv1(x, x), (x * x).sum(1))
    close(mv2(x, x.T), (x * x).sum(1))
    assert vmap(mv2, (1, 1), 0)(jnp.ones((4, 3, 5)), jnp.ones((5, 3, 4))).shape == (3, 4)


def test_vmap_containers():
    A, B, C, D = 2, 3, 4, 5

    def foo(tree_arg):
        x, (y, z) = tree_arg
        return jnp.dot(x, jnp.dot(y, z))

    print(foo((jnp.ones((A, B)), (jnp.ones((B, C)), jnp.ones((C, D))))))
    K = 6
    tree = (jnp.ones((K, A, B)), (jnp.ones((B, K, C)), jnp.ones((C, D, K))))
    assert vmap(foo, in_axes=((0, (1, 2)),))(tree).shape == (6, 2, 5)

    dct = {'a': 0., 'b': jnp.arange(5.)}
    out = vmap(lambda dct, x: dct['a'] + dct['b'] + x, in_axes=({'a': None, 'b': 0}, None))(dct, 1.)
    assert out.tolist() == [1, 2, 3, 4, 5]
    a, b = vmap(lambda x, y: (x + y, y * 2.), in_axes=(0, None), out_axes=(0, None))(jnp.arange(2.), 4.)
    assert a.tolist() == [4, 5] and b == 8.0
    a, b = vmap(lambda x, y: (x + y, y * 2.), in_axes=(0, None), out_axes=0)(jnp.arange(2.), 4.)
    assert b.tolist() == [8, 8]


def test_vectorize():
    @partial(jnp.vectorize, signature='(k),(k)->(k)')
    def cross_product(a, b):
        assert a.shape == b.shape and a.ndim == b.ndim == 1
        return jnp.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])

    @partial(jnp.vectorize, signature='(n,m),(m)->(n)')
    def matrix_vector_product(matrix, vector):
        assert matrix.ndim == 2 and matrix.shape[1:] == vector.shape
        return matrix @ vector

    assert cross_product(jnp.ones(3), jnp.ones(3)).shape == (3,)
    assert cross_product(jnp.ones((2, 3)), jnp.ones(3)).shape == (2, 3)
    assert cross_product(jnp.ones((1, 2, 3)), jnp.ones((2, 1, 3))).shape == (2, 2, 3)
    with pytest.raises(ValueError, match="does not have enough dimensions"):
        matrix_vector_product(jnp.ones(3), jnp.ones(3))
    assert matrix_vector_product(jnp.ones((2, 3)), jnp.ones(3)).shape == (2,)
    assert matrix_vector_product(jnp.ones((2, 3)), jnp.ones((4, 3))).shape == (4, 2)
    with pytest.raises(TypeError):
        jnp.matmul(jnp.ones((2, 3)), jnp.ones((4, 3)))
