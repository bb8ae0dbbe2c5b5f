"""Solutions of chapter 4."""
import lamina
import lamina.numpy as jnp

# 1. The inner map runs over the columns of b, the outer one over the rows of a.
product = lamina.vmap(lamina.vmap(jnp.dot, in_axes=(None, 1)), in_axes=(0, None))
a, b = jnp.arange(6.0).reshape(2, 3), jnp.arange(12.0).reshape(3, 4)
assert (product(a, b) == a @ b).all()


# 2. One query first; then in_axes=(None, 0) shares the points.
def nearest(points, query):
    return jnp.argmin(jnp.sum((points - query) ** 2, axis=1))


points = jnp.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
queries = jnp.array([[0.9, 0.8], [0.1, 0.0], [3.0, 0.0]])
assert lamina.vmap(nearest, in_axes=(None, 0))(points, queries).tolist() == [1, 0, 2]


# 3. The derivative of the gradient along a unit vector is one row of the Hessian.
def f(x):
    return x[0] ** 2 * x[1] + jnp.sin(x[2])


def row(x, unit):
    return lamina.jvp(lamina.grad(f), (x,), (unit,))[1]


x = jnp.array([1.0, 2.0, 0.5])
hessian = lamina.vmap(row, in_axes=(None, 0))(x, jnp.eye(3))
assert jnp.allclose(hessian, lamina.hessian(f)(x), atol=1e-6)
