"""Twelve programs whose time is spent in loops of small bodies: solvers, filters, samplers, recurrent networks, simulations."""
from __future__ import annotations

from typing import Any

import numpy as np
from harness import array, lax, random, timed, xnp, xp


def orbit(x: Any) -> Any:
    """Sum one coordinate of four bodies over 1,000 leapfrog steps."""
    def acceleration(x: Any) -> Any:
        d = x[:, None] - x[None]
        return -(d / ((d ** 2).sum(-1) + 1e-2)[..., None] ** 1.5).sum(1)

    def step(state: Any, _: Any) -> Any:
        x, v = state
        v = v + 0.5e-3 * acceleration(x)
        x = x + 1e-3 * v
        v = v + 0.5e-3 * acceleration(x)
        return (x, v), x[0, 0]
    return lax.scan(step, (x, xnp.zeros_like(x)), None, length=1000)[1].sum()


def neuron(current: Any) -> Any:
    """Integrate the equations of Hodgkin and Huxley with 4,000 steps of Euler's method."""
    def step(state: Any, _: Any) -> Any:
        v, m, h, n = state
        am, bm = 0.1 * (v + 40) / (1 - xnp.exp(-(v + 40.001) / 10)), 4 * xnp.exp(-(v + 65) / 18)
        ah, bh = 0.07 * xnp.exp(-(v + 65) / 20), 1 / (1 + xnp.exp(-(v + 35) / 10))
        an, bn = 0.01 * (v + 55) / (1 - xnp.exp(-(v + 55.001) / 10)), 0.125 * xnp.exp(-(v + 65) / 80)
        flow = 120 * m ** 3 * h * (v - 50) + 36 * n ** 4 * (v + 77) + 0.3 * (v + 54.4)
        dt = 0.01
        new = (v + dt * (current - flow), m + dt * (am * (1 - m) - bm * m), h + dt * (ah * (1 - h) - bh * h),
               n + dt * (an * (1 - n) - bn * n))
        return new, new[0]
    start = tuple(xnp.asarray(value, xnp.float32) for value in (-65.0, 0.05, 0.6, 0.32))
    return lax.scan(step, start, None, length=4000)[1].mean()


def runge_kutta(rates: Any) -> Any:
    """Integrate the equations of Lotka and Volterra with 2,000 steps of fourth order, as a `fori_loop`."""
    def rate(y: Any) -> Any:
        a, b, c, d = rates
        return xnp.stack([a * y[0] - b * y[0] * y[1], d * y[0] * y[1] - c * y[1]])

    def step(_: Any, y: Any) -> Any:
        dt = 0.01
        k1 = rate(y)
        k2 = rate(y + dt / 2 * k1)
        k3 = rate(y + dt / 2 * k2)
        k4 = rate(y + dt * k3)
        return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return lax.fori_loop(0, 2000, step, xnp.ones(2))


def adaptive(x: Any) -> Any:
    """Integrate the oscillator of van der Pol with step sizes chosen by the error, as a `while_loop`."""
    def rate(y: Any) -> Any:
        return xnp.stack([y[1], 5 * (1 - y[0] ** 2) * y[1] - y[0]])

    def step(state: Any) -> Any:
        t, dt, y = state
        k1 = rate(y)
        k2 = rate(y + dt * k1)
        k3 = rate(y + dt / 4 * (k1 + k2))
        error = xnp.abs(dt * (k1 + k2 - 2 * k3) / 3).max() / 1e-4
        good = error < 1
        new = y + dt / 6 * (k1 + k2 + 4 * k3)
        factor = xnp.clip(0.9 * (error + 1e-6) ** (-1 / 3), 0.2, 2)
        return xnp.where(good, t + dt, t), dt * factor, xnp.where(good, new, y)
    return lax.while_loop(lambda state: state[0] < 40.0, step, (0.0 * x[0], 0.01 + 0 * x[0], x))[2]


def stochastic(x: Any) -> Any:
    """Simulate 64 paths of a stochastic differential equation with 1,000 steps and their random numbers."""
    def step(state: Any, key: Any) -> Any:
        state = state - 0.01 * state ** 3 + 0.1 * random.normal(key, state.shape)
        return state, state.mean()
    return lax.scan(step, x, random.split(random.PRNGKey(0), 1000))[1]


def kalman(observations: Any) -> Any:
    """Return the log likelihood of 1,000 observations of a state of four numbers."""
    f = xnp.asarray(np.eye(4, k=2, dtype=np.float32) * 0.1 + np.eye(4, dtype=np.float32))
    h = xnp.asarray(np.eye(2, 4, dtype=np.float32))
    q, r = 0.01 * xnp.eye(4), 0.1 * xnp.eye(2)

    def step(state: Any, y: Any) -> Any:
        mean, cov, total = state
        mean, cov = f @ mean, f @ cov @ f.T + q
        s = h @ cov @ h.T + r
        det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        inverse = xnp.stack([xnp.stack([s[1, 1], -s[0, 1]]), xnp.stack([-s[1, 0], s[0, 0]])]) / det
        gain, miss = cov @ h.T @ inverse, y - h @ mean
        total = total - 0.5 * (miss @ inverse @ miss + xnp.log(det))
        return (mean + gain @ miss, cov - gain @ h @ cov, total), None
    return lax.scan(step, (xnp.zeros(4), xnp.eye(4), xnp.zeros(())), observations)[0][2]


def hidden_markov(observations: Any) -> Any:
    """Return the log likelihood of 1,000 observations of a chain with eight states."""
    transitions = xp.nn.log_softmax(xnp.asarray(np.random.RandomState(0).randn(8, 8).astype(np.float32)))
    means = xnp.linspace(-2, 2, 8)

    def step(alpha: Any, y: Any) -> Any:
        alpha = xp.scipy.special.logsumexp(alpha[:, None] + transitions, axis=0) - 0.5 * (y - means) ** 2
        return alpha, None
    return xp.scipy.special.logsumexp(lax.scan(step, xnp.zeros(8), observations)[0])


def metropolis(x: Any) -> Any:
    """Draw 2,000 samples of a distribution of eight numbers with a random walk."""
    def density(x: Any) -> Any:
        return -0.5 * (x ** 2).sum() - 0.1 * (x[1:] - x[:-1] ** 2).sum()

    def step(state: Any, key: Any) -> Any:
        x, p = state
        move, accept = random.split(key)
        new = x + 0.3 * random.normal(move, x.shape)
        q = density(new)
        good = xnp.log(random.uniform(accept)) < q - p
        return (xnp.where(good, new, x), xnp.where(good, q, p)), x
    return lax.scan(step, (x, density(x)), random.split(random.PRNGKey(1), 2000))[1].mean(0)


def hamiltonian(x: Any) -> Any:
    """Draw 100 samples with each of 16 chains, with 10 leapfrog steps for each."""
    def density(x: Any) -> Any:
        return -0.5 * (x ** 2).sum() - 0.1 * ((x[1:] - x[:-1] ** 2) ** 2).sum()
    force = xp.grad(density)

    def sample(state: Any, key: Any) -> Any:
        push, accept = random.split(key)
        v = random.normal(push, state.shape)

        def leap(_: Any, s: Any) -> Any:
            x, v = s
            v = v + 0.05 * force(x)
            x = x + 0.1 * v
            return x, v + 0.05 * force(x)
        new, w = lax.fori_loop(0, 10, leap, (state, v))
        change = density(new) - density(state) - 0.5 * (w ** 2 - v ** 2).sum()
        new = xnp.where(xnp.log(random.uniform(accept)) < change, new, state)
        return new, new[0]

    def chain(x: Any, key: Any) -> Any:
        return lax.scan(sample, x, random.split(key, 100))[1].mean()
    return xp.vmap(chain)(x, random.split(random.PRNGKey(2), 16))


def gated(w: Any) -> Any:
    """Run a gated recurrent cell of 16 features over 500 steps, for four sequences."""
    xs = array(500, 4, 16, seed=5)

    def step(h: Any, x: Any) -> Any:
        z = xp.nn.sigmoid(x @ w[0] + h @ w[1])
        r = xp.nn.sigmoid(x @ w[2] + h @ w[3])
        h = (1 - z) * h + z * xnp.tanh(x @ w[4] + (r * h) @ w[5])
        return h, None
    return (lax.scan(step, xnp.zeros((4, 16)), xs)[0] ** 2).sum()


def value_iteration(discount: Any) -> Any:
    """Solve the growth model on a grid of 60 points of capital with iterations of the value function."""
    grid = xnp.linspace(0.1, 2, 60)
    consumption = grid[:, None] ** 0.36 + 0.9 * grid[:, None] - grid[None]
    reward = xnp.where(consumption > 0, xnp.log(xnp.maximum(consumption, 1e-6)), -1e6)

    def step(state: Any) -> Any:
        v, _ = state
        new = (reward + discount * v[None]).max(1)
        return new, xnp.abs(new - v).max()
    return lax.while_loop(lambda state: state[1] > 1e-3, step, (xnp.zeros(60), xnp.float32(1)))[0]


def cart_pole(parameters: Any) -> Any:
    """Simulate 32 poles on carts over 500 steps with a linear controller, each with its restarts."""
    def step(state: Any, _: Any) -> Any:
        x, dx, a, da = state
        force = 10 * xnp.tanh(parameters @ xnp.stack(state))
        sin, cos = xnp.sin(a), xnp.cos(a)
        common = (force + 0.05 * da ** 2 * sin) / 1.1
        dda = (9.8 * sin - cos * common) / (0.5 * (4 / 3 - 0.1 * cos ** 2 / 1.1))
        ddx = common - 0.05 * dda * cos / 1.1
        new = (x + 0.02 * dx, dx + 0.02 * ddx, a + 0.02 * da, da + 0.02 * dda)
        over = (xnp.abs(new[0]) > 2.4) | (xnp.abs(new[2]) > 0.2)
        return tuple(xnp.where(over, 0.01, value) for value in new), ~over

    def episode(start: Any) -> Any:
        state = tuple(start[i] for i in range(4))
        return lax.scan(step, state, None, length=500)[1].sum()
    return xp.vmap(episode)(array(32, 4, seed=6) * 0.05)


LOOPS = {
    "orbit_gradient": (xp.grad(orbit), (array(4, 3),)),
    "neuron_gradient": (xp.grad(neuron), (np.float32(10),)),
    "runge_kutta": (runge_kutta, (np.array([1.1, 0.4, 0.4, 0.1], np.float32),)),
    "adaptive_steps": (adaptive, (np.array([2, 0], np.float32),)),
    "stochastic_paths": (stochastic, (array(64),)),
    "kalman_gradient": (xp.grad(kalman), (array(1000, 2),)),
    "hidden_markov_gradient": (xp.grad(hidden_markov), (array(1000),)),
    "metropolis": (metropolis, (array(8),)),
    "hamiltonian": (hamiltonian, (array(16, 8),)),
    "gated_gradient": (xp.grad(gated), (array(6, 16, 16) * 0.2,)),
    "value_iteration": (value_iteration, (np.float32(0.95),)),
    "cart_pole": (cart_pole, (np.array([0.5, 1, 10, 2], np.float32),)),
}


def _running(name: str) -> Any:
    fun, args = LOOPS[name]

    def set_up() -> Any:
        call, arrays = xp.jit(fun), [xnp.asarray(arg) for arg in args]
        return lambda: call(*arrays)
    set_up.__name__ = f"loop_{name}"
    return set_up


for _name in LOOPS:
    timed(10, 9)(_running(_name))
