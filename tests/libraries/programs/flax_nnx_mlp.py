"""Train a model of `flax.nnx`: mutable modules under jit and grad."""
import jax
import jax.numpy as jnp
from _report import run_steps, show
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.first = nnx.Linear(4, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.last = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.norm(self.first(x))))


x = jax.random.normal(jax.random.key(1), (32, 4))
y = jnp.sin(x.sum(1, keepdims=True))
net = Net(nnx.Rngs(0))


@nnx.jit
def train(net):
    value, grads = nnx.value_and_grad(lambda net: jnp.mean((net(x) - y) ** 2))(net)
    params = nnx.state(net, nnx.Param)
    nnx.update(net, jax.tree_util.tree_map(lambda p, g: p - 0.05 * g, params, grads))
    return value


value = run_steps(lambda _: train(net), None, 10)
show(loss=value, kernel=net.last.kernel.value, mean=net.norm.mean.value)
