"""Sample a posterior with NUTS, and predict from the samples."""
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from _report import show
from numpyro.infer import MCMC, NUTS, Predictive

data = jnp.array([1.2, 0.7, 1.9, 1.1, 0.4, 1.5])


def model(y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    sigma = numpyro.sample("sigma", dist.Exponential(1.0))
    numpyro.sample("y", dist.Normal(mu, sigma).expand([6]).to_event(1), obs=y)


mcmc = MCMC(NUTS(model), num_warmup=100, num_samples=200, progress_bar=False)
mcmc.run(jax.random.PRNGKey(0), y=data)
samples = mcmc.get_samples()
predicted = Predictive(model, samples)(jax.random.PRNGKey(1))["y"]
# A chain amplifies rounding: averages are compared coarsely.
show(mean=jnp.round(samples["mu"].mean(), 0), spread=samples["sigma"].mean() > samples["mu"].std(),
     size=jnp.array(predicted.shape), enough=abs(predicted.mean() - data.mean()) < 0.3,
     log_prob=dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2) * 2.0).log_prob(jnp.ones((3, 2))))
