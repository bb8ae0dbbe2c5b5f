"""Solutions of chapter 7."""
import numpy as np
from sklearn.datasets import load_digits

import lamina
import lamina.numpy as jnp
from lamina import lax, nn, random

images, labels = load_digits(return_X_y=True)
images, labels = (images[:1440] / 16).astype(np.float32), labels[:1440].astype(np.int32)


def init(key, hidden=64):
    one, two = random.split(key)
    he = nn.initializers.he_normal()
    return {"first": {"w": he(one, (64, hidden)), "b": jnp.zeros(hidden)},
            "second": {"w": he(two, (hidden, 10)), "b": jnp.zeros(10)}}


def loss(params, images, labels):
    hidden = nn.relu(images @ params["first"]["w"] + params["first"]["b"])
    scores = hidden @ params["second"]["w"] + params["second"]["b"]
    return -jnp.mean(jnp.sum(nn.one_hot(labels, 10) * nn.log_softmax(scores), axis=1))


# 1. The velocity has the structure of the parameters, and starts at zero.
def momentum_step(params, velocity, images, labels):
    grads = lamina.grad(loss)(params, images, labels)
    velocity = lamina.tree.map(lambda v, g: 0.9 * v - 0.1 * g, velocity, grads)
    return lamina.tree.map(jnp.add, params, velocity), velocity


params = init(random.key(0))
velocity = lamina.tree.map(jnp.zeros_like, params)
before = loss(params, images, labels)
compiled_step = lamina.jit(momentum_step)
for _ in range(30):
    params, velocity = compiled_step(params, velocity, images, labels)
assert loss(params, images, labels) < 0.3 * before

# 2. Each leaf has a size.
assert sum(leaf.size for leaf in lamina.tree.leaves(params)) == 64 * 64 + 64 + 64 * 10 + 10


# 3. The carry is the parameters. The inputs are all batches, with the number of the batch as the leading axis.
@lamina.jit
def epoch(params, images, labels):
    def body(params, batch):
        value, grads = lamina.value_and_grad(loss)(params, *batch)
        return lamina.tree.map(lambda p, g: p - 0.5 * g, params, grads), value
    return lax.scan(body, params, (images.reshape(15, 96, 64), labels.reshape(15, 96)))


params, losses = epoch(init(random.key(0)), images, labels)
assert losses.shape == (15,)
assert losses[-1] < losses[0]
