"""Solve linear systems directly, by least squares, and iteratively with operators given as functions."""
import jax
import jax.numpy as jnp
import lineax as lx
from _report import show

matrix = jax.random.normal(jax.random.PRNGKey(0), (5, 5)) + 4.0 * jnp.eye(5)
vector = jnp.arange(5.0)
spd = matrix @ matrix.T
general = lx.linear_solve(lx.MatrixLinearOperator(matrix), vector)
positive = lx.linear_solve(lx.MatrixLinearOperator(spd, lx.positive_semidefinite_tag), vector, lx.CG(1e-6, 1e-6))
function = lx.FunctionLinearOperator(lambda x: spd @ x, jax.ShapeDtypeStruct((5,), jnp.float32))
krylov = lx.linear_solve(function, vector, lx.GMRES(1e-5, 1e-5))
tall = lx.linear_solve(lx.MatrixLinearOperator(matrix[:, :3]), vector, lx.QR())
banded = lx.TridiagonalLinearOperator(jnp.full(5, 3.0), jnp.ones(4), -jnp.ones(4))
gradient = jax.grad(lambda m: lx.linear_solve(lx.MatrixLinearOperator(m), vector).value.sum())(matrix)
batch = jax.vmap(lambda v: lx.linear_solve(banded, v).value)(jnp.eye(5))
show(general=general.value, positive=positive.value, krylov=krylov.value, tall=tall.value, gradient=gradient, batch=batch)
