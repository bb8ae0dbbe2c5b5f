"""Reverse mode with another way to pull back: `vjp`, `grad` and their like keep their arguments, checks and words.

The usual way records the linear part while a function runs and transposes it (`linear.py`). Another one may compute it again,
keep less, or push basis vectors forward; it is one function, and the rows of the tables are the same.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from lamina_tracing.extend import boundary

from . import jacobians, reverse
from .jacobians import jacfwd
from .reverse import Linearize, Pulling

__all__ = ["Linearize", "Pulling", "ReverseMode", "reverse_by"]


class ReverseMode(NamedTuple):
    """The functions of reverse mode, as the room shows them.

    Attributes:
      vjp, value_and_grad, grad, jacrev, hessian: as `lamina_autodiff` has them.

    >>> ReverseMode._fields
    ('vjp', 'value_and_grad', 'grad', 'jacrev', 'hessian')
    """

    vjp: Callable[..., Any]
    value_and_grad: Callable[..., Any]
    grad: Callable[..., Any]
    jacrev: Callable[..., Any]
    hessian: Callable[..., Any]


def reverse_by(by: Linearize) -> ReverseMode:
    """The functions of reverse mode with another way to pull cotangents back.

    Args:
      by: `by(fun, primals, active)` runs `fun`, a function of flat arguments with a list of flat results, and returns its
        results and a `Pulling`: what pulls cotangents of the results back to the arguments that `active` marks.
    Returns:
      `vjp`, `value_and_grad`, `grad`, `jacrev`, `hessian`.

    >>> from lamina_autodiff import jvp
    >>> class Slope:  # of functions of one number
    ...     def __init__(self, outs, slope):
    ...         self.outs, self.slope = outs, slope
    ...     def backward(self, cts, *, free=False):
    ...         return [self.slope * cts[0]]
    >>> def forwards(fun, primals, active):
    ...     outs, slopes = jvp(fun, primals, [1.0])
    ...     return outs, Slope(outs, slopes[0])
    >>> reverse_by(forwards).grad(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    @boundary
    def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Hashable] = ()) -> Any:
        return reverse.vjp_by(by, fun, primals, has_aux, reduce_axes)

    @boundary
    def value_and_grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
                       holomorphic: bool = False, allow_int: bool = False, reduce_axes: Sequence[Hashable] = ()) -> Any:
        return reverse.value_and_grad_by(by, "value_and_grad", fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @boundary
    def grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
             allow_int: bool = False, reduce_axes: Sequence[Hashable] = ()) -> Callable[..., Any]:
        return reverse.grad_by(by, fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    def jacrev(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
               allow_int: bool = False) -> Callable[..., Any]:
        return jacobians.jacrev_by(vjp, fun, argnums, has_aux, holomorphic, allow_int)

    def hessian(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
                holomorphic: bool = False) -> Callable[..., Any]:
        return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux=has_aux, holomorphic=holomorphic)

    made = ReverseMode(vjp, value_and_grad, grad, jacrev, hessian)
    stock: list[Any] = [reverse.vjp, reverse.value_and_grad, reverse.grad, jacobians.jacrev, jacobians.hessian]
    return ReverseMode(*[functools.update_wrapper(f, g) for f, g in zip(made, stock)])
