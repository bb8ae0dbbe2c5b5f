"""Fit a Bayesian regression with stochastic variational inference."""
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from _report import run_steps, show
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

x = jax.random.normal(jax.random.PRNGKey(0), (40, 3))
y = x @ jnp.array([1.0, -2.0, 0.5]) + 0.3


def model(x, y=None):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("obs", dist.Normal(x @ w + b, sigma), obs=y)


guide = AutoNormal(model)
svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
state = svi.init(jax.random.PRNGKey(1), x, y)
update = jax.jit(lambda state: svi.update(state, x, y)[0])
state = run_steps(update, state, 50)
params = svi.get_params(state)
show(loss=svi.evaluate(state, x, y), w=params["w_auto_loc"], b=params["b_auto_loc"])
