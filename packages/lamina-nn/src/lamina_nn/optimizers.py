"""Optimizers: triples of functions that change a tree of parameters by their gradients, step by step.

`init(params)` gives a state, `update(i, gradients, state)` the next one and `get_params(state)` the parameters. Step sizes are
numbers, or functions of the step `i`. The other parts of the state have the shapes and dtypes of the parameters.
"""
from __future__ import annotations

import functools
from typing import Any

import lamina_numpy as lnp
from lamina_ir import ShapeError, dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_numpy.extend import work_dtype
from lamina_tracing.extend import typeof

from ._optimizer_state import (InitFn, JoinPoint, Optimizer, OptimizerState, Params, ParamsFn, State, Step, UpdateFn, Updates,
                               optimizer, pack_optimizer_state, unpack_optimizer_state)
from ._schedules import (Schedule, clip_grads, constant, exponential_decay, inverse_time_decay, l2_norm, make_schedule,
                         piecewise_constant, polynomial_decay)

__all__ = ["InitFn", "JoinPoint", "Optimizer", "OptimizerState", "Params", "ParamsFn", "Schedule", "State", "Step", "UpdateFn",
           "Updates", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay", "inverse_time_decay",
           "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state", "piecewise_constant",
           "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state"]

_OPTIMIZER = docstring_entries("""
    step_size: a number, or a function of the step.
    mass: share of the velocity that is kept.
    momentum: share of the old steps in the running mean of steps.
    b1, b2: shares of the old gradients and squares in their running means.
    eps: added to the root.
    TypeError: `step_size` is neither a number nor a function; from `update`, as for `optimizer`.
    ShapeError: from `update`, if a gradient does not fit its parameters.
    """)


def _check_gradient(call: str, g: Any, x: Any) -> None:
    """Refuses a gradient that is none, or would change the shape of its parameters."""
    if typeof(g).dtype == dtypes.float0:
        raise TypeError(f"{call}: update: parameters of {typeof(x).dtype} have no gradient; leave them out of the tree")
    got, want = tuple(typeof(g).shape), tuple(typeof(x).shape)
    if got != want and (len(got) > len(want) or any(n not in (1, m) for n, m in zip(got[::-1], want[::-1]))):
        raise ShapeError(f"{call}: update: a gradient has the shape of its parameters; got {got}, expected {want}")


def _update_average(share: Any, old: Any, new: Any) -> Any:
    """The running mean in which the old has this share."""
    return share * old + (1 - share) * new


def _inverse_root(x: Any) -> Any:
    """`1 / sqrt(x)`, 0 where there is nothing."""
    some = x > 0
    return lnp.where(some, 1 / lnp.sqrt(lnp.where(some, x, 1)), 0)


def _bias_correction(share: Any, i: Any, x: Any) -> Any:
    """Return the sum of the weights of a running mean after step `i`, in the dtype of `x`.

    Powers of a share near 1 are computed in float32 at least, in which they are not 1."""
    d = typeof(x).dtype
    return lnp.astype(1 - lnp.power(share, lnp.astype(i + 1, work_dtype(dtypes.real_dtype(d)))), d)


def _clamp_epsilon(eps: Any, x: Any) -> Any:
    """`eps`, not less than the smallest number of the dtype of `x`: 1e-8 is 0 in float16, and 0 / 0 no number."""
    d = typeof(x).dtype
    return lnp.maximum(eps, float(lnp.finfo(d).smallest_subnormal)) if d.itemsize <= 2 and dtypes.is_inexact(d) else eps


@optimizer
@fill_docstring(_OPTIMIZER)
def sgd(step_size: Any) -> Any:
    """Stochastic gradient descent: `x - step_size * g`.

    Args: {step_size}
    Returns:
      An `Optimizer`, which keeps the parameters alone.
    Raises: {TypeError, ShapeError}

    Source: Robbins and Monro, "A stochastic approximation method" (1951).

    >>> init, update, get_params = sgd(0.5)
    >>> get_params(update(0, np.array([1., 2.]), init(np.array([0., 0.]))))
    array([-0.5, -1. ])
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any) -> Any:
        _check_gradient("sgd", g, x)
        return x - size(i) * g
    return (lambda x: x), update, (lambda x: x)


def _make_momentum(call: str, step_size: Any, mass: Any, ahead: bool) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        _check_gradient(call, g, x)
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g if ahead else velocity), velocity
    return (lambda x: (x, lnp.zeros_like(x))), update, (lambda state: state[0])


@optimizer
@fill_docstring(_OPTIMIZER)
def momentum(step_size: Any, mass: Any) -> Any:
    """Gradient descent with momentum: the velocity is `v = mass * v + g`, the step `-step_size * v`.

    Args:
      {step_size}
      mass: share of the velocity that is kept in each step.
    Returns:
      An `Optimizer`, which keeps the parameters and velocities.
    Raises: {TypeError, ShapeError}

    Source: Polyak, "Some methods of speeding up the convergence of iteration methods" (1964).

    >>> init, update, get_params = momentum(0.5, mass=0.9)
    >>> state = init(np.zeros(1, np.float32))
    >>> for i in range(2):
    ...     state = update(i, np.ones(1, np.float32), state)
    >>> get_params(state)
    Array([-1.45], dtype=float32)
    """
    return _make_momentum("momentum", step_size, mass, False)


@optimizer
@fill_docstring(_OPTIMIZER)
def nesterov(step_size: Any, mass: Any) -> Any:
    """Gradient descent with momentum that looks ahead: `v = mass * v + g` and a step of `-step_size * (mass * v + g)`.

    Args: {step_size, mass}
    Returns:
      An `Optimizer`, which keeps the parameters and velocities.
    Raises: {TypeError, ShapeError}

    Source: Nesterov's method, as in Sutskever, Martens, Dahl and Hinton, "On the importance of initialization and momentum
      in deep learning" (2013).

    >>> init, update, get_params = nesterov(0.5, mass=0.9)
    >>> get_params(update(0, np.ones(1, np.float32), init(np.zeros(1, np.float32))))
    Array([-0.95], dtype=float32)
    """
    return _make_momentum("nesterov", step_size, mass, True)


@optimizer
@fill_docstring(_OPTIMIZER)
def adagrad(step_size: Any, momentum: Any = 0.9) -> Any:
    """Adagrad with momentum: gradients divided by the root of the sum of all their squares so far.

    Args: {step_size, momentum}
    Returns:
      An `Optimizer`, which keeps the parameters, sums of squares and running means.
    Raises: {TypeError, ShapeError}

    Source: Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization" (2011).

    >>> init, update, get_params = adagrad(0.5)
    >>> get_params(update(0, np.array([2., 0.], np.float32), init(np.zeros(2, np.float32))))
    Array([-0.05,  0.  ], dtype=float32)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, mean = state
        _check_gradient("adagrad", g, x)
        squares = squares + lnp.square(g)
        mean = _update_average(momentum, mean, g * _inverse_root(squares))
        return x - size(i) * mean, squares, mean
    return (lambda x: (x, lnp.zeros_like(x), lnp.zeros_like(x))), update, (lambda state: state[0])


@optimizer
@fill_docstring(_OPTIMIZER)
def rmsprop(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8) -> Any:
    """RMSProp: gradients divided by the root of a running mean of their squares.

    Args:
      {step_size}
      gamma: share of the old in the running mean.
      eps: added to the mean.
    Returns:
      An `Optimizer`, which keeps the parameters and means.
    Raises: {TypeError, ShapeError}

    Source: Tieleman and Hinton, "Lecture 6.5: rmsprop" (2012).

    >>> init, update, get_params = rmsprop(0.1)
    >>> get_params(update(0, np.array([2., 0.], np.float32), init(np.zeros(2, np.float32)))).round(4)
    Array([-0.3162,  0.    ], dtype=float32)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares = state
        _check_gradient("rmsprop", g, x)
        squares = _update_average(gamma, squares, lnp.square(g))
        return x - size(i) * g / lnp.sqrt(squares + _clamp_epsilon(eps, squares)), squares
    return (lambda x: (x, lnp.zeros_like(x))), update, (lambda state: state[0])


@optimizer
@fill_docstring(_OPTIMIZER)
def rmsprop_momentum(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8, momentum: Any = 0.9) -> Any:
    """RMSProp with momentum: its steps are added to a velocity of which a share stays.

    Args:
      {step_size}
      gamma: share of the old in the running mean of squares.
      eps: added to that mean.
      momentum: share of the velocity that stays.
    Returns:
      An `Optimizer`, which keeps the parameters, means and velocities.
    Raises: {TypeError, ShapeError}

    Source: Graves, "Generating sequences with recurrent neural networks" (2013), equations 38 to 45 without the mean.

    >>> init, update, get_params = rmsprop_momentum(0.1)
    >>> get_params(update(0, np.array([2., 0.], np.float32), init(np.zeros(2, np.float32)))).round(4)
    Array([-0.3162,  0.    ], dtype=float32)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, velocity = state
        _check_gradient("rmsprop_momentum", g, x)
        squares = _update_average(gamma, squares, lnp.square(g))
        velocity = momentum * velocity + size(i) * g / lnp.sqrt(squares + _clamp_epsilon(eps, squares))
        return x - velocity, squares, velocity
    return (lambda x: (x, lnp.zeros_like(x), lnp.zeros_like(x))), update, (lambda state: state[0])


@optimizer
@fill_docstring(_OPTIMIZER)
def adam(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """Adam: a running mean of gradients, divided by the root of that of their squares, both without their bias to 0.

    Args: {step_size, b1, b2, eps}
    Returns:
      An `Optimizer`, which keeps the parameters and both means.
    Raises: {TypeError, ShapeError}

    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1.

    >>> init, update, get_params = adam(0.1)
    >>> get_params(update(0, np.array([2., -5.], np.float32), init(np.zeros(2, np.float32)))).round(4)
    Array([-0.1,  0.1], dtype=float32)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, squares = state
        _check_gradient("adam", g, x)
        mean = _update_average(b1, mean, g)
        squares = _update_average(b2, squares, lnp.square(g))
        unbiased = mean / _bias_correction(b1, i, mean), squares / _bias_correction(b2, i, squares)
        return x - size(i) * unbiased[0] / (lnp.sqrt(unbiased[1]) + _clamp_epsilon(eps, x)), mean, squares
    return (lambda x: (x, lnp.zeros_like(x), lnp.zeros_like(x))), update, (lambda state: state[0])


@optimizer
@fill_docstring(_OPTIMIZER)
def adamax(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """AdaMax: a running mean of gradients without its bias to 0, divided by the largest gradient, which fades.

    Args:
      step_size: a number, or a function of the step.
      b1: share of the old in the mean.
      b2: share of the largest that stays from step to step.
      eps: added to the largest.
    Returns:
      An `Optimizer`, which keeps the parameters, means and largest sizes.
    Raises: {TypeError, ShapeError}

    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 2.

    >>> init, update, get_params = adamax(0.1)
    >>> state = init(np.zeros(2, np.float32))
    >>> for i in range(2):
    ...     state = update(i, np.array([2., -5.], np.float32), state)
    >>> get_params(state).round(4)
    Array([-0.2,  0.2], dtype=float32)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, largest = state
        _check_gradient("adamax", g, x)
        largest = lnp.maximum(b2 * largest, lnp.abs(g))
        mean = _update_average(b1, mean, g)
        return x - size(i) / _bias_correction(b1, i,
                                              mean) * mean / (largest + _clamp_epsilon(eps, largest)), mean, largest
    return (lambda x: (x, lnp.zeros_like(x), lnp.zeros_like(x))), update, (lambda state: state[0])


@optimizer
@fill_docstring(_OPTIMIZER)
def sm3(step_size: Any, momentum: Any = 0.9) -> Any:
    """SM3 with momentum: Adagrad that keeps one number for each slice along each axis, and not one for each number.

    Args: {step_size, momentum}
    Returns:
      An `Optimizer`, which keeps the parameters, running means, and a vector for each axis.
    Raises: {TypeError, ShapeError}

    Source: Anil, Gupta, Koren and Singer, "Memory efficient adaptive optimization" (2019), algorithm SM3-II.

    >>> init, update, get_params = sm3(0.5)
    >>> get_params(update(0, np.array([[2., 0.], [1., 3.]], np.float32), init(np.zeros((2, 2), np.float32))))
    Array([[-0.05,  0.  ],
           [-0.05, -0.05]], dtype=float32)
    """
    size = make_schedule(step_size)

    def init(x: Any) -> Any:
        t = typeof(x)
        return x, lnp.zeros_like(x), [lnp.zeros(n, t.dtype) for n in t.shape] or [lnp.zeros_like(x)]

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, slices = state
        _check_gradient("sm3", g, x)
        ndim = len(typeof(x).shape)
        spread = [lnp.expand_dims(v, [b for b in range(ndim) if b != a]) if ndim else v for a, v in enumerate(slices)]
        squares = functools.reduce(lnp.minimum, spread) + lnp.square(g)
        mean = _update_average(momentum, mean, g * _inverse_root(squares))
        slices = [lnp.max(squares, tuple(b for b in range(ndim) if b != a), initial=0) for a in range(len(slices))]
        return x - size(i) * mean, mean, slices
    return init, update, (lambda state: state[0])
