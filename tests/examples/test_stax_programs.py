"""Programs with stax and optimizers have the losses that jax 0.4.30 prints for the same programs."""
from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import lamina
from lamina.example_libraries import optimizers, stax

CLASSIFIER = [2.307081, 2.138161, 1.761503, 1.174388, 0.826743, 0.476052]
RESIDUAL = [2.908544, 2.162411, 2.041558, 1.895107, 1.713357, 1.633546]


def digits():
    images, labels = load_digits(return_X_y=True)
    return (images[:1024] / 16).astype(np.float32), np.eye(10, dtype=np.float32)[labels[:1024]]


def classifier_losses(jax, stax, optimizers, images, targets):
    """Train two wide layers, with batches in order; return the losses."""
    jnp = jax.numpy
    init_random_params, predict = stax.serial(stax.Dense(1024), stax.Relu, stax.Dense(1024), stax.Relu, stax.Dense(10),
                                              stax.LogSoftmax)
    opt_init, opt_update, get_params = optimizers.momentum(0.1, mass=0.9)

    def loss(params, batch):
        inputs, targets = batch
        return -jnp.mean(jnp.sum(predict(params, inputs) * targets, axis=1))

    @jax.jit
    def update(i, opt_state, batch):
        value, grads = jax.value_and_grad(loss)(get_params(opt_state), batch)
        return opt_update(i, optimizers.clip_grads(grads, 2.0), opt_state), value

    _, init_params = init_random_params(jax.random.PRNGKey(0), (-1, 64))
    opt_state, losses = opt_init(init_params), []
    for i in range(16):
        rows = slice(i % 8 * 128, (i % 8 + 1) * 128)
        opt_state, value = update(i, opt_state, (images[rows], targets[rows]))
        losses.append(float(value))
    return losses


def residual_losses(jax, stax, optimizers, images, targets):
    """Train a residual network with batches over eight devices; return the losses."""
    jnp = jax.numpy

    def conv_block(channels, strides=(1, 1)):
        main = stax.serial(stax.Conv(channels, (3, 3), strides, padding="SAME"), stax.BatchNorm(), stax.Relu,
                           stax.Conv(channels, (3, 3), padding="SAME"), stax.BatchNorm())
        shortcut = stax.serial(stax.Conv(channels, (1, 1), strides), stax.BatchNorm())
        return stax.serial(stax.FanOut(2), stax.parallel(main, shortcut), stax.FanInSum, stax.Relu)

    def identity_block(channels):
        main = stax.shape_dependent(lambda shape: stax.serial(
            stax.Conv(channels, (1, 1)), stax.Relu, stax.Conv(shape[3], (3, 3), padding="SAME")))
        return stax.serial(stax.FanOut(2), stax.parallel(main, stax.Identity), stax.FanInSum, stax.Relu)

    init_fun, predict_fun = stax.serial(
        stax.Conv(4, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu, conv_block(8, (2, 2)), identity_block(4),
        stax.AvgPool((2, 2)), stax.Flatten, stax.Dropout(0.9), stax.Dense(10), stax.LogSoftmax)
    _, params = init_fun(jax.random.PRNGKey(1), (-1, 8, 8, 1))
    opt_init, opt_update, get_params = optimizers.adam(optimizers.piecewise_constant([3], [0.02, 0.01]))
    devices = jax.local_device_count()

    def step(i, opt_state, key, inputs, targets):
        def loss(params):
            return -jnp.mean(jnp.sum(predict_fun(params, inputs, rng=key) * targets, axis=1))
        value, grads = jax.value_and_grad(loss)(get_params(opt_state))
        return opt_update(i, jax.lax.pmean(grads, "batch"), opt_state), jax.lax.pmean(value, "batch")

    pmapped_step = jax.pmap(step, axis_name="batch", in_axes=(None, 0, 0, 0, 0))
    opt_state = jax.tree_util.tree_map(lambda x: jnp.stack([x] * devices), opt_init(params))
    inputs, labels = images[:256].reshape(devices, -1, 8, 8, 1), targets[:256].reshape(devices, -1, 10)
    losses = []
    for i in range(6):
        keys = jax.random.split(jax.random.PRNGKey(i), devices)
        opt_state, value = pmapped_step(i, opt_state, keys, inputs, labels)
        losses.append(float(value[0]))
    return losses


def test_losses_of_a_dense_classifier_are_those_of_jax():
    losses = classifier_losses(lamina, stax, optimizers, *digits())
    assert losses[::3] == pytest.approx(CLASSIFIER, rel=2e-4)


@pytest.mark.devices
def test_losses_of_a_residual_network_are_those_of_jax():
    losses = residual_losses(lamina, stax, optimizers, *digits())
    assert losses == pytest.approx(RESIDUAL, rel=3e-3)
