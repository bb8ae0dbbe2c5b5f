"""Minimize with L-BFGS, with projection and with a proximal operator; differentiate the solution."""
import jax
import jax.numpy as jnp
import jaxopt
from _report import show

x = jax.random.normal(jax.random.PRNGKey(0), (20, 4))
y = x @ jnp.array([1.0, 0.0, -2.0, 0.5])


def ridge(w, strength):
    return jnp.mean((x @ w - y) ** 2) + strength * jnp.sum(w ** 2)


solver = jaxopt.LBFGS(fun=ridge, maxiter=50, tol=1e-5)
w = solver.run(jnp.zeros(4), strength=0.1).params
derivative = jax.jacobian(lambda s: solver.run(jnp.zeros(4), strength=s).params)(0.1)
lasso = jaxopt.ProximalGradient(jaxopt.objective.least_squares, jaxopt.prox.prox_lasso, maxiter=200, tol=1e-5)
sparse = lasso.run(jnp.zeros(4), hyperparams_prox=0.1, data=(x, y)).params
box = jaxopt.ProjectedGradient(lambda w: ridge(w, 0.0), jaxopt.projection.projection_box, maxiter=200, tol=1e-5)
inside = box.run(jnp.zeros(4), hyperparams_proj=(-0.5, 0.5)).params
simplex = jaxopt.projection.projection_simplex(jnp.array([0.3, 1.2, -0.4]))
show(w=jnp.round(w, 3), derivative=jnp.round(derivative, 2), sparse=jnp.round(sparse, 2), inside=jnp.round(inside, 3),
     simplex=simplex)
