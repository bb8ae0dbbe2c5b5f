"""Sample and score distributions, transformed distributions and a Markov model."""
import distrax
import jax
import jax.numpy as jnp
from _report import show

key = jax.random.PRNGKey(0)
normal = distrax.MultivariateNormalDiag(jnp.array([0.0, 1.0]), jnp.array([1.0, 0.5]))
flow = distrax.Transformed(normal, distrax.Block(distrax.Chain([distrax.Tanh(), distrax.ScalarAffine(0.5, 2.0)]), 1))
value, log_prob = flow.sample_and_log_prob(seed=key, sample_shape=(3,))
mixture = distrax.MixtureSameFamily(distrax.Categorical(logits=jnp.array([0.2, 0.5])),
                                    distrax.Normal(jnp.array([-1.0, 1.0]), jnp.array([0.5, 1.5])))
hidden = distrax.HMM(distrax.Categorical(probs=jnp.array([0.6, 0.4])),
                     distrax.Categorical(probs=jnp.array([[0.7, 0.3], [0.2, 0.8]])),
                     distrax.Normal(jnp.array([-1.0, 1.0]), jnp.ones(2)))
_, _, _, likelihood = hidden.forward_backward(jnp.array([-0.5, 0.2, 1.4]))
derivative = jax.jit(jax.grad(lambda x: mixture.log_prob(x)))(0.3)
show(value=value, log_prob=log_prob, mixture=mixture.log_prob(jnp.linspace(-1.0, 1.0, 4)), likelihood=likelihood,
     divergence=distrax.Normal(0.0, 1.0).kl_divergence(distrax.Normal(1.0, 2.0)), derivative=derivative)
