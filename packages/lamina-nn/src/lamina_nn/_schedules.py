"""Step sizes as functions of the step, and the length of gradients."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError, dtypes, trees
from lamina_numpy.extend import to_inexact, work_dtype
from lamina_tracing import Array, ArrayLike
from lamina_tracing.extend import rename_errors, typeof

__all__ = ["Schedule", "clip_grads", "constant", "exponential_decay", "inverse_time_decay", "l2_norm", "make_schedule",
           "piecewise_constant", "polynomial_decay"]

Schedule: TypeAlias = Callable[[Any], Any]


def _check_numbers(call: str, **values: Any) -> None:
    for name, value in values.items():
        try:
            typeof(value)
        except TypeError:
            raise TypeError(f"{call}: {name} must be a number; got {value!r}") from None


# --- step sizes ----------------------------------------------------------------------------------------------------
def constant(step_size: Any) -> Schedule:
    """A step size that stays.

    Args:
      step_size: a number.
    Returns:
      A function of the step.
    Raises:
      TypeError: an argument is neither an array nor a number.

    Source: the constant function.

    >>> constant(0.5)(100)
    0.5
    """
    _check_numbers("constant", step_size=step_size)
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """A step size that falls by one factor in equal times: `step_size * decay_rate ** (i / decay_steps)`.

    Args:
      step_size: the first.
      decay_steps: in how many steps it falls by the factor.
      decay_rate: the factor.
    Returns:
      A function of the step `i`.
    Raises:
      TypeError: an argument is neither an array nor a number.

    Source: the formula.

    >>> exponential_decay(1., 10, 0.5)(20)
    0.25
    """
    _check_numbers("exponential_decay", step_size=step_size, decay_steps=decay_steps, decay_rate=decay_rate)
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    """A step size that falls as one over the time: `step_size / (1 + decay_rate * i / decay_steps)`.

    Args:
      step_size: the first.
      decay_steps: the unit of time, in steps.
      decay_rate: how much the divisor grows in it.
      staircase: whether only whole units count.
    Returns:
      A function of the step `i`.
    Raises:
      TypeError: an argument is neither an array nor a number.

    Source: the formula.

    >>> inverse_time_decay(1., 10, 0.5)(20), inverse_time_decay(1., 10, 0.5, staircase=True)(29)
    (0.5, Array(0.5, dtype=float32, weak_type=True))
    """
    _check_numbers("inverse_time_decay", step_size=step_size, decay_steps=decay_steps, decay_rate=decay_rate)
    if staircase:
        return lambda i: step_size / (1 + decay_rate * lnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0) -> Schedule:
    """A step size that falls to a last one as a power of the time that is left.

    Args:
      step_size: the first.
      decay_steps: how many steps it falls.
      final_step_size: the one after these.
      power: of the share of the time that is left.
    Returns:
      A function of the step.
    Raises:
      TypeError: an argument is neither an array nor a number.

    Source: `final_step_size + (step_size - final_step_size) * (1 - i / decay_steps) ** power` for a step `i` up to
      `decay_steps`.

    >>> schedule = polynomial_decay(1., 10, 0.5)
    >>> [float(schedule(i)) for i in (0, 5, 10, 20)]
    [1.0, 0.75, 0.5, 0.5]
    """
    _check_numbers("polynomial_decay", step_size=step_size, decay_steps=decay_steps, final_step_size=final_step_size,
                   power=power)

    def schedule(i: Any) -> Any:
        left = 1 - lnp.minimum(i, decay_steps) / decay_steps
        return left ** power * (step_size - final_step_size) + final_step_size
    return schedule


@rename_errors
def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """A step size that changes after some steps.

    Args:
      boundaries: ascending steps `[n]`, after each of which the next value holds.
      values: `[n + 1]`.
    Returns:
      A function of the step: the value whose place is the number of boundaries below it.
    Raises:
      ValueError: these are no vectors, or `values` is not longer by one.

    Source: the step function.

    >>> schedule = piecewise_constant([10, 20], [1., 0.5, 0.25])
    >>> [float(schedule(i)) for i in (10, 11, 20, 30)]
    [1.0, 0.5, 0.5, 0.25]
    """
    boundaries, values = lnp.array(boundaries), lnp.array(values)
    if boundaries.ndim != 1 or values.ndim != 1 or boundaries.shape[0] + 1 != values.shape[0]:
        raise ValueError("piecewise_constant: expected vectors, values longer by one than boundaries; "
                         f"got shapes {boundaries.shape} of boundaries, {values.shape} of values")
    return lambda i: values[lnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A function of the step, where a number may be given for one that stays.

    Args:
      scalar_or_schedule: a number, or a function of the step.
    Returns:
      A function of the step.
    Raises:
      TypeError: it is neither.

    Source: `constant`.

    >>> make_schedule(0.5)(3), make_schedule(lambda i: i)(3)
    (0.5, 3)
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    try:
        what = typeof(scalar_or_schedule).str_long() if typeof(scalar_or_schedule).shape else ""
    except TypeError:
        what = type(scalar_or_schedule).__name__
    if what:
        raise TypeError(f"make_schedule: a step size must be a number or a function of the step; got {what}")
    return constant(scalar_or_schedule)


# --- lengths -------------------------------------------------------------------------------------------------------
def _sum_squares(x: Any) -> Any:
    """The sum of squared sizes, in float32 at least."""
    d = work_dtype(typeof(x).dtype)
    return lnp.real(lnp.vdot(lnp.astype(x, d), lnp.astype(x, d)))


def _compute_norm(call: str, tree: Any) -> tuple[Any, list[Any], Any]:
    leaves, structure = trees.tree_flatten(tree)
    leaves = [to_inexact(call, x) for x in leaves]
    return lnp.sqrt(sum(map(_sum_squares, leaves), start=0.0)), leaves, structure


@rename_errors
def l2_norm(tree: Any) -> Array:
    """The length of all numbers in a tree as one vector: the root of the sum of their squared sizes.

    Args:
      tree: of number arrays; integers become floats.
    Returns:
      Float scalar, of the highest dtype in the tree; summed in float32 at least.
    Raises:
      TypeError: a leaf is neither an array nor a number.

    Derivative: `x / norm`; NaN at 0.
    Source: the Euclidean norm.

    >>> l2_norm({"a": np.array([3., 4.]), "b": 12.})
    Array(13., dtype=float32)
    """
    norm, leaves, _ = _compute_norm("l2_norm", tree)
    if not leaves:
        return norm
    return lnp.astype(norm, dtypes.real_dtype(lnp.result_type(*leaves)))


@rename_errors
def clip_grads(grad_tree: Any, max_norm: ArrayLike) -> Any:
    """Gradients, made shorter where they are longer than allowed as one vector.

    Args:
      grad_tree: tree of number arrays; integers become floats.
      max_norm: the greatest length.
    Returns:
      A tree of the same structure, shapes and dtypes; all of it by one factor where its length is above `max_norm`. NaN
      where there is a NaN or an infinity.
    Raises:
      TypeError: a leaf or `max_norm` is neither an array nor a number.
      ShapeError: `max_norm` is no single number.

    Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013), algorithm 1.

    >>> clip_grads(np.array([3., 4.]), 1.)
    Array([0.6, 0.8], dtype=float32)
    """
    if typeof(lnp.asarray(max_norm)).shape:
        raise ShapeError(f"clip_grads: max_norm must be one number; got {typeof(lnp.asarray(max_norm)).str_long()}")
    norm, leaves, structure = _compute_norm("clip_grads", grad_tree)
    short = lnp.less_equal(norm, max_norm)
    factor = lnp.divide(max_norm, lnp.where(short, 1, norm))

    def clip(x: Any) -> Any:
        t = typeof(x)
        real = np.result_type(work_dtype(dtypes.real_dtype(t.dtype)))
        return lnp.where(short, x, lnp.astype(lnp.multiply(x, lnp.astype(factor, real)), t.dtype))
    return trees.tree_unflatten(structure, [clip(x) for x in leaves])
