"""Solutions of chapter 9."""
import numpy as np

import lamina

lamina.config.update("num_cpu_devices", 8)
import lamina.numpy as jnp  # noqa: E402
from lamina import lax, nn, random  # noqa: E402

# 1. Each device finds the maximum of its ten numbers; `pmax` finds that of all.
x = random.normal(random.key(0), (80,))
largest = lamina.pmap(lambda part: lax.pmax(part.max(), "devices"), axis_name="devices", out_axes=None)(x.reshape(8, 10))
assert largest == x.max()


# 2. After eight steps around the ring each device has added all numbers.
def ring_sum(x):
    total = jnp.zeros_like(x)
    for _ in range(8):
        x = lax.ppermute(x, "devices", [(i, (i + 1) % 8) for i in range(8)])
        total = total + x
    return total


assert lamina.pmap(ring_sum, axis_name="devices")(jnp.arange(8.0)).tolist() == [28.0] * 8

# 3. The same network, as a list of layers. The only difference between the two steps is `average`.
images, labels = random.uniform(random.key(1), (960, 64)), np.arange(960) % 10
sizes = [(64, 64), (64, 10)]


def loss(params, images, labels):
    hidden = nn.relu(images @ params[0])
    return -jnp.mean(jnp.sum(nn.one_hot(labels, 10) * nn.log_softmax(hidden @ params[1]), axis=1))


def step(params, images, labels, average=lambda grads: grads):
    grads = average(lamina.grad(loss)(params, images, labels))
    return lamina.tree.map(lambda p, g: p - 0.5 * g, params, grads)


def parallel_step(params, images, labels):
    return step(params, images, labels, lambda grads: lax.pmean(grads, "devices"))


on_all = lamina.pmap(parallel_step, axis_name="devices", in_axes=(None, 0, 0), out_axes=None)
on_one = lamina.jit(step)
one = eight = [random.normal(key, shape) / 8 for key, shape in zip(random.split(random.key(2)), sizes)]
for batch in np.split(np.arange(960), 10):
    eight = on_all(eight, images[batch].reshape(8, 12, 64), labels[batch].reshape(8, 12))
    one = on_one(one, images[batch], labels[batch])
assert all(jnp.allclose(a, b, atol=1e-4) for a, b in zip(one, eight))
