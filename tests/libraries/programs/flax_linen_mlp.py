"""Train a perceptron with batch normalization and dropout."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from _report import run_steps, show
from flax.training import train_state


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.Dense(16, use_bias=False)(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.Dropout(0.2, deterministic=not train)(nn.relu(x))
        return nn.Dense(1)(x)


x = jax.random.normal(jax.random.PRNGKey(1), (32, 4))
y = jnp.sin(x.sum(1, keepdims=True))
net = Net()
variables = net.init(jax.random.PRNGKey(0), x, train=False)
state = train_state.TrainState.create(apply_fn=net.apply, params=variables["params"], tx=optax.adam(1e-2))


@jax.jit
def step(carry):
    state, stats, key, _ = carry
    key, dropout = jax.random.split(key)

    def loss(params):
        out, new = state.apply_fn({"params": params, "batch_stats": stats}, x, train=True, mutable=["batch_stats"],
                                  rngs={"dropout": dropout})
        return jnp.mean((out - y) ** 2), new["batch_stats"]

    (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads), stats, key, value


state, stats, _, value = run_steps(step, (state, variables["batch_stats"], jax.random.PRNGKey(2), jnp.zeros(())), 10)
out = net.apply({"params": state.params, "batch_stats": stats}, x[:4], train=False)
show(loss=value, out=out, mean=stats["BatchNorm_0"]["mean"])
