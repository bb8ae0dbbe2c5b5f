"""Fit a Gaussian process, also with the solver of quasiseparable matrices."""
import jax
import jax.numpy as jnp
from _report import run_steps, show
from tinygp import GaussianProcess, kernels

x = jnp.sort(jax.random.uniform(jax.random.PRNGKey(0), (20,), minval=0.0, maxval=5.0))
y = jnp.sin(x)


@jax.jit
def loss(params):
    kernel = jnp.exp(params["amplitude"]) * kernels.Matern32(jnp.exp(params["scale"]))
    return -GaussianProcess(kernel, x, diag=0.1).log_probability(y)


params = {"amplitude": jnp.zeros(()), "scale": jnp.zeros(())}
step = jax.jit(lambda p: jax.tree_util.tree_map(lambda a, g: a - 0.02 * g, p, jax.grad(loss)(p)))
params = run_steps(step, params, 8)
_, conditioned = GaussianProcess(kernels.ExpSquared(1.0), x, diag=0.1).condition(y, jnp.linspace(0.0, 5.0, 5))
fast = GaussianProcess(kernels.quasisep.Matern32(1.0), x, diag=0.1)
show(loss=loss(params), amplitude=params["amplitude"], mean=conditioned.loc, variance=conditioned.variance,
     fast=fast.log_probability(y), derivative=jax.grad(lambda s: GaussianProcess(
         kernels.quasisep.Matern32(s), x, diag=0.1).log_probability(y))(1.0))
