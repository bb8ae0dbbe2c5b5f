# %% [markdown]
# # Digits on eight devices
#
# This notebook trains a small network on handwritten digits. Each of eight devices holds a copy of the parameters and an
# eighth of each batch. The devices are virtual: the CPU acts as eight. The same code runs on eight GPUs.
#
# It presumes chapters 7 and 9 of the course. It needs scikit-learn.

# %%
import sys

import numpy as np
from IPython.display import SVG
from sklearn.datasets import load_digits

import lamina

lamina.config.update("num_cpu_devices", 8)
import lamina.numpy as jnp
from lamina import lax, nn, random

sys.path.append("../learn")
import pictures

lamina.devices()

# %% [markdown]
# ## The data
#
# There are 1,797 images of 8 × 8 pixels. We train on 1,440 of them.

# %%
images, labels = load_digits(return_X_y=True)
order = np.asarray(random.permutation(random.key(0), len(images)))
images = (images[order] / 16).astype(np.float32)
labels = labels[order].astype(np.int32)
shown = [image.reshape(8, 8) for image in images[:8]]
names = [str(n) for n in labels[:8]]
SVG(pictures.images("Digits", shown, names, width=80, columns=8))


# %% [markdown]
# ## The model and its loss
#
# Nothing here mentions devices.

# %%
def init(key, hidden=64):
    one, two = random.split(key)
    he = nn.initializers.he_normal()
    return {"first": {"w": he(one, (64, hidden)), "b": jnp.zeros(hidden)},
            "second": {"w": he(two, (hidden, 10)), "b": jnp.zeros(10)}}


def scores(params, images):
    hidden = nn.relu(images @ params["first"]["w"] + params["first"]["b"])
    return hidden @ params["second"]["w"] + params["second"]["b"]


def loss(params, images, labels):
    right = nn.one_hot(labels, 10)
    return -jnp.mean(jnp.sum(right * nn.log_softmax(scores(params, images)), axis=1))


# %% [markdown]
# ## One step on all devices
#
# Each device computes the gradient of its own images. `pmean` replaces it by the mean over all devices, so all make the
# same step. `in_axes` gives each device all parameters, and one row of images and labels.

# %%
def step(params, images, labels):
    value, grads = lamina.value_and_grad(loss)(params, images, labels)
    value, grads = lax.pmean((value, grads), "devices")
    return lamina.tree.map(lambda p, g: p - 0.5 * g, params, grads), value


parallel_step = lamina.pmap(step, axis_name="devices",
                            in_axes=(None, 0, 0), out_axes=None)

# %% [markdown]
# A plan shows what each device holds and sends, before anything runs. The all-reduce is the `pmean`.

# %%
params = init(random.key(1))
batch = images[:96].reshape(8, 12, 64), labels[:96].reshape(8, 12)
parallel_step.lower(params, *batch).plan()

# %% [markdown]
# ## Train

# %%
losses = []
for epoch in range(20):
    order = random.permutation(random.fold_in(random.key(2), epoch), 1440)
    for batch in np.asarray(order).reshape(15, 8, 12):  # 15 batches, 12 images per device
        params, value = parallel_step(params, images[batch], labels[batch])
        losses.append(value)

guesses = np.asarray(jnp.argmax(scores(params, images[1440:]), axis=1))
accuracy = np.mean(guesses == labels[1440:])
assert accuracy > 0.95
print(f"{100 * accuracy:.0f} % of the other images are read correctly")

# %%
means = np.array(losses).reshape(20, 15).mean(axis=1)
SVG(pictures.line_chart("Loss", {"train": (range(1, 21), means)}, x_label="epoch"))

# %% [markdown]
# ## What it cannot read

# %%
wrong = np.flatnonzero(guesses != labels[1440:])[:8]
titles = [f"{labels[1440 + n]}, read as {guesses[n]}" for n in wrong]
shown = [images[1440 + n].reshape(8, 8) for n in wrong]
SVG(pictures.images("Images that were read wrongly", shown, titles))
