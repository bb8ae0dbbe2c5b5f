"""Use distributions, bijectors and Hamiltonian Monte Carlo of TensorFlow Probability on its JAX substrate."""
import jax
import jax.numpy as jnp
import tensorflow_probability.substrates.jax as tfp
from _report import show

tfd, tfb = tfp.distributions, tfp.bijectors
gamma = tfd.Gamma(2.0, 1.5)
flow = tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), tfb.Chain([tfb.Exp(), tfb.Scale(0.5)]))
joint = tfd.JointDistributionSequential([tfd.Normal(0.0, 1.0), lambda x: tfd.Normal(x, 0.5)])
kernel = tfp.mcmc.HamiltonianMonteCarlo(lambda x: -0.5 * (x - 1.0) ** 2, step_size=0.3, num_leapfrog_steps=3)
states = tfp.mcmc.sample_chain(5, jnp.float32(0.0), kernel=kernel, trace_fn=None, seed=jax.random.PRNGKey(0))
derivative = jax.jit(jax.grad(lambda a: tfd.Gamma(a, 1.5).log_prob(1.2)))(2.0)
low = tfp.optimizer.lbfgs_minimize(jax.value_and_grad(lambda x: jnp.sum((x - 2.0) ** 2)), jnp.zeros(3)).position
show(gamma=gamma.log_prob(jnp.array([0.5, 1.0, 2.0])), sample=gamma.sample(3, seed=jax.random.PRNGKey(1)),
     flow=flow.log_prob(jnp.array([0.5, 2.0])), joint=joint.log_prob([0.3, 0.1]), states=states, derivative=derivative, low=low)
