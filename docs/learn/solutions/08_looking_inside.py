"""Solutions of chapter 8."""
import lamina
import lamina.numpy as jnp
from lamina_ir import program_cost

# 1. A product of two matrices costs a hundred times as much as one of a matrix and a vector.
matrix, vector = (lamina.ShapeDtypeStruct(shape, "float32") for shape in [(100, 100), (100,)])
left = program_cost(lamina.make_jaxpr(lambda a, b, v: (a @ b) @ v)(matrix, matrix, vector)).flops
right = program_cost(lamina.make_jaxpr(lambda a, b, v: a @ (b @ v))(matrix, matrix, vector)).flops
assert left > 50 * right


# 2. The logarithm gets a safe argument where p is 0.
def entropy(p):
    return -jnp.sum(p * jnp.log(jnp.where(p > 0, p, 1.0)))


with lamina.debug_nans(True):
    assert jnp.allclose(entropy(jnp.array([0.5, 0.5, 0.0])), jnp.log(2.0))
    assert jnp.isfinite(lamina.grad(entropy)(jnp.array([0.5, 0.5, 0.0]))).all()


# 3. Each derivative differentiates all equations of the one before, also those whose results are not needed.
def count(order):
    f = jnp.sin
    for _ in range(order):
        f = lamina.grad(f)
    return len(lamina.make_jaxpr(f)(1.0).eqns)


assert count(0) == 1
assert count(10) > count(5) > count(1)
