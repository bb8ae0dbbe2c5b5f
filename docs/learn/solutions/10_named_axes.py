"""Solutions of chapter 10."""
import numpy as np

import lamina

lamina.config.update("num_cpu_devices", 8)
import lamina.numpy as jnp  # noqa: E402
from lamina import nn  # noqa: E402
from lamina.experimental.maps import Mesh, xmap  # noqa: E402
from lamina.sharding import NamedSharding, PartitionSpec as P  # noqa: E402

mesh = Mesh(np.array(lamina.devices()[:8]).reshape(4, 2), ("x", "y"))


# 1. Inside, `x` is one number. An axis can use several axes of the mesh.
def softmax(x):
    e = jnp.exp(x - jnp.max(x, axis="classes"))
    return e / jnp.sum(e, axis="classes")


scores = np.sin(np.arange(48, dtype=np.float32)).reshape(3, 16)
axes = ["batch", "classes"]
with mesh:
    out = xmap(softmax, in_axes=axes, out_axes=axes, axis_resources={"classes": ("x", "y")})(scores)
assert out.addressable_shards[0].data.shape == (3, 2)
assert jnp.allclose(out, nn.softmax(scores), atol=1e-6)

# 2. The axes of the mesh move with the dimensions.
matrix = lamina.device_put(np.ones((4, 8), np.float32), NamedSharding(mesh, P("y", "x")))
assert lamina.jit(jnp.transpose)(matrix).sharding.spec == P("x", "y")


# 3. The gradient for w sums over the batch. So a split of the outputs is free, and a split of the batch is not.
def layer_sum(x, w):
    out = jnp.tanh(jnp.einsum("{inputs},{inputs}->{}", x, w))
    return jnp.sum(out, axis=("batch", "outputs"))


def bytes_sent(resources):
    named = xmap(layer_sum, in_axes=(["batch", "inputs"], ["inputs", "outputs"]), out_axes={}, axis_resources=resources)
    with mesh:
        plan = lamina.jit(lamina.grad(named, argnums=1)).lower(np.ones((8, 6), np.float32), np.ones((6, 4), np.float32))
        return sum(c.bytes_sent for c in plan.compile().plan().collectives)


assert bytes_sent({"outputs": "x"}) < bytes_sent({"batch": "x"})
