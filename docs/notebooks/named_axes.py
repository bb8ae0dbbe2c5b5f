# %% [markdown]
# # Named axes: from vmap to a mesh
#
# One function, four ways to run it. The function is written for one position of every axis. What changes from one way to
# the next is where the axes run: in one program, over devices, or in a loop.
#
# It presumes chapters 4 and 10 of the course.

# %%
import numpy as np

import lamina

lamina.config.update("num_cpu_devices", 8)
import lamina.numpy as jnp
from lamina.experimental.maps import Mesh, SerialLoop, xmap

# %% [markdown]
# ## With vmap
#
# This function standardizes one feature of one example over the batch. Under `vmap` the axis has the name `"batch"`, and
# the mean refers to that name.

# %%
x = np.sin(np.arange(48, dtype=np.float32)).reshape(8, 6)


def standardize(value):
    centered = value - jnp.mean(value, axis="batch")
    return centered / jnp.sqrt(jnp.mean(centered ** 2, axis="batch"))


by_vmap = lamina.vmap(standardize, axis_name="batch")(x)
print(by_vmap.mean(axis=0).round(3), by_vmap.std(axis=0).round(3))

# %% [markdown]
# ## With xmap
#
# `xmap` names both dimensions at once. The function is the same.

# %%
AXES = ["batch", "features"]


def named(resources):
    return xmap(standardize, in_axes=AXES, out_axes=AXES, axis_resources=resources)


by_name = named({})(x)
assert jnp.allclose(by_name, by_vmap, atol=1e-5)
lamina.make_jaxpr(named({}))(x)

# %% [markdown]
# The inner program has types such as `f32[]{batch,features}`: one number for each position of two axes. The mean removes
# `batch` from the type.
#
# ## Over a mesh
#
# The mesh has four times two devices. `axis_resources` puts the axis `batch` on `x`, and `features` on `y`.

# %%
mesh = Mesh(np.array(lamina.devices()[:8]).reshape(4, 2), ("x", "y"))
with mesh:
    on_mesh = named({"batch": "x", "features": "y"})(x)
assert jnp.allclose(on_mesh, by_vmap, atol=1e-5)
lamina.sharding.visualize(on_mesh)

# %% [markdown]
# The plan shows the price. The means over `batch` need the devices along `x` to exchange their sums. Along `y`, nothing is
# sent.

# %%
with mesh:
    plan = named({"batch": "x", "features": "y"}).lower(x).plan()
plan

# %% [markdown]
# Another assignment sends nothing at all. It splits the features only, and each device has the whole batch.

# %%
with mesh:
    other = named({"features": "y"}).lower(x).plan()
[sum(c.bytes_sent for c in p.collectives) for p in (plan, other)]

# %% [markdown]
# ## In a loop
#
# If memory is short, an axis can run in iterations. This needs no mesh. Here the batch runs in four iterations of two
# examples each.

# %%
in_loop = named({"batch": SerialLoop(4)})(x)
assert jnp.allclose(in_loop, by_vmap, atol=1e-5)

# %% [markdown]
# ## Gradients
#
# Derivatives are decided before the placement, so they are the same for all four ways.

# %%
def energy(function):
    return lambda x: jnp.sum(function(x) ** 3)


expected = lamina.grad(energy(named({})))(x)
with mesh:
    for resources in [{"batch": "x"}, {"features": "y"}, {"batch": SerialLoop(4)}]:
        gradient = lamina.grad(energy(named(resources)))(x)
        print(resources, bool(jnp.allclose(gradient, expected, atol=1e-3)))
        assert jnp.allclose(gradient, expected, atol=1e-3)
